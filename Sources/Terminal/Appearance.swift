/// A colour, as its amounts of red, green and blue, and as the nearest of the 16 that a person may have chosen themselves.
public struct TerminalColour: Sendable, Hashable {
  let red: Int
  let green: Int
  let blue: Int
  let basic: Int

  /// Makes a colour.
  ///
  /// - Parameters:
  ///   - rgb: `0xRRGGBB`.
  ///   - basic: 0 to 15, in ANSI's order: black, red, green, yellow, blue, magenta, cyan, white, then the bright ones.
  public init(_ rgb: Int, basic: Int) {
    red = rgb >> 16 & 0xFF
    green = rgb >> 8 & 0xFF
    blue = rgb & 0xFF
    self.basic = basic
  }

  /// Its number on a terminal with some colours.
  func number(of colours: Int) -> Int32 {
    switch colours {
    case (1 << 24)...: Int32(red << 16 | green << 8 | blue)
    case 256...: Int32(cubeNumber)
    case 16...: Int32(basic)
    // The bright black of borders would be black on black.
    default: Int32(basic == 8 ? 7 : basic % 8)
    }
  }

  /// The nearest in xterm's 6×6×6 cube (16 to 231) or its ramp of greys (232 to 255).
  private var cubeNumber: Int {
    if max(red, green, blue) - min(red, green, blue) < 12 {
      let level = (red + green + blue) / 3
      if level < 4 { return 16 }
      if level > 246 { return 231 }
      return 232 + min(23, max(0, (level - 3) / 10))
    }
    func step(_ value: Int) -> Int { value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40 }
    return 16 + 36 * step(red) + 6 * step(green) + step(blue)
  }
}

/// How a piece of text looks.
public struct Appearance: Sendable, Hashable {
  /// The letters' colour; nil is the terminal's own.
  public var foreground: TerminalColour?
  /// The colour behind them; nil is the terminal's own.
  public var background: TerminalColour?
  /// Whether it is bold.
  public var isBold: Bool
  /// Whether it is faint.
  public var isDim: Bool

  /// Makes an appearance.
  public init(
    _ foreground: TerminalColour? = nil, on background: TerminalColour? = nil, isBold: Bool = false,
    isDim: Bool = false
  ) {
    self.foreground = foreground
    self.background = background
    self.isBold = isBold
    self.isDim = isDim
  }
}
