import BroadcastChannels
import Foundation

/// What is wrong with a definition's presentations: which are missing, which can't be read, and which don't fit.
public enum PresentationCheck {
  /// Checks the templates by themselves.
  ///
  /// - Returns: findings without a place in a file; the caller gives them the line of the key.
  public static func problems(_ definition: ChannelDefinition) -> [(
    key: String, isError: Bool, message: String
  )] {
    guard !definition.presentations.isEmpty || definition.contentState != nil else { return [] }
    var problems: [(key: String, isError: Bool, message: String)] = []
    for presentation in Presentation.allCases {
      let key = "presentations.\(presentation.rawValue)"
      guard let text = definition.presentations[presentation] else {
        problems.append((key, true, "is missing; every presentation is mandatory"))
        continue
      }
      problems += read(text, key: key, definition).map { ($0.key, true, $0.message) }
      if let columns = presentation.columns, let template = try? PresentationTemplate(text),
        template.narrowest > columns
      {
        problems.append((key, true, "is at least \(template.narrowest) columns wide; \(columns) fit"))
      }
    }
    for (presentation, text) in definition.accessibility.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      problems += read(text, key: "accessibility.\(presentation.rawValue)", definition).map {
        ($0.key, true, $0.message)
      }
    }
    for presentation in [Presentation.compactLeading, .compactTrailing, .minimal, .small]
    where definition.presentations[presentation] != nil && definition.accessibility[presentation] == nil {
      problems.append(
        (
          "accessibility.\(presentation.rawValue)", false,
          "is missing; VoiceOver needs a sentence for each figure (\"4\" alone is ambiguous)"
        ))
    }
    return problems + movingFigures(definition)
  }

  /// Checks how the presentations of one state fit.
  public static func misfits(_ definition: ChannelDefinition, _ context: PresentationContext) -> [(
    Presentation, String
  )] {
    Presentation.allCases.compactMap { presentation in
      let lines = PresentationText.lines(presentation, definition, context)
      let widest = lines.map { DisplayWidth.of($0) }.max() ?? 0
      if let columns = presentation.columns, widest > columns {
        return (presentation, "is \(widest) columns wide; \(columns) fit")
      }
      if lines.count > presentation.lines {
        return (presentation, "has \(lines.count) lines; \(presentation.lines) fit")
      }
      return nil
    }
  }

  private static func read(
    _ text: String, key: String, _ definition: ChannelDefinition
  ) -> [(key: String, message: String)] {
    let template: PresentationTemplate
    do throws(PresentationTemplate.Problem) {
      template = try PresentationTemplate(text)
    } catch {
      return [(key, error.description)]
    }
    let attributes =
      definition.attributes.flatMap { try? JSONDocument($0.bytes).root.members?.map(\.name) } ?? []
    return template.names.sorted().compactMap { name in
      let parts = name.split(separator: ".").map(String.init)
      if parts[0] == "attributes", parts.count > 1 {
        guard !attributes.contains(parts[1]) else { return nil }
        return (
          key,
          "shows {\(name)}, and there is no such attribute"
            + Suggestion.phrase(for: parts[1], among: attributes)
        )
      }
      return definition.contentState.flatMap { $0.problem(parts) }.map { (key, "shows {\(name)}, \($0)") }
    } + misused(template, definition.contentState).map { (key, $0) }
  }

  /// Values that their format can't write.
  private static func misused(_ template: PresentationTemplate, _ schema: ContentStateSchema?) -> [String] {
    guard let schema else { return [] }
    return template.values.compactMap { path, format in
      guard let type = schema.type(path)?.unwrapped else { return nil }
      let name = path.joined(separator: ".")
      switch format {
      case .plain: return nil
      case .number:
        guard type != .int, type != .double else { return nil }
        return "writes {\(name)} as a number; it is declared \(type.swift)"
      case .timer, .relative:
        guard type != .date else { return nil }
        return "counts from {\(name)}; it is declared \(type.swift), and a Date was expected"
      }
    }
  }

  /// The compact trailing side must not change its width as a number grows: 9 to 10 must not move it.
  private static func movingFigures(_ definition: ChannelDefinition) -> [(
    key: String, isError: Bool, message: String
  )] {
    guard let text = definition.presentations[.compactTrailing],
      let template = try? PresentationTemplate(text)
    else {
      return []
    }
    let unpadded = template.values.filter { path, format in
      guard format == .plain || format == .number(width: 0) else { return false }
      let type = definition.contentState?.type(path)?.unwrapped
      return type == .int || type == .double
    }
    return Set(unpadded.map { $0.path.joined(separator: ".") }).sorted().map { name in
      (
        "presentations.compact-trailing", false,
        "shows {\(name)} without a width: the island moves when it grows; write {\(name)|number:2}"
      )
    }
  }
}

extension PresentationTemplate {
  /// The columns that its widest line takes at least, whatever the state: each value counts as one column, or as the
  /// width that it is padded to.
  fileprivate var narrowest: Int {
    lines.map { line in
      line.contains { if case .condition = $0 { true } else { false } }
        ? 0 : line.reduce(0) { $0 + Self.narrowest($1) }
    }.max() ?? 0
  }

  private static func narrowest(_ piece: Piece) -> Int {
    switch piece {
    case .text(let text): DisplayWidth.of(text)
    case .value(_, .number(let width)): max(1, width)
    case .value: 1
    case .condition: 0
    }
  }

  /// The values that are shown, each with its format, in the order of the text.
  fileprivate var values: [(path: [String], format: Format)] { lines.flatMap { $0 }.flatMap(Self.values) }

  private static func values(_ piece: Piece) -> [(path: [String], format: Format)] {
    switch piece {
    case .text: []
    case .value(let path, let format): [(path, format)]
    case .condition(_, let then, let otherwise): (then + otherwise).flatMap(values)
    }
  }
}

extension ContentStateSchema {
  /// The type of a property, with its names from the outermost on; nil when it is not declared.
  fileprivate func type(_ path: [String]) -> PropertyType? {
    guard let first = path.first, let type = properties.first(where: { $0.name == first })?.type else {
      return nil
    }
    guard path.count > 1 else { return type }
    switch type.unwrapped {
    case .structure(let nested): return ContentStateSchema(properties: nested).type(Array(path.dropFirst()))
    case .dictionary(let value): return path.count == 2 ? value : nil
    default: return nil
    }
  }

  /// Why a path leads nowhere.
  fileprivate func problem(_ path: [String]) -> String? {
    guard let first = path.first, type(path) == nil else { return nil }
    let names = properties.map(\.name)
    guard let type = properties.first(where: { $0.name == first })?.type.unwrapped else {
      return "which is no property of the content state" + Suggestion.phrase(for: first, among: names)
    }
    guard case .structure(let nested) = type else { return "and \(first) has no parts: it is \(type.swift)" }
    return ContentStateSchema(properties: nested).problem(Array(path.dropFirst()))
  }
}

extension ContentStateSchema.PropertyType {
  /// The type without its `?`.
  fileprivate var unwrapped: Self {
    if case .optional(let wrapped) = self { wrapped.unwrapped } else { self }
  }
}
