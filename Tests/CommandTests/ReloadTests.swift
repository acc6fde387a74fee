import Foundation
import TestSupport
import Testing

@Suite("SIGHUP")
struct ReloadTests {
  /// A server whose settings are a file, started and told again.
  private struct Served {
    let server: Server
    let folder: Folder

    func configure(_ more: String) throws { try Self.configure(folder, more) }

    static func configure(_ folder: Folder, _ more: String) throws {
      try folder.write("touchline.json", #"{"channels": "\#(folder.path("channels"))", \#(more)}"#)
    }

    /// Reloads, and waits for a line of the log.
    @discardableResult
    func reload(_ line: String) async throws -> String {
      server.program.signal(SIGHUP)
      return try await server.program.notice(line)
    }
  }

  private func serve(
    _ settings: String, _ channels: [String: String], _ body: (Served) async throws -> Void
  ) async throws {
    try await withFolder { folder in
      try FileManager.default.createDirectory(
        atPath: folder.path("channels"), withIntermediateDirectories: true)
      for (name, text) in channels { try folder.write("channels/\(name).json", text) }
      try Served.configure(folder, settings)
      let served = Served(
        server: try await Server(["--config", folder.path("touchline.json")]), folder: folder)
      try await body(served)
      try await served.server.stop()
    }
  }

  private static let scores = #"{"app": "com.example.scores"}"#

  @Test("new definitions become channels, changed ones take over, vanished ones stay and are named")
  func channels() async throws {
    try await serve(#""log-level": "info""#, ["final": Self.scores, "semi": Self.scores]) { served in
      try await served.server.succeed("publish", "final", "--state", #"{"n":1}"#)
      let before = try await served.server.channel("final")
      try served.folder.write("channels/third.json", Self.scores)
      try served.folder.write(
        "channels/final.json",
        #"{"app": "com.example.scores", "budget": {"capacity": 7, "refill-per-hour": 60}}"#)
      try FileManager.default.removeItem(atPath: served.folder.path("channels/semi.json"))
      let line = try await served.reload("the channel definitions were read again")
      #expect(line.hasSuffix("created third; changed final; 0 unchanged"), "\(line)")
      let after = try await served.server.channel("final")
      #expect(after.id == before.id && after.seq == 1 && after.definition.budget.capacity == 7)
      #expect(after.counts["accepted"] == 1)
      _ = try await served.server.channel("third")
      _ = try await served.server.channel("semi")
      let gone = try await served.server.program.notice("channel semi: its definition is gone")
      #expect(gone.contains(" warning ") && gone.contains("touchline channel delete semi"))
    }
  }

  @Test("one broken definition leaves all channels as they were, and the rest is reloaded all the same")
  func brokenChannel() async throws {
    try await serve(#""log-level": "info""#, ["final": Self.scores]) { served in
      try served.folder.write("channels/third.json", Self.scores)
      try served.folder.write("channels/broken.json", "{")
      try served.configure(#""log-level": "debug""#)
      let line = try await served.reload("the channels stay as they were")
      #expect(line.contains(" error ") && line.contains("broken.json:1:2: error: not JSON"), "\(line)")
      try await served.server.program.notice("the settings were read again: log-level info -> debug")
      let third = try await served.server.run("channel", "show", "third")
      #expect(third.code == 1)
      try await served.server.succeed("publish", "final", "--state", #"{"n":1}"#)
      try await served.server.program.notice(" debug request publish ")
    }
  }

  @Test("a definition that contradicts its channel leaves all channels as they were")
  func conflict() async throws {
    try await serve(#""log-level": "info""#, ["final": Self.scores]) { served in
      try served.folder.write("channels/a.json", Self.scores)
      try served.folder.write("channels/final.json", #"{"app": "com.example.other"}"#)
      let line = try await served.reload("the channels stay as they were")
      #expect(line.contains("final.json: the store holds \"final\" with another app"), "\(line)")
      #expect(try await served.server.run("channel", "show", "a").code == 1)
    }
  }

  @Test("a broken configuration file leaves every setting as it was")
  func brokenFile() async throws {
    try await serve(#""log-level": "info", "metrics": "all""#, ["final": Self.scores]) { served in
      try served.configure(#""log-level": "loud", "metrics": "off""#)
      let line = try await served.reload("the settings stay as they were")
      #expect(line.contains("touchline.json:1:") && line.contains("log-level: is the string"), "\(line)")
      // What it names is read again by the old settings.
      try await served.server.program.notice("the channel definitions were read again: 1 unchanged")
      try served.configure(#""log-level": "info", "metrics": "all""#)
      try await served.reload("the settings were read again: none changed")
      try FileManager.default.removeItem(atPath: served.folder.path("touchline.json"))
      try await served.reload("touchline.json: there is no such file")
    }
  }

  @Test("what can't change while the server runs is named")
  func restart() async throws {
    try await serve(#""ping-seconds": 20"#, ["final": Self.scores]) { served in
      try served.configure(
        #""ping-seconds": 10, "strict": true, "environment": "production", "log-format": "json""#)
      let line = try await served.reload("needs a restart")
      #expect(line.contains(" warning strict, environment: changed, and needs a restart"), "\(line)")
      try await served.server.program.notice("ping-seconds 20 -> 10, log-format text -> json")
      // From now on the log is JSON, and the same settings are told again.
      let json = try await served.reload("{\"ts\":")
      #expect(json.contains("\"event\":\"settings-reloaded\""), "\(json)")
    }
  }

  @Test("keys come and go, and a broken folder leaves them")
  func keys() async throws {
    try await withFolder { folder in
      let keys = folder.path("keys")
      func makeKey() async throws -> String {
        let made = try await Touchline.run([
          "token", "new-key", "--dir", keys, "--team", "TEAM123456", "--app", "com.example.scores",
        ])
        let words = try #require(made.lines.first).split(separator: " ")
        return String(try #require(words.last))
      }
      _ = try await makeKey()
      let server = try await Server(["--keys", keys])
      let second = try await makeKey()
      server.program.signal(SIGHUP)
      let line = try await server.program.notice("the keys were read again")
      #expect(line.hasSuffix("1 teams, 2 keys, new \(second)"), "\(line)")
      try folder.write("keys/teams.json", "{")
      server.program.signal(SIGHUP)
      let broken = try await server.program.notice("the keys stay as they were")
      #expect(broken.contains(" error ") && broken.contains("teams.json:1:2"), "\(broken)")
      let list = try await server.run(
        "channel", "create", "final", "--key", "\(keys)/AuthKey_\(second).p8", "--team", "TEAM123456")
      #expect(list.code == 0, "\(list.errors)")
      try await server.stop()
    }
  }
}
