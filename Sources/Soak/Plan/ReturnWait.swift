import BroadcastChannels

/// How long a client of the soak waits before it connects again: what the server asked for when it said goodbye, otherwise
/// longer with each failure.
public struct ReturnWait: Sendable {
  /// Seconds that a server which ends may ask for: its waves, and the time over which the clients come back.
  public static let mostAsked =
    Limits.shutdownWaveSeconds + Limits.soonestReturnSeconds + Limits.returnSeconds

  /// Seconds that are waited at most without being asked.
  private let longest: Double
  private var asked: Double?
  private var failures = 0

  /// Seconds of the first wait without being asked: between half of it and all of it.
  private static let first = 0.2
  /// Seconds that are added at most to what was asked for, as the client library does: those that were told the same come
  /// apart.
  private static let jitter = 0.25

  /// Makes one for a client that never waits for longer than so many seconds by itself.
  public init(longest: Double) { self.longest = longest }

  /// The server said goodbye, and how many seconds to stay away.
  public mutating func isAsked(_ seconds: Double) { asked = seconds }

  /// The client tries to connect: whatever it was asked before is done.
  public mutating func connects() { asked = nil }

  /// The connection came about.
  public mutating func succeeded() { failures = 0 }

  /// Whether the server asked for more than any server that ends should.
  public var isAskedTooMuch: Bool { asked.map { $0 > Self.mostAsked } ?? false }

  /// The seconds to wait, now that the connection is gone or didn't come about.
  public mutating func next(using random: inout SeededGenerator) -> Double {
    if let asked {
      self.asked = nil
      return min(max(0, asked), Limits.longestRetryInSeconds) + random.between(0, Self.jitter)
    }
    let wait = min(longest, Self.first * Double(1 << min(failures, 5)))
    failures += 1
    return random.between(wait / 2, wait)
  }
}
