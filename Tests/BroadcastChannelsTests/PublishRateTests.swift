import Foundation
import Testing

@testable import BroadcastChannels

/// The publish-rate limit of every priority. Source: design.md, "Budgets and delivery windows".
@Suite struct PublishRateTests {
  @Test(arguments: Priority.allCases)
  func `beyond the burst a publish is refused at every priority`(priority: Priority) throws {
    let stage = try Stage(settings(rate: PublishRate(perSecond: 2, burst: 3)))
    for index in 0..<3 { try stage.publish("m\(index)", priority, at: 0) }
    let refusal = try refusal { try stage.publish("m3", priority, at: 0.1) }
    #expect(refusal.reason == .tooManyRequests)
    // Two a second: the next token is there at 0.5 s. Whole milliseconds, and never too short.
    #expect((0.4...0.4011).contains(try #require(refusal.retryAfter)))
    #expect(throws: Never.self) { try stage.publish("m3", priority, at: 0.5) }
    #expect(stage.channel.counts.accepted == 4 && stage.channel.counts.rejected == 1)
  }

  @Test func `a refused publish takes nothing from the budget`() throws {
    let stage = try Stage(settings(capacity: 5, rate: PublishRate(perSecond: 1, burst: 1)))
    try stage.publish("a", at: 0)
    #expect(throws: Refusal.self) { try stage.publish("b", at: 0) }
    #expect(stage.channel.budgetReport(at: moment(0)).priority10?.remaining == 4)
  }

  /// A missing burst takes the rate, at least 1: (rate, what fits at once).
  @Test(arguments: [(5.0, 5), (0.1, 1), (2.5, 3)])
  func `the burst is the rate when none is given`(perSecond: Double, burst: Int) throws {
    let stage = try Stage(settings(rate: PublishRate(perSecond: perSecond, burst: nil)))
    for index in 0..<burst { try stage.publish("m\(index)", at: 0) }
    #expect(throws: Refusal.self) { try stage.publish("more", at: 0) }
  }

  @Test func `the defaults are 20 a second with a burst of 40`() {
    #expect(PublishRate() == PublishRate(perSecond: 20, burst: 40))
    #expect(DeliveryWindows() == DeliveryWindows(considerate: 1, passive: 5))
  }
}
