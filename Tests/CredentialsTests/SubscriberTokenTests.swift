import BroadcastChannels
import Credentials
import Foundation
import Testing

@Suite("Subscriber tokens")
struct SubscriberTokenTests {
  let teams: TwoTeams
  let now = TwoTeams.now
  let id: ChannelID
  let alias: ChannelAlias

  init() throws {
    teams = try TwoTeams()
    id = try #require(ChannelID("AAECAwQFBgcICQoLDA0ODw=="))
    alias = try #require(ChannelAlias("final"))
  }

  private func minted(_ channels: [String], life: Double = 3_600) throws -> String {
    try SubscriberToken.mint(
      key: teams.key, keyID: teams.keyID, team: teams.team, channels: channels, issuedAt: now,
      expires: now.addingTimeInterval(life))
  }

  private func signed(_ claims: String) throws -> String {
    try teams.signed(#"{"alg":"ES256","kid":"ABC123DEFG","typ":"touchline-subscribe+jwt"}"#, claims)
  }

  private func refusal(_ text: String?, after: Double = 0) throws -> SubscriberToken.Refusal? {
    let verifier = TokenVerifier(keys: try teams.ring())
    do throws(SubscriberToken.Refusal) {
      _ = try verifier.subscriber(text, now: now.addingTimeInterval(after))
      return nil
    } catch {
      return error
    }
  }

  @Test("a token is for the channels that it names by id or alias, of the team's apps")
  func channels() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let scores = try bundle("com.example.scores")
    let other = try #require(ChannelID("/////w=="))
    let semifinal = try #require(ChannelAlias("semifinal"))
    for channels in [["final"], [id.base64], ["semi", "final"]] {
      let token = try verifier.subscriber(minted(channels), now: now)
      #expect(token.allows(channelID: id, alias: alias, app: scores))
      #expect(!token.allows(channelID: other, alias: nil, app: scores))
      #expect(!token.allows(channelID: other, alias: semifinal, app: scores))
      #expect(!token.allows(channelID: id, alias: alias, app: try bundle("org.example.other")))
      let error = #expect(throws: SubscriberToken.Refusal.self) {
        try token.check(channelID: other, alias: nil, app: scores)
      }
      #expect(error?.status == 403 && error?.reason == "ChannelNotAllowed")
    }
    let all = try verifier.subscriber(minted(["*"]), now: now)
    #expect(all.channels == .all && all.expires == now.addingTimeInterval(3_600))
    #expect(all.allows(channelID: other, alias: nil, app: scores))
    #expect(!all.allows(channelID: id, alias: alias, app: try bundle("org.example.other")))
  }

  @Test("a token is refused from its end on, also when it is remembered")
  func expiry() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let text = try minted(["final"])
    #expect(throws: Never.self) { try verifier.subscriber(text, now: now.addingTimeInterval(3_599)) }
    let error = #expect(throws: SubscriberToken.Refusal.self) {
      try verifier.subscriber(text, now: now.addingTimeInterval(3_600))
    }
    #expect(error?.status == 401 && error?.reason == "ExpiredSubscriberToken")
    #expect(verifier.signatureChecks == 1)
  }

  @Test("no token is 401 MissingSubscriberToken, and the detail names the three places")
  func missing() throws {
    let error = try #require(try refusal(nil))
    #expect(error == .missing && error.status == 401 && error.reason == "MissingSubscriberToken")
    for place in ["authorization: bearer", "touchline.token.", "query argument"] {
      #expect(error.detail.contains(place))
    }
  }

  @Test(
    "each fault of the claims is 401 InvalidSubscriberToken and is told",
    arguments: [
      (#"{"iss":"TEAM123456","iat":1800000000,"channels":["*"]}"#, "has no \"exp\""),
      (
        #"{"iss":"TEAM123456","iat":1800000000,"exp":1800000000,"channels":["*"]}"#,
        "its exp is not after its iat"
      ),
      (#"{"iss":"TEAM123456","iat":1800000000,"exp":1802592001,"channels":["*"]}"#, "is good for 2592001 s"),
      (#"{"iss":"TEAM123456","iat":1800000061,"exp":1800003600,"channels":["*"]}"#, "in the future"),
      (#"{"iss":"TEAM123456","exp":1800003600,"channels":["*"]}"#, "has no \"iat\""),
      (
        #"{"iss":"OTHER98765","iat":1800000000,"exp":1800003600,"channels":["*"]}"#,
        "belongs to the team TEAM123456"
      ),
      (#"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600}"#, "has no \"channels\""),
      (#"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":[]}"#, "channels is empty"),
      (
        #"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":"final"}"#,
        "channels is the string \"final\""
      ),
      (
        #"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":["final","*"]}"#,
        "(\"*\" stands alone)"
      ),
      (
        #"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":["a b"]}"#,
        "channels has the string \"a b\""
      ),
      (
        #"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":[7]}"#, "channels has the number 7"
      ),
    ])
  func claims(_ claims: String, _ detail: String) throws {
    let error = try refusal(signed(claims))
    #expect(error?.status == 401 && error?.reason == "InvalidSubscriberToken")
    #expect(error?.detail.contains(detail) == true, "\(error?.detail ?? "accepted")")
  }

  @Test("30 days are allowed, and the type may be written with application/")
  func longest() throws {
    #expect(try refusal(minted(["final"], life: 2_592_000)) == nil)
    let token = try teams.signed(
      #"{"alg":"ES256","kid":"ABC123DEFG","typ":"application/Touchline-Subscribe+JWT"}"#,
      #"{"iss":"TEAM123456","iat":1800000000,"exp":1800003600,"channels":["*"]}"#)
    #expect(try refusal(token) == nil)
  }

  @Test("a provider token can't subscribe, a subscriber token can't publish, a push token neither")
  func kinds() throws {
    let provider = try ProviderToken.mint(key: teams.key, keyID: teams.keyID, team: teams.team, at: now)
    #expect(try refusal(provider)?.detail.contains("a provider token can't subscribe") == true)
    #expect(try refusal(String(repeating: "ab", count: 32))?.detail.contains("push token") == true)
    let subscriber = try minted(["*"])
    let error = #expect(throws: Refusal.self) {
      try TokenVerifier(keys: teams.ring()).provider(authorization: "bearer \(subscriber)", now: now)
    }
    #expect(error?.reason == .invalidProviderToken)
    #expect(error?.detail.contains("a subscriber token, which can't publish") == true)
  }

  @Test("a token is found in each of its places, and the same one twice is one")
  func places() throws {
    func found(
      _ authorization: [String] = [], _ subprotocols: [String] = [], _ queryTokens: [String] = []
    ) throws -> String? {
      let found = try SubscriberToken.extract(
        authorization: authorization, subprotocols: subprotocols, queryTokens: queryTokens)
      return found.map { "\($0.text) in \($0.place)" }
    }
    let item = "touchline.token.a.b.c"
    #expect(try found(["Basic eDp5"], ["touchline.v1"], [""]) == nil)
    #expect(try found(["Bearer a.b.c"]) == "a.b.c in authorization")
    #expect(try found([], ["touchline.v1", item]) == "a.b.c in subprotocol")
    #expect(try found([], [], ["a.b.c"]) == "a.b.c in query")
    #expect(try found([], [item], ["a.b.c"]) == "a.b.c in subprotocol")
    #expect(try found(["bearer a.b.c"], [item], ["a.b.c"]) == "a.b.c in authorization")
  }

  @Test("two different tokens are refused, and neither is repeated")
  func ambiguity() throws {
    for (authorization, queries) in [(["bearer a.b.c"], ["d.e.f"]), ([], ["a.b.c", "d.e.f"])] {
      let error = #expect(throws: SubscriberToken.Refusal.self) {
        try SubscriberToken.extract(authorization: authorization, subprotocols: [], queryTokens: queries)
      }
      #expect(error?.status == 401)
      #expect(error?.detail.contains("two different tokens") == true)
      #expect(error?.detail.contains("a.b.c") == false && error?.detail.contains("d.e.f") == false)
    }
  }
}
