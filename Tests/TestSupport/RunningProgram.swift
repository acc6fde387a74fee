// Real processes, watched from outside: what they print, when, and how they end. Nothing here decides by time; a
// wait ends when the thing happens, and fails after a generous time with everything that was printed so far.

import ChildProcesses
import Foundation

/// What a process has written so far.
///
/// `@unchecked` is safe: both properties that change are read and written under the lock.
package final class Transcript: @unchecked Sendable {
  private let lock = NSLock()
  private var bytes: [UInt8] = []
  private var ended = false

  /// Reads a descriptor to its end, on a thread of its own.
  package func read(_ descriptor: Int32) {
    let thread = Thread { [self] in
      var chunk = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = chunk.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        lock.withLock { bytes += chunk[..<count] }
      }
      close(descriptor)
      lock.withLock { ended = true }
    }
    thread.start()
  }

  package var text: String { lock.withLock { String(decoding: bytes, as: UTF8.self) } }
  package var hasEnded: Bool { lock.withLock { ended } }

  /// The lines that are complete.
  package var lines: [String] { text.components(separatedBy: "\n").dropLast().map { $0 } }
}

/// What a test waited for in vain.
package struct Hang: Error, CustomStringConvertible {
  package let description: String
}

/// Waits until a probe finds something.
///
/// The other suites' tests block the threads that this one shares with them, half a minute in a full run: time alone
/// doesn't end the wait, but time in which it was looked often enough.
package func eventually<T>(
  _ what: @autoclosure () -> String, within seconds: Double = 30, _ probe: () throws -> T?
) async throws -> T {
  let end = ContinuousClock.now + .seconds(seconds)
  var looks = 0
  while ContinuousClock.now < end || looks < 400 {
    if let value = try probe() { return value }
    looks += 1
    try await Task.sleep(for: .milliseconds(5))
  }
  throw Hang(description: "waited in vain for \(what())")
}

/// How a command ended.
package struct Ending {
  /// Its exit code, or the signal that ended it.
  package let code: Int32
  package let output: String
  package let errors: String

  package var lines: [String] { output.components(separatedBy: "\n").dropLast().map { $0 } }
}

/// A process that is running, or has.
///
/// `@unchecked` is safe: one test has it, what it printed is in transcripts, and its input is written on one queue.
package final class RunningProgram: @unchecked Sendable {
  package let output = Transcript()
  package let errors = Transcript()
  private let name: String
  private let process: ChildProcess
  private let input: Int32
  private let writing = DispatchQueue(label: "standard input")
  private var isInputOpen = true

  /// Starts a program.
  ///
  /// - Parameter environment: replaces variables; `NO_COLOR` and all of `TOUCHLINE_…` are unset unless given here.
  package init(_ executable: URL, _ arguments: [String], environment: [String: String] = [:]) throws {
    // A command that ends before it has read everything must not end the tests.
    _ = Glibc.signal(SIGPIPE, SIG_IGN)
    name = ([executable.lastPathComponent] + arguments).joined(separator: " ")
    var variables = ProcessInfo.processInfo.environment
    for name in variables.keys where name.hasPrefix("TOUCHLINE_") { variables[name] = nil }
    variables["NO_COLOR"] = nil
    let ends = try (ChildProcess.pipe(), ChildProcess.pipe(), ChildProcess.pipe())
    input = ends.0.write
    output.read(ends.1.read)
    errors.read(ends.2.read)
    defer { for end in [ends.0.read, ends.1.write, ends.2.write] { close(end) } }
    process = try ChildProcess(
      executable.path, arguments, environment: variables.merging(environment) { $1 }, input: ends.0.read,
      output: ends.1.write, errors: ends.2.write)
  }

  deinit {
    closeInput()
    process.signal(SIGKILL)
    process.waitForEnd()
  }

  // MARK: Acting on it

  /// Writes to its standard input, in order and without waiting.
  package func send(_ bytes: [UInt8]) {
    writing.async { [input] in
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(input, $0.baseAddress, $0.count) }
        if count < 0, errno != EINTR { return }
        rest = rest.dropFirst(max(count, 0))
      }
    }
  }

  package func send(_ text: String) { send(Array(text.utf8)) }

  /// Ends its standard input.
  package func closeInput() {
    guard isInputOpen else { return }
    isInputOpen = false
    writing.async { [input] in _ = close(input) }
  }

  package var processIdentifier: Int32 { process.identifier }

  package func signal(_ number: Int32) { process.signal(number) }

  // MARK: Waiting for it

  /// Everything it has printed, for a failure's message.
  private var story: String {
    "\(name)\n--- standard output\n\(output.text.suffix(2_000))\n--- standard error\n\(errors.text.suffix(2_000))"
  }

  /// A number of lines on standard output.
  @discardableResult
  package func lines(_ count: Int) async throws -> [String] {
    try await eventually("line \(count) of \(story)") {
      let lines = output.lines
      return lines.count < count ? nil : lines
    }
  }

  /// A line on standard error that has some text.
  @discardableResult
  package func notice(_ text: String) async throws -> String {
    try await eventually("\"\(text)\" of \(story)") { errors.lines.first { $0.contains(text) } }
  }

  /// Its end.
  package func ending() async throws -> Ending {
    try await eventually("the end of \(story)") {
      !process.isRunning && output.hasEnded && errors.hasEnded ? () : nil
    }
    let code =
      switch process.waitForEnd() {
      case .exited(let number), .signalled(let number): number
      }
    return Ending(code: code, output: output.text, errors: errors.text)
  }
}
