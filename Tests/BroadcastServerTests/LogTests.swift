import BroadcastChannels
import BroadcastServer
import Foundation
import TestSupport
import Testing

@Suite struct LogTests {
  private func warnings(_ server: ServerFixture) -> [String] {
    server.log.value.filter { $0.hasPrefix("warning ") }
  }

  @Test func whatWouldGoWrongOnADeviceIsLoggedOnceForEachChannelAndKind() throws {
    try withServer {
      $0.definitions = [
        try definition("final", #"{"app":"com.example.scores","content-state":{"home":"Int","away":"Int"}}"#),
        try definition("other"),
      ]
    } _: { server in
      let misspelt = Request.aps(more: #""state-date":1,"#)
      let stale = Request.aps(more: #""stale-date":1,"#)
      for channel in ["final", "other"] {
        for aps in [misspelt, misspelt, stale, misspelt, stale] {
          let status = try server.send(.broadcast(to: channel, aps)).status
          #expect(status == 200)
        }
      }
      let lines = warnings(server)
      for channel in ["final", "other"] {
        for key in ["aps.state-date", "aps.stale-date"] {
          #expect(lines.count { $0.hasPrefix("warning channel \(channel): \(key) ") } == 1)
        }
      }
      #expect(lines.contains { $0.contains("did you mean \"stale-date\"?") })
      // Only the channel that declares its content state misses a property.
      #expect(lines.count { $0.contains("away") } == 1)
      #expect(lines.count == 5)
    }
  }

  @Test func noSecretThatAPayloadNamesIsLogged() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let device = try PushDevice(server).token()
      let secret = String(repeating: "0123456789abcdef", count: 4)
      let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0.c2lnbmF0dXJl"
      let aps = Request.aps(more: #""\#(secret)":1,"\#(token)":2,"#)
      #expect(try server.send(.broadcast(to: channel, aps)).status == 200)
      #expect(try server.send(.push(to: device, aps)).status == 200)
      let lines = warnings(server)
      #expect(lines.count { $0.contains("aps.01234567…") } == 2 && lines.count { $0.contains("eyJ…") } == 2)
      #expect(!lines.contains { $0.contains(secret) || $0.contains(token) || $0.contains(device) })
    }
  }

  @Test func aSoundPayloadIsNotRemarkedOn() throws {
    try withServer { server in
      let channel = try server.createChannel()
      #expect(try server.send(.broadcast(to: channel, Request.aps(more: Request.alert))).status == 200)
      #expect(warnings(server).isEmpty)
    }
  }

  /// What a client could put into a name to begin a line of its own, to paint, or to turn text around.
  @Test(arguments: [
    #"\n"#, #"\r\n"#, #"\u001b[31m"#, #"\u0085"#, #"\u2028"#, #"\u2029"#, #"\u202e"#, #"\u0000"#,
  ])
  func aClientCannotForgeALine(_ escape: String) throws {
    try withServer { server in
      let channel = try server.createChannel()
      let before = server.log.value.count
      let aps = Request.aps(more: #""x\#(escape)error the store failed":1,"#)
      #expect(try server.send(.broadcast(to: channel, aps)).status == 200)
      let lines = server.log.value.dropFirst(before).filter { !$0.hasPrefix("debug ") }
      try #require(lines.count == 1)
      let line = try #require(lines.first)
      #expect(line.contains("error the store failed") && line.contains(#"\u{"#))
      let painting = line.unicodeScalars.filter {
        $0.properties.generalCategory == .control || $0.properties.isBidiControl
      }
      #expect(painting.isEmpty && !line.contains { $0.isNewline })
    }
  }

  @Test func aClientCannotFillTheLog() throws {
    try withServer {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let connection = try ProviderConnection(server)
      for number in 0..<500 {
        let aps = Request.aps(more: #""key\#(number)":1,"#)
        #expect(try connection.send(.broadcast(to: "final", aps)).status == 200)
      }
      #expect(warnings(server).count == Limits.notesPerChannel)
    }
  }
}
