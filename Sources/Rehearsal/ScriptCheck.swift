import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts

/// What `touchline check` and a rehearsal's verdict find in a script, message by message.
public enum ScriptCheck {
  /// Checks the messages, and how each state fits into the presentations.
  ///
  /// - Parameters:
  ///   - definition: what the channel's app declares; without one only the payloads themselves are checked.
  ///   - start: when the script is played, which tells whether a date is past.
  /// - Returns: findings in the order of the lines; a presentation that doesn't fit is told once, where it first happens.
  public static func findings(
    _ script: MatchScript, definition: ChannelDefinition?, start: Date
  ) -> [Finding] {
    var findings = ownDefinition(script)
    var told: Set<Presentation> = []
    var trailing: (width: Int, line: Int)?
    for step in script.steps {
      let now = start.addingTimeInterval(step.at)
      findings += step.findings(definition: definition, sentAt: now)
      guard let definition, let state = step.contentState else { continue }
      let context = PresentationContext(state: state, attributes: definition.attributes, now: now)
      for (presentation, misfit) in PresentationCheck.misfits(definition, context)
      where told.insert(presentation).inserted {
        findings.append(finding(presentation, misfit, line: step.line))
      }
      let width = width(.compactTrailing, definition, context)
      let (first, line) = trailing ?? (width, step.line)
      trailing = (first, line)
      if width != first, told.insert(.compactTrailing).inserted {
        let moves = "is \(width) columns wide here and \(first) at line \(line): the island moves"
        findings.append(finding(.compactTrailing, moves, line: step.line))
      }
    }
    return findings
  }

  /// A definition inside a script is checked with it; one in a file of its own is checked there.
  private static func ownDefinition(_ script: MatchScript) -> [Finding] {
    guard case .defined(let definition) = script.target, !definition.presentations.isEmpty else { return [] }
    return PresentationCheck.problems(definition).map { problem in
      Finding(
        problem.isError ? .error : .warning, "presentation", key: problem.key, problem.message,
        position: SourcePosition(line: 1, column: 1))
    }
  }

  private static func width(
    _ presentation: Presentation, _ definition: ChannelDefinition, _ context: PresentationContext
  ) -> Int {
    PresentationText.lines(presentation, definition, context).map { DisplayWidth.of($0) }.max() ?? 0
  }

  private static func finding(_ presentation: Presentation, _ message: String, line: Int) -> Finding {
    Finding(
      .warning, "presentation-fit", key: "presentations.\(presentation.rawValue)", message,
      position: SourcePosition(line: line, column: 1))
  }
}
