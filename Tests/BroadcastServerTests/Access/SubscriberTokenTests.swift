import BroadcastServer
import Foundation
import TestSupport
import Testing

@Suite("subscribers' tokens") struct SubscriberTokenTests {
  /// A server where `vip` wants a token and `final` is open.
  private func withChannels(_ body: (ServerFixture, Keys) throws -> Void) throws {
    let keys = try Keys()
    try withServer {
      $0.keys = keys.folder.path
      $0.definitions = [
        try definition("final"),
        try definition("vip", #"{"app":"com.example.scores","subscribe":"token"}"#),
        try definition("box", #"{"app":"com.example.scores","subscribe":"token"}"#),
      ]
    } _: {
      try body($0, keys)
    }
  }

  private func head(
    _ server: ServerFixture, _ path: String, _ headers: String = ""
  ) throws -> (status: String, socket: SubscriberSocket) {
    let socket = try SubscriberSocket(server, path, headers: headers)
    return (String(socket.head.dropFirst(9).prefix(3)), socket)
  }

  @Test("an open channel takes everybody, one with tokens asks for one: 401 with a body, 403 for another's")
  func handshake() throws {
    try withChannels { server, keys in
      #expect(try head(server, "/v1/channels/final/events").status == "101")
      #expect(try head(server, "/v1/channels/vip/events").status == "401")
      let missing = try server.send(.get("/v1/channels/vip/events").header("accept", "text/event-stream"))
      #expect(missing.status == 401 && missing.reason == "MissingSubscriberToken")
      #expect(missing.headers["www-authenticate"] == "Bearer realm=\"touchline\"")
      let other = Request.get("/v1/channels/vip").token(try keys.scores.subscriberToken(["box"]))
      #expect(try server.send(other).reason == "ChannelNotAllowed")
      let old = Request.get("/v1/channels/vip").token(
        try keys.scores.subscriberToken(["vip"], endsIn: -1, age: 60))
      let answer = try server.send(old)
      #expect(answer.status == 401 && answer.reason == "ExpiredSubscriberToken")
      let foreign = Request.get("/v1/channels/vip").token(try keys.news.subscriberToken(["*"]))
      #expect(try server.send(foreign).status == 403)
    }
  }

  @Test("a token is taken from the header, a subprotocol or the query", arguments: [0, 1, 2])
  func places(_ place: Int) throws {
    try withChannels { server, keys in
      let token = try keys.scores.subscriberToken(["vip"])
      let path = "/v1/channels/vip/events"
      let (status, socket) =
        switch place {
        case 0: try head(server, path, "authorization: Bearer \(token)\r\n")
        case 1: try head(server, path, "sec-websocket-protocol: touchline.v1, touchline.token.\(token)\r\n")
        default: try head(server, "\(path)?token=\(token)")
        }
      #expect(status == "101")
      #expect(!socket.head.contains(token))
      _ = try socket.receive("subscribed")
      #expect(!server.log.value.contains { $0.contains(token) })
    }
  }

  @Test("a near name is suggested to those who may know of its channel")
  func suggestions() throws {
    try withChannels { server, keys in
      struct Body: Decodable { let message: String }
      func message(_ token: String?) throws -> String {
        var request = Request.get("/v1/channels/vop")
        if let token { request = request.token(token) }
        let answer = try server.send(request)
        #expect(answer.status == 404 && answer.reason == "ChannelNotRegistered")
        return try answer.json(Body.self).message
      }
      let unknown = #"no channel has the id or alias "vop""#
      let suggested = #"\#(unknown); did you mean "vip"?"#
      #expect(try message(nil) == unknown)
      #expect(try !message(keys.scores.subscriberToken(["box"])).contains("vip"))
      #expect(try message(keys.news.token()) == unknown)
      #expect(try message(keys.scores.subscriberToken(["vip"])) == suggested)
      #expect(try message(keys.scores.token()) == suggested)
      // The same over frames.
      let session = try SubscriberSocket(server, "/v1/events")
      let frame = try session.ask(#"{"type":"subscribe","channel":"vop"}"#)
      #expect(frame.reason == "ChannelNotRegistered" && frame.message == unknown)
    }
  }

  @Test("two different tokens at once are refused")
  func two() throws {
    try withChannels { server, keys in
      let (a, b) = (try keys.scores.subscriberToken(["vip"]), try keys.scores.subscriberToken(["box"]))
      #expect(
        try server.send(.get("/v1/channels/vip?token=\(a)").token(b)).reason == "InvalidSubscriberToken")
    }
  }

  @Test("what stands in a subscriber's place is judged as a subscriber's token: 401, whatever it is")
  func subscribersPlaces() throws {
    try withChannels { server, keys in
      for text in ["x", try keys.scores.token()] {
        let answer = try server.send(.get("/v1/channels/final?token=\(text)"))
        #expect(answer.status == 401 && answer.reason == "InvalidSubscriberToken")
        #expect(answer.text.contains("subscriber token") && !answer.text.contains(text + "."))
        let item = "sec-websocket-protocol: touchline.v1, touchline.token.\(text)\r\n"
        #expect(try head(server, "/v1/channels/final/events", item).status == "401")
        #expect(try server.send(.get("/healthz?token=\(text)")).status == 200)
      }
      #expect(try server.send(.get("/v1/channels/final").token("x")).reason == "InvalidProviderToken")
    }
  }

  @Test("a session subscribes to what its token names, and publishes nothing")
  func session() throws {
    try withChannels { server, keys in
      let token = try keys.scores.subscriberToken(["vip"])
      let (_, socket) = try head(server, "/v1/events?token=\(token)")
      #expect(try socket.ask(#"{"type":"subscribe","channel":"vip"}"#).type == "subscribed")
      #expect(try socket.ask(#"{"type":"subscribe","channel":"final"}"#).type == "subscribed")
      #expect(try socket.ask(#"{"type":"subscribe","channel":"box"}"#).reason == "ChannelNotAllowed")
      #expect(try socket.ask(#"{"type":"listen","channel":"vip"}"#).reason == "InvalidProviderToken")
      let publish = #"{"type":"publish","channel":"vip","aps":\#(Request.aps())}"#
      #expect(try socket.ask(publish).reason == "InvalidProviderToken")
    }
  }

  @Test("a provider's session publishes for its own apps alone")
  func publisher() throws {
    try withChannels { server, keys in
      let publish = #"{"type":"publish","channel":"vip","aps":\#(Request.aps())}"#
      for (authorization, reason) in [
        ("", "MissingProviderToken"), ("authorization: bearer \(try keys.news.token())\r\n", "TopicMismatch"),
        ("authorization: bearer \(try keys.scores.token())\r\n", nil),
      ] {
        let (_, socket) = try head(server, "/v1/events", authorization)
        let answer = try socket.ask(publish)
        #expect(answer.reason == reason && (reason != nil || answer.type == "published"))
      }
    }
  }

  @Test("a connection is closed with 4001 when its token expires")
  func expiry() throws {
    try withChannels { server, keys in
      let token = try keys.scores.subscriberToken(["vip"], endsIn: 2)
      let (status, socket) = try head(server, "/v1/channels/vip/events?token=\(token)")
      #expect(status == "101")
      #expect(try socket.closeCode() == 4001)
    }
  }

  @Test("a connection is closed with 4003 when its key is withdrawn, and the others stay")
  func withdrawn() throws {
    try withChannels { server, keys in
      let path = "/v1/channels/vip/events?token="
      let (_, vip) = try head(server, path + (try keys.scores.subscriberToken(["vip"])))
      let (_, open) = try head(server, "/v1/channels/final/events")
      _ = try open.receive("subscribed")
      try keys.writeTeams("{broken")
      server.reload()
      try waitUntil("the broken file to be told") {
        server.log.value.contains {
          $0.contains("the keys stay as they were") && $0.contains("teams.json:1:")
        }
      }
      try keys.remove(keys.scores)
      try keys.add(Key("SCORESKEY2", "TEAMSCORES"))
      try keys.writeTeams(
        #"""
        {"TEAMSCORES": {"keys": ["SCORESKEY2"], "apps": ["com.example.scores"]},
         "TEAMNEWS01": {"keys": ["NEWSKEY001"], "apps": ["com.example.news.*"]}}
        """#)
      server.reload()
      #expect(try vip.closeCode() == 4003)
      open.send(#"{"type":"ack","channel":"final","seq":0}"#)
      #expect(try open.receive().type == "acknowledged")
    }
  }

  @Test("what a token doesn't open isn't listed")
  func listing() throws {
    try withChannels { server, keys in
      func aliases(_ request: Request) throws -> [String] {
        struct List: Decodable {
          struct Channel: Decodable { let alias: String }
          let channels: [Channel]
        }
        return try server.send(request).json(List.self).channels.map(\.alias).sorted()
      }
      let list = Request.get("/v1/channels")
      let box = list.token(try keys.scores.subscriberToken(["box"]))
      let (own, foreign) = (list.token(try keys.scores.token()), list.token(try keys.news.token()))
      #expect(try aliases(list) == ["final"])
      #expect(try aliases(box) == ["box", "final"])
      #expect(try aliases(own) == ["box", "final", "vip"])
      #expect(try aliases(foreign) == ["final"])
      let welcome = try server.send(.get("/")).text
      #expect(welcome.contains("final") && !welcome.contains("vip"))
    }
  }

  @Test("making and deleting channels by Touchline's own interface takes the app's provider token")
  func managing() throws {
    try withChannels { server, keys in
      let create = Request(
        method: "POST", path: "/v1/channels",
        body: Array(#"{"alias":"semi","definition":{"app":"com.example.scores"}}"#.utf8))
      let (own, foreign) = (try keys.scores.token(), try keys.news.token())
      let subscriber = try keys.scores.subscriberToken(["*"])
      #expect(try server.send(create).reason == "MissingProviderToken")
      #expect(try server.send(create.token(foreign)).reason == "TopicMismatch")
      #expect(try server.send(create.token(own)).status == 201)
      let delete = Request(method: "DELETE", path: "/v1/channels/semi")
      #expect(try server.send(delete.token(subscriber)).status == 403)
      #expect(try server.send(delete.token(own)).status == 204)
    }
  }

  @Test("a definition that wants tokens is refused by a server without keys", arguments: loopCounts)
  func noKeys(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let create = Request(
        method: "POST", path: "/v1/channels",
        body: Array(#"{"definition":{"app":"com.example.scores","subscribe":"token"}}"#.utf8))
      let answer = try server.send(create)
      #expect(answer.status == 400 && answer.reason == "BadDefinition" && answer.text.contains("--keys"))
    }
  }

  @Test("pages of other origins are kept out when origins are restricted", arguments: loopCounts)
  func origins(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.origins = ["https://scores.example.com"]
      $0.definitions = [try definition("final")]
    } _: { server in
      let path = "/v1/channels/final/events"
      #expect(try head(server, path).status == "101")
      #expect(try head(server, path, "origin: https://Scores.example.com\r\n").status == "101")
      #expect(try head(server, path, "origin: https://evil.example.com\r\n").status == "403")
      let own = try server.send(.get("/v1/channels").header("origin", "https://scores.example.com"))
      #expect(own.headers["access-control-allow-origin"] == "https://scores.example.com")
      #expect(try server.send(.get("/v1/channels").header("origin", "null")).reason == "OriginNotAllowed")
    }
  }

  @Test(
    "a page of an allowed origin can read why it was refused, and no other page can", arguments: loopCounts)
  func refusalsToPages(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.origins = ["https://scores.example.com"]
    } _: { server in
      let missing = Request.get("/v1/channels/nobody")
      let own = try server.send(missing.header("origin", "https://scores.example.com"))
      #expect(own.status == 404 && own.headers["vary"] == "origin")
      #expect(own.headers["access-control-allow-origin"] == "https://scores.example.com")
      let none = try server.send(missing)
      #expect(none.headers["vary"] == "origin" && none.headers["access-control-allow-origin"] == nil)
      let other = try server.send(missing.header("origin", "https://evil.example.com"))
      #expect(other.reason == "OriginNotAllowed" && other.headers["access-control-allow-origin"] == nil)
    }
  }

  @Test("a definition that begins to ask for tokens closes who shows none, also while the keys can't be read")
  func tightened() throws {
    let keys = try Keys()
    let channels = try TestFolder()
    func define(_ subscribe: String) throws {
      try Data(#"{"app":"com.example.scores","subscribe":"\#(subscribe)"}"#.utf8)
        .write(to: URL(fileURLWithPath: "\(channels.path)/final.json"))
    }
    try define("open")
    try withServer {
      $0.keys = keys.folder.path
      $0.definitions = try ChannelLibrary.load(folder: channels.path)
      $0.settings = { [path = channels.path] in $0.channels = path }
    } _: { server in
      let path = "/v1/channels/final/events"
      let stranger = try head(server, path).socket
      let token = try keys.scores.subscriberToken(["final"])
      let invited = try head(server, path, "authorization: Bearer \(token)\r\n").socket
      for socket in [stranger, invited] { _ = try socket.receive("subscribed") }
      try define("token")
      try keys.writeTeams("{")
      server.reload()
      #expect(try stranger.closeCode() == 4003)
      #expect(try head(server, path).status == "401")
      #expect(try invited.ask(#"{"type":"unsubscribe","channel":"final"}"#).type == "unsubscribed")
    }
  }

  @Test("the channels of a team that was withdrawn are for nobody, unless their definitions open them")
  func withdrawnTeam() throws {
    let keys = try Keys(subscribe: "token")
    try withServer {
      $0.keys = keys.folder.path
      $0.definitions = [
        try definition("final"),
        try definition("fanzone", #"{"app":"com.example.scores","subscribe":"open"}"#),
      ]
    } _: { server in
      let warning = "warning com.example.scores is an app of no team"
      #expect(!server.log.value.contains { $0.hasPrefix(warning) })
      try keys.remove(keys.scores)
      try keys.writeTeams(#"{"TEAMNEWS01": {"keys": ["NEWSKEY001"], "apps": ["com.example.news.*"]}}"#)
      server.reload()
      try server.log.wait("the warning") { $0.contains { $0.hasPrefix(warning) } }
      #expect(try head(server, "/v1/channels/final/events").status == "401")
      #expect(try head(server, "/v1/channels/fanzone/events").status == "101")
    }
  }
}
