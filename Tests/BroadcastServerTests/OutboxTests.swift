import BroadcastChannels
import Testing

@testable import BroadcastServer

@Suite struct OutboxTests {
  private let a: ChannelID
  private let b: ChannelID

  init() throws {
    a = try #require(ChannelID("YQ=="))
    b = try #require(ChannelID("Yg=="))
  }

  private func contents(_ outbox: Outbox<String>) -> [String] {
    var outbox = outbox
    var all: [String] = []
    while let next = outbox.first {
      all.append(next)
      outbox.removeFirst()
    }
    return all
  }

  @Test func onlyTheNewestPlainUpdateOfAChannelWaits() {
    var outbox = Outbox<String>()
    for (text, channel) in [("a1", a), ("b1", b), ("a2", a), ("a3", a), ("b2", b)] {
      let fits = outbox.append(text, size: 10, channel: channel, isIrreplaceable: false).fits
      #expect(fits)
    }
    #expect(outbox.pendingBytes == 20)
    #expect(contents(outbox) == ["a3", "b2"])
  }

  @Test func alertsEndsAndAnswersAreKeptInTheirOrder() {
    var outbox = Outbox<String>()
    let entries: [(String, ChannelID?, Bool)] = [
      ("a1", a, false), ("a2 alert", a, true), ("answer", nil, true), ("a3", a, false), ("a4 end", a, true),
      ("b1", b, false), ("a5", a, false),
    ]
    for (text, channel, isIrreplaceable) in entries {
      let fits = outbox.append(text, size: 1, channel: channel, isIrreplaceable: isIrreplaceable).fits
      #expect(fits)
    }
    // An alert is newer than the update before it, and says the whole state as well.
    #expect(contents(outbox) == ["a2 alert", "answer", "a4 end", "b1", "a5"])
  }

  @Test func itGoesOnAfterAPartWasTaken() {
    var outbox = Outbox<String>()
    _ = outbox.append("a1", size: 3, channel: a, isIrreplaceable: false)
    _ = outbox.append("b1", size: 4, channel: b, isIrreplaceable: false)
    outbox.removeFirst()
    _ = outbox.append("a2", size: 5, channel: a, isIrreplaceable: false)
    _ = outbox.append("b2", size: 6, channel: b, isIrreplaceable: false)
    #expect(outbox.pendingBytes == 11)
    #expect(contents(outbox) == ["a2", "b2"])
    for _ in 0..<3 { outbox.removeFirst() }
    #expect(outbox.isEmpty && outbox.first == nil && outbox.pendingBytes == 0)
  }

  @Test func aForgottenChannelLeavesTheOthersAlone() {
    var outbox = Outbox<String>()
    _ = outbox.append("a alert", size: 3, channel: a, isIrreplaceable: true)
    _ = outbox.append("answer", size: 1, channel: nil, isIrreplaceable: true)
    _ = outbox.append("a1", size: 4, channel: a, isIrreplaceable: false)
    _ = outbox.append("b1", size: 5, channel: b, isIrreplaceable: false)
    outbox.forget(a)
    #expect(outbox.pendingBytes == 6)
    #expect(contents(outbox) == ["answer", "b1"])
  }

  @Test func tooManyAlertsPassTheBound() {
    var outbox = Outbox<String>()
    for number in 1...Limits.pendingKeepsPerConnection {
      let fits = outbox.append("\(number)", size: 1, channel: a, isIrreplaceable: true).fits
      #expect(fits)
    }
    let plainFits = outbox.append("plain", size: 1, channel: a, isIrreplaceable: false).fits
    #expect(plainFits)
    let fits = outbox.append("one more", size: 1, channel: a, isIrreplaceable: true).fits
    #expect(!fits)
  }

  @Test func tooManyBytesPassTheBound() {
    var outbox = Outbox<String>()
    _ = outbox.append("all", size: Limits.pendingBytesPerConnection, channel: nil, isIrreplaceable: true)
    let fits = outbox.append("and one", size: 1, channel: a, isIrreplaceable: false).fits
    #expect(!fits)
  }

  @Test func takenEntriesMakeRoomAgain() {
    var outbox = Outbox<String>()
    for round in 0..<3 * Limits.pendingKeepsPerConnection {
      let fits = outbox.append("\(round)", size: 5_000, channel: a, isIrreplaceable: true).fits
      #expect(fits)
      if round >= 10 { outbox.removeFirst() }
    }
    #expect(outbox.pendingBytes == 10 * 5_000)
  }

  @Test func whatWasSentIsLetGoAlthoughTheOutboxNeverEmpties() {
    final class Bytes {}
    var outbox = Outbox<Bytes>()
    var sent: [() -> Bytes?] = []
    _ = outbox.append(Bytes(), size: 1, channel: nil, isIrreplaceable: true)
    for _ in 0..<2_000 {
      let bytes = Bytes()
      sent.append { [weak bytes] in bytes }
      _ = outbox.append(bytes, size: 1, channel: nil, isIrreplaceable: true)
      outbox.removeFirst()
    }
    #expect(sent.count { $0() != nil } < 100)
  }
}
