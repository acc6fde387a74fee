import Foundation
import Testing

@testable import BroadcastChannels

/// Source: design.md, "Budgets and delivery windows".
@Suite struct TokenBucketTests {
  /// A bucket that a test may change inside `#expect`; times are seconds.
  private final class Jar {
    var bucket: TokenBucket

    init(_ capacity: Double, perSecond: Double) {
      bucket = TokenBucket(capacity: capacity, refillPerSecond: perSecond, now: moment(0))
    }

    func take(at seconds: Double) -> Bool { bucket.take(at: moment(seconds)) }
    func remaining(at seconds: Double) -> Int { bucket.remaining(at: moment(seconds)) }
    func wait(at seconds: Double) -> Double? { bucket.secondsToNext(at: moment(seconds)) }
  }

  /// Three tokens, one back every ten seconds, all taken at second 0.
  private func emptied() -> Jar {
    let jar = Jar(3, perSecond: 0.1)
    for _ in 0..<3 { #expect(jar.take(at: 0)) }
    return jar
  }

  @Test func `a full bucket gives its capacity at once and no more`() {
    let jar = emptied()
    #expect(!jar.take(at: 0))
    #expect(jar.remaining(at: 0) == 0)
  }

  @Test(arguments: [(0, 0), (9.9, 0), (10, 1), (19.9, 1), (20, 2), (30, 3), (1_000, 3)])
  func `tokens come back evenly and never above the capacity`(seconds: Double, tokens: Int) {
    #expect(emptied().remaining(at: seconds) == tokens)
  }

  @Test func `a refused take takes nothing`() {
    let jar = emptied()
    for tenth in 0..<99 { #expect(!jar.take(at: Double(tenth) / 10)) }
    #expect(jar.take(at: 10))
  }

  @Test(arguments: [(0, 10), (4, 6), (10, 10), (29, 1), (30, nil)] as [(Double, Double?)])
  func `the wait is that for the next whole token`(seconds: Double, wait: Double?) {
    let told = emptied().wait(at: seconds)
    #expect((told == nil) == (wait == nil))
    if let told, let wait { #expect(abs(told - wait) < 0.001) }
  }

  @Test(arguments: [1.0 / 3, 1.0 / 7, 240.0 / 3_600, 11])
  func `after the stated wait a token is there`(refill: Double) throws {
    let jar = Jar(2, perSecond: refill)
    var now = 0.123
    // A Date resolves an eighth of a microsecond in this decade, so the stated wait is met within one.
    for _ in 0..<2_000 {
      if jar.take(at: now) { continue }
      now += try #require(jar.wait(at: now)) + 1e-6
      #expect(jar.take(at: now))
    }
  }

  @Test func `many small refills neither lose nor invent a token`() {
    let jar = Jar(5, perSecond: 1.0 / 3)
    var taken = 0
    // 3,000 s at one token in 3 s: 1,000 come back, and 5 were there.
    for step in 0...30_000 where jar.take(at: Double(step) / 10) { taken += 1 }
    #expect(taken == 1_005)
  }

  @Test func `without a refill nothing comes back`() {
    let jar = Jar(1, perSecond: 0)
    #expect(jar.bucket.secondsToFill == nil)
    #expect(jar.take(at: 0) && !jar.take(at: 1e9))
    #expect(jar.wait(at: 1e9) == nil)
  }

  @Test func `an empty bucket fills in capacity over refill`() {
    #expect(emptied().bucket.secondsToFill == 30)
  }

  @Test func `a clock that steps back takes nothing away and gives nothing`() {
    let jar = emptied()
    #expect(!jar.take(at: -100))
    #expect(jar.remaining(at: -100) == 0)
    #expect(!jar.take(at: -91) && jar.take(at: -90))
  }
}
