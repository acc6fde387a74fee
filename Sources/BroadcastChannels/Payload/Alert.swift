/// The `alert` of an update: it lights the screen and expands the island.
public struct Alert: Sendable, Hashable {
  /// A title or body: a text, or a key into the app's strings with arguments.
  public enum Text: Sendable, Hashable {
    case literal(String)
    case localized(key: String, arguments: [String])

    /// The text to show when no strings table is at hand: the literal, or the key.
    public var plain: String {
      switch self {
      case .literal(let text): text
      case .localized(let key, let arguments):
        arguments.isEmpty ? key : "\(key) (\(arguments.joined(separator: ", ")))"
      }
    }
  }

  /// The headline.
  public let title: Text?
  /// The sentence below it.
  public let body: Text?
  /// The sound's file name, or `default`.
  public let sound: String?

  /// Makes an alert.
  public init(title: Text?, body: Text?, sound: String?) {
    self.title = title
    self.body = body
    self.sound = sound
  }
}

extension Alert {
  /// Reads the `alert` object of an `aps` dictionary.
  static func read(_ value: JSONValue) throws(PayloadError) -> Alert {
    guard value.members != nil else {
      throw PayloadError(
        key: "aps.alert", problem: "is \(value.described); an object with title and body was expected",
        at: value)
    }
    return Alert(
      title: try text(value["title"], key: "aps.alert.title"),
      body: try text(value["body"], key: "aps.alert.body"),
      sound: try sound(value["sound"]))
  }

  private static func sound(_ value: JSONValue?) throws(PayloadError) -> String? {
    guard let value else { return nil }
    guard let name = value.string else {
      throw PayloadError(
        key: "aps.alert.sound", problem: "is \(value.described); a sound's name was expected", at: value)
    }
    return name
  }

  private static func text(_ value: JSONValue?, key: String) throws(PayloadError) -> Text? {
    guard let value else { return nil }
    if let text = value.string { return .literal(text) }
    guard let locKey = value["loc-key"]?.string else {
      throw PayloadError(
        key: key,
        problem: "is \(value.described); a string, or an object with loc-key and loc-args, was expected",
        at: value)
    }
    let arguments = value["loc-args"]?.elements ?? []
    return .localized(key: locKey, arguments: arguments.map { $0.string ?? $0.number?.text ?? $0.described })
  }
}
