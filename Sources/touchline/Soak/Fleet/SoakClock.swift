import Soak

/// The ticks of a soak's process, and how late they are: what is due waits for half a tick on average, and that counts as
/// latency.
struct SoakClock {
  /// Seconds between two ticks.
  static let tick = 0.002
  /// What is later than this is told to the verifier, which excuses what was late with it.
  static let standstill = 0.01

  private(set) var lags = LatencyHistogram()
  private var last: Double?
  private var newest: Double = 0

  /// A tick.
  ///
  /// - Returns: seconds by which it is late.
  mutating func tick(at now: Double) -> Double {
    let late = last.map { max(0, now - $0 - Self.tick) } ?? 0
    last = now
    note(late)
    return late
  }

  /// Seconds that have passed since the last tick, beyond what one takes; nil when that is nothing to speak of. Asked for
  /// before something is done that has its time, so that a standstill is known before what it delayed.
  mutating func standstill(at now: Double) -> Double? {
    guard let last, now - last - Self.tick > Self.standstill else { return nil }
    return tick(at: now)
  }

  /// Something else was late.
  mutating func note(_ late: Double) {
    lags.record(late)
    newest = max(newest, late)
  }

  /// The latest tick since this was last asked for.
  mutating func takeNewest() -> Double {
    defer { newest = 0 }
    return newest
  }
}
