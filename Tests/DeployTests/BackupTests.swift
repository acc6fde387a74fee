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
      let kept = try Data(contentsOf: URL(fileURLWithPath: store))
      #expect(try await refusal(["restore", saved, folder.path]).contains("is a folder"))
      // No room for a copy: what is there stays.
      let full = try await RunningProgram(
        URL(fileURLWithPath: "/usr/bin/prlimit"), ["--fsize=1000", Self.script.path, "restore", saved, store]
      ).ending()
      #expect(full.code == 1 && full.errors.contains("Nothing was changed"), "\(full.errors)")
      #expect(try Data(contentsOf: URL(fileURLWithPath: store)) == kept)
      let handle = try #require(FileHandle(forWritingAtPath: saved))
      try handle.seek(toOffset: 4_096)
      try handle.write(contentsOf: Data(repeating: 0x5A, count: 4_096))
      try handle.close()
      let before = try Data(contentsOf: URL(fileURLWithPath: store))
      #expect(try await refusal(["restore", saved, store]).contains("is damaged"))
      #expect(try Data(contentsOf: URL(fileURLWithPath: store)) == before)
      let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
        $0.hasPrefix(".backup") || $0.hasPrefix(".restore") || $0.contains(".before-")
      }
      #expect(left.isEmpty)
    }
  }

  private static let command = URL(fileURLWithPath: "/usr/bin/sqlite3")

  private static func makeStore(_ folder: URL, with channel: String) async throws {
    let server = try await Self.server(folder)
    try await server.command("channel", "create", channel, "--app", "com.example.scores")
    try await server.stop()
  }

  private static func files(_ folder: URL) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
      $0.hasPrefix("channels.sqlite")
    }
    .sorted()
  }

  /// What `kill -9` leaves: the channel is in the log alone. SQLite would take such a log for that of whatever file lies beside it.
  @Test("a log that is left of a file that was removed isn't taken for the restored file's")
  func leftoverLog() async throws {
    try await withFolder { folder in
      let store = folder.appendingPathComponent("channels.sqlite").path
      let saved = folder.appendingPathComponent("saved.sqlite").path
      try await Self.makeStore(folder, with: "old")
      try await succeed(Self.script, ["save", store, saved])
      let server = try await Self.server(folder)
      try await server.command("channel", "create", "new", "--app", "com.example.scores")
      server.program.signal(SIGKILL)
      _ = try await server.program.ending()
      try #require(try Self.files(folder).contains("channels.sqlite-wal"))
      try FileManager.default.removeItem(atPath: store)

      let said = try await succeed(Self.script, ["restore", saved, store])
      #expect(said.contains("what was there is now \(store).before-") && said.contains("-wal\n"), "\(said)")
      #expect(try Self.files(folder).filter { !$0.contains(".before-") } == ["channels.sqlite"])
      let again = try await Self.server(folder)
      let list = try await again.command("channel", "list")
      #expect(list.contains(" old ") && !list.contains(" new "), "\(list)")
      try await again.stop()
    }
  }

  @Test("a store behind a symlink is saved with its log, and restored where it lies")
  func symlink() async throws {
    try await withFolder { folder in
      let link = folder.appendingPathComponent("link.sqlite").path
      let store = folder.appendingPathComponent("channels.sqlite").path
      let saved = folder.appendingPathComponent("saved.sqlite").path
      try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: store)
      let server = try await Self.server(folder)
      try await server.command("channel", "create", "final", "--app", "com.example.scores")
      try await succeed(Self.script, ["save", link, saved])
      #expect(try await succeed(Self.command, [saved, "SELECT alias FROM channels"]) == "final\n")
      try await server.stop()
      try await succeed(Self.script, ["restore", saved, link])
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == store)
      #expect(try await succeed(Self.command, [store, "SELECT alias FROM channels"]) == "final\n")
    }
  }

  @Test("another program's file is neither saved nor put back")
  func foreign() async throws {
    try await withFolder { folder in
      let other = folder.appendingPathComponent("other.sqlite").path
      try await succeed(Self.command, [other, "CREATE TABLE t (n)"])
      for arguments in [["save", other, "\(other).saved"], ["restore", other, "\(other).store"]] {
        let ending = try await RunningProgram(Self.script, arguments).ending()
        #expect(
          ending.code == 1 && ending.errors.contains(": \(other) is no store of touchline"),
          "\(ending.errors)")
      }
      let left = try FileManager.default.contentsOfDirectory(atPath: folder.path)
      #expect(left == ["other.sqlite"])
    }
  }

  @Test(
    "a server that can't be seen from here, as in a container, is not taken for none",
    .enabled(if: geteuid() == 0, "another namespace of processes needs root"))
  func unseen() async throws {
    try await withFolder { folder in
      let store = folder.appendingPathComponent("channels.sqlite").path
      let saved = folder.appendingPathComponent("saved.sqlite").path
      let server = try await Self.server(folder)
      try await server.command("channel", "create", "final", "--app", "com.example.scores")
      try await succeed(Self.script, ["save", store, saved])
      for arguments in [["save", store, "\(saved)2"], ["restore", saved, store]] {
        let apart = try RunningProgram(
          URL(fileURLWithPath: "/usr/bin/unshare"),
          ["--pid", "--fork", "--mount-proc", Self.script.path] + arguments)
        let ending = try await apart.ending()
        #expect(
          ending.code == 1 && ending.errors.contains("a process that can't be seen from here"),
          "\(ending.errors)")
      }
      #expect(try await server.command("channel", "list").contains("final"))
      try await server.stop()
    }
  }
}
