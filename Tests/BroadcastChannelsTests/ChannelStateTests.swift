import Foundation
import Testing

@testable import BroadcastChannels

/// What a store is told of a channel, and that a channel which is made of it goes on as the first would have.
@Suite("What outlives the process") struct ChannelStateTests {
  /// A channel and a store that follows it.
  private final class Kept {
    let stage: Stage
    var state: ChannelState
    private(set) var changes = 0

    init(_ settings: ChannelSettings) throws {
      stage = try Stage(settings)
      state = ChannelState(position: stage.channel.position)
    }

    func store(_ body: (Stage) throws -> Void) rethrows {
      let before = stage.channel.checkpoint
      try body(stage)
      guard let change = stage.channel.change(since: before) else { return }
      changes += 1
      state.apply(change)
    }

    func restarted(at second: Double) -> Channel {
      let old = stage.channel
      return Channel(id: old.id, alias: old.alias, settings: old.settings, state: state, now: moment(second))
    }
  }

  private func request() throws -> RequestID { try #require(RequestID(UUID().uuidString)) }

  @Test("a restart refills neither budget nor rate; what comes back with time comes back")
  func budget() throws {
    let kept = try Kept(
      settings(policy: .none, capacity: 5, perHour: 3_600, rate: PublishRate(perSecond: 1, burst: 10)))
    for _ in 0..<4 { try kept.store { try $0.publish("tick", at: 0) } }
    let report = kept.restarted(at: 0).budgetReport(at: moment(0))
    #expect(report.priority10?.remaining == 1 && report.publishRate?.remaining == 6)
    #expect(kept.restarted(at: 2).budgetReport(at: moment(2)).priority10?.remaining == 3)
    #expect(kept.restarted(at: 1e6).budgetReport(at: moment(1e6)).priority10?.remaining == 5)
  }

  @Test("what waits in a window goes on waiting, in its order, and comes out at its time")
  func window() throws {
    let kept = try Kept(settings(policy: .latest))
    try kept.store { try $0.publish("goal", .considerate, at: 0, alert: true, expires: 600) }
    try kept.store { try $0.publish("tick", .considerate, at: 0.5, expires: 600) }
    var channel = kept.restarted(at: 0.6)
    #expect(channel.nextDeadline == moment(1) && channel.newest(after: nil, at: moment(0.6)) == nil)
    let out = channel.advance(to: moment(1)).compactMap { effect in
      if case .deliver(let delivery) = effect { delivery.position.sequence } else { nil }
    }
    #expect(out == [1, 2] && channel.nextDeadline == nil)
    // While the server was away its time passed: it ends at once.
    let late = kept.restarted(at: 60)
    #expect(late.nextDeadline == moment(1))
  }

  @Test("a repeated request is answered as before, for as long as it would have been")
  func answers() throws {
    let kept = try Kept(settings(policy: .none))
    let id = try request()
    try kept.store { try $0.publish("first", at: 0, request: id) }
    let first = kept.state.answers.first
    #expect(first?.requestID == id && first?.outcome == .delivered && first?.number == 0)
    let message = { (name: String) in
      Message(
        uniqueID: UniqueID(text: name), requestID: id, priority: .immediate, expiration: .once,
        payload: try Payload(
          body: Array(#"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#.utf8)))
    }
    var channel = kept.restarted(at: 599)
    let again = try channel.publish(message("again"), at: moment(599))
    #expect(again.isRepetition && again.uniqueID == first?.uniqueID)
    var later = kept.restarted(at: 600)
    #expect(try !later.publish(message("later"), at: moment(600)).isRepetition)
    #expect(later.change(since: kept.restarted(at: 600).checkpoint)?.forgetsAnswers == true)
  }

  @Test("an outdated answer that a store still has takes nothing from the newer one to the same request id")
  func outdated() throws {
    let kept = try Kept(settings(policy: .none, rate: PublishRate(perSecond: nil, burst: nil)))
    let id = try request()
    try kept.store { try $0.publish("first", at: 0, request: id) }
    // The channel forgets the first answer, and the store doesn't hear of it.
    _ = try kept.stage.publish("tick", at: 600)
    try kept.store { try $0.publish("second", at: 601, request: id) }
    #expect(kept.state.answers.map(\.requestID) == [id, id])
    let restarted = kept.restarted(at: 700)
    kept.stage.channel = restarted
    #expect(try kept.stage.publish("again", at: 1_200, request: id).isRepetition)
    #expect(try !kept.stage.publish("anew", at: 1_201, request: id).isRepetition)
  }

  @Test("the answers that are kept are the newest, and no more than the limit")
  func bound() throws {
    let kept = try Kept(settings(policy: .none, rate: PublishRate(perSecond: nil, burst: nil)))
    for number in 0..<Limits.requestIDsPerChannel + 50 {
      let id = try #require(RequestID(UUID().uuidString))
      try kept.store { try $0.publish("\(number)", .passive, at: Double(number) / 100, request: id) }
    }
    #expect(kept.state.answers.count <= Limits.requestIDsPerChannel + 1)
    #expect(kept.state.answers.last?.number == Limits.requestIDsPerChannel + 49)
  }

  @Test("several changes written as one are the same as one after the other")
  func merging() throws {
    let kept = try Kept(settings(policy: .latest, capacity: 2))
    var merged = ChannelState(position: kept.state.position)
    let before = kept.stage.channel.checkpoint
    var sum: ChannelChange?
    var last = before
    for (index, name) in ["a", "b", "c", "d"].enumerated() {
      try kept.store { try $0.publish(name, at: Double(index), request: request(), expires: 600) }
      let change = try #require(kept.stage.channel.change(since: last))
      if sum == nil { sum = change } else { sum?.merge(change) }
      last = kept.stage.channel.checkpoint
    }
    merged.apply(try #require(sum))
    let names = { (state: ChannelState) in
      [
        "\(state.position)", "\(state.newest?.message.uniqueID.text ?? "-")",
        "\(state.waiting.map(\.uniqueID.text))",
        "\(state.answers.map(\.number))", "\(String(describing: state.budget?.tokens))",
      ]
    }
    #expect(names(merged) == names(kept.state) && merged.answers.count == 4)
  }

  @Test(
    "what a store doesn't keep is no change: refusals, repetitions, and windows of a channel that stores nothing"
  )
  func nothing() throws {
    let id = try request()
    let kept = try Kept(settings(policy: .none, rate: PublishRate(perSecond: nil, burst: nil)))
    try kept.store { try $0.publish("first", .considerate, at: 0, request: id) }
    #expect(kept.changes == 1)
    try kept.store { try $0.publish("again", .considerate, at: 0.1, request: id) }
    try kept.store { try $0.publish("tick", .considerate, at: 0.2) }
    kept.store { $0.run(to: 5) }
    #expect(kept.changes == 1 && kept.state.waiting.isEmpty && kept.state.newest == nil)
  }

  @Test("other rules refill nothing: what was used stays used, what waits waits, what was answered is known")
  func following() throws {
    let id = try request()
    let stage = try Stage(settings(policy: .latest, capacity: 10, perHour: 0))
    for _ in 0..<4 { try stage.publish("tick", at: 0, expires: 600) }
    try stage.publish("waits", .considerate, at: 0, request: id, expires: 600)
    let deadline = stage.channel.nextDeadline
    stage.channel.adopt(try settings(policy: .latest, capacity: 6, perHour: 0), at: moment(0.1))
    #expect(stage.channel.budgetReport(at: moment(0.1)).priority10?.remaining == 2)
    #expect(stage.channel.nextDeadline == deadline)
    #expect(try stage.publish("waits", .considerate, at: 0.2, request: id, expires: 600).isRepetition)
  }
}
