import BroadcastChannels
import Foundation

/// How a line of the log looks.
public enum LogFormat: String, Sendable, Hashable, CaseIterable {
  /// For a person: time, level, message, and what else is known.
  case text
  /// For a program: one object a line.
  case json

  /// What surrounds the lines.
  public struct Surroundings: Sendable {
    /// Whether systemd's journal takes them: it knows the time by itself, and takes the level from a prefix.
    public var isJournal: Bool
    /// Whether a terminal shows colours.
    public var hasColour: Bool

    /// Makes surroundings.
    public init(isJournal: Bool = false, hasColour: Bool = false) {
      self.isJournal = isJournal
      self.hasColour = hasColour
    }
  }

  /// A whole line, without its end.
  public func line(_ entry: ServerLog.Entry, in surroundings: Surroundings = Surroundings()) -> String {
    let body = self == .json ? json(entry) : text(entry, surroundings)
    return (surroundings.isJournal ? entry.level.journalPrefix : "") + body
  }

  private func text(_ entry: ServerLog.Entry, _ surroundings: Surroundings) -> String {
    let style = surroundings.hasColour ? entry.level.style : nil
    let level = style.map { "\($0)\(entry.level.rawValue)\u{1B}[0m" } ?? entry.level.rawValue
    // What the message says already is not said twice.
    let fields = entry.fields.filter { !entry.message.contains($0.value) }.map { " \($0.name)=\($0.value)" }
    let head = surroundings.isJournal ? [level] : [Self.timestamp(entry.time), level]
    return (head + [entry.message + fields.joined()]).joined(separator: " ")
  }

  private func json(_ entry: ServerLog.Entry) -> String {
    let members =
      [
        ("ts", Self.timestamp(entry.time)), ("level", entry.level.rawValue), ("event", entry.event.rawValue),
        ("message", entry.message),
      ] + entry.fields
    let texts = members.map { "\(JSONWriter.quoted($0.0)):\(JSONWriter.quoted($0.1))" }
    return "{\(texts.joined(separator: ","))}"
  }

  /// RFC 3339, in UTC, with milliseconds.
  static func timestamp(_ time: Date) -> String {
    time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}

extension ServerLog.Level {
  /// The level as systemd's journal takes it in front of a line (sd-daemon(3)).
  fileprivate var journalPrefix: String {
    switch self {
    case .debug: "<7>"
    case .info: "<6>"
    case .warning: "<4>"
    case .error: "<3>"
    }
  }

  fileprivate var style: String? {
    switch self {
    case .debug, .info: nil
    case .warning: "\u{1B}[33m"
    case .error: "\u{1B}[31m"
    }
  }
}
