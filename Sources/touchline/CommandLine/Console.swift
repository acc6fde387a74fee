import EventLoop
import Foundation
import Locks

/// Standard output and standard error: results on the one, everything else on the other.
enum Console {
  /// Writes a line of result.
  ///
  /// A reader that has gone away, as `| head -1` does, ends the program quietly.
  static func print(_ line: String) { write(line + "\n", to: STDOUT_FILENO) }

  /// Writes a line of result for whoever may want it; that nobody does is no reason to end.
  static func offer(_ line: String) { _ = writeAll(Array((line + "\n").utf8), to: STDOUT_FILENO) }

  /// Writes text as it is.
  static func printText(_ text: String) { write(text, to: STDOUT_FILENO) }

  /// Tells something that is no result. What a server says may be in it, and paints nothing.
  static func note(_ text: String) { write(text.printableLines + "\n", to: STDERR_FILENO) }

  /// Whether a progress line is in nobody's way: on a terminal, and not from behind another program.
  static var showsProgress: Bool { errorIsTerminal && tcgetpgrp(STDERR_FILENO) == getpgrp() }

  /// Replaces the current line of standard error: progress.
  static func progress(_ line: String) { write("\r\u{1B}[K\(line)", to: STDERR_FILENO) }

  /// Clears the progress line.
  static func endProgress() { write("\r\u{1B}[K", to: STDERR_FILENO) }

  /// Columns and rows of the terminal that standard output is; nil when it is none, or doesn't say.
  static var outputSize: (columns: Int, rows: Int)? {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
      return nil
    }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  static let outputIsTerminal = isatty(STDOUT_FILENO) == 1
  static let errorIsTerminal = isatty(STDERR_FILENO) == 1

  /// Whether standard output shows colours: on a terminal, and never with NO_COLOR.
  static let outputHasColour = outputIsTerminal && allowsColour
  static let errorHasColour = errorIsTerminal && allowsColour

  static let allowsColour: Bool = {
    let environment = ProcessInfo.processInfo.environment
    return (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
  }()

  enum Style: String {
    case green = "32"
    case yellow = "33"
    case red = "31"
    case bold = "1"
    case dim = "2"
  }

  /// Text in a style, on a standard output that shows it.
  static func styled(_ text: String, _ style: Style) -> String {
    outputHasColour ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m" : text
  }

  /// Whether a command ends when nobody reads its results any more. One that judges something goes on to its verdict.
  static let endsWithReader = Mutex(true)

  private static func write(_ text: String, to descriptor: Int32) {
    guard let failure = writeAll(Array(text.utf8), to: descriptor), descriptor == STDOUT_FILENO else {
      return
    }
    if failure.code == EPIPE {
      if endsWithReader.withLock({ $0 }) { exit(0) }
      return
    }
    note("touchline: standard output can't be written: \(String(cString: strerror(failure.code)))")
    exit(1)
  }
}

extension String {
  /// The same as ``printable``, but for its line breaks.
  var printableLines: String {
    split(separator: "\n", omittingEmptySubsequences: false).map { String($0).printable }
      .joined(separator: "\n")
  }

  /// The text without control characters, which a payload must not send to a terminal.
  var printable: String {
    String(
      String.UnicodeScalarView(unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}
