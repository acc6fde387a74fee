/// The ticks of a soak's process, and how late they are: what is due waits for half a tick on average, and that counts as
/// latency.
///
/// A tick that comes late stands for all those that were to come meanwhile, each late by what was left: a standstill of half
/// a second is 250 late ticks, not one beside 250 punctual ones (coordinated omission).
public struct SoakClock: Sendable {
  /// Seconds between two ticks.
  public static let tick = 0.002
  /// What is later than this, in seconds, is told to the verifier, which excuses what was late with it.
  public static let standstill = 0.01
  /// Seconds of which the swallowed ticks are counted at most: a machine that slept all night is late by this.
  static let longest = 600.0

  /// How late the ticks were, those that were swallowed included.
  public private(set) var lags = LatencyHistogram()
  /// The last moment up to which standstills were told.
  private var told: Double?
  private var lastTick: Double?
  private var newest: Double = 0

  /// Makes a clock that hasn't ticked.
  public init() {}

  /// A tick.
  ///
  /// - Returns: seconds that passed beyond a tick since the last one, or since a standstill was told after it.
  public mutating func tick(at now: Double) -> Double {
    if let lastTick { countLate(max(0, now - lastTick - Self.tick)) }
    lastTick = now
    let late = told.map { max(0, now - $0 - Self.tick) } ?? 0
    told = now
    return late
  }

  /// Seconds that have passed since the last tick, beyond what one takes; nil when that is nothing to speak of. Asked for
  /// before something is done that has its time, so that a standstill is known before what it delayed. It is no tick: what
  /// is due waits for the next one.
  public mutating func standstill(at now: Double) -> Double? {
    guard let told, now - told - Self.tick > Self.standstill else { return nil }
    self.told = now
    return now - told - Self.tick
  }

  /// Something else was late by so many seconds, all through a time of so many seconds.
  public mutating func note(_ late: Double, for seconds: Double) {
    lags.record(late, times: max(1, Int((min(seconds, Self.longest) / Self.tick).rounded())))
    newest = max(newest, late)
  }

  /// The most that it was late since this was last asked for.
  public mutating func takeNewest() -> Double {
    defer { newest = 0 }
    return newest
  }

  private mutating func countLate(_ late: Double) {
    newest = max(newest, late)
    var rest = min(late, Self.longest)
    repeat {
      lags.record(rest)
      rest -= Self.tick
    } while rest > 0
  }
}
