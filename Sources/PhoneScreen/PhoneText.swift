import LiveActivities

/// Text of publishers made fit for a line: clean, isolated, wrapped.
enum PhoneText {
  private static let firstStrongIsolate = "\u{2068}"
  private static let popIsolate = "\u{2069}"

  /// The text without what would move the cursor or turn the line around: control characters, and direction overrides
  /// and isolates that need not be closed.
  static func clean(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0x202A...0x202E, 0x2066...0x2069, 0x200E, 0x200F, 0x061C, 0xFEFF, 0xAD: continue
      case 0x2028, 0x2029: scalars.append(" ")
      default: scalars.append(scalar.properties.generalCategory == .control ? " " : scalar)
      }
    }
    return String(scalars)
  }

  /// The text with each right-to-left part in an isolate: borders, figures and names around it stay in their places
  /// (Unicode Standard Annex 9, 2.4). A part goes from one such letter to the last before a left-to-right one or a digit.
  static func isolated(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: isRightToLeft) else { return text }
    var out = ""
    var part = ""
    var after = ""
    func flush() {
      if !part.isEmpty { out += firstStrongIsolate + part + popIsolate }
      out += after
      (part, after) = ("", "")
    }
    for character in text {
      let scalars = character.unicodeScalars
      if scalars.contains(where: isRightToLeft) {
        part += after + String(character)
        after = ""
      } else if !part.isEmpty,
        scalars.first.map({ $0 == " " || $0.properties.generalCategory == .otherPunctuation }) ?? false
      {
        after.append(character)
      } else {
        flush()
        out.append(character)
      }
    }
    flush()
    return out
  }

  /// The text with its isolate closed again after it was cut.
  static func closed(_ text: String) -> String {
    let open = text.count { String($0) == firstStrongIsolate } - text.count { String($0) == popIsolate }
    return text + String(repeating: popIsolate, count: max(0, open))
  }

  private static func isRightToLeft(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x0590...0x08FF, 0xFB1D...0xFDFF, 0xFE70...0xFEFC, 0x10800...0x10FFF, 0x1E800...0x1EFFF: true
    default: false
    }
  }

  /// The text cut to some columns, clean and isolated.
  static func fitted(_ text: String, _ columns: Int) -> String {
    isolated(DisplayWidth.fitted(clean(text), to: columns))
  }

  /// The text in lines of at most some columns, broken at blanks; a longer word is broken anywhere. What is more than
  /// `limit` lines ends in an ellipsis.
  static func wrapped(_ text: String, _ columns: Int, limit: Int = .max) -> [String] {
    let columns = max(1, columns)
    var lines: [String] = []
    var line = ""
    var width = 0
    for word in clean(text).split(separator: " ", omittingEmptySubsequences: false) {
      var word = String(word)
      var wordWidth = DisplayWidth.of(word)
      if !line.isEmpty, width + 1 + wordWidth <= columns {
        line += " " + word
        width += 1 + wordWidth
        continue
      }
      if !line.isEmpty { lines.append(line) }
      while wordWidth > columns {
        let head = prefix(word, columns)
        lines.append(head)
        word = String(word.dropFirst(head.count))
        wordWidth = DisplayWidth.of(word)
      }
      line = word
      width = wordWidth
    }
    if !line.isEmpty { lines.append(line) }
    if lines.count > limit, limit > 0 {
      let rest = lines[(limit - 1)...].joined(separator: " ")
      lines = lines.prefix(limit - 1) + [DisplayWidth.fitted(rest, to: columns)]
    }
    return lines.map(isolated)
  }

  /// As many characters as fit, at least one.
  private static func prefix(_ word: String, _ columns: Int) -> String {
    var taken = ""
    var width = 0
    for character in word {
      width += DisplayWidth.of(character)
      if width > columns, !taken.isEmpty { break }
      taken.append(character)
    }
    return taken
  }
}
