import BroadcastServer
import Foundation
import TestSupport
import Testing

@Suite("provider tokens") struct ProviderTokenTests {
  private static let unknownChannel = "dHN0LXNyY2gtY2hubA=="
  private static var now: Int { Int(Date().timeIntervalSince1970) }

  private func withKeys(
    _ strictness: Set<ServerConfiguration.Strictness> = [], _ body: (ServerFixture, Keys) throws -> Void
  ) throws {
    let keys = try Keys()
    try withServer {
      $0.keys = keys.folder.path
      $0.strictness = strictness
    } _: {
      try body($0, keys)
    }
  }

  private func expect(
    _ answer: Answer, _ status: Int, _ reason: String, _ words: String = "",
    _ location: SourceLocation = #_sourceLocation
  ) {
    #expect(answer.status == status && answer.reason == reason, "\(answer)", sourceLocation: location)
    #expect(
      words.isEmpty || answer.headers["touchline-detail"]?.contains(words) == true, "\(answer.headers)",
      sourceLocation: location)
  }

  @Test("a good token creates, broadcasts, lists, reads and deletes")
  func good() throws {
    try withKeys { server, keys in
      let token = try keys.scores.token()
      let created = try server.send(.create().token(token))
      let channel = try #require(created.headers["apns-channel-id"])
      #expect(created.status == 201)
      #expect(try server.send(.broadcast(to: channel).token(token)).status == 200)
      #expect(try server.send(.list().token(token)).text == #"{"channels":["\#(channel)"]}"#)
      #expect(try server.send(.read(channel).token(token)).status == 200)
      #expect(try server.send(.delete(channel).token(token)).status == 204)
    }
  }

  @Test("each kind of bad token has its reason")
  func bad() throws {
    try withKeys { server, keys in
      func answer(_ token: String) throws -> Answer { try server.send(.list().token(token)) }
      let (scores, now) = (keys.scores, Self.now)
      let claims = #"{"iss":"TEAMSCORES","iat":\#(now)}"#
      expect(try server.send(.list()), 403, "MissingProviderToken", "authorization: bearer")
      expect(try server.send(.list().header("authorization", "bearer")), 403, "MissingProviderToken")
      expect(try server.send(.list().header("authorization", "basic eDp5")), 403, "InvalidProviderToken")
      expect(try answer("x.y"), 403, "InvalidProviderToken", "three parts")
      expect(
        try answer(scores.token(header: #"{"alg":"none","kid":"SCORESKEY1"}"#, claims: claims)), 403,
        "InvalidProviderToken", "ES256 was expected")
      expect(
        try answer(scores.token(header: #"{"alg":"HS256","kid":"SCORESKEY1"}"#, claims: claims)), 403,
        "InvalidProviderToken", "ES256 was expected")
      expect(
        try answer(scores.token(header: #"{"alg":"ES256","kid":"OTHERKEY01"}"#, claims: claims)), 403,
        "InvalidProviderToken", "OTHERKEY01 is not known")
      expect(
        try answer(scores.token(header: #"{"alg":"ES256","kid":"NEWSKEY001"}"#, claims: claims)), 403,
        "InvalidProviderToken", "signature")
      expect(
        try answer(scores.token(claims: #"{"iss":"TEAMNEWS01","iat":\#(now)}"#)), 403, "InvalidProviderToken",
        "belongs to the team TEAMSCORES")
      expect(
        try answer(scores.token(claims: #"{"iss":"TEAMSCORES"}"#)), 403, "InvalidProviderToken", "no \"iat\"")
      expect(try answer(scores.token(age: 3_610)), 403, "ExpiredProviderToken", "s old")
      expect(try answer(scores.token(age: -120)), 403, "InvalidProviderToken", "in the future")
      expect(try answer(scores.subscriberToken(["*"])), 403, "InvalidProviderToken", "subscriber token")
    }
  }

  @Test("a topic of another team is TopicMismatch, before the channel is looked at")
  func topicMismatch() throws {
    try withKeys { server, keys in
      let answer = try server.send(.broadcast(to: "***").token(try keys.news.token()))
      expect(answer, 403, "TopicMismatch", "com.example.scores is no app of the team TEAMNEWS01")
      let wild = Request.create(app: "com.example.news.sport").token(try keys.news.token())
      #expect(try server.send(wild).status == 201)
    }
  }

  @Test("the token comes after path and method, and before everything else")
  func order() throws {
    try withKeys { server, _ in
      expect(try server.send(.get("/1/apps/x")), 404, "BadPath")
      var put = Request.list()
      put.method = "PUT"
      expect(try server.send(put), 405, "MethodNotAllowed")
      expect(
        try server.send(.broadcast(to: "***").header("apns-request-id", "7")), 403, "MissingProviderToken")
    }
  }

  @Test("what real senders write in a token is taken, and refused when strict")
  func senders() throws {
    let now = Self.now
    let forms = [
      #"{"iss":"TEAMSCORES","iat":\#(now).25}"#, #"{"iss":"TEAMSCORES","iat":"\#(now)"}"#,
    ]
    for strict in [false, true] {
      try withKeys(strict ? [.tokenClaims] : []) { server, keys in
        for claims in forms {
          let answer = try server.send(.list().token(try keys.scores.token(claims: claims)))
          #expect(answer.status == (strict ? 403 : 200), "\(claims)")
        }
        let claims = "{\n\"iss\":\"TEAMSCORES\",\n\"iat\":\(now),\"exp\":\(now + 60)}"
        #expect(try server.send(.list().token(keys.scores.token(claims: claims))).status == 200)
        let capital = Request.list().token(try keys.scores.token(), scheme: "Bearer")
        #expect(try server.send(capital).status == (strict ? 403 : 200))
      }
    }
  }

  @Test("one connection serves one team")
  func oneTeam() throws {
    try withKeys { server, keys in
      let connection = try ProviderConnection(server)
      #expect(try connection.send(.list().token(keys.scores.token())).status == 200)
      expect(
        try connection.send(.list(app: "com.example.news.sport").token(try keys.news.token())), 403,
        "InvalidProviderToken", "a connection serves one team")
      #expect(try connection.send(.list().token(keys.scores.token(age: 5))).status == 200)
    }
  }

  @Test("a new token too soon on a connection is refused when that is asked for")
  func pacing() throws {
    try withKeys([.tokenRefresh]) { server, keys in
      let connection = try ProviderConnection(server)
      let first = try keys.scores.token(age: 5)
      #expect(try connection.send(.list().token(first)).status == 200)
      expect(
        try connection.send(.list().token(try keys.scores.token())), 429, "TooManyProviderTokenUpdates")
      #expect(try connection.send(.list().token(first)).status == 200)
      #expect(try server.send(.list().token(keys.scores.token())).status == 200)
    }
  }

  @Test("headers that Apple requires and senders leave out are refused when strict")
  func strictHeaders() throws {
    for strict in [false, true] {
      try withServer {
        $0.strictness = strict ? [.headers] : []
      } _: { server in
        let channel = try server.createChannel()
        let noPriority = try server.send(.broadcast(to: channel).header("apns-priority", nil))
        let noExpiration = try server.send(.broadcast(to: channel).header("apns-expiration", nil))
        #expect(noPriority.status == (strict ? 400 : 200) && noExpiration.status == (strict ? 400 : 200))
        #expect(noPriority.reason == (strict ? "BadPriority" : nil))
        #expect(noExpiration.reason == (strict ? "BadExpirationDate" : nil))
      }
    }
  }

  @Test("the request log is for providers, each sees the requests for its own apps, refused ones too")
  func requestLog() throws {
    try withKeys { server, keys in
      let (scores, news) = (try keys.scores.token(), try keys.news.token())
      _ = try server.send(.list())
      _ = try server.send(.list(app: "com.example.news.sport").token(news))
      #expect(try server.send(.get("/v1/requests")).reason == "MissingProviderToken")
      let own = try server.send(.get("/v1/requests").token(scores)).text
      #expect(own.contains("MissingProviderToken") && own.contains("com.example.scores"))
      #expect(!own.contains("com.example.news") && !own.contains(scores))
    }
  }

  @Test("a provider also sees what it asked for in vain: a wrong path, method or app, with its own token")
  func ownMistakes() throws {
    try withKeys { server, keys in
      let (scores, news) = (try keys.scores.token(), try keys.news.token())
      var put = Request.list()
      put.method = "PUT"
      for request in [
        .get("/4/broadcast/x"), put, .list(app: "com.example.other"),
        .list(app: "com.example.scores.push-type.liveactivity"),
        Request(method: "POST", path: "/3/device/abcd"),
      ] {
        _ = try server.send(request.token(scores))
      }
      let reasons = ["BadPath", "MethodNotAllowed", "TopicMismatch", "TopicDisallowed", "BadDeviceToken"]
      let own = try server.send(.get("/v1/requests").token(scores)).text
      let others = try server.send(.get("/v1/requests").token(news)).text
      // The method is wrong on a path of the team's own app, which its name alone tells.
      #expect(reasons.allSatisfy { own.contains($0) }, "\(own)")
      #expect(!reasons.contains { others.contains($0) }, "\(others)")
    }
  }
}
