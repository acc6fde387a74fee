// A server of its own for each test, and what its commands print.

import Foundation
import TestSupport
import Testing

/// A server on a free port.
struct Server {
  let program: RunningProgram
  let port: UInt16

  var address: String { "http://127.0.0.1:\(port)" }

  init(_ options: [String] = [], port wanted: UInt16 = 0) async throws {
    let store = options.contains("--store") ? [] : ["--store", "memory"]
    program = try Touchline.start(
      ["serve", "--listen", "127.0.0.1:\(wanted)", "--provider-listen", "off"] + store + options)
    let line = try await program.lines(1)[0]
    let text = try #require(line.split(separator: ":").last.map(String.init))
    port = try #require(UInt16(text), "\(line)")
  }

  /// Stops it, and checks that it ended well.
  func stop(_ signal: Int32 = SIGTERM) async throws {
    program.signal(signal)
    let ending = try await program.ending()
    #expect(ending.code == 0, "\(ending.errors)")
  }

  /// Runs a client's command to its end.
  @discardableResult
  func run(_ arguments: String..., input: [UInt8] = []) async throws -> Ending {
    try await Touchline.run(arguments, input: input, environment: ["TOUCHLINE_SERVER": address])
  }

  /// Runs a client's command that must succeed.
  @discardableResult
  func succeed(_ arguments: String..., input: [UInt8] = []) async throws -> Ending {
    let ending = try await Touchline.run(
      arguments, input: input, environment: ["TOUCHLINE_SERVER": address])
    try #require(ending.code == 0, "\(arguments.joined(separator: " ")): \(ending.errors)")
    return ending
  }

  /// Starts a client's command.
  func start(_ arguments: String...) throws -> RunningProgram {
    try Touchline.start(arguments, environment: ["TOUCHLINE_SERVER": address])
  }

  /// Starts `watch` and waits until it is subscribed.
  func watch(_ channel: String, _ options: String...) async throws -> RunningProgram {
    let watch = try Touchline.start(
      ["watch", channel, "--format", "json"] + options, environment: ["TOUCHLINE_SERVER": address])
    try await watch.notice("\(channel): ")
    return watch
  }

  /// What the server tells of a channel.
  func channel(_ name: String) async throws -> ShownChannel {
    try decoded(try await succeed("channel", "show", name, "--format", "json").output)
  }
}

/// Runs a test's body with a server, and stops it.
func withServer(_ options: [String] = [], _ body: (Server) async throws -> Void) async throws {
  let server = try await Server(options)
  try await body(server)
  try await server.stop()
}

/// Runs a test's body with a folder of its own, and removes it.
func withFolder(_ files: [String: String] = [:], _ body: (Folder) async throws -> Void) async throws {
  let folder = Folder(
    url: FileManager.default.temporaryDirectory.appendingPathComponent("touchline-\(UUID().uuidString)"))
  try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder.url) }
  for (name, text) in files { try folder.write(name, text) }
  try await body(folder)
}

struct Folder {
  let url: URL

  func path(_ name: String) -> String { url.appendingPathComponent(name).path }

  @discardableResult
  func write(_ name: String, _ text: String) throws -> String {
    try text.write(toFile: path(name), atomically: false, encoding: .utf8)
    return path(name)
  }
}

// MARK: What the commands print as JSON

func decoded<T: Decodable>(_ text: String) throws -> T {
  let decoder = JSONDecoder()
  decoder.keyDecodingStrategy = .custom { path in
    // "content-state" as contentState.
    let words = (path.last?.stringValue ?? "").split(separator: "-")
    return Key((words.prefix(1) + words.dropFirst().map { $0.capitalized[...] }).joined())
  }
  return try decoder.decode(T.self, from: Data(text.utf8))
}

private struct Key: CodingKey {
  let stringValue: String
  var intValue: Int? { nil }
  init(_ text: String) { stringValue = text }
  init?(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

/// A line of `watch --format json`, for states of numbers.
struct WatchedLine: Decodable {
  struct ShownAlert: Decodable, Equatable { let title, body, sound: String? }
  let at: Double
  let cause, state, channel, name: String
  let contentState: [String: Int]?
  let epoch: String?
  let seq: Int?
  let priority: Int?
  let alert: ShownAlert?
  let missed: Int
}

/// A line of `publish --format json` and `play --format json`.
struct AnsweredLine: Decodable {
  let line: Int?
  let outcome: String
  let reason, message: String?
  let uniqueId, channel: String?
}

/// What `channel show --format json` tells.
struct ShownChannel: Decodable {
  struct Definition: Decodable, Equatable {
    struct Budget: Decodable, Equatable {
      let capacity: Int?
      let refillPerHour: Double
      let overBudget: String
    }
    struct Rate: Decodable, Equatable {
      let perSecond: Double?
      let burst: Int?
    }
    let app: String
    let messageStoragePolicy: Int
    let frequentUpdates: Bool
    let budget: Budget
    let windows: [String: Double]
    let publishRate: Rate
  }
  let id: String
  let alias: String?
  let definition: Definition
  let epoch: String
  let seq: Int
  let counts: [String: Int]
}
