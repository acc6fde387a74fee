import Foundation
import Soak
import Testing

@Suite("The soak's statistics")
struct StatisticsTests {
  @Test("percentiles are ranks: of 1 to 100 ms, p50 is the 50th value and p99 the 99th, to within a bucket")
  func percentiles() {
    var histogram = LatencyHistogram()
    for milliseconds in 1...100 { histogram.record(Double(milliseconds) / 1_000) }
    #expect(histogram.count == 100)
    #expect(abs(histogram.mean - 0.0505) < 1e-9)
    for (percent, value) in [(1.0, 0.001), (50, 0.050), (90, 0.090), (99, 0.099), (100, 0.100)] {
      let found = histogram.percentile(percent)
      #expect(found >= value && found <= value * 1.008, "p\(percent) is \(found)")
    }
    #expect(histogram.maximum == 0.1)
  }

  @Test("a bucket never understates, and overstates by less than 0.8 percent", arguments: 0..<32)
  func precision(_ power: Int) {
    for micros in [1 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1] {
      var histogram = LatencyHistogram()
      histogram.record(Double(micros) / 1e6)
      histogram.record(10_000)
      let found = histogram.percentile(50) * 1e6
      #expect(found > Double(micros) - 0.5 && found <= Double(micros) * 1.008 + 0.5)
    }
  }

  @Test("two histograms add up to that of all values")
  func sum() {
    var (left, right, all) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
    for value in 1...1_000 {
      let seconds = Double(value * value) / 1e6
      if value % 3 == 0 { left.record(seconds) } else { right.record(seconds) }
      all.record(seconds)
    }
    left.add(right)
    #expect(left.summary.p99 == all.summary.p99)
    #expect(left.count == 1_000 && left.maximum == 1)
  }

  @Test("an empty histogram says 0, a negative latency counts as 0")
  func edges() {
    var histogram = LatencyHistogram()
    #expect(histogram.percentile(99) == 0 && histogram.mean == 0)
    histogram.record(-1)
    #expect(histogram.percentile(99) == 0 && histogram.count == 1)
  }

  @Test("a server's clock that is ahead is found by one delivery, one that is behind by the fastest of many")
  func clocks() {
    var clocks = ClockComparison()
    #expect(clocks.compare(sent: 10.09, arrived: 10) == nil)
    #expect(
      clocks.compare(sent: 12.25, arrived: 12)
        == "the server's clock is 0.250 s ahead of this machine's; a soak judges times: set both clocks by NTP"
    )
    #expect(clocks.compare(sent: 14, arrived: 12) == nil)
    for (fastest, isFound) in [(0.4, false), (0.6, true)] {
      var clocks = ClockComparison()
      let found = (1...600).map { clocks.compare(sent: 0, arrived: $0 == 100 ? fastest : 2) }
      #expect(found.compactMap(\.self).count == (isFound ? 1 : 0) && (found[499] != nil) == isFound)
    }
  }

  @Test("memory that grows by 10 bytes a second grows by 36,000 an hour")
  func slope() throws {
    let samples = (0...300).map { second in
      var sample = SoakSample()
      sample.at = Double(second)
      // The first half, in which the subscribers arrive, doesn't count.
      sample.serverResident = second < 150 ? 0 : 1_000 + 10 * second
      return sample
    }
    let slope = try #require(samples.residentSlope)
    #expect(abs(slope.perHour - 36_000) < 1e-6 && slope.seconds == 150)
    #expect(Array(samples.prefix(100)).residentSlope == nil)
  }

  @Test("what was before the last restart of the server, and the minute after it, says nothing of its growth")
  func slopeAfterRestart() throws {
    let samples = (0...400).map { second in
      var sample = SoakSample()
      sample.at = Double(second)
      sample.serverResident = second < 300 ? 1_000_000 - second : 1_000 + second
      if second == 240 { sample.events = [SoakSample.killed] }
      return sample
    }
    let slope = try #require(samples.residentSlope)
    #expect(abs(slope.perHour - 3_600) < 1e-6 && slope.seconds == 100)
  }

  @Test(
    "a process of the soak that uses more than 85 % of a core for ten seconds, or a clock that is late, is said to be the bottleneck"
  )
  func bottleneck() {
    func cost(share: Double, mean: Double = 0.1, lag: Double, latency: Double) -> SoakCost {
      SoakCost(
        processes: [
          ProcessCost(name: "judge", cpuSeconds: 1, share: 0.2, busiestShare: 0, maxResidentBytes: 100),
          ProcessCost(
            name: "part 0", cpuSeconds: 3, share: mean, busiestShare: share, maxResidentBytes: 200),
        ], deliveries: 2_000_000, lagP99: lag, lagMax: lag, latencyP99: latency)
    }
    let good = cost(share: 0.85, lag: 0.05, latency: 0.01)
    #expect(good.bottleneck == nil)
    #expect(good.cpuSeconds == 4 && good.cpuMicrosPerDelivery == 2 && good.maxResidentBytes == 300)
    #expect(
      cost(share: 0.9, lag: 0, latency: 1).bottleneck?.contains(
        "\"part 0\" used 90 % of a core in its busiest 10 s") == true)
    // A run that is shorter than ten seconds has no busiest ones.
    #expect(cost(share: 0, mean: 0.9, lag: 0, latency: 1).bottleneck?.contains("used 90 %") == true)
    #expect(cost(share: 0.1, lag: 0.06, latency: 0.1).bottleneck?.contains("late by 60.0 ms") == true)
    // A server that is slower still is the bottleneck itself.
    #expect(cost(share: 0.1, lag: 0.06, latency: 0.3).bottleneck == nil)
    // It may be late when it publishes, and again when it receives.
    #expect(cost(share: 0.1, lag: 7.7, latency: 16.5).bottleneck?.contains("late by 7700 ms") == true)
  }

  @Test(
    "numbers for people",
    arguments: [
      (Decimals.text(1.005, 1), "1.0"), (Decimals.text(-0.06, 1), "-0.1"),
      (Decimals.text(12.345, 2), "12.35"),
      (Decimals.text(0.07, 2), "0.07"), (Decimals.text(.nan, 1), "–"),
      (Decimals.count(1_234_567), "1\u{202F}234\u{202F}567"),
      (Decimals.count(-999), "-999"), (Decimals.milliseconds(0.001_234), "1.23 ms"),
      (Decimals.milliseconds(0.25), "250 ms"),
    ])
  func decimals(_ found: String, _ expected: String) { #expect(found == expected) }
}
