import Foundation
import Testing

@testable import BroadcastChannels

/// The budget of priority 10. Source: design.md, "Budgets and delivery windows".
@Suite struct BudgetTests {
  /// Two at once, one back every ten seconds, spent at second 0.
  private func spent(_ over: FrequencyBudget.OverBudget) throws -> Stage {
    let stage = try Stage(settings(capacity: 2, perHour: 360, over: over))
    for name in ["a", "b"] { #expect(try stage.publish(name, at: 0).outcome == .delivered) }
    return stage
  }

  @Test func `over budget, demote delivers like priority 5`() throws {
    let stage = try spent(.demote)
    #expect(try stage.publish("c", at: 0, timestamp: 1).outcome == .demoted)
    #expect(try stage.publish("d", at: 0.5, timestamp: 1).outcome == .demoted)
    stage.run(to: 100)
    #expect(stage.log == ["a #1 at 0", "b #2 at 0", "c superseded", "d #3 at 1"])
    #expect(stage.channel.counts.demoted == 2 && stage.channel.counts.accepted == 4)
  }

  @Test func `a demoted message that something newer waits for is superseded`() throws {
    let stage = try spent(.demote)
    try stage.publish("newer", .considerate, at: 0, timestamp: 9)
    #expect(try stage.publish("late", at: 0.1, timestamp: 8).outcome == .superseded)
  }

  @Test func `a demoted alert is still delivered`() throws {
    let stage = try spent(.demote)
    try stage.publish("alert", at: 0, alert: true)
    try stage.publish("tick", .considerate, at: 0.5, timestamp: 1)
    stage.run(to: 100)
    #expect(stage.log.suffix(2) == ["alert #3 at 1", "tick #4 at 1"])
  }

  @Test func `over budget, drop accepts and counts without delivering`() throws {
    let stage = try spent(.drop)
    #expect(try stage.publish("c", at: 0).outcome == .dropped)
    stage.run(to: 100)
    #expect(stage.log == ["a #1 at 0", "b #2 at 0"])
    #expect(stage.channel.counts.dropped == 1 && stage.channel.counts.accepted == 3)
    #expect(stage.channel.counts.delivered == 2)
  }

  @Test func `over budget, reject says when and changes nothing`() throws {
    let stage = try spent(.reject)
    try stage.publish("tick", .considerate, at: 3.5)
    let before = stage.channel
    let refusal = try refusal { try stage.publish("c", at: 4, timestamp: 9) }
    #expect(refusal.reason == .tooManyRequests && refusal.reason.status == 429)
    // The next token comes at 10 s.
    #expect(abs(try #require(refusal.retryAfter) - 6) < 0.001)
    #expect(stage.channel.position == before.position)
    #expect(stage.channel.nextDeadline == before.nextDeadline)
    #expect(stage.channel.budgetReport(at: moment(4)) == before.budgetReport(at: moment(4)))
    #expect(stage.channel.counts.accepted == before.counts.accepted)
    #expect(stage.channel.counts.rejected == 1)
    stage.run(to: 4.5)
    #expect(stage.log.last == "tick #3 at 4.500")
  }

  @Test func `a rejected message succeeds after retry-after`() throws {
    let stage = try spent(.reject)
    let wait = try #require(try refusal { try stage.publish("c", at: 0) }.retryAfter)
    #expect(try stage.publish("c", at: wait).outcome == .delivered)
    #expect(throws: Refusal.self) { try stage.publish("d", at: wait) }
  }

  @Test func `a rejected message takes nothing from the publish rate`() throws {
    let rate = PublishRate(perSecond: 0.001, burst: 3)
    let stage = try Stage(settings(capacity: 1, over: .reject, rate: rate))
    try stage.publish("a", at: 0)
    for _ in 0..<5 { #expect(throws: Refusal.self) { try stage.publish("b", at: 0) } }
    // Two of the three requests of the burst are left.
    for name in ["c", "d"] { try stage.publish(name, .considerate, at: 0) }
    #expect(throws: Refusal.self) { try stage.publish("e", .considerate, at: 0) }
  }

  @Test(arguments: [Priority.considerate, .passive])
  func `the lower priorities cost no budget and need none`(priority: Priority) throws {
    let stage = try spent(.reject)
    for second in 1...9 {
      #expect(throws: Never.self) { try stage.publish("t\(second)", priority, at: Double(second)) }
    }
    #expect(stage.channel.budgetReport(at: moment(9)).priority10?.remaining == 0)
    // 9 s of refill are 0.9 tokens; at 10 s there is one.
    #expect(stage.channel.budgetReport(at: moment(10)).priority10?.remaining == 1)
  }

  @Test func `without a capacity there is no limit`() throws {
    let stage = try Stage(settings(capacity: nil))
    for index in 0..<500 { #expect(try stage.publish("m\(index)", at: 0).outcome == .delivered) }
    #expect(stage.channel.budgetReport(at: moment(0)) == BudgetReport(priority10: nil, publishRate: nil))
  }

  @Test func `a capacity of 0 lets nothing through at priority 10`() throws {
    let stage = try Stage(settings(capacity: 0, perHour: 3_600, over: .reject))
    let refusal = try refusal { try stage.publish("a", at: 100) }
    // No wait helps, so none is named.
    #expect(refusal.retryAfter == nil)
  }

  /// "0 gets the larger budget", and frequent updates raise it.
  @Test func `the default budget grows with policy 0 and with frequent updates`() {
    func capacity(_ policy: StoragePolicy, _ frequent: Bool) -> Int {
      FrequencyBudget.standard(storagePolicy: policy, frequentUpdates: frequent).capacity ?? .max
    }
    for policy in StoragePolicy.allCases { #expect(capacity(policy, true) > capacity(policy, false)) }
    for frequent in [true, false] { #expect(capacity(.none, frequent) > capacity(.latest, frequent)) }
  }
}
