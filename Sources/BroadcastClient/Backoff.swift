/// How long to wait before trying again: exponential with full jitter, so that many clients that lost the same server
/// do not come back together.
///
/// The wait is drawn evenly between 0 and the ceiling, and the ceiling doubles with each failure.
public struct Backoff: Sendable {
  /// Seconds of the first ceiling.
  public let base: Double
  /// Seconds of the last ceiling.
  public let cap: Double
  /// Failures in a row so far.
  public private(set) var failures = 0

  /// Makes a back-off.
  public init(base: Double = 0.25, cap: Double = 10) {
    self.base = base
    self.cap = cap
  }

  /// The seconds to wait after one more failure.
  public mutating func next(using generator: inout some RandomNumberGenerator) -> Double {
    let ceiling = min(cap, base * Double(1 << min(failures, 20)))
    failures += 1
    return Double.random(in: 0...ceiling, using: &generator)
  }

  /// Starts from the beginning after a success.
  public mutating func reset() { failures = 0 }
}
