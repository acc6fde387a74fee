/// Something in a file or payload that would go wrong, with its place: what `touchline check` prints.
public struct Finding: Error, Sendable, Hashable {
  /// How bad it is.
  public enum Severity: String, Sendable {
    /// It is refused, or does not work on a device.
    case error
    /// It works, but probably not as meant.
    case warning
  }

  /// How bad it is.
  public let severity: Severity
  /// A short fixed name for the kind, such as `unknown-key`, so that one kind can be reported once.
  public let kind: String
  /// The key, such as `aps.stale-date`; empty for the whole text.
  public let key: String
  /// What is wrong and what was expected.
  public let message: String
  /// Where it stands.
  public let position: SourcePosition

  /// Makes a finding at a byte of a document.
  public init(
    _ severity: Severity, _ kind: String, key: String, _ message: String, at offset: Int,
    in document: JSONDocument
  ) {
    self.init(severity, kind, key: key, message, position: document.position(of: offset))
  }

  /// Makes a finding at a place.
  public init(_ severity: Severity, _ kind: String, key: String, _ message: String, position: SourcePosition)
  {
    self.severity = severity
    self.kind = kind
    self.key = key
    self.message = message
    self.position = position
  }

  /// A text that is not JSON.
  public init(_ error: JSONSyntaxError) {
    self.init(.error, "not-json", key: "", "not JSON: \(error.message)", position: error.position)
  }
}

extension Finding: CustomStringConvertible {
  /// `line:column: error: key: message`.
  public var description: String {
    "\(position.line):\(position.column): \(severity.rawValue): " + (key.isEmpty ? "" : "\(key): ") + message
  }
}

/// Several findings thrown together, so that a person mends a file in one go.
public struct Findings: Error, Sendable {
  /// The findings, in the order of the text.
  public let all: [Finding]

  /// Makes a collection, in whatever order the findings were made.
  public init(_ all: [Finding]) {
    self.all = all.sorted { ($0.position.line, $0.position.column) < ($1.position.line, $1.position.column) }
  }
}

extension Findings: CustomStringConvertible {
  /// One finding a line.
  public var description: String { all.map(\.description).joined(separator: "\n") }
}
