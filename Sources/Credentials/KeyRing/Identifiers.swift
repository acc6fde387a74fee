import BroadcastChannels

/// The id of a signing key: 10 characters, A to Z and 0 to 9 (Apple), as in `AuthKey_<key id>.p8`.
public struct KeyID: Sendable, Hashable, CustomStringConvertible {
  /// The id.
  public let text: String

  /// Checks an id.
  ///
  /// - Returns: nil unless the text keeps the ``IdentifierText/rule``.
  public init?(_ text: String) {
    guard IdentifierText.isValid(text) else { return nil }
    self.text = text
  }

  private init(unchecked text: String) { self.text = text }

  /// Makes a new id.
  public static func random(using generator: inout some RandomNumberGenerator) -> KeyID {
    KeyID(unchecked: IdentifierText.random(using: &generator))
  }

  /// The id.
  public var description: String { text }
}

/// The id of a developer team: 10 characters, A to Z and 0 to 9 (Apple).
public struct TeamID: Sendable, Hashable, CustomStringConvertible {
  /// The id.
  public let text: String

  /// Checks an id.
  ///
  /// - Returns: nil unless the text keeps the ``IdentifierText/rule``.
  public init?(_ text: String) {
    guard IdentifierText.isValid(text) else { return nil }
    self.text = text
  }

  private init(unchecked text: String) { self.text = text }

  /// Makes a new id.
  public static func random(using generator: inout some RandomNumberGenerator) -> TeamID {
    TeamID(unchecked: IdentifierText.random(using: &generator))
  }

  /// The id.
  public var description: String { text }
}

/// What Apple's key ids and team ids look like.
public enum IdentifierText {
  /// The rule in words for a message.
  public static let rule = "10 characters, A to Z and 0 to 9"

  private static let characters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
  private static let length = 10

  static func isValid(_ text: String) -> Bool {
    text.utf8.count == length && text.allSatisfy(characters.contains)
  }

  static func random(using generator: inout some RandomNumberGenerator) -> String {
    String((0..<length).map { _ in characters[Int.random(in: characters.indices, using: &generator)] })
  }
}

/// An app of a team, or all apps below a name.
public enum AppPattern: Sendable, Hashable, CustomStringConvertible {
  /// One app.
  case app(BundleID)
  /// Every app whose bundle id starts with this text, which ends in a dot: `com.example.news.` for
  /// `com.example.news.*`. The bare `com.example.news` is not one of them, as with Apple's wildcard ids.
  case prefix(String)

  /// What a pattern may be, in words for a message.
  public static let rule = "a bundle id such as \"com.example.scores\", or a prefix such as \"com.example.*\""

  /// Reads a bundle id, or a prefix that ends in `.*`.
  public init?(_ text: String) {
    if text.hasSuffix(".*") {
      let stem = String(text.dropLast(2))
      guard let id = BundleID(stem), !id.hasPushTypeSuffix, !stem.hasSuffix(".") else { return nil }
      self = .prefix(stem + ".")
    } else {
      guard let id = BundleID(text), !id.hasPushTypeSuffix else { return nil }
      self = .app(id)
    }
  }

  /// Whether an app is meant.
  public func matches(_ app: BundleID) -> Bool {
    switch self {
    case .app(let own): own == app
    case .prefix(let prefix): app.identifier.hasPrefix(prefix) && app.identifier != prefix
    }
  }

  /// Whether an app can be meant by both.
  func overlaps(_ other: AppPattern) -> Bool {
    switch (self, other) {
    case (.app(let app), _): other.matches(app)
    case (_, .app(let app)): matches(app)
    case (.prefix(let a), .prefix(let b)): a.hasPrefix(b) || b.hasPrefix(a)
    }
  }

  /// The pattern as it is written.
  public var description: String {
    switch self {
    case .app(let app): app.identifier
    case .prefix(let prefix): prefix + "*"
    }
  }
}
