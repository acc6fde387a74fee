import Foundation
import TestSupport
import Testing

@Suite("intents")
struct IntentsTests {
  private static let final = """
    {"app": "com.example.scores", "content-state": {"followed": "Bool?", "muted": "Bool?"},
     "actions": {"follow": {"title": "Follow", "sets": {"followed": true}}, "mute": {"sets": {"muted": true}}}}
    """

  private struct Line: Decodable, Equatable {
    let requestId, channel, action: String
    let sets: [String: Bool]
  }

  private func withFinal(_ body: (Server) async throws -> Void) async throws {
    try await withFolder(["final.json": Self.final]) { folder in
      try await withServer(["--channels", folder.url.path], body)
    }
  }

  /// Presses buttons as a device does, with a client that knows nothing of this program.
  private func press(_ server: Server, _ presses: (action: String, id: String)...) async throws {
    let script = """
      import asyncio, json, sys, websockets
      async def main():
        async with websockets.connect("ws://127.0.0.1:\(server.port)/v1/events") as ws:
          for press in sys.argv[1:]:
            action, id = press.split(":")
            await ws.send(json.dumps({"type": "intent", "channel": "final", "action": action, "request-id": id}))
            assert json.loads(await ws.recv())["type"] == "intent-accepted"
      asyncio.run(main())
      """
    let program = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"), ["-c", script] + presses.map { "\($0.action):\($0.id)" })
    let ending = try await program.ending()
    try #require(ending.code == 0, "\(ending.errors)")
  }

  @Test("each pressed button is one line, for a person or as JSON, however often it was pressed")
  func lines() async throws {
    try await withFinal { server in
      let ids = (0..<2).map { _ in UUID().uuidString.lowercased() }
      try await press(server, ("follow", ids[0]))
      let plain = try server.start("intents", "final")
      let json = try server.start("intents", "final", "--format", "json")
      for program in [plain, json] { try await program.notice("final: listening") }
      try await press(server, ("follow", ids[0]), ("mute", ids[1]), ("mute", ids[1]))
      let expected = [#"\#(ids[0]) follow {"followed":true}"#, #"\#(ids[1]) mute {"muted":true}"#]
      #expect(try await plain.lines(2) == expected)
      let channel = try await server.channel("final").id
      let lines: [Line] = try await json.lines(2).map { try decoded($0) }
      #expect(
        lines[0] == Line(requestId: ids[0], channel: channel, action: "follow", sets: ["followed": true]))
      #expect(lines[1] == Line(requestId: ids[1], channel: channel, action: "mute", sets: ["muted": true]))
      for program in [plain, json] {
        program.signal(SIGINT)
        let ending = try await program.ending()
        #expect(ending.code == 0 && ending.lines.count == 2)
      }
    }
  }

  @Test("after a lost connection what was pressed meanwhile comes, and nothing twice")
  func reconnects() async throws {
    try await withFinal { server in
      let proxy = try CuttingProxy(to: server.port)
      let intents = try Touchline.start(["intents", "final", "--server", proxy.address])
      try await intents.notice("final: listening")
      let ids = (0..<3).map { _ in UUID().uuidString }
      try await press(server, ("follow", ids[0]))
      _ = try await intents.lines(1)
      proxy.cut()
      try await intents.notice("was lost")
      try await press(server, ("mute", ids[1]))
      proxy.restore()
      _ = try await intents.lines(2)
      try await press(server, ("follow", ids[2]))
      #expect(try await intents.lines(3).map { String($0.prefix(36)) } == ids)
      intents.signal(SIGTERM)
      let ending = try await intents.ending()
      #expect(ending.code == 0 && ending.lines.count == 3)
    }
  }

  @Test("it ends after --for, when its channel is deleted, and where there is nothing to listen to")
  func ends() async throws {
    try await withFinal { server in
      let timed = try await server.succeed("intents", "final", "--for", "0.2s")
      #expect(timed.output == "" && timed.errors == "final: listening\n")
      let intents = try server.start("intents", "final")
      try await intents.notice("final: listening")
      try await server.succeed("channel", "delete", "final")
      let deleted = try await intents.ending()
      #expect(deleted.code == 1 && deleted.errors.hasSuffix("touchline intents: the channel was deleted\n"))
      let unknown = try await server.run("intents", "final")
      #expect(unknown.code == 1 && unknown.output == "")
      #expect(
        unknown.errors.hasPrefix("touchline intents: ChannelNotRegistered: no channel has the id or alias"))
    }
    let nobody = try await Touchline.run(["intents", "final", "--server", "http://127.0.0.1:1"])
    #expect(nobody.code == 1 && nobody.errors.contains("is a server running at http://127.0.0.1:1?"))
  }
}
