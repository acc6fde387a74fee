import Foundation
import Testing

/// A shell in a real terminal of a fixed size: a pane of a tmux server of its own.
final class Pane {
  private let socket = "touchline-\(UUID().uuidString.prefix(8))"

  /// - Parameter environment: in addition to the test's own.
  init(_ columns: Int, _ rows: Int, _ environment: [String: String] = [:]) throws {
    let variables = ["PS1": "READY> ", "LANG": "C.UTF-8", "TERM": "tmux-256color"].merging(environment) { $1 }
    let assignments = variables.map { "\($0)='\($1)'" }.sorted().joined(separator: " ")
    try tmux(
      "-f", "/dev/null", "new-session", "-d", "-x", "\(columns)", "-y", "\(rows)",
      "env -u NO_COLOR \(assignments) bash --norc")
    // What the pane answers to the program's questions goes out at once.
    try tmux("set-option", "-s", "escape-time", "0")
  }

  deinit { _ = try? tmux("kill-server") }

  @discardableResult
  private func tmux(_ arguments: String...) throws -> String {
    try Program.output("tmux", ["-L", socket] + arguments)
  }

  /// What stands on the screen.
  var text: String { (try? tmux("capture-pane", "-p")) ?? "" }
  /// The same with the sequences that colour it.
  var colouredText: String { (try? tmux("capture-pane", "-p", "-e")) ?? "" }
  var lines: [String] { text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) }

  /// Types a line.
  func type(_ line: String) throws {
    try tmux("send-keys", "-l", line)
    try tmux("send-keys", "Enter")
  }

  /// Presses keys, by tmux's names.
  func press(_ keys: String...) throws { for key in keys { try tmux("send-keys", key) } }

  func resize(_ columns: Int, _ rows: Int) throws {
    try tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
  }

  /// Whether the cursor is seen and the normal screen shows.
  var isNormal: Bool { (try? tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}")) == "1 0\n" }

  /// Waits until the screen is as wanted; the limit is for a machine that is busy.
  func wait(
    _ seconds: Double = 40, _ what: String, sourceLocation: SourceLocation = #_sourceLocation,
    until isMet: (String) -> Bool
  ) async throws {
    let limit = Date(timeIntervalSinceNow: seconds)
    while !isMet(text) {
      guard Date() < limit else {
        Issue.record("waited in vain for \(what); the screen shows:\n\(text)", sourceLocation: sourceLocation)
        throw CancellationError()
      }
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  func wait(for words: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await wait("\(words)", sourceLocation: sourceLocation) { text in
      words.allSatisfy { text.contains($0) }
    }
  }

  /// Waits for the prompt, and checks that the shell has its terminal as it was.
  func expectSane(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await wait("the prompt", sourceLocation: sourceLocation) { $0.contains("READY>") && isNormal }
    try type(
      "clear; stty -a | tr ';' '\\n'; python3 -c 'import os; print(\"blocking\", os.get_blocking(0))'; echo done=$?"
    )
    try await wait("the settings", sourceLocation: sourceLocation) { $0.contains("done=0") }
    let words = Set(text.split { $0 == " " || $0 == "\n" }.map(String.init))
    #expect(
      words.isSuperset(of: ["icanon", "echo", "isig", "icrnl", "opost"]), sourceLocation: sourceLocation)
    #expect(text.contains("blocking True"), sourceLocation: sourceLocation)
  }
}

/// Programs that the tests run.
enum Program {
  /// The built `touchline`, beside the tests.
  static var touchline: String? {
    var places = CommandLine.arguments.filter { $0.contains("/") }.map { URL(fileURLWithPath: $0) }
    places += [Bundle.main.bundleURL, URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()]
    places += Bundle.allBundles.map(\.bundleURL)
    for place in places {
      var folder = place
      for _ in 0..<4 {
        let path = folder.appendingPathComponent("touchline").path
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), !isFolder.boolValue {
          return path
        }
        folder.deleteLastPathComponent()
      }
    }
    return nil
  }

  struct Failed: Error { let output: String }

  /// Runs a program to its end.
  @discardableResult
  static func output(_ name: String, _ arguments: [String], environment: [String: String] = [:]) throws
    -> String
  {
    let (process, pipe) = try start(name, arguments, environment: environment)
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    let text = String(decoding: data, as: UTF8.self)
    guard process.terminationStatus == 0 else { throw Failed(output: "\(name) \(arguments): \(text)") }
    return text
  }

  static func start(
    _ name: String, _ arguments: [String], environment: [String: String] = [:]
  ) throws -> (Process, Pipe) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [name] + arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    return (process, pipe)
  }
}

/// A server with the example channels and one of the tests' own, on a free port.
final class TestServer {
  let address: String
  let touchline: String
  private let process: Process
  private let folder: URL
  private var others: [Process] = []

  init(definitions: [String: String] = [:]) throws {
    touchline = try #require(Program.touchline, "no built touchline beside the tests")
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("touchline-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    for (name, text) in definitions {
      try text.write(to: folder.appendingPathComponent("\(name).json"), atomically: true, encoding: .utf8)
    }
    let (process, pipe) = try Program.start(
      touchline, ["serve", "--listen", "127.0.0.1:0", "--channels", folder.path, "--log-level", "warning"])
    self.process = process
    var text = ""
    while !text.contains("\n") {
      let data = pipe.fileHandleForReading.availableData
      if data.isEmpty { break }
      text += String(decoding: data, as: UTF8.self)
    }
    address = try #require(text.split { $0 == " " || $0 == "\n" }.last.map(String.init))
  }

  deinit {
    for process in others + [process] where process.isRunning {
      process.terminate()
      process.waitUntilExit()
    }
    try? FileManager.default.removeItem(at: folder)
  }

  func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  /// Ends the server without a word.
  func crash() {
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  func publish(_ channel: String, _ state: String, _ options: String...) throws {
    try Program.output(
      touchline, ["publish", channel, "--server", address, "--state", state] + options)
  }

  /// Plays a script in the background.
  func play(_ arguments: String...) throws {
    others.append(try Program.start(touchline, ["play", "--server", address] + arguments).0)
  }
}
