import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md, "Data" and "Life cycle"; seconds count from the start of the activity.
@Suite struct LiveActivityTests {
  static let hour = 3_600.0

  @Test func `an activity starts active and without content`() {
    let card = Card()
    #expect(card.activity.state == .active)
    #expect(card.activity.contentState == nil && card.activity.timestamp == nil)
  }

  @Test func `an update is shown`() throws {
    let card = Card()
    try card.receive(1, at: 10)
    #expect(card.log == ["10 update active 1"])
    #expect(card.activity.timestamp == 1_700_000_010)
  }

  // MARK: Order

  /// The shown timestamp is 100.
  @Test(arguments: [(101, "update active 2"), (100, "update active 2"), (99, "ignored-older active 1")])
  func `the newest timestamp wins, ties go to the later arrival`(timestamp: Int, change: String) throws {
    let card = Card()
    try card.receive(1, at: 10, timestamp: 100)
    try card.receive(2, at: 20, timestamp: timestamp)
    #expect(card.log.last == "20 \(change)")
  }

  @Test func `an older message changes nothing but its count`() throws {
    let card = Card()
    try card.receive(1, at: 10, timestamp: 100, stale: 500, score: 7)
    let shown = card.activity
    try card.receive(2, at: 20, timestamp: 99, stale: 30, score: 9)
    try card.receive(3, at: 21, timestamp: 0, event: .end)
    #expect(card.activity.ignoredOlder == 2 && card.activity.ignoredAfterEnd == 0)
    #expect(card.activity.state == .active && card.activity.staleDate == shown.staleDate)
    #expect(card.activity.relevanceScore == 7 && card.activity.timestamp == shown.timestamp)
    #expect(card.activity.nextDeadline == shown.nextDeadline)
  }

  @Test func `an older message does not make a stale card fresh`() throws {
    let card = Card()
    try card.receive(1, at: 10, timestamp: 100, stale: 60)
    try card.receive(2, at: 70, timestamp: 99)
    #expect(card.log == ["10 update active 1", "60 stale-date stale 1", "70 ignored-older stale 1"])
  }

  // MARK: Staleness

  @Test func `it goes stale exactly at the stale date, with no message arriving`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    #expect(card.activity.nextDeadline == moment(60))
    card.run(to: 59.999)
    #expect(card.activity.state == .active)
    card.run(to: 60)
    #expect(card.log == ["0 update active 1", "60 stale-date stale 1"])
  }

  @Test func `however late time is advanced, the change has the stale date's time`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    #expect(card.activity.advance(to: moment(100)).map(\.at) == [moment(60)])
    #expect(card.activity.advance(to: moment(100)).isEmpty)
  }

  /// The card went stale at 60; the update comes at 90.
  @Test(
    arguments: [
      (nil, "update active 2"), (120, "update active 2"), (60, "update stale 2"), (90, "update stale 2"),
    ]
      as [(Int?, String)])
  func `a newer update with a later stale date, or none, is fresh`(stale: Int?, change: String) throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    try card.receive(2, at: 90, stale: stale)
    #expect(card.log == ["0 update active 1", "60 stale-date stale 1", "90 \(change)"])
  }

  @Test func `an update moves the stale date on, and one without takes it away`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    try card.receive(2, at: 50, stale: 110)
    try card.receive(3, at: 100)
    card.run(to: 7 * Self.hour)
    #expect(card.log == ["0 update active 1", "50 update active 2", "100 update active 3"])
  }

  @Test func `a stale date already past is stale on arrival`() throws {
    let card = Card()
    try card.receive(1, at: 100, stale: 40)
    #expect(card.log == ["100 update stale 1"])
    #expect(card.activity.nextDeadline == moment(8 * Self.hour))
  }

  @Test func `a message at the stale date finds the card stale`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    try card.receive(2, at: 60)
    #expect(card.log == ["0 update active 1", "60 stale-date stale 1", "60 update active 2"])
  }

  // MARK: End and dismissal

  /// The end comes at 100; the longest stay is 4 hours, until 100 + 14,400.
  @Test(
    arguments: [
      (nil, 14_500), (130, 130), (14_500, 14_500), (14_501, 14_500), (1_000_000, 14_500),
    ] as [(Int?, Double)])
  func `an ended card stays until its dismissal date, four hours at most`(dismissal: Int?, leaves: Double)
    throws
  {
    let card = Card()
    try card.receive(1, at: 0)
    try card.receive(2, at: 100, event: .end, dismissal: dismissal)
    #expect(card.activity.state == .ended && card.activity.endedAt == moment(100))
    card.run(to: leaves - 0.001)
    #expect(card.activity.state == .ended)
    card.run(to: 100 * Self.hour)
    let dismissed = "\(Int(leaves)) dismissal dismissed 2"
    #expect(card.log == ["0 update active 1", "100 end ended 2", dismissed])
    #expect(card.activity.nextDeadline == nil)
  }

  @Test(arguments: [99, 100, -1_000])
  func `a dismissal date that is past dismisses at once`(dismissal: Int) throws {
    let card = Card()
    try card.receive(1, at: 0)
    try card.receive(2, at: 100, event: .end, dismissal: dismissal)
    #expect(card.log == ["0 update active 1", "100 end ended 2", "100 dismissal dismissed 2"])
  }

  @Test func `an end without a state keeps the last one`() throws {
    let card = Card()
    try card.receive(1, at: 0)
    try card.receive(nil, at: 100, event: .end, dismissal: 130)
    card.run(to: 200)
    #expect(card.log == ["0 update active 1", "100 end ended 1", "130 dismissal dismissed 1"])
  }

  @Test func `an end before any update ends the card`() throws {
    let card = Card()
    try card.receive(nil, at: 5, event: .end)
    #expect(card.log == ["5 end ended nil"])
  }

  @Test func `a stale card can end, and an ended card does not go stale`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 60)
    try card.receive(2, at: 100, event: .end, stale: 110, dismissal: 200)
    card.run(to: 150)
    #expect(card.log == ["0 update active 1", "60 stale-date stale 1", "100 end ended 2"])
  }

  @Test func `a dismissal date on an update has no effect`() throws {
    let card = Card()
    try card.receive(1, at: 0, dismissal: 30)
    card.run(to: 7 * Self.hour)
    #expect(card.log == ["0 update active 1"])
  }

  @Test(arguments: [Payload.Event.update, .end])
  func `what arrives after the end is ignored and counted`(event: Payload.Event) throws {
    let card = Card()
    try card.receive(1, at: 0)
    try card.receive(2, at: 10, event: .end, dismissal: 110)
    try card.receive(3, at: 20, event: event, dismissal: 30)
    card.run(to: 200)
    try card.receive(4, at: 300, event: event)
    let expected = [
      "0 update active 1", "10 end ended 2", "20 ignored-after-end ended 2", "110 dismissal dismissed 2",
    ]
    #expect(card.log == expected)
    #expect(card.activity.ignoredAfterEnd == 2 && card.activity.ignoredOlder == 0)
  }

  // MARK: Lifetime

  @Test func `the system ends it after 8 hours and it is gone after 12`() throws {
    let card = Card()
    try card.receive(1, at: 0)
    card.run(to: 12 * Self.hour)
    // 8 hours are 28,800 s, 12 hours 43,200 s.
    #expect(card.log == ["0 update active 1", "28800 lifetime ended 1", "43200 dismissal dismissed 1"])
  }

  @Test func `an activity that never showed anything lives as long`() {
    let card = Card()
    card.run(to: 12 * Self.hour)
    #expect(card.log == ["28800 lifetime ended nil", "43200 dismissal dismissed nil"])
  }

  @Test func `twelve hours pass in one step as in many`() throws {
    let once = Card()
    let often = Card()
    for card in [once, often] { try card.receive(1, at: 0, stale: 600) }
    once.run(to: 12 * Self.hour)
    for minute in 0...(12 * 60) { often.run(to: Double(minute) * 60) }
    #expect(once.log == often.log && once.log.count == 4)
  }

  @Test func `twelve hours of updates every minute end at the eighth`() throws {
    let card = Card()
    for minute in 0..<(12 * 60) { try card.receive(minute, at: Double(minute) * 60, stale: minute * 60 + 90) }
    // Minute 480 is the end of life: 480 updates (0 to 479) were shown, 240 came after the end.
    #expect(card.log.count { $0.contains(" update active ") } == 480)
    #expect(card.log.contains("28800 lifetime ended 479"))
    #expect(card.activity.ignoredAfterEnd == 240)
    card.run(to: 12 * Self.hour)
    #expect(card.log.last == "43200 dismissal dismissed 479")
  }

  @Test func `a stale date at the end of life is the end of life`() throws {
    let card = Card()
    try card.receive(1, at: 0, stale: 28_800)
    card.run(to: 28_800)
    #expect(card.log == ["0 update active 1", "28800 lifetime ended 1"])
  }

  @Test func `an end just before the eighth hour may stay four hours from then`() throws {
    let card = Card()
    try card.receive(1, at: 28_799, event: .end)
    card.run(to: 100 * Self.hour)
    #expect(card.log == ["28799 end ended 1", "43199 dismissal dismissed 1"])
  }
}

/// A Live Activity with a log of its changes.
///
/// A class, because `#expect` takes its operands as constants and an activity changes with time.
final class Card {
  var activity = LiveActivity(startedAt: moment(0))
  /// `60 stale-date stale 1`: second, cause, state, and the number in the content state.
  private(set) var log: [String] = []

  func run(to seconds: Double) { record(activity.advance(to: moment(seconds))) }

  /// Takes a message with the content state `{"n":…}`; every date is a second of the test.
  func receive(
    _ number: Int?, at seconds: Double, timestamp: Int? = nil, event: Payload.Event = .update,
    stale: Int? = nil, dismissal: Int? = nil, score: Double? = nil
  ) throws {
    func date(_ second: Int?) -> String? { second.map { String(1_700_000_000 + $0) } }
    let aps = JSONWriter.object([
      "timestamp": date(timestamp ?? Int(seconds)), "event": JSONWriter.quoted(event.rawValue),
      "content-state": number.map { "{\"n\":\($0)}" }, "stale-date": date(stale),
      "dismissal-date": date(dismissal), "relevance-score": score.map { "\($0)" },
    ])
    record(activity.receive(try Payload(body: Array("{\"aps\":\(aps)}".utf8)), at: moment(seconds)))
  }

  private func record(_ changes: [LiveActivity.Change]) {
    log += changes.map { change in
      let second = JSONWriter.seconds(change.at.timeIntervalSince(moment(0)))
      let number = change.contentState?.string.filter(\.isNumber) ?? "nil"
      return "\(second) \(change.cause.rawValue) \(change.state.rawValue) \(number)"
    }
  }
}

/// A number of seconds after 2023-11-14 22:13:20 UTC.
func moment(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_700_000_000 + seconds) }
