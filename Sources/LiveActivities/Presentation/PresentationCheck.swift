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
    let declared = definition.contentState?.properties.map(\.name)
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
      guard let declared, !declared.contains(parts[0]) else { return nil }
      return (
        key,
        "shows {\(name)}, which is no property of the content state"
          + Suggestion.phrase(for: parts[0], among: declared)
      )
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
    let numbers =
      definition.contentState?.properties.filter { $0.type == .int || $0.type == .double }.map(\.name) ?? []
    let unpadded = template.unpaddedNumbers.filter(numbers.contains).sorted()
    return unpadded.map { name in
      (
        "presentations.compact-trailing", false,
        "shows {\(name)} without a width: the island moves when it grows; write {\(name)|number:2}"
      )
    }
  }
}

extension PresentationTemplate {
  /// The names of values that are shown without a fixed width.
  fileprivate var unpaddedNumbers: Set<String> { Set(lines.flatMap { $0 }.flatMap(Self.unpadded)) }

  private static func unpadded(_ piece: Piece) -> [String] {
    switch piece {
    case .text: []
    case .value(let path, let format):
      switch format {
      case .plain, .number(width: 0): [path.joined(separator: ".")]
      default: []
      }
    case .condition(_, let then, let otherwise): (then + otherwise).flatMap(unpadded)
    }
  }
}
