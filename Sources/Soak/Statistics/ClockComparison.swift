/// Compares the clock of a server on another machine with this one's: when something was let out is told by the one, and judged by
/// the other.
public struct ClockComparison: Sendable {
  /// Deliveries that are compared.
  public static let enough = 500
  /// Seconds by which the server's clock may be ahead: nothing arrives before it was let out.
  public static let mostAhead = 0.1
  /// Seconds by which it may be behind: the fastest of all deliveries takes next to nothing.
  public static let mostBehind = 0.5

  private var compared = 0
  private var least = Double.infinity

  /// Begins to compare.
  public init() {}

  /// Takes a delivery in.
  ///
  /// - Parameters:
  ///   - sent: when it was let out, by the server's clock.
  ///   - arrived: when it arrived, by this machine's.
  /// - Returns: what is wrong with the clocks, in words, once.
  public mutating func compare(sent: Double, arrived: Double) -> String? {
    guard compared < Self.enough else { return nil }
    compared += 1
    least = min(least, arrived - sent)
    let isAhead = least < -Self.mostAhead
    guard isAhead || compared == Self.enough && least > Self.mostBehind else { return nil }
    compared = Self.enough
    return
      "the server's clock is \(Decimals.text(abs(least), 3)) s \(isAhead ? "ahead of" : "behind") this machine's\(isAhead ? "" : ", or no delivery was faster"); a soak judges times: set both clocks by NTP"
  }
}
