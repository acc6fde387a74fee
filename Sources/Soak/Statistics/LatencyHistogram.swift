/// A histogram of latencies after Gil Tene's HdrHistogram: buckets that double, each in 128 equal steps, so that every value
/// is kept to within 0.8 percent and recording costs a shift and an addition.
///
/// Coordinated omission is corrected where the latency is taken, not here: it counts from when a message was due, so a
/// publisher that is held up by a slow server doesn't hide the time in which it could not send.
public struct LatencyHistogram: Sendable, Codable, Hashable {
  private static let stepBits = 7
  private static let steps = 1 << stepBits
  /// The longest latency that is told apart, in microseconds: more than an hour.
  public static let longest = 1 << 32

  private var counts: [Int]
  /// How many were recorded.
  public private(set) var count = 0
  /// The largest that was recorded, in seconds.
  public private(set) var maximum: Double = 0
  private var sum: Double = 0

  /// Makes an empty one.
  public init() { counts = [Int](repeating: 0, count: Self.index(Self.longest) + 1) }

  /// The mean, in seconds; 0 without values.
  public var mean: Double { count == 0 ? 0 : sum / Double(count) }

  /// Takes a latency in seconds, so many times; below 0 counts as 0.
  public mutating func record(_ seconds: Double, times: Int = 1) {
    let micros = min(max(0, Int((min(seconds, 1e6) * 1e6).rounded())), Self.longest)
    counts[Self.index(micros)] += times
    count += times
    sum += max(0, seconds) * Double(times)
    maximum = max(maximum, seconds)
  }

  /// Adds what another one has.
  public mutating func add(_ other: LatencyHistogram) {
    for index in counts.indices { counts[index] += other.counts[index] }
    count += other.count
    sum += other.sum
    maximum = max(maximum, other.maximum)
  }

  /// The latency in seconds that so many percent don't exceed; 0 without values.
  public func percentile(_ percent: Double) -> Double {
    guard count > 0 else { return 0 }
    let rank = max(1, Int((Double(count) * percent / 100).rounded(.up)))
    var seen = 0
    for (index, number) in counts.enumerated() {
      seen += number
      if seen >= rank { return min(Double(Self.highest(index)) / 1e6, maximum) }
    }
    return maximum
  }

  /// Below `2 × steps` every microsecond has its own bucket; above, each doubling has `steps` of them.
  private static func index(_ micros: Int) -> Int {
    guard micros >= 2 * steps else { return micros }
    let shift = Int.bitWidth - micros.leadingZeroBitCount - stepBits - 1
    return (shift + 1) * steps + (micros >> shift) - steps
  }

  /// The largest value of a bucket.
  private static func highest(_ index: Int) -> Int {
    guard index >= 2 * steps else { return index }
    let shift = index / steps - 1
    return (((index % steps) + steps + 1) << shift) - 1
  }

  /// The percentiles that a report has.
  public var summary: LatencySummary {
    LatencySummary(
      count: count, mean: mean, p50: percentile(50), p90: percentile(90), p99: percentile(99),
      p999: percentile(99.9), max: maximum)
  }
}

/// Percentiles of latencies, in seconds.
public struct LatencySummary: Sendable, Codable, Hashable {
  /// How many there were.
  public var count: Int
  /// The mean.
  public var mean: Double
  /// Half of them were not longer.
  public var p50: Double
  /// Nine in ten were not longer.
  public var p90: Double
  /// 99 in a hundred were not longer.
  public var p99: Double
  /// 999 in a thousand were not longer.
  public var p999: Double
  /// The longest.
  public var max: Double
}
