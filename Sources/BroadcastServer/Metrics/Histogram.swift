/// Values counted in buckets, as Prometheus has them.
struct Histogram {
  /// The upper bounds of the buckets, in their order; the last bucket has none.
  let bounds: [Double]
  /// How many values each bucket has, by itself.
  private(set) var counts: [Int]
  private(set) var sum: Double = 0

  init(_ bounds: [Double]) {
    self.bounds = bounds
    counts = [Int](repeating: 0, count: bounds.count + 1)
  }

  var count: Int { counts.reduce(0, +) }

  mutating func observe(_ value: Double) {
    counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
    sum += value
  }

  /// Seconds of what takes microseconds to a second.
  static let quick = Histogram([
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  ])
  /// Seconds of a delivery window, up to its longest.
  static let windows = Histogram([0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60])
  /// Numbers of subscribers.
  static let sizes = Histogram([0, 1, 10, 100, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000])
}
