import Foundation
import TestSupport
import Testing

/// A running `touchline serve` with everything that a sender is pointed at: HTTP/2 over TLS, a certificate authority made
/// on its first start, and the keys of two teams.
struct ProviderServer {
  /// A team's key, as a sender is given it.
  struct Key {
    let id: String
    let team: String
    let app: String
    let file: String
  }

  let program: RunningProgram
  /// HTTP/1.1 and WebSocket.
  let port: UInt16
  /// HTTP/2 over TLS.
  let providerPort: UInt16
  let folder: URL
  let key: Key
  /// Another team's, with another app.
  let otherKey: Key

  var authority: String { folder.appending(path: "tls/ca.pem").path }

  /// The options that every sender of this target takes.
  var senderOptions: [String] {
    [
      "--host", "127.0.0.1", "--port", "\(providerPort)", "--ca", authority, "--key", key.file,
      "--key-id", key.id, "--team", key.team, "--app", key.app,
    ]
  }

  /// - Parameter channels: definitions by their alias.
  init(_ folder: URL, channels: [String: String], options: [String] = []) async throws {
    self.folder = folder
    let definitions = folder.appending(path: "channels")
    try FileManager.default.createDirectory(at: definitions, withIntermediateDirectories: true)
    for (alias, definition) in channels {
      try definition.write(
        to: definitions.appending(path: "\(alias).json"), atomically: false, encoding: .utf8)
    }
    key = try await Self.makeKey(
      in: folder, team: "TEAM123456", apps: ["com.example.scores", "com.example.tables"])
    otherKey = try await Self.makeKey(in: folder, team: "TEAM654321", apps: ["com.example.rivals"])
    program = try Touchline.start(
      [
        "serve", "--listen", "127.0.0.1:0", "--provider-listen", "127.0.0.1:0", "--store", "memory",
        "--tls-dir", folder.appending(path: "tls").path, "--keys", folder.appending(path: "keys").path,
        "--channels", definitions.path,
      ] + options)
    let ports = try await program.lines(2).map { line in
      try #require(line.split(separator: ":").last.flatMap { UInt16($0) }, "\(line)")
    }
    (port, providerPort) = (ports[0], ports[1])
  }

  private static func makeKey(in folder: URL, team: String, apps: [String]) async throws -> Key {
    let keys = folder.appending(path: "keys")
    let before = Set((try? FileManager.default.contentsOfDirectory(atPath: keys.path)) ?? [])
    let ending = try await Touchline.run(
      ["token", "new-key", "--dir", keys.path, "--team", team, "--app", apps.joined(separator: ",")])
    try #require(ending.code == 0, "\(ending.errors)")
    let made = try FileManager.default.contentsOfDirectory(atPath: keys.path).filter { $0.hasSuffix(".p8") }
    let name = try #require(made.first { !before.contains($0) })
    let id = name.dropFirst("AuthKey_".count).dropLast(".p8".count)
    return Key(id: String(id), team: team, app: apps[0], file: keys.appending(path: name).path)
  }

  /// Runs a command of the program to its end, which must be a good one.
  @discardableResult
  func succeed(_ arguments: String...) async throws -> Ending {
    let ending = try await Touchline.run(
      arguments, environment: ["TOUCHLINE_SERVER": "http://127.0.0.1:\(port)"])
    try #require(ending.code == 0, "\(arguments.joined(separator: " ")): \(ending.errors)")
    return ending
  }

  /// What a channel has counted, by name.
  func counts(_ channel: String) async throws -> [String: Int] {
    struct Shown: Decodable { let counts: [String: Int] }
    let shown = try await succeed("channel", "show", channel, "--format", "json").output
    return try JSONDecoder().decode(Shown.self, from: Data(shown.utf8)).counts
  }

  /// A provider token, as `touchline token mint` prints it.
  func token() async throws -> String {
    try await succeed("token", "mint", "--key", key.file, "--team", key.team).lines[0]
  }
}

/// A channel without limits, so that nothing is held back.
let openChannel = """
  {
    "app": "com.example.scores",
    "budget": { "capacity": null },
    "publish-rate": { "per-second": null }
  }
  """

/// Runs a test's body with a server in a folder of its own, stops it and checks that it ended well.
func withProviderServer(
  channels: [String: String] = ["final": openChannel], options: [String] = [],
  _ body: (ProviderServer) async throws -> Void
) async throws {
  let folder = FileManager.default.temporaryDirectory.appending(path: "touchline-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  let server = try await ProviderServer(folder, channels: channels, options: options)
  try await body(server)
  server.program.signal(SIGTERM)
  let ending = try await server.program.ending()
  #expect(ending.code == 0, "\(ending.errors)")
}
