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
    _ what: String, within seconds: Double = 40, sourceLocation: SourceLocation = #_sourceLocation,
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

  /// Runs a program to its end and gives its output.
  ///
  /// By posix_spawn and not by Foundation's `Process`: that waits for the programs that its child leaves behind, as tmux
  /// does, and hands on the signals that are blocked on the test's thread, SIGTERM among them.
  @discardableResult
  static func output(_ name: String, _ arguments: [String]) throws -> String {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("out-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: file) }
    let id = try start(name, arguments, output: file.path)
    let status = wait(id)
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    guard status == 0 else { throw Failed(output: "\(name) \(arguments): \(text)") }
    return text
  }

  /// Starts a program, its output in a file; returns its process id.
  static func start(_ name: String, _ arguments: [String], output: String) throws -> pid_t {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var files = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&files)
    defer { posix_spawn_file_actions_destroy(&files) }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    posix_spawn_file_actions_adddup2(&files, 1, 2)
    var words = ([name] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var id: pid_t = 0
    guard posix_spawnp(&id, name, &files, &attributes, &words, environ) == 0 else {
      throw Failed(output: "\(name) can't be started")
    }
    return id
  }

  /// Waits for a program's end; 0 when it ended well.
  @discardableResult
  static func wait(_ id: pid_t) -> Int32 {
    var status: Int32 = 0
    while waitpid(id, &status, 0) < 0, errno == EINTR {}
    return status
  }
}

/// A server with the example channels and one of the tests' own, on a free port.
final class TestServer {
  let address: String
  let touchline: String
  private let process: pid_t
  private let folder: URL
  private var others: [pid_t] = []

  init(definitions: [String: String] = [:]) throws {
    touchline = try #require(Program.touchline, "no built touchline beside the tests")
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("touchline-\(UUID().uuidString)")
    let channels = folder.appendingPathComponent("Channels")
    try FileManager.default.createDirectory(at: channels, withIntermediateDirectories: true)
    for (name, text) in definitions {
      try text.write(to: channels.appendingPathComponent("\(name).json"), atomically: true, encoding: .utf8)
    }
    let output = folder.appendingPathComponent("server").path
    process = try Program.start(
      touchline,
      [
        "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", "memory",
        "--channels", channels.path, "--log-level", "warning",
      ],
      output: output)
    var text = ""
    let limit = Date(timeIntervalSinceNow: 40)
    while !text.contains("\n"), Date() < limit {
      usleep(20_000)
      text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
    }
    address = try #require(text.split { $0 == " " || $0 == "\n" }.last.map(String.init))
  }

  deinit {
    for process in others + [process] {
      kill(process, SIGKILL)
      Program.wait(process)
    }
    try? FileManager.default.removeItem(at: folder)
  }

  func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  /// Ends the server without a word.
  func crash() {
    kill(process, SIGKILL)
  }

  func publish(_ channel: String, _ state: String, _ options: String...) throws {
    try Program.output(
      touchline, ["publish", channel, "--server", address, "--state", state] + options)
  }

  /// Plays a script in the background.
  func play(_ arguments: String...) throws {
    let output = folder.appendingPathComponent("play").path
    others.append(try Program.start(touchline, ["play", "--server", address] + arguments, output: output))
  }
}
