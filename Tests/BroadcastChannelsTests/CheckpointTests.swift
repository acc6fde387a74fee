import Foundation
import Testing

@testable import BroadcastChannels

@Suite("Undoing a publish")
struct CheckpointTests {
  private func request() throws -> RequestID { try #require(RequestID(UUID().uuidString)) }

  @Test("everything stands as before: position, stored message, counts, budget, rate and window")
  func everything() throws {
    let stage = try Stage(
      settings(policy: .latest, capacity: 3, rate: PublishRate(perSecond: 1, burst: 10)), sequence: 4)
    try stage.publish("first", at: 0, expires: 600)
    try stage.publish("alert", .considerate, at: 0.1, alert: true, expires: 600)
    try stage.publish("tick", .considerate, at: 0.2, timestamp: 0, expires: 600)
    let (deadline, counts) = (stage.channel.nextDeadline, stage.channel.counts)
    let report = stage.channel.budgetReport(at: moment(0.3))
    let id = try request()
    let before = stage.channel.checkpoint
    try stage.publish("goal", at: 0.3, request: id, expires: 600)
    #expect(stage.channel.position.sequence == 7 && stage.stored(at: 0.3) == "goal")
    stage.channel.restore(before, forgetting: id)
    #expect(stage.channel.position == StreamPosition(epoch: "e", sequence: 5))
    #expect(stage.channel.nextDeadline == deadline && stage.channel.counts == counts)
    #expect(stage.channel.budgetReport(at: moment(0.3)) == report)
    #expect(stage.stored(at: 0.3) == "first")

    // The same request is new, once; the alert that waited comes before it.
    let result = try stage.publish("again", at: 0.4, request: id, expires: 600)
    #expect(!result.isRepetition && stage.stored(at: 0.4) == "again")
    #expect(stage.log.suffix(3) == ["tick superseded", "alert #6 at 0.400", "again #7 at 0.400"])
    #expect(try stage.publish("repeated", at: 0.5, request: id, expires: 600).isRepetition)
  }

  @Test("rules that changed meanwhile stay, and what was spent counts under them")
  func otherRules() throws {
    let stage = try Stage(settings(capacity: 9, rate: PublishRate(perSecond: 1, burst: 10)))
    try stage.publish("first", at: 0)
    let before = stage.channel.checkpoint
    try stage.publish("second", at: 0)
    stage.channel.adopt(
      try settings(capacity: 4, rate: PublishRate(perSecond: 2, burst: 20)), at: moment(0))
    try stage.publish("third", at: 0)
    // Two of four are left after two of nine were used; undone, three are: the first stays spent.
    stage.channel.restore(before, forgetting: nil)
    let report = stage.channel.budgetReport(at: moment(0))
    #expect(report.priority10?.limit == 4 && report.priority10?.remaining == 3)
    #expect(report.publishRate?.limit == 20 && report.publishRate?.remaining == 19)
    // The rate refills as the new rules say: one of two a second, up to 20.
    #expect(stage.channel.budgetReport(at: moment(0.5)).publishRate?.remaining == 20)
  }

  @Test("the next try of a request is remembered as long as any other")
  func remembered() throws {
    let stage = try Stage(settings())
    let id = try request()
    let before = stage.channel.checkpoint
    try stage.publish("first", at: 0, request: id)
    stage.channel.restore(before, forgetting: id)
    try stage.publish("again", at: 500, request: id)
    #expect(try stage.publish("repeated", at: 1_099, request: id).isRepetition)
    #expect(try !stage.publish("late", at: 1_100, request: id).isRepetition)
  }

  @Test("what is undone may be outdated by then")
  func outdated() throws {
    let stage = try Stage(settings(policy: .latest))
    let (first, second) = (try request(), try request())
    let before = stage.channel.checkpoint
    try stage.publish("first", at: 0, request: first, expires: 6_000)
    let between = stage.channel.checkpoint
    // The first one's answer is forgotten for its age.
    try stage.publish("second", at: 700, request: second, expires: 6_000)
    stage.channel.restore(between, forgetting: second)
    stage.channel.restore(before, forgetting: first)
    let kept = stage.channel.checkpoint
    #expect(stage.channel.position.sequence == 0 && stage.channel.change(since: kept) == nil)
    for id in [first, second] {
      #expect(try !stage.publish("again", at: 701, request: id, expires: 6_000).isRepetition)
    }
    #expect(stage.channel.change(since: kept)?.answers.map(\.number) == [0, 1])
    #expect(try stage.publish("more", at: 702, request: first, expires: 6_000).isRepetition)
  }

  @Test("without a request id there is nothing to forget")
  func nameless() throws {
    let stage = try Stage(settings())
    let id = try request()
    try stage.publish("kept", at: 0, request: id)
    let before = stage.channel.checkpoint
    try stage.publish("undone", at: 1)
    stage.channel.restore(before, forgetting: nil)
    #expect(try stage.publish("repeated", at: 2, request: id).isRepetition)
    #expect(stage.channel.position.sequence == 1)
  }
}
