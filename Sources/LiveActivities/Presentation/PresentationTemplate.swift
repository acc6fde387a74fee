import BroadcastChannels
import Foundation

/// The text of one presentation, with places for the state's values.
///
/// - `{name}` stands for a property of the content state, `{attributes.name}` for an attribute, with dots into nested
///   values.
/// - `{name|number}` groups a number's digits, `{name|number:3}` also pads it to a width, so that a figure doesn't move
///   when it grows. `{name|timer}` counts from or to a `Date` and `{name|relative}` says how long ago it was or will be:
///   both tick by themselves and cost no update.
/// - `{?name}…{:}…{/}` shows the first part when the value is there, the second (which may be left out) when not. It
///   stands on one line. `false`, an empty text and an empty list count as not there; 0 is there.
///
/// A missing or `null` value leaves its place empty, and a line that has places and no value is left out: "no shoot-out"
/// is not "0–0".
public struct PresentationTemplate: Sendable, Hashable {
  /// How a value is written.
  public enum Format: Sendable, Hashable {
    case plain
    case number(width: Int)
    case timer
    case relative
  }

  indirect enum Piece: Sendable, Hashable {
    case text(String)
    case value(path: [String], Format)
    case condition(path: [String], then: [Piece], otherwise: [Piece])
  }

  /// Why a template can't be read.
  public struct Problem: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong and what was expected.
    public let description: String
  }

  let lines: [[Piece]]

  /// Reads a template.
  ///
  /// - Throws: an unknown format, a condition without its end, a brace without its partner, conditions of more than
  ///   ``Limits/nestedTypes`` levels.
  public init(_ template: String) throws(Problem) {
    var lines: [[Piece]] = []
    for line in template.split(separator: "\n", omittingEmptySubsequences: false) {
      var reader = TemplateReader(rest: line)
      lines.append(try reader.pieces(inCondition: false))
    }
    self.lines = lines
  }

  /// The names of the values that the template shows, such as `home` or `attributes.away`.
  public var names: Set<String> { Set(lines.flatMap { $0 }.flatMap(Self.names)) }

  private static func names(_ piece: Piece) -> [String] {
    switch piece {
    case .text: []
    case .value(let path, _): [path.joined(separator: ".")]
    case .condition(let path, let then, let otherwise):
      [path.joined(separator: ".")] + (then + otherwise).flatMap(names)
    }
  }
}

/// Reads one line of a template.
private struct TemplateReader {
  var rest: Substring
  private var depth = 0

  init(rest: Substring) { self.rest = rest }

  mutating func pieces(inCondition: Bool) throws(PresentationTemplate.Problem) -> [PresentationTemplate.Piece]
  {
    var pieces: [PresentationTemplate.Piece] = []
    while let open = rest.firstIndex(of: "{") {
      if open != rest.startIndex { pieces.append(try text(rest[..<open])) }
      guard let close = rest[open...].firstIndex(of: "}") else {
        throw PresentationTemplate.Problem(
          description: "the \"{\" before \"\(rest[open...].prefix(20))\" has no \"}\"")
      }
      let tag = rest[rest.index(after: open)..<close]
      if inCondition, tag == ":" || tag == "/" {
        rest = rest[open...]
        return pieces
      }
      rest = rest[rest.index(after: close)...]
      pieces.append(try piece(tag))
    }
    if inCondition {
      throw PresentationTemplate.Problem(
        description: "a condition has no end; {/} was expected on the same line")
    }
    if !rest.isEmpty { pieces.append(try text(rest)) }
    return pieces
  }

  private func text(_ text: Substring) throws(PresentationTemplate.Problem) -> PresentationTemplate.Piece {
    if let close = text.firstIndex(of: "}") {
      throw PresentationTemplate.Problem(
        description: "the \"}\" after \"\(text[..<close].suffix(20))\" has no \"{\"")
    }
    return .text(String(text))
  }

  private mutating func piece(_ tag: Substring) throws(PresentationTemplate.Problem)
    -> PresentationTemplate.Piece
  {
    if tag == ":" || tag == "/" {
      throw PresentationTemplate.Problem(description: "{\(tag)} stands outside of a condition {?name}…{/}")
    }
    guard tag.first == "?" else {
      let parts = tag.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
      return .value(path: try path(parts[0]), try format(parts.count == 2 ? parts[1] : nil))
    }
    depth += 1
    defer { depth -= 1 }
    guard depth <= Limits.nestedTypes else {
      throw PresentationTemplate.Problem(
        description: "conditions stand more than \(Limits.nestedTypes) levels deep inside each other")
    }
    let path = try path(tag.dropFirst())
    let then = try pieces(inCondition: true)
    var otherwise: [PresentationTemplate.Piece] = []
    if take("{:}") { otherwise = try pieces(inCondition: true) }
    guard take("{/}") else {
      throw PresentationTemplate.Problem(
        description: "the condition {\(tag)} has no end; {/} was expected on the same line")
    }
    return .condition(path: path, then: then, otherwise: otherwise)
  }

  private mutating func take(_ text: String) -> Bool {
    guard rest.hasPrefix(text) else { return false }
    rest = rest.dropFirst(text.count)
    return true
  }

  private func path(_ text: Substring) throws(PresentationTemplate.Problem) -> [String] {
    let path = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard path.allSatisfy({ name in !name.isEmpty && !name.contains { " \t{?:/|".contains($0) } }) else {
      throw PresentationTemplate.Problem(description: "{\(text)} is no property's name")
    }
    return path
  }

  private func format(_ text: Substring?) throws(PresentationTemplate.Problem) -> PresentationTemplate.Format
  {
    switch text {
    case nil, "plain": return .plain
    case "number": return .number(width: 0)
    case "timer": return .timer
    case "relative": return .relative
    case .some(let text):
      if text.hasPrefix("number:"), let width = Int(text.dropFirst(7)), (1...20).contains(width) {
        return .number(width: width)
      }
      throw PresentationTemplate.Problem(
        description: "\"\(text)\" is no format; plain, number, number:WIDTH, timer or relative was expected")
    }
  }
}
