import BroadcastChannels

/// One setting of a server, described once: from this come what is read, `--help`, `--check-config`, the table in the
/// documentation, shell completion and the manual.
///
/// The names follow from the key: `log-level` is `--log-level` on the command line, `TOUCHLINE_LOG_LEVEL` in the
/// environment and `"log-level"` in the file.
public struct Setting: Sendable {
  /// What a setting's value is.
  public enum Form: Sendable, Hashable {
    /// Text of a form that the placeholder names.
    case text(String)
    /// The path of a file.
    case file
    /// The path of a folder.
    case folder
    /// One of some words.
    case choice([String])
    /// True or false; the flag alone is true.
    case toggle
    /// True for all of some words, false for none, or a list of them; the flag alone is true.
    case words([String])
    /// A list; with commas where it is text.
    case list(String)
    /// Seconds.
    case seconds(ClosedRange<Double>)
    /// A whole number.
    case count(ClosedRange<Int>)
  }

  /// When a changed value counts.
  public enum Change: String, Sendable {
    /// With SIGHUP.
    case reload
    /// With the next start; SIGHUP names it in a warning.
    case restart
  }

  /// The name in the file.
  public let key: String
  /// What its value is.
  public let form: Form
  /// The default, in words for a person.
  public let standard: String
  /// What it does, in one line.
  public let help: String
  /// When a changed value counts.
  public let change: Change

  /// Takes a value over.
  ///
  /// - Returns: what was expected, when it is not of the right form.
  let take: @Sendable (inout ServerConfiguration, SettingValue) -> String?
  /// What it is in a configuration.
  let value: @Sendable (ServerConfiguration) -> SettingState

  /// The option of the command line.
  public var flag: String { "--\(key)" }
  /// The environment variable.
  public var variable: String { Self.prefix + key.uppercased().replacing("-", with: "_") }
  /// How every variable of the server begins.
  public static let prefix = "TOUCHLINE_"

  /// Whether the flag may stand without a value.
  public var isFlagAlone: Bool {
    switch form {
    case .toggle, .words: true
    default: false
    }
  }

  /// What its value is called in a help text: a placeholder, or the words that it may be.
  public var placeholder: String {
    switch form {
    case .text(let name), .list(let name): name
    case .file: "FILE"
    case .folder: "DIR"
    case .choice(let words): words.joined(separator: "|")
    case .toggle: "true|false"
    case .words: "true|false|LIST"
    case .seconds: "SECONDS"
    case .count: "N"
    }
  }

  /// The help with the default and the bounds.
  public var longHelp: String {
    let bounds: String? =
      switch form {
      case .seconds(let range): "\(range.lowerBound) to \(Int(range.upperBound))"
      case .count(let range): "\(range.lowerBound) to \(range.upperBound)"
      default: nil
      }
    let facts = [bounds, "default\(standard.contains(" ") ? ":" : "") \(standard)"].compactMap(\.self).joined(
      separator: "; ")
    return "\(help) (\(facts))"
  }

  /// What it is in a configuration, for a person; `-` for nothing.
  public func shown(in configuration: ServerConfiguration) -> String { value(configuration).plain }

  /// What it is in a configuration, as JSON.
  public func json(in configuration: ServerConfiguration) -> String { value(configuration).json }

  /// Whether two configurations have the same value.
  func isSame(in one: ServerConfiguration, _ other: ServerConfiguration) -> Bool {
    value(one) == value(other)
  }
}

/// What somebody said that a setting is: the text of a flag or a variable, or a value of a file.
enum SettingValue {
  case text(String)
  case json(JSONValue)

  var string: String? {
    switch self {
    case .text(let text): text
    case .json(let value): value.string
    }
  }

  var bool: Bool? {
    switch self {
    case .text(let text): ["true": true, "false": false][text]
    case .json(let value): value.bool
    }
  }

  var number: Double? {
    switch self {
    case .text(let text): Double(text)
    case .json(let value): value.number?.double
    }
  }

  /// The items of a list, or of a text with commas; nil when it is neither, or has something that is no text.
  var list: [String]? {
    switch self {
    case .text(let text): return Self.items(text)
    case .json(let value):
      if let text = value.string { return Self.items(text) }
      let items = value.elements?.map(\.string)
      guard let items, !items.contains(nil) else { return nil }
      return items.compactMap(\.self)
    }
  }

  private static func items(_ text: String) -> [String] {
    text.split(separator: ",").map { String($0.drop { $0 == " " }) }
  }

  /// What it is, for a message. Somebody may have put a key where its file's path belongs: that is not repeated.
  var described: String {
    switch self {
    case .json(let value) where value.string == nil: return value.described
    case .text(let text) where Double(text) != nil: return "\"\(text)\""
    default:
      let text = string ?? ""
      guard !text.contains("-----BEGIN"), !text.contains(where: \.isNewline) else {
        return "a text of several lines"
      }
      let short = Redaction.text(text)
      switch self {
      case .text: return "\"\(short.count <= 80 ? short : short.prefix(80) + "…")\""
      case .json: return text.count <= 40 ? "the string \"\(short)\"" : "a string of \(text.count) characters"
      }
    }
  }
}

/// What a setting is in a configuration, to be shown and compared.
enum SettingState: Hashable {
  case none
  case text(String)
  case bool(Bool)
  case number(Double)
  case list([String])

  /// For a person. What is not set is `-`.
  var plain: String {
    switch self {
    case .none: "-"
    case .text(let text): text
    case .bool(let bool): "\(bool)"
    case .number(let number): Int(exactly: number).map(String.init) ?? "\(number)"
    case .list(let items): items.joined(separator: ",")
    }
  }

  /// As a configuration file would have it, or `null`.
  var json: String {
    switch self {
    case .none: "null"
    case .text(let text): JSONWriter.quoted(text)
    case .bool(let bool): "\(bool)"
    case .number(let number): Int(exactly: number).map(String.init) ?? "\(number)"
    case .list(let items): "[\(items.map(JSONWriter.quoted).joined(separator: ","))]"
    }
  }
}
