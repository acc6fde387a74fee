import Foundation
import Testing

@testable import BroadcastChannels

/// The fields of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy: "name";q=quota;w=window` and
/// `RateLimit: "name";r=remaining;t=reset`, all of them non-negative integers (structured fields, RFC 9651).
@Suite struct RateLimitFieldTests {
  @Test func `policy and remainder name both limits`() throws {
    let stage = try Stage(settings(capacity: 60, perHour: 240, rate: PublishRate(perSecond: 20, burst: 40)))
    try stage.publish("a", at: 0)
    let report = stage.channel.budgetReport(at: moment(0))
    // 60 tokens at 240 an hour: 900 s; the next in 15 s. 40 at 20 a second: 2 s; the next in 0.05 s, rounded up.
    #expect(report.policyField == #""priority-10";q=60;w=900, "publish-rate";q=40;w=2"#)
    #expect(report.remainingField == #""priority-10";r=59;t=15, "publish-rate";r=39;t=1"#)
  }

  @Test func `a full quota names no reset`() throws {
    let report = try Stage(settings(capacity: 60, perHour: 240)).channel.budgetReport(at: moment(0))
    #expect(report.policyField == #""priority-10";q=60;w=900"#)
    #expect(report.remainingField == #""priority-10";r=60"#)
  }

  @Test func `a quota that never comes back names no window and no reset`() throws {
    let stage = try Stage(settings(capacity: 1, perHour: 0))
    try stage.publish("a", at: 0)
    let report = stage.channel.budgetReport(at: moment(5))
    #expect(report.policyField == #""priority-10";q=1"#)
    #expect(report.remainingField == #""priority-10";r=0"#)
  }

  @Test func `without limits there is no field`() throws {
    let report = try Stage(settings()).channel.budgetReport(at: moment(0))
    #expect(report.policyField == nil && report.remainingField == nil)
    #expect(report.json == #"{"priority-10":null,"publish-rate":null}"#)
  }

  @Test func `the budget object has limit, remaining, window and reset`() throws {
    let stage = try Stage(settings(capacity: 2, perHour: 7_200))
    try stage.publish("a", at: 0)
    let json = stage.channel.budgetReport(at: moment(0.25)).json
    // Two a second: after 0.25 s half a token is back, the whole one in another 0.25 s.
    #expect(
      json == #"{"priority-10":{"limit":2,"remaining":1,"window":1,"reset":0.250},"publish-rate":null}"#)
  }
}
