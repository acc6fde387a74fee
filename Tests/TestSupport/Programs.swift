import Foundation

/// A program that runs beside the test.
package final class Program {
  private let process = Process()
  private let pipe = Pipe()

  package init(_ program: String, _ arguments: [String]) throws {
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
  }

  /// Waits for its end and gives what it wrote.
  package func output() -> String {
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self)
  }
}

/// Runs a program to its end and gives what it wrote.
package func run(_ program: String, _ arguments: [String]) throws -> String {
  try Program(program, arguments).output()
}

/// Debian's own Python, which has Debian's websockets: a client that knows nothing of this program.
package func python(_ script: String) throws -> String { try run("/usr/bin/python3", ["-c", script]) }
