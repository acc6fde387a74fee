import BroadcastChannels

/// The text of one presentation, with places for the state's values.
///
/// `{name}` stands for a property of the content state, `{attributes.name}` for an attribute, with dots into nested
/// values. A value that is missing or `null` leaves its place empty, and a line that holds nothing then is left out:
/// "no shoot-out" is not "0–0".
public struct PresentationTemplate: Sendable, Hashable {
  private enum Piece: Sendable, Hashable {
    case text(String)
    case value(path: [String])
  }

  private let lines: [[Piece]]

  /// Reads a template; a brace without its partner is plain text.
  public init(_ template: String) {
    lines = template.split(separator: "\n", omittingEmptySubsequences: false).map { Self.pieces($0) }
  }

  private static func pieces(_ line: Substring) -> [Piece] {
    var pieces: [Piece] = []
    var rest = line
    while let open = rest.firstIndex(of: "{"), let close = rest[open...].firstIndex(of: "}") {
      if open != rest.startIndex { pieces.append(.text(String(rest[..<open]))) }
      let name = rest[rest.index(after: open)..<close]
      pieces.append(.value(path: name.split(separator: ".").map(String.init)))
      rest = rest[rest.index(after: close)...]
    }
    if !rest.isEmpty { pieces.append(.text(String(rest))) }
    return pieces
  }

  /// The text for a state.
  public func render(state: JSONText?, attributes: JSONText?) -> String {
    let state = state.flatMap { try? JSONDocument($0.bytes).root }
    let attributes = attributes.flatMap { try? JSONDocument($0.bytes).root }
    let rendered = lines.compactMap { pieces -> String? in
      var hasValue = false
      var holdsPlace = false
      let line = pieces.map { piece -> String in
        switch piece {
        case .text(let text): return text
        case .value(let path):
          holdsPlace = true
          let isAttribute = path.first == "attributes"
          let value = Self.text(of: isAttribute ? attributes : state, path[(isAttribute ? 1 : 0)...])
          if !value.isEmpty { hasValue = true }
          return value
        }
      }.joined()
      return holdsPlace && !hasValue ? nil : line
    }
    return rendered.joined(separator: "\n")
  }

  private static func text(of value: JSONValue?, _ path: ArraySlice<String>) -> String {
    guard let first = path.first else { return value.map(text) ?? "" }
    return text(of: value?[first], path.dropFirst())
  }

  private static func text(_ value: JSONValue) -> String {
    switch value.content {
    case .null: ""
    case .bool(let bool): bool ? "yes" : "no"
    case .number(let number): number.text
    case .string(let text): text
    case .array(let elements): elements.map(text).joined(separator: ", ")
    case .object(let members): members.map { "\($0.name) \(text($0.value))" }.joined(separator: ", ")
    }
  }
}
