import Foundation

/// What the server tells its operator: one line an event, on whatever the owner hands in.
///
/// Never given tokens, keys, or a URL with arguments.
public struct ServerLog: Sendable {
  /// How much a line matters.
  public enum Level: String, Sendable, CaseIterable, Comparable {
    case debug, info, warning, error

    /// From least to most important.
    public static func < (a: Level, b: Level) -> Bool {
      (allCases.firstIndex(of: a) ?? 0) < (allCases.firstIndex(of: b) ?? 0)
    }
  }

  private let lowest: Level
  private let write: @Sendable (Level, String) -> Void

  /// Makes a log.
  ///
  /// - Parameters:
  ///   - lowest: what is less important is left out.
  ///   - write: takes each line, without a line break.
  public init(lowest: Level = .info, write: @escaping @Sendable (Level, String) -> Void) {
    self.lowest = lowest
    self.write = write
  }

  /// A log that keeps nothing.
  public static let silent = ServerLog(lowest: .error) { _, _ in }

  /// Writes a line if it matters enough.
  public func callAsFunction(_ level: Level, _ message: @autoclosure () -> String) {
    guard level >= lowest else { return }
    write(level, Self.oneLine(message()))
  }

  /// Clients choose some of what is logged: a line break, an escape sequence or a change of the writing direction from
  /// them must not forge a line or paint on the terminal.
  static func oneLine(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      let properties = scalar.properties
      let isBreak = [.control, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
      if isBreak || properties.isBidiControl {
        line += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        line.unicodeScalars.append(scalar)
      }
    }
    return line
  }
}
