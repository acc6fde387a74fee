import BroadcastChannels

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

  /// The seconds to wait when the server has said how long: that, and a jitter of the first ceiling, because clients that
  /// were told the same come from different places.
  public mutating func next(
    asked hint: Double?, using generator: inout some RandomNumberGenerator
  ) -> Double {
    guard let hint else { return next(using: &generator) }
    failures = 0
    let wanted = min(max(0, hint), Limits.longestRetryInSeconds)
    return wanted + Double.random(in: 0...base, using: &generator)
  }

  /// Starts from the beginning after a success.
  public mutating func reset() { failures = 0 }
}
