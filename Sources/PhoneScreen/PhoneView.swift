import Foundation

/// What the person has done with the phone, and what it knows of its connection: everything on the screen that no
/// activity holds.
public struct PhoneView: Sendable {
  /// The connection to the server.
  public enum Connection: Sendable, Hashable {
    /// Not made yet.
    case connecting
    /// The subscriptions stand.
    case online
    /// The person has switched the network off.
    case off
    /// Lost, and being made again: why.
    case lost(String)
  }

  /// The chosen card's name; nil chooses the first one.
  public var selected: String?
  /// Whether the island is held open.
  public var isExpanded = false
  /// Whether the phone is locked: sensitive values are hidden.
  public var isLocked = false
  /// Whether the always-on display shows: dimmed, less colour.
  public var isAlwaysOn = false
  /// Whether the phone lies on its side on a charger: one activity over the full screen.
  public var isStandBy = false
  /// Whether the small family shows: a watch's Smart Stack, or CarPlay, which has no buttons.
  public var isSmall = false
  /// Whether the keys are explained.
  public var isHelpShown = false
  /// The connection.
  public var connection = Connection.connecting
  /// Messages that were missed, by the activity's name.
  public var missed: [String: Int] = [:]
  /// Why activities didn't start, by the channel's name.
  public var refusals: [String: String] = [:]
  /// Push tokens by the activity's name: what a sender updates it by.
  public var pushTokens: [String: String] = [:]
  /// Push-to-start tokens by their app and its type of attributes.
  public var startTokens: [String: String] = [:]
  /// The newest thing to tell.
  public var toast: String?
  /// Where the clock hangs.
  public var timeZone = TimeZone.gmt

  /// A phone that was just switched on.
  public init() {}

  /// `21:04:09`, or `21:04`.
  func clock(_ date: Date, seconds: Bool = true) -> String {
    let local = Int(date.timeIntervalSince1970.rounded(.down)) + timeZone.secondsFromGMT(for: date)
    let day = ((local % 86_400) + 86_400) % 86_400
    func two(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
    let minutes = "\(two(day / 3_600)):\(two(day % 3_600 / 60))"
    return seconds ? "\(minutes):\(two(day % 60))" : minutes
  }
}
