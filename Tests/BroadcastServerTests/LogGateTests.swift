import BroadcastChannels
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

/// A log on a clock that the test moves.
private final class VirtualLog {
  let clock = Box(Date(timeIntervalSince1970: 1_796_044_000))
  let entries = Box<[ServerLog.Entry]>([])
  let log: ServerLog

  init(lowest: ServerLog.Level = .info) {
    let (clock, entries) = (clock, entries)
    log = ServerLog(lowest: lowest, now: { clock.value }) { entry in entries.change { $0.append(entry) } }
  }

  var messages: [String] { entries.value.map(\.message) }

  func pass(_ seconds: Double) {
    clock.change { $0 += seconds }
    log.tellCounts()
  }
}

@Suite struct LogGateTests {
  @Test func aFloodOfEqualLinesIsCountedInsteadOfRepeated() {
    let virtual = VirtualLog()
    for number in 0..<4_212 {
      virtual.log(.info, .notSecure, "in the clear", ["remote": "192.0.2.\(number % 250)"], key: "k")
    }
    #expect(virtual.messages == ["in the clear"])
    virtual.pass(59)
    #expect(virtual.messages.count == 1)
    virtual.pass(1)
    #expect(virtual.messages == ["in the clear", "… 4,211 more in the last minute: in the clear"])
    #expect(virtual.entries.value[1].fields.map(\.value) == ["192.0.2.211", "4211"])
    // It goes on: one line a minute, none when it ended.
    virtual.log(.info, .notSecure, "in the clear", key: "k")
    virtual.pass(60)
    #expect(virtual.messages.last == "… 1 more in the last minute: in the clear")
    virtual.pass(60)
    virtual.pass(60)
    #expect(virtual.messages.count == 3)
    virtual.log(.info, .notSecure, "in the clear", key: "k")
    #expect(virtual.messages.count == 4)
  }

  @Test func linesThatDifferByEventOrKeyAreToldEach() {
    let virtual = VirtualLog()
    virtual.log(.info, .notSecure, "a", key: "1")
    virtual.log(.info, .notSecure, "b", key: "2")
    virtual.log(.info, .handshakeFailed, "c", key: "1")
    virtual.log(.error, .store, "d")
    virtual.log(.error, .store, "d")
    virtual.log(.error, .store, "e")
    #expect(virtual.messages == ["a", "b", "c", "d", "e"])
  }

  @Test func whatAnOperatorDoesIsToldEachTime() {
    let virtual = VirtualLog()
    for _ in 0..<3 { virtual.log(.info, .keysReloaded, "the keys were read again") }
    #expect(virtual.messages.count == 3)
  }

  @Test func whoeverLooksCloselySeesEachLine() {
    let virtual = VirtualLog(lowest: .debug)
    for _ in 0..<3 { virtual.log(.debug, .payload, "x") }
    #expect(virtual.messages.count == 3)
  }

  @Test func madeUpKeysFillNeitherTheLogNorTheMemory() {
    let virtual = VirtualLog()
    for number in 0..<10_000 { virtual.log(.info, .handshakeFailed, "reason \(number)") }
    // One more: the line that stands for all further keys.
    #expect(virtual.messages.count == Limits.logKinds + 1)
    virtual.pass(60)
    #expect(virtual.messages.last == "… 9,743 more in the last minute: reason 9999")
  }

  @Test func atTheEndTheCountsAreToldAtOnce() {
    let virtual = VirtualLog()
    for _ in 0..<3 { virtual.log(.info, .notSecure, "x", key: "k") }
    virtual.clock.change { $0 += 12 }
    virtual.log.tellAllCounts()
    #expect(virtual.messages == ["x", "… 2 more in the last 12 s: x"])
  }

  @Test func aClockThatIsSetBackHoldsNoLineForAsLong() {
    let virtual = VirtualLog()
    for _ in 0..<3 { virtual.log(.info, .notSecure, "x", key: "k") }
    virtual.pass(-3_600)
    #expect(virtual.messages == ["x", "… 2 more before the clock was set back: x"])
    virtual.log(.info, .notSecure, "x", key: "k")
    virtual.pass(60)
    #expect(virtual.messages.last == "… 1 more in the last minute: x")
  }

  @Test func theLevelCanBeChanged() {
    let virtual = VirtualLog()
    virtual.log(.debug, .request, "a")
    virtual.log.setLowest(.debug)
    virtual.log(.debug, .request, "b")
    virtual.log.setLowest(.error)
    virtual.log(.warning, .setting, "c")
    #expect(virtual.messages == ["b"])
    #expect(virtual.log.written.map(\.count) == [1, 0, 0, 0])
  }
}

@Suite struct LogFormatTests {
  private let entry = ServerLog.Entry(
    time: Date(timeIntervalSince1970: 1_796_044_000.25), level: .warning, event: .payload,
    message: "channel final: a \"quoted\" key", fields: [("channel", "final"), ("remote", "192.0.2.1")])

  @Test func textHasTimeLevelMessageAndWhatTheMessageDoesNotSay() {
    #expect(
      LogFormat.text.line(entry)
        == "2026-11-30T13:06:40.250Z warning channel final: a \"quoted\" key remote=192.0.2.1")
  }

  @Test func jsonIsOneObjectALine() throws {
    #expect(
      LogFormat.json.line(entry)
        == #"{"ts":"2026-11-30T13:06:40.250Z","level":"warning","event":"payload","message":"channel final: a \"quoted\" key","channel":"final","remote":"192.0.2.1"}"#
    )
  }

  @Test(arguments: [("error", "<3>"), ("warning", "<4>"), ("info", "<6>"), ("debug", "<7>")])
  func theJournalGetsTheLevelAsAPrefixAndNoTimeOfItsOwn(_ name: String, _ prefix: String) throws {
    let level = try #require(ServerLog.Level(rawValue: name))
    let entry = ServerLog.Entry(time: entry.time, level: level, event: .setting, message: "m", fields: [])
    let journal = LogFormat.Surroundings(isJournal: true)
    #expect(LogFormat.text.line(entry, in: journal) == "\(prefix)\(name) m")
    #expect(LogFormat.json.line(entry, in: journal).hasPrefix("\(prefix){\"ts\":\""))
  }
}

@Suite struct LogWriterTests {
  @Test func aReaderThatStoppedHoldsUpNobodyAndIsToldWhatItMissed() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    let writer = LogWriter(descriptor: ends[1]) { "lost \($0)" }
    let line = String(repeating: "x", count: 1_023)
    // The pipe takes 64 KiB, the writer has what it took last, and a mebibyte waits.
    for _ in 0..<4_096 { writer.write(line) }
    #expect(writer.lostLines > 0)
    let reading = Box<[UInt8]>([])
    let ended = Box(false)
    let descriptor = ends[0]
    let thread = Thread {
      var chunk = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { break }
        reading.change { $0 += chunk[..<count] }
      }
      ended.value = true
    }
    thread.start()
    writer.close(within: 20)
    close(ends[1])
    try ended.wait { $0 }
    close(ends[0])
    let lines = String(decoding: reading.value, as: UTF8.self).split(separator: "\n")
    #expect(lines.count { $0.hasPrefix("x") } + writer.lostLines == 4_096)
    // Each gap is told where it is, and there may be several: the writer took some when the lines still came.
    let told = lines.filter { $0.hasPrefix("lost ") }.compactMap { Int($0.dropFirst(5)) }
    #expect(told.reduce(0, +) == writer.lostLines && lines.last?.hasPrefix("lost ") == true)
  }

  @Test func aLineThatCannotBeWrittenIsLostAndTold() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    let descriptor = open("/dev/full", O_WRONLY)
    try #require(descriptor >= 0)
    let writer = LogWriter(descriptor: descriptor) { "lost \($0)" }
    for line in ["a", "b"] {
      let before = writer.lostLines
      writer.write(line)
      try waitUntil("the loss") { writer.lostLines == before + 1 }
    }
    // There is room again.
    dup2(ends[1], descriptor)
    writer.write("c")
    writer.close(within: 20)
    close(descriptor)
    close(ends[1])
    var bytes = [UInt8](repeating: 0, count: 100)
    let count = read(ends[0], &bytes, bytes.count)
    close(ends[0])
    #expect(String(decoding: bytes.prefix(count), as: UTF8.self) == "lost 2\nc\n")
    #expect(writer.lostLines == 2)
  }
}
