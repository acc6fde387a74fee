import PhoneScreen
import Terminal

/// The colours of the phone. Each style can be told from the others without them: by bold, by faint, by words.
enum PhoneTheme {
  private static let white = TerminalColour(0xF4F4F8, basic: 15)
  private static let black = TerminalColour(0x0A0A0C, basic: 0)
  private static let grey = TerminalColour(0x8A8A94, basic: 8)
  private static let green = TerminalColour(0x3CD070, basic: 2)
  private static let amber = TerminalColour(0xE0A030, basic: 3)
  private static let red = TerminalColour(0xFF5F57, basic: 1)
  private static let blue = TerminalColour(0x5AA9FF, basic: 4)
  private static let violet = TerminalColour(0xB48CFF, basic: 5)

  /// The look of a style.
  static func appearance(_ style: Style) -> Appearance {
    switch style {
    case .normal: Appearance()
    case .dim: Appearance(isDim: true)
    case .bold: Appearance(isBold: true)
    case .live: Appearance(green, isBold: true)
    case .stale: Appearance(amber, isDim: true)
    case .ended: Appearance(violet)
    case .alert: Appearance(amber, isBold: true)
    case .island: Appearance(white, on: black, isBold: true)
    case .islandStale: Appearance(amber, on: black)
    case .islandAlert: Appearance(amber, on: black, isBold: true)
    case .islandKey: Appearance(blue, on: black, isBold: true)
    case .islandBorder: Appearance(grey, on: black)
    case .border: Appearance(grey)
    case .selectedBorder: Appearance(blue)
    case .key: Appearance(blue, isBold: true)
    case .status: Appearance(isDim: true)
    case .failure: Appearance(red, isBold: true)
    }
  }
}
