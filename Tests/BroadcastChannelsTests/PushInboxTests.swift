import Foundation
import Testing

@testable import BroadcastChannels

/// A token's inbox with its device, and a log of what became of the messages: `goal delivered`, and `> goal` for what
/// the device gets.
///
/// A class, because `#expect` takes its operands as constants and an inbox changes when it is pushed to.
private final class Line {
  var inbox: PushInbox
  var isConnected = true
  private(set) var log: [String] = []

  init(_ kind: PushToken.Kind = .update, frequent: Bool = false) throws {
    inbox = PushInbox(
      kind: kind, app: try #require(app), id: try #require(ChannelID("AAAAAAAAAAAAAAAAAAAAAA==")),
      frequentUpdates: frequent, now: moment(0))
  }

  /// Pushes at a second; the timestamp is that second unless given.
  @discardableResult
  func push(
    _ name: String, _ priority: Priority = .immediate, at seconds: Double, timestamp: Int? = nil,
    event: Payload.Event = .update, alert: Bool = false, id: RequestID? = nil, expires: Int64? = nil
  ) throws -> PushAnswer {
    let body = #"{"aps":\#(aps(timestamp ?? Int(seconds), event, alert: alert))}"#
    let message = Message(
      uniqueID: UniqueID(text: name), requestID: id, priority: priority,
      expiration: expires.map { .at(epochSeconds + $0) } ?? .once,
      payload: try Payload(body: Array(body.utf8), to: .device))
    let answer = try inbox.accept(message, isConnected: isConnected, at: moment(seconds))
    record(answer.steps)
    return answer
  }

  func run(to seconds: Double) {
    while let deadline = inbox.nextDeadline, deadline <= moment(seconds) {
      record(inbox.advance(to: deadline, isConnected: isConnected))
    }
  }

  /// The device comes back; what it gets.
  func comeBack(at seconds: Double) -> String? {
    isConnected = true
    return inbox.returned(at: moment(seconds))?.delivery?.message.uniqueID.text
  }

  private func record(_ steps: [PushStep]) {
    for step in steps {
      log.append("\(step.uniqueID) \(step.outcome)")
      if let delivery = step.delivery { log.append("> \(delivery.message.uniqueID)") }
    }
  }
}

@Suite struct PushInboxTests {
  private static let id = RequestID("2288CF3F-70d8-46a6-97d7-dd5d00867127")

  @Test func `a push goes to the device that is there`() throws {
    let line = try Line()
    #expect(try line.push("a", at: 0).outcome == .delivered)
    #expect(line.log == ["a delivered", "> a"])
  }

  @Test func `each kind of token takes what it is for, and nothing changes with the other`() throws {
    let update = try Line()
    let start = try Line(.start)
    for event in [Payload.Event.update, .end] {
      let refusal = try refusal { try start.push("a", at: 0, event: event) }
      #expect(refusal.reason == .badDeviceToken && refusal.detail.contains("push-to-start token"))
    }
    let begin =
      #"{"aps":{"timestamp":1,"event":"start","content-state":{},"alert":{},"attributes-type":"A","attributes":{}}}"#
    let payload = try Payload(body: Array(begin.utf8), to: .device)
    let refusal = try refusal { try update.inbox.check(payload) }
    #expect(refusal.reason == .badDeviceToken && refusal.detail.contains("update token"))
    try start.inbox.check(payload)
    #expect(update.log.isEmpty && start.log.isEmpty)
  }

  @Test func `with expiration 0 a push is tried once`() throws {
    let line = try Line()
    line.isConnected = false
    #expect(try line.push("a", at: 0).outcome == .undeliverable)
    #expect(line.comeBack(at: 1) == nil)
  }

  @Test(arguments: [(599.9, "a"), (600, nil)] as [(Double, String?)])
  func `a push waits for a device that is away, until its expiration`(second: Double, got: String?) throws {
    let line = try Line()
    line.isConnected = false
    #expect(try line.push("a", at: 0, expires: 600).outcome == .stored)
    #expect(line.comeBack(at: second) == got)
  }

  /// 8 hours are 28,800 s.
  @Test(arguments: [(28_799.9, "a"), (28_800, nil)] as [(Double, String?)])
  func `it waits 8 hours at most`(second: Double, got: String?) throws {
    let line = try Line()
    line.isConnected = false
    try line.push("a", at: 0, expires: 1_000_000)
    #expect(line.comeBack(at: second) == got)
  }

  /// The first has timestamp 50; the second's decides, whatever alert the first has.
  @Test(arguments: [(51, "b", "a superseded"), (50, "b", "a superseded"), (49, "a", "b undeliverable")])
  func `the newest waits, by timestamp, then arrival`(timestamp: Int, got: String, told: String) throws {
    let line = try Line()
    line.isConnected = false
    try line.push("a", at: 0, timestamp: 50, alert: true, expires: 600)
    try line.push("b", at: 1, timestamp: timestamp, expires: 600)
    #expect(line.log.contains(told))
    #expect(line.comeBack(at: 2) == got)
  }

  @Test func `nothing takes the place of an end but a newer end`() throws {
    let line = try Line()
    line.isConnected = false
    try line.push("end", at: 1, event: .end, expires: 600)
    #expect(try line.push("late", at: 2, expires: 600).outcome == .undeliverable)
    #expect(
      try line.push("older end", at: 3, timestamp: 0, event: .end, expires: 600).outcome == .undeliverable)
    #expect(line.comeBack(at: 4) == "end")
    line.isConnected = false
    #expect(try line.push("second end", at: 5, event: .end, expires: 600).outcome == .stored)
    #expect(line.comeBack(at: 6) == "second end")
  }

  @Test func `a push that the device did not acknowledge comes again, an acknowledged one does not`() throws {
    let line = try Line()
    try line.push("a", at: 0, expires: 600)
    #expect(line.comeBack(at: 1) == "a")
    line.inbox.acknowledge(UniqueID(text: "other"))
    #expect(line.comeBack(at: 2) == "a")
    line.inbox.acknowledge(UniqueID(text: "a"))
    #expect(line.comeBack(at: 3) == nil)
  }

  @Test func `a repeated id is answered as the first time and sent once, for 10 minutes`() throws {
    let line = try Line()
    let first = try line.push("a", at: 0, id: Self.id)
    let again = try line.push("b", at: 599, id: Self.id)
    #expect(again.uniqueID == first.uniqueID && again.isRepetition && !first.isRepetition)
    #expect(line.log == ["a delivered", "> a"])
    #expect(try !line.push("c", at: 600, id: Self.id).isRepetition)
  }

  @Test func `the last answer outlives the token`() throws {
    let line = try Line()
    try line.push("end", at: 0, event: .end, id: Self.id)
    let last = try #require(line.inbox.lastAnswer)
    #expect(last.answer(to: Self.id, at: moment(599))?.uniqueID.text == "end")
    #expect(last.answer(to: Self.id, at: moment(600)) == nil)
    #expect(last.answer(to: nil, at: moment(1)) == nil)
  }

  /// The default budget: 60 at once.
  @Test func `over budget a push is delivered like priority 5, after a second`() throws {
    let line = try Line()
    for second in 0..<60 { try line.push("\(second)", at: Double(second) / 10, timestamp: 0) }
    #expect(try line.push("over", at: 6, timestamp: 1).outcome == .demoted)
    #expect(line.log.last == "59 delivered" || line.log.last == "> 59")
    line.run(to: 7)
    #expect(line.log.suffix(2) == ["over delivered", "> over"])
  }

  @Test func `priority 5 costs no budget and is collected for a second`() throws {
    let line = try Line()
    #expect(try line.push("a", .considerate, at: 0).outcome == .windowed)
    #expect(try line.push("b", .considerate, at: 0.5).outcome == .windowed)
    #expect(line.inbox.budgetReport(at: moment(0.5)).priority10?.remaining == 60)
    line.isConnected = false
    line.run(to: 1)
    #expect(line.log == ["a superseded", "b undeliverable"])
  }

  /// The default rate: a burst of 40.
  @Test func `more than the rate is refused with 429`() throws {
    let line = try Line()
    for number in 0..<40 { try line.push("\(number)", .considerate, at: 0) }
    let refusal = try refusal { try line.push("over", .considerate, at: 0) }
    #expect(refusal.reason == .tooManyRequests && refusal.retryAfter == 0.05)
    #expect(refusal.detail.contains("this token"))
  }
}
