/// How many columns a text takes on a terminal.
///
/// A grapheme cluster takes 0 columns (combining marks, joiners, direction marks), 2 (East Asian wide characters, emoji,
/// flags, keycaps) or 1. Source of the wide ranges: Unicode's EastAsianWidth.txt, classes W and F, and
/// emoji-data.txt, Emoji_Presentation.
public enum DisplayWidth {
  /// The columns of a text.
  public static func of(_ text: some StringProtocol) -> Int { text.reduce(0) { $0 + of($1) } }

  /// The columns of one character.
  public static func of(_ character: Character) -> Int {
    var width = 0
    for scalar in character.unicodeScalars {
      // Variation selector 16 asks for the emoji form of a character that is text by default.
      if scalar.value == 0xFE0F { return 2 }
      width = max(width, of(scalar))
    }
    // Two regional indicators make one flag.
    if let first = character.unicodeScalars.first, (0x1F1E6...0x1F1FF).contains(first.value) { return 2 }
    return width
  }

  private static func of(_ scalar: Unicode.Scalar) -> Int {
    let properties = scalar.properties
    switch properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format, .control, .surrogate: return 0
    default: break
    }
    if properties.isEmojiPresentation { return 2 }
    return wide.contains { $0.contains(scalar.value) } ? 2 : 1
  }

  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF,
    0xA000...0xA4CF,
    0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60,
    0xFFE0...0xFFE6, 0x16FE0...0x16FF1, 0x17000...0x18CFF, 0x1B000...0x1B2FF, 0x1F200...0x1F2FF,
    0x20000...0x3FFFD,
  ]

  /// The text cut to some columns, with an ellipsis where something was cut off.
  public static func fitted(_ text: String, to columns: Int) -> String {
    guard of(text) > columns else { return text }
    guard columns > 0 else { return "" }
    var taken = ""
    var width = 0
    for character in text {
      let next = of(character)
      if width + next > columns - 1 { break }
      taken.append(character)
      width += next
    }
    return taken + "…"
  }

  /// The text cut or padded to exactly some columns.
  public static func exactly(_ text: String, _ columns: Int) -> String {
    let fitted = fitted(text, to: columns)
    return fitted + String(repeating: " ", count: max(0, columns - of(fitted)))
  }
}
