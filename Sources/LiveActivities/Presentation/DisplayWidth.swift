/// How many columns a text takes on a terminal.
///
/// Terminals (tmux and xterm among them) give each scalar its `wcwidth`: 0 for combining marks, joiners and direction
/// marks, 2 for East Asian wide characters and emoji, 1 otherwise; a character takes the sum. Emoji sequences are the
/// exception: flags, keycaps, families and skin tones take 2. Source of the wide ranges: Unicode's EastAsianWidth.txt,
/// classes W and F, and emoji-data.txt, Emoji_Presentation.
public enum DisplayWidth {
  /// The columns of a text.
  public static func of(_ text: some StringProtocol) -> Int { text.reduce(0) { $0 + of($1) } }

  /// The columns of one character.
  public static func of(_ character: Character) -> Int {
    if let ascii = character.asciiValue { return (0x20...0x7E).contains(ascii) ? 1 : 0 }
    return isEmojiSequence(character) ? 2 : character.unicodeScalars.reduce(0) { $0 + of($1) }
  }

  /// Whether a character is an emoji, whatever it is composed of: two columns.
  public static func isEmojiSequence(_ character: Character) -> Bool {
    guard let first = character.unicodeScalars.first else { return false }
    // Regional indicators make flags; variation selector 16 asks for the emoji form of a text character.
    return first.properties.isEmojiPresentation || (0x1F1E6...0x1F1FF).contains(first.value)
      || character.unicodeScalars.contains { $0.value == 0xFE0F }
  }

  /// The columns of one scalar that stands for itself.
  public static func of(_ scalar: Unicode.Scalar) -> Int {
    // The vowels and finals of conjoining Hangul join the initial before them.
    if (0x1160...0x11FF).contains(scalar.value) || (0xD7B0...0xD7FF).contains(scalar.value) { return 0 }
    let properties = scalar.properties
    switch properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format, .control, .surrogate: return 0
    case .lineSeparator, .paragraphSeparator: return 0
    default: break
    }
    if properties.isEmojiPresentation { return 2 }
    return wide.contains { $0.contains(scalar.value) } ? 2 : 1
  }

  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DFF, 0x4E00...0x9FFF,
    0xA000...0xA4CF,
    0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60,
    0xFFE0...0xFFE6, 0x16FE0...0x16FF1, 0x17000...0x18D8F, 0x1AFF0...0x1AFFF, 0x1B000...0x1B2FF,
    0x1F200...0x1F2FF,
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
