/// The reasons that a server gives with the close codes that ask a client to come back.
public enum CloseCode {
  /// The reason with 1013 for who doesn't keep up with its channels.
  public static let tooSlow = "this connection is too slow for its channels; come back later"

  /// The reason with 1013 for who reads nothing.
  ///
  /// - Parameter silence: for how many seconds.
  public static func nothingRead(silence: Double) -> String { "\(nothingRead)\(Int(silence)) seconds" }

  /// The close code that a server sent.
  ///
  /// libwebsockets 4.1 knows the codes up to 1011 and from 3000 on. It puts 1002 in the place of 1012 and 1013 before anybody
  /// sees the frame, and leaves the reason as it was; from that they are known again.
  ///
  /// - Parameters:
  ///   - code: what the client's library said; nil when the connection broke off.
  ///   - reason: the reason that came with it.
  /// - Returns: 1012 or 1013 for a 1002 with one of their reasons; any other code as it is.
  public static func sent(_ code: UInt16?, reason: String) -> UInt16? {
    guard code == 1002 else { return code }
    if reason.hasPrefix(ServerFrame.goodbyeReason) { return 1012 }
    return reason == tooSlow || reason.hasPrefix(nothingRead) ? 1013 : code
  }

  private static let nothingRead = "nothing was read for "
}
