import Foundation
import TestSupport
import Testing

@Suite("Backup and restore", .enabled(if: Tool.sqlite != nil, missing("sqlite3")))
struct BackupTests {
  private static let script = project.appendingPathComponent("deploy/backup")

  private static func server(_ folder: URL) async throws -> DeployedServer {
    try await DeployedServer(
      in: folder, settings: [#""store": "\#(folder.appendingPathComponent("channels.sqlite").path)""#])
  }

  private static func epoch(_ server: DeployedServer) async throws -> String {
    let channel = try JSONSerialization.jsonObject(
      with: Data(try await server.command("channel", "show", "final", "--format", "json").utf8))
    return try #require((channel as? [String: Any])?["epoch"] as? String)
  }

  @Test("a store saved while it is written to has what was answered before, and works when it is put back")
  func saveAndRestore() async throws {
    try await withFolder { folder in
      let store = folder.appendingPathComponent("channels.sqlite").path
      let saved = folder.appendingPathComponent("saved.sqlite").path
      let server = try await Self.server(folder)
      try await server.command(
        "channel", "create", "final", "--app", "com.example.scores", "--storage", "latest")
      try await server.command("publish", "final", "--state", #"{"home":7}"#, "--expires-in", "1h")
      // Somebody publishes to another channel all the while, so that the store is never at rest.
      try await server.command(
        "channel", "create", "busy", "--app", "com.example.scores", "--storage", "latest")
      let feed = try Touchline.start(
        ["publish", "busy", "--lines", "--priority", "5", "--expires-in", "1h"],
        environment: ["TOUCHLINE_SERVER": server.address])
      for number in 0..<200 { feed.send("{\"n\":\(number)}\n") }
      try await feed.lines(1)
      let subscriber = try RawSocket(port: server.port)
      subscriber.upgrade(path: "/v1/channels/final/events")

      let first = try await Self.epoch(server)
      let said = try await succeed(Self.script, ["save", store, saved])
      #expect(said.hasPrefix("\(saved): "), "\(said)")
      // Nobody was closed, and the server goes on.
      try await server.command("publish", "final", "--state", #"{"home":8}"#, "--expires-in", "1h")
      #expect(try server.sessions() >= 1)
      feed.closeInput()
      feed.signal(SIGTERM)
      _ = try await feed.ending()

      // A running server's store is not replaced.
      let early = try RunningProgram(Self.script, ["restore", saved, store])
      let refused = try await early.ending()
      #expect(refused.code == 1 && refused.errors.contains("stop the server first"), "\(refused.errors)")
      try await server.stop()

      let restored = try await succeed(Self.script, ["restore", saved, store])
      #expect(restored.contains("restored \(store)") && restored.contains("what was there is now"))
      let again = try await Self.server(folder)
      let watch = try Touchline.start(
        ["watch", "final", "--format", "json"], environment: ["TOUCHLINE_SERVER": again.address])
      // The state of the backup, and not the one that was published after it.
      #expect(try await watch.lines(1)[0].contains(#""home":7"#))
      #expect(try await again.command("channel", "list").contains("busy"))
      // Numbers that were given after the backup are given again, so they must count in another epoch.
      #expect(try await Self.epoch(again) != first)
      watch.signal(SIGTERM)
      _ = try await watch.ending()
      try await again.stop()
      let mode = try FileManager.default.attributesOfItem(atPath: store)[.posixPermissions] as? Int
      #expect(mode == 0o600)
    }
  }

  @Test("a backup doesn't overwrite, a damaged one isn't put back, and what is missing is named")
  func refuses() async throws {
    try await withFolder { folder in
      let store = folder.appendingPathComponent("channels.sqlite").path
      let saved = folder.appendingPathComponent("saved.sqlite").path
      let server = try await Self.server(folder)
      try await server.command("channel", "create", "final", "--app", "com.example.scores")
      try await server.stop()
      try await succeed(Self.script, ["save", store, saved])
      func refusal(_ arguments: [String]) async throws -> String {
        let ending = try await RunningProgram(Self.script, arguments).ending()
        #expect(ending.code == 1, "\(ending.output)")
        return ending.errors
      }
      #expect(try await refusal(["save", store, saved]).contains("is there already"))
      #expect(try await refusal(["save", "\(store)x", "\(saved)x"]).contains("isn't there"))
      #expect(try await refusal(["restore", "\(saved)x", store]).contains("isn't there"))
      let handle = try #require(FileHandle(forWritingAtPath: saved))
      try handle.seek(toOffset: 4_096)
      try handle.write(contentsOf: Data(repeating: 0x5A, count: 4_096))
      try handle.close()
      let before = try Data(contentsOf: URL(fileURLWithPath: store))
      #expect(try await refusal(["restore", saved, store]).contains("is damaged"))
      #expect(try Data(contentsOf: URL(fileURLWithPath: store)) == before)
      let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
        $0.hasPrefix(".backup")
      }
      #expect(left.isEmpty)
    }
  }
}
