/// One command of the program.
protocol Command {
  static var usage: CommandUsage { get }

  /// Carries it out.
  ///
  /// - Returns: the exit code.
  /// - Throws: ``UsageError`` for a command line that makes no sense (exit 2), anything else for a failure (exit 1).
  static func run(_ arguments: Arguments) throws -> Int32
}

extension String {
  /// The text with blanks behind it, up to a width in characters.
  func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }

  /// The text in lines of at most so many characters, broken between words.
  func wrapped(to width: Int) -> [String] {
    var lines: [String] = []
    for word in split(separator: " ") {
      if let last = lines.last, last.count + 1 + word.count <= width {
        lines[lines.count - 1] = "\(last) \(word)"
      } else {
        lines.append(String(word))
      }
    }
    return lines
  }
}
