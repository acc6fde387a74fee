import BroadcastChannels

/// One option of a command.
struct Option {
  /// The name with its dashes.
  let name: String
  /// What the value is called in the help; nil for a flag.
  let value: String?
  /// One line of help.
  let help: String
  /// Whether it may stand alone; a value then comes after an equals sign.
  let isValueOptional: Bool

  init(_ name: String, _ value: String? = nil, _ help: String, isValueOptional: Bool = false) {
    self.name = name
    self.value = value
    self.help = help
    self.isValueOptional = isValueOptional
  }

  /// As a help text shows it.
  var label: String { name + (value.map { isValueOptional ? "[=\($0)]" : " \($0)" } ?? "") }
}

/// What a command is: its help text and what it accepts.
struct CommandUsage {
  let name: String
  let synopsis: String
  let summary: String
  var options: [Option] = []
  /// What may stand without dashes, for completion.
  var operands = Operands.none
  /// Environment variables that count for it.
  var environment: [(name: String, help: String)] = []
  /// Further paragraphs of help.
  var notes = ""
  var examples: [String] = []

  /// What a command takes besides options.
  enum Operands {
    case none
    /// One of some words comes first.
    case words([String])
    case files
    /// Ids and aliases of channels.
    case channels
    /// One of this program's commands.
    case commands
  }

  /// Columns of a help text.
  private static let columns = 118

  var allOptions: [Option] { options + [Option("--help", nil, "show this")] }

  var helpText: String {
    var text = "\(summary)\n\nUsage: touchline \(name) \(synopsis)\n"
    let all = allOptions
    let left = all.map(\.label)
    let width = (left.map(\.count).max() ?? 0) + 2
    text += "\nOptions:\n"
    for (option, label) in zip(all, left) {
      let margin = String(repeating: " ", count: width + 2)
      let lines = option.help.wrapped(to: max(40, Self.columns - margin.count))
      text += "  \(label.padded(to: width))\(lines.joined(separator: "\n\(margin)"))\n"
    }
    if !notes.isEmpty { text += "\n\(notes)\n" }
    if !examples.isEmpty { text += "\nExamples:\n" + examples.map { "  \($0)\n" }.joined() }
    return text
  }
}

/// A command line that can't be carried out: exit 2.
struct UsageError: Error {
  let command: String
  let message: String
}

/// A command that was refused or failed: exit 1.
struct CommandFailure: Error {
  let message: String

  init(_ message: String) { self.message = message }
}

/// A command line, taken apart by what the command accepts.
struct Arguments {
  let command: String
  private(set) var positional: [String] = []
  private(set) var values: [String: String] = [:]
  private(set) var wantsHelp = false

  init(_ words: some Sequence<String>, for usage: CommandUsage) throws(UsageError) {
    command = usage.name
    var words = Array(words)[...]
    while let word = words.popFirst() {
      if word == "--" {
        positional += words
        return
      }
      guard word.hasPrefix("-"), word != "-" else {
        positional.append(word)
        continue
      }
      if word == "--help" || word == "-h" {
        wantsHelp = true
        continue
      }
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard let option = usage.options.first(where: { $0.name == parts[0] }) else {
        let hint = Suggestion.phrase(for: parts[0], among: usage.options.map(\.name) + ["--help"])
        throw UsageError(command: command, message: "unknown option \(parts[0])\(hint)")
      }
      guard values[option.name] == nil else {
        throw UsageError(command: command, message: "\(option.name) was given twice")
      }
      if let expected = option.value {
        let given: String? =
          if parts.count == 2 { parts[1] } else if option.isValueOptional { "" } else { words.popFirst() }
        guard let value = given else {
          throw UsageError(command: command, message: "\(option.name) needs a value: \(expected)")
        }
        values[option.name] = value
      } else {
        guard parts.count == 1 else {
          throw UsageError(command: command, message: "\(option.name) takes no value")
        }
        values[option.name] = ""
      }
    }
  }

  /// Whether an option was given.
  func has(_ name: String) -> Bool { values[name] != nil }

  subscript(_ name: String) -> String? { values[name] }

  func error(_ message: String) -> UsageError { UsageError(command: command, message: message) }

  /// A value that a reader understands.
  func value<T>(_ name: String, _ expected: String, _ read: (String) -> T?) throws(UsageError) -> T? {
    guard let text = values[name] else { return nil }
    guard let value = read(text) else { throw error("\(name) is \"\(text)\"; \(expected) was expected") }
    return value
  }

  /// The positional arguments, checked for their number.
  func positional(_ range: ClosedRange<Int>, _ expected: String) throws(UsageError) -> [String] {
    guard range.contains(positional.count) else {
      guard positional.count > range.upperBound else { throw error("\(expected) is missing") }
      throw error("\"\(positional[range.upperBound])\" is one argument too many; \(expected) was expected")
    }
    return positional
  }
}
