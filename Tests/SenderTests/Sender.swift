import Foundation
import TestSupport
import Testing

/// The programs that push, none of which knows this one.
enum Sender {
  private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
  /// Where deploy/setup --tests puts it. Not standardized: that would resolve bin/python to the system's Python, which
  /// has none of the senders.
  private static let installed = folder.deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: ".build/senders")
  private static let python = installed.appending(path: "bin/python")

  /// Runs a Python sender, and gives what it printed.
  static func python(_ script: String, _ arguments: [String], input: Data = Data()) async throws -> Data {
    try #require(
      FileManager.default.isExecutableFile(atPath: python.path),
      "the senders are not installed; deploy/setup --tests does it")
    return try await run(
      python, ["-B", folder.appending(path: "senders/\(script)").path] + arguments, input: input)
  }

  /// Whether a library is there: not each goes with each Python.
  static func isInstalled(_ library: Library) -> Bool {
    let packages = installed.appending(path: "lib")
    let pythons = (try? FileManager.default.contentsOfDirectory(atPath: packages.path)) ?? []
    // Where nothing is installed, the test that says so runs.
    return pythons.allSatisfy {
      FileManager.default.fileExists(
        atPath: packages.appending(path: "\($0)/site-packages/\(library.name)").path)
    }
  }

  /// Runs the sender made of Node's core modules.
  static func node(_ arguments: [String]) async throws -> Data {
    let script = folder.appending(path: "senders/sender.mjs").path
    return try await run(URL(fileURLWithPath: "/usr/bin/env"), ["node", script] + arguments)
  }

  /// Runs a program from Debian.
  static func debian(_ name: String, _ arguments: [String]) async throws -> String {
    String(decoding: try await run(URL(fileURLWithPath: "/usr/bin/\(name)"), arguments), as: UTF8.self)
  }

  private static func run(_ program: URL, _ arguments: [String], input: Data = Data()) async throws -> Data {
    let running = try RunningProgram(program, arguments)
    running.send(Array(input))
    running.closeInput()
    let ending = try await running.ending()
    try #require(ending.code == 0, "\(program.lastPathComponent): \(ending.errors)\n\(ending.output)")
    return Data(ending.output.utf8)
  }
}

/// One answer of the provider API, as a sender saw it.
struct SeenAnswer: Decodable {
  let http: String?
  let status: Int
  let headers: [String: String]
  let body: String
  /// The headers that the sender gave.
  let sent: [String: String]?

  /// A header that must be a UUID in Apple's canonical form: lower case, five groups.
  func expectUUID(_ name: String, _ location: SourceLocation = #_sourceLocation) {
    let value = headers[name]
    #expect(
      value.flatMap { UUID(uuidString: $0) }?.uuidString.lowercased() == value && value != nil,
      "\(name) is \(value ?? "missing")", sourceLocation: location)
  }
}

/// A payload whose bytes no JSON library would write: blanks, a number with a trailing zero, an escaped letter.
struct OddPayload {
  let aps: String
  var body: String { "{ \"aps\" : \(aps) }" }

  init(at time: Date = Date()) {
    aps = """
      {"timestamp": \(Int(time.timeIntervalSince1970)), "event":"update",  "content-state":{"home":1.50,"clock":"45\\u2032"}}
      """
  }

  /// Writes the body into a file, and gives its path.
  func write(into folder: URL) throws -> String {
    let file = folder.appending(path: "payload.json")
    try body.write(to: file, atomically: false, encoding: .utf8)
    return file.path
  }
}
