import ChildProcesses
import Foundation

/// A program that runs beside the test and reads nothing. What it writes on both of its outputs is one text.
package final class Program {
  private let process: ChildProcess
  private let text: Int32

  package init(_ program: String, _ arguments: [String]) throws {
    let (text, written) = try ChildProcess.pipe()
    defer { close(written) }
    self.text = text
    let nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { close(nothing) }
    process = try ChildProcess(
      program, arguments, environment: ProcessInfo.processInfo.environment, input: nothing, output: written,
      errors: written)
  }

  deinit { close(text) }

  /// Waits for the next that it writes; empty at its end.
  package func read() -> [UInt8] {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = chunk.withUnsafeMutableBytes { Glibc.read(text, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      return Array(chunk.prefix(max(0, count)))
    }
  }

  /// Waits for its end and gives what it wrote.
  package func output() -> String {
    var all: [UInt8] = []
    while case let more = read(), !more.isEmpty { all += more }
    process.waitForEnd()
    return String(decoding: all, as: UTF8.self)
  }

  /// Waits for its end and gives how it ended.
  package func ending() -> ChildProcess.Ending { process.waitForEnd() }
}

/// Runs a program to its end and gives what it wrote.
package func run(_ program: String, _ arguments: [String]) throws -> String {
  try Program(program, arguments).output()
}

/// Debian's own Python, which has Debian's websockets: a client that knows nothing of this program.
package func python(_ script: String) throws -> String { try run("/usr/bin/python3", ["-c", script]) }
