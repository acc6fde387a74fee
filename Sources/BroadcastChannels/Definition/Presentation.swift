/// The places where a system shows an activity. All of them are mandatory for an app (Apple).
public enum Presentation: String, Sendable, CaseIterable {
  /// The Lock Screen's card, over the full width.
  case lockScreen = "lock-screen"
  /// The banner of an alert on a device without an island.
  case banner
  /// The expanded island, left of the camera.
  case expandedLeading = "expanded-leading"
  /// The expanded island, right of the camera.
  case expandedTrailing = "expanded-trailing"
  /// The expanded island, below the camera.
  case expandedCenter = "expanded-center"
  /// The expanded island's lower part.
  case expandedBottom = "expanded-bottom"
  /// The compact island, left of the camera.
  case compactLeading = "compact-leading"
  /// The compact island, right of the camera: narrow, and it must not change its width.
  case compactTrailing = "compact-trailing"
  /// When several activities share the island.
  case minimal
  /// Apple Watch's Smart Stack, and CarPlay.
  case small
  /// StandBy, over the full screen.
  case standby

  /// Columns of text that fit; nil where lines may be as long as the screen is wide.
  ///
  /// Touchline's measure of Apple's points: the compact sides are about 60 points wide, room for some eight narrow
  /// characters; the minimal one holds "one glyph or number".
  public var columns: Int? {
    switch self {
    case .compactLeading, .compactTrailing: 10
    case .minimal: 5
    case .expandedLeading, .expandedTrailing: 16
    case .small: 24
    case .expandedCenter: 30
    case .lockScreen, .banner, .expandedBottom, .standby: nil
    }
  }

  /// Lines that fit.
  public var lines: Int {
    switch self {
    case .compactLeading, .compactTrailing, .minimal, .banner: 1
    case .expandedLeading, .expandedTrailing, .expandedCenter, .small: 2
    case .expandedBottom: 3
    case .lockScreen, .standby: 6
    }
  }
}

/// Something that a person can do on a card. An action sets a value, it doesn't toggle one, so that pressing twice is
/// pressing once.
public struct ActivityAction: Sendable, Hashable {
  /// Its name in intents.
  public let name: String
  /// What the button says.
  public let title: String
  /// The property of the content state that confirms it.
  public let property: String
  /// The value that the property then has, as JSON.
  public let value: JSONText

  /// Makes an action.
  public init(name: String, title: String, property: String, value: JSONText) {
    self.name = name
    self.title = title
    self.property = property
    self.value = value
  }
}
