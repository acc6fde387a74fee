// Why: an activity's deadline moves with nearly every message, mostly back, sometimes forward. An agenda can't take an entry
// out again. If each earlier deadline added one, and each one that fired looked for the next deadline, entries would never
// get fewer: an eight-hour run of 5,000 devices kept a gigabyte of them.

/// When the activities of devices are looked after. Of a device's entries on the agenda one counts, the earliest; the others
/// are passed over when their times come, which is soon.
public struct WakeTimes: Sendable {
  /// Seconds for which an entry is made ahead at most. A device whose deadline is later is looked after for nothing, once
  /// in so many seconds; no entry stays for longer.
  public static let furthest = 60.0

  private var times: [Double]
  private let until: Double

  /// Makes the times of some devices, none of which is looked after yet.
  ///
  /// - Parameter until: when the run is over, in Unix seconds: later deadlines matter to nobody.
  public init(devices: Int, until: Double) {
    times = [Double](repeating: .infinity, count: devices)
    self.until = until
  }

  /// A device has a deadline.
  ///
  /// - Returns: when an entry is due that has to be added; nil when the one that counts comes soon enough, or the run is over
  ///   by then.
  public mutating func plan(_ device: Int, for deadline: Double, at now: Double) -> Double? {
    let at = min(max(deadline, now), now + Self.furthest)
    guard deadline < until, at < times[device] else { return nil }
    times[device] = at
    return at
  }

  /// An entry's time has come.
  ///
  /// - Returns: whether it is the one that counts. Then the device has none, and is to be looked after.
  public mutating func take(_ device: Int, at now: Double) -> Bool {
    guard times[device] <= now else { return false }
    times[device] = .infinity
    return true
  }
}
