import BroadcastChannels
import Credentials
import Foundation
import Testing
import TestSupport

@Suite("Provider tokens")
struct ProviderTokenTests {
  let teams: TwoTeams
  let now = TwoTeams.now
  /// `now` in Unix seconds.
  let seconds = 1_800_000_000

  init() throws { teams = try TwoTeams() }

  /// How a header is judged.
  private func refusal(_ header: String?, strict: Bool = false, after: Double = 0) throws -> Refusal? {
    let verifier = TokenVerifier(keys: try teams.ring(), strict: strict)
    do throws(Refusal) {
      _ = try verifier.provider(authorization: header, now: now.addingTimeInterval(after))
      return nil
    } catch {
      return error
    }
  }

  private func good(at age: Double = 0) throws -> String {
    try ProviderToken.mint(
      key: teams.key, keyID: teams.keyID, team: teams.team, at: now.addingTimeInterval(-age))
  }

  @Test("a good token tells its team, key and time")
  func accepted() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let token = try verifier.provider(authorization: "bearer \(good(at: 60))", now: now)
    #expect(token.team.id == teams.team && token.keyID == teams.keyID)
    #expect(token.issuedAt == now.addingTimeInterval(-60))
    #expect(token.expires == nil)
  }

  @Test("a minted token has Apple's header and claims, and nothing else")
  func minted() throws {
    let jws = try CompactJWS(good())
    #expect(jws.header.bytes == Array(#"{"alg":"ES256","kid":"ABC123DEFG"}"#.utf8))
    #expect(jws.payload == Array(#"{"iss":"TEAM123456","iat":1800000000}"#.utf8))
  }

  @Test("a token that Python's cryptography signed is good, and it accepts ours")
  func independent() throws {
    let folder = try Folder()
    try folder.write(try teams.key.pem(), "key.p8")
    let script = """
      import base64, sys
      try:
          from cryptography.hazmat.primitives import hashes, serialization
          from cryptography.hazmat.primitives.asymmetric import ec, utils
      except ImportError:
          print("none"); sys.exit()
      b = lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=")
      key = serialization.load_pem_private_key(open("\(folder.file("key.p8"))", "rb").read(), None)
      text = b(b'{"kid": "ABC123DEFG", "alg": "ES256", "typ": "JWT"}') + b"." + b(b'{"iat": \(seconds).25, "iss": "TEAM123456"}')
      r, s = utils.decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
      print((text + b"." + b(r.to_bytes(32, "big") + s.to_bytes(32, "big"))).decode())
      head, claims, signature = "\(try good())".split(".")
      raw = base64.urlsafe_b64decode(signature + "==")
      der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
      key.public_key().verify(der, (head + "." + claims).encode(), ec.ECDSA(hashes.SHA256()))
      print("accepted")
      """
    let lines = try python(script).split(separator: "\n").map(String.init)
    // Debian's Python need not have the package; openssl's command has judged a signature in KeyTests.
    guard lines.first != "none" else { return }
    try #require(lines.count == 2, "\(lines)")
    #expect(try refusal("bearer \(lines[0])") == nil)
    #expect(lines[1] == "accepted")
  }

  @Test(
    "no header, or a scheme without a token, is MissingProviderToken",
    arguments: [nil, "", "bearer", "bearer ", "Bearer  "])
  func missing(_ header: String?) throws {
    #expect(try refusal(header)?.reason == .missingProviderToken)
  }

  @Test("the scheme is taken in any case, and strictly in Apple's alone")
  func scheme() throws {
    let token = try good()
    for header in [
      "bearer \(token)", "Bearer \(token)", "BEARER \(token)", "bearer   \(token) ", "bearer\t\(token)",
    ] {
      #expect(try refusal(header) == nil)
      let strictly = try refusal(header, strict: true)?.reason
      #expect(
        strictly == (header == "bearer \(token)" ? nil : .invalidProviderToken) || header.hasSuffix(" "))
    }
    for header in [token, "basic \(token)", "token \(token)", "bearer:\(token)"] {
      let refusal = try refusal(header)
      #expect(refusal?.reason == .invalidProviderToken)
      #expect(refusal?.detail.contains("doesn't start with \"bearer \"") == true)
    }
  }

  @Test("a token ends after an hour, to the second, also when it is remembered")
  func age() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let header = try "bearer \(good())"
    for age in [0.0, 1_200, 3_599, 3_600] {
      #expect(throws: Never.self) {
        try verifier.provider(authorization: header, now: now.addingTimeInterval(age))
      }
    }
    let error = #expect(throws: Refusal.self) {
      try verifier.provider(authorization: header, now: now.addingTimeInterval(3_601))
    }
    #expect(error?.reason == .expiredProviderToken)
    #expect(error?.detail.contains("is 3601 s old") == true)
    #expect(verifier.signatureChecks == 1)
  }

  @Test("a token may be a minute ahead of this clock, and no more")
  func future() throws {
    #expect(try refusal("bearer \(good(at: -60))") == nil)
    let early = try refusal("bearer \(good(at: -61))")
    #expect(early?.reason == .invalidProviderToken)
    #expect(early?.detail.contains("iat is 61 s in the future") == true)
    #expect(try refusal("bearer \(good(at: -61))", after: 1) == nil)
  }

  @Test(
    "the algorithm is ES256 whatever the header says",
    arguments: [#""none""#, #""HS256""#, #""RS256""#, #""es256""#, #""ES384""#, "256", "null", #"["ES256"]"#])
  func algorithm(_ alg: String) throws {
    let token = try teams.signed(
      #"{"alg":\#(alg),"kid":"ABC123DEFG"}"#, #"{"iss":"TEAM123456","iat":\#(seconds)}"#)
    let refusal = try refusal("bearer \(token)")
    #expect(refusal?.reason == .invalidProviderToken)
    #expect(refusal?.detail.contains("ES256 was expected") == true, "\(refusal?.detail ?? "")")
    let unsigned = token.split(separator: ".").dropLast().joined(separator: ".") + "."
    #expect(try self.refusal("bearer \(unsigned)")?.reason == .invalidProviderToken)
  }

  @Test(
    "each fault of a header is told",
    arguments: [
      (#"{"kid":"ABC123DEFG"}"#, "the header has no \"alg\""),
      (#"{"alg":"ES256"}"#, "the header has no \"kid\""),
      (#"{"alg":"ES256","kid":"abc"}"#, "kid is the string \"abc\"; a key id was expected: 10 characters"),
      (#"{"alg":"ES256","kid":5}"#, "kid is the number 5; a key id was expected"),
      (#"{"alg":"ES256","kid":"ABCDEFGHIJ"}"#, "the key ABCDEFGHIJ is not known here"),
      (#"{"alg":"ES256","kid":"ABC123DEFG","crit":["exp"]}"#, "the header has \"crit\""),
      (#"{"alg":"ES256","kid":"ABC123DEFG","kid":"ABC123DEFG"}"#, "stands twice"),
      (
        #"{"alg":"ES256","kid":"ABC123DEFG","typ":"touchline-subscribe+jwt"}"#,
        "is a subscriber token, which can't publish"
      ),
      (#"["ES256"]"#, "the header is an array; a JSON object was expected"),
      (#"{"alg":"ES256""#, "the header is not JSON"),
      ("", "the header is not JSON"),
      (String(repeating: "[", count: 1_000), "the header is not JSON"),
      (#"{"alg":"ES256","kid":"\#(String(repeating: "K", count: 900))"}"#, "kid is a string of 900 bytes"),
    ])
  func header(_ header: String, _ detail: String) throws {
    let token = try teams.signed(header, #"{"iss":"TEAM123456","iat":\#(seconds)}"#)
    let refusal = try refusal("bearer \(token)")
    #expect(refusal?.reason == .invalidProviderToken)
    #expect(refusal?.detail.contains(detail) == true, "\(refusal?.detail ?? "accepted")")
  }

  @Test(
    "each fault of the claims is told",
    arguments: [
      (#"{"iat":1800000000}"#, "has no \"iss\""),
      (#"{"iss":"TEAM123456"}"#, "has no \"iat\""),
      (#"{"iss":"OTHER98765","iat":1800000000}"#, "the key ABC123DEFG belongs to the team TEAM123456"),
      (#"{"iss":5,"iat":1800000000}"#, "iss is the number 5"),
      (#"{"iss":"TEAM123456","iat":1800000000000}"#, "(milliseconds?)"),
      (#"{"iss":"TEAM123456","iat":-5}"#, "iat is the number -5; Unix seconds were expected"),
      (#"{"iss":"TEAM123456","iat":1e999}"#, "iat is the number 1e999"),
      (#"{"iss":"TEAM123456","iat":"2027-01-15"}"#, "iat is the string \"2027-01-15\""),
      (#"{"iss":"TEAM123456","iat":"0x6b49d200"}"#, "Unix seconds were expected"),
      (#"{"iss":"TEAM123456","iat":true}"#, "iat is true"),
      (#"{"iss":"TEAM123456","iat":1800000000,"iat":1800000000}"#, "stands twice"),
      (#"{"iss":"TEAM123456","iat":1800000000"#, "the payload is not JSON"),
      ("5", "the payload is the number 5"),
      ("\u{FEFF}{}", "the payload is not JSON"),
    ])
  func claims(_ claims: String, _ detail: String) throws {
    let refusal = try refusal("bearer \(teams.provider(claims))")
    #expect(refusal?.reason == .invalidProviderToken)
    #expect(refusal?.detail.contains(detail) == true, "\(refusal?.detail ?? "accepted")")
  }

  @Test(
    "what real senders write is taken, and strictly only an integer",
    arguments: [
      ("1800000000", true), ("1800000000.0", false), ("1800000000.731", false), (#""1800000000""#, false),
      (#""1800000000.5""#, false), ("1.8e9", false), (#"1800000000, "sub": "x", "aud": ["y"]"#, true),
      (#"1800000000, "exp": 1800003600"#, true), (#"1800000000, "exp": "soon""#, false),
      ("1800000000\n,\n\t\"nbf\": 0\n", true),
    ])
  func leniency(_ iat: String, _ isStrict: Bool) throws {
    let header = try "bearer \(teams.provider("{\n  \"iss\" : \"TEAM123456\",\r\n \"iat\": \(iat)}"))"
    #expect(try refusal(header) == nil)
    #expect(try (refusal(header, strict: true) == nil) == isStrict)
  }

  @Test("a token's own exp in the past ends it early")
  func ownEnd() throws {
    let header = try "bearer \(teams.provider(#"{"iss":"TEAM123456","iat":1800000000,"exp":1800000300}"#))"
    #expect(try refusal(header, after: 299) == nil)
    let refusal = try refusal(header, after: 300)
    #expect(refusal?.reason == .expiredProviderToken)
    #expect(refusal?.detail.contains("own exp") == true)
  }

  @Test("base64 padding is taken where it was signed, and strictly not; another alphabet never")
  func padding() throws {
    func padded(_ bytes: [UInt8]) -> String {
      let text = base64URL(bytes)
      return text + String(repeating: "=", count: (4 - text.count % 4) % 4)
    }
    let head = padded(Array(#"{"alg":"ES256","kid":"ABC123DEFG"}"#.utf8))
    let claims = padded(Array(#"{"iss":"TEAM123456","iat":1800000000}"#.utf8))
    let text = "\(head).\(claims)"
    #expect(text.contains("="))
    let token = "\(text).\(padded(try teams.key.signature(of: Array(text.utf8))))"
    #expect(try refusal("bearer \(token)") == nil)
    #expect(try refusal("bearer \(token)", strict: true)?.reason == .invalidProviderToken)
    let good = try good()
    for odd in [
      good + "=", good + " x", good.replacing(".", with: "+."), good + "\n", "é" + good,
      good.dropLast() + "/",
    ] {
      #expect(try refusal("bearer \(odd)")?.reason == .invalidProviderToken, "\(odd)")
    }
  }

  @Test("the last character of a signature can't be another one for the same bytes")
  func malleability() throws {
    let token = try good()
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    let accepted = try alphabet.filter { try refusal("bearer \(token.dropLast())\($0)") == nil }
    #expect(accepted.count == 1)
  }

  @Test("no token with one character changed is accepted")
  func changed() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let token = Array(try good())
    for place in token.indices {
      for other in "Aa0_.= \u{0}" where other != token[place] {
        var text = token
        text[place] = other
        #expect(throws: Refusal.self) {
          try verifier.provider(authorization: "bearer \(String(text))", now: now)
        }
      }
    }
  }

  @Test("a signature by another key, or of other claims, is refused")
  func wrongSignature() throws {
    let claims = #"{"iss":"TEAM123456","iat":1800000000}"#
    let other = try teams.signed(#"{"alg":"ES256","kid":"ABC123DEFG"}"#, claims, by: teams.otherKey)
    #expect(
      try refusal("bearer \(other)")?.detail.contains("the signature is not that of the key ABC123DEFG")
        == true)
    var parts = try good().split(separator: ".").map(String.init)
    parts[1] = base64URL(Array(#"{"iss":"TEAM123456","iat":1800000001}"#.utf8))
    #expect(try refusal("bearer \(parts.joined(separator: "."))")?.reason == .invalidProviderToken)
    parts[2] = base64URL([UInt8](repeating: 0, count: 64))
    #expect(try refusal("bearer \(parts.joined(separator: "."))")?.reason == .invalidProviderToken)
    parts[2] = base64URL([0x30] + [UInt8](repeating: 1, count: 70))
    #expect(try refusal("bearer \(parts.joined(separator: "."))")?.detail.contains("this is DER") == true)
  }

  @Test(
    "what belongs elsewhere is told for what it is, and never repeated",
    arguments: [
      (String(repeating: "0aF9", count: 16), "looks like a push token of a device"),
      ("-----BEGIN PRIVATE KEY-----", "is a key; what belongs here is a token signed with it"),
      ("a.b", "has 2 parts"), ("secret", "has 1 part"), ("a.b.c.d.e", "is an encrypted token (JWE)"),
      ("..", "the header is not JSON"), (String(repeating: "x", count: 4_097), "has 4097 bytes"),
    ])
  func mistaken(_ text: String, _ detail: String) throws {
    let refusal = try refusal("bearer \(text)")
    #expect(refusal?.reason == .invalidProviderToken)
    #expect(refusal?.detail.contains(detail) == true, "\(refusal?.detail ?? "")")
    #expect(text.count < 6 || refusal?.detail.contains(text) == false)
  }

  @Test("what a stranger wrote reaches a message in plain characters only")
  func hostileText() throws {
    let token = try teams.signed("{\"alg\":\"\\u001b[31m\\u202e\\n\",\"kid\":\"x\"}", "{}")
    let detail = try #require(try refusal("bearer \(token)")?.detail)
    #expect(detail.allSatisfy { $0.isASCII && !$0.isNewline && $0 != "\u{1B}" }, "\(detail)")
    let name = try teams.signed("{\"\\u001b\":1,\"\\u001b\":1}", "{}")
    #expect(try refusal("bearer \(name)")?.detail.contains("\u{1B}") == false)
  }

  @Test("a topic must be the team's: an app by name, or one below a prefix")
  func topic() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let token = try verifier.provider(authorization: "bearer \(good())", now: now)
    for app in ["com.example.scores", "com.example.news.uk", "com.example.news.uk.beta"] {
      #expect(throws: Never.self) { try token.check(topic: bundle(app)) }
    }
    for app in [
      "org.example.other", "com.example.news", "com.example.newsroom", "com.example.scores.x",
      "com.example.news.",
    ] {
      let refusal = #expect(throws: Refusal.self) { try token.check(topic: bundle(app)) }
      #expect(refusal?.reason == .topicMismatch)
    }
  }

  @Test("a burst with one token costs one signature check, and so does one bad token over and over")
  func burst() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let header = try "bearer \(good())"
    for _ in 0..<1_000 { _ = try verifier.provider(authorization: header, now: now) }
    #expect(verifier.signatureChecks == 1)
    let bad = try teams.signed(#"{"alg":"ES256","kid":"ABC123DEFG"}"#, "{}", by: teams.otherKey)
    for _ in 0..<1_000 {
      #expect(throws: Refusal.self) { try verifier.provider(authorization: "bearer \(bad)", now: now) }
    }
    #expect(verifier.signatureChecks == 2)
  }

  @Test("a flood of different bad tokens pushes out no good one")
  func flood() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let header = try "bearer \(good())"
    _ = try verifier.provider(authorization: header, now: now)
    for number in 0..<(Limits.rememberedTokens * 3) {
      #expect(throws: Refusal.self) {
        try verifier.provider(authorization: "bearer a.b.c\(number)", now: now)
      }
    }
    _ = try verifier.provider(authorization: header, now: now)
    #expect(verifier.signatureChecks == 1)
  }

  @Test("other keys make every token prove itself again")
  func newKeys() throws {
    let verifier = TokenVerifier(keys: try teams.ring())
    let header = try "bearer \(good())"
    _ = try verifier.provider(authorization: header, now: now)
    let teamsFile = Array(#"{"TEAM123456":{"keys":["ABC123DEFG"],"apps":["com.example.scores"]}}"#.utf8)
    verifier.use(try KeyRing(teams: teamsFile, keys: [teams.keyID: teams.otherKey.verifyingKey()]))
    #expect(throws: Refusal.self) { try verifier.provider(authorization: header, now: now) }
    verifier.use(try teams.ring())
    _ = try verifier.provider(authorization: header, now: now)
    #expect(verifier.signatureChecks == 3)
  }
}

@Suite("Tokens of one connection")
struct ConnectionTokenTests {
  let teams: TwoTeams
  let now = TwoTeams.now

  init() throws { teams = try TwoTeams() }

  private func token(madeAt offset: Double, other: Bool = false) throws -> ProviderToken {
    let text = try ProviderToken.mint(
      key: other ? teams.otherKey : teams.key, keyID: other ? teams.otherKeyID : teams.keyID,
      team: other ? teams.otherTeam : teams.team, at: now.addingTimeInterval(offset))
    return try TokenVerifier(keys: teams.ring()).provider(
      authorization: "bearer \(text)", now: now.addingTimeInterval(offset))
  }

  private func reason(_ rules: inout ConnectionTokenRules, _ token: ProviderToken, at offset: Double)
    -> RefusalReason?
  {
    do throws(Refusal) {
      try rules.admit(token, now: now.addingTimeInterval(offset))
      return nil
    } catch {
      return error.reason
    }
  }

  @Test("a second team on a connection is refused, and the first goes on")
  func oneTeam() throws {
    var rules = ConnectionTokenRules(pacing: false)
    let (first, second) = (try token(madeAt: 0), try token(madeAt: 0, other: true))
    #expect(reason(&rules, first, at: 0) == nil)
    #expect(reason(&rules, second, at: 1) == .invalidProviderToken)
    #expect(reason(&rules, first, at: 2) == nil)
  }

  @Test("with pacing, another token within 20 minutes is refused; the same one never")
  func pacing() throws {
    var rules = ConnectionTokenRules(pacing: true)
    let tokens = [try token(madeAt: 0), try token(madeAt: 1), try token(madeAt: 2)]
    #expect(reason(&rules, tokens[0], at: 0) == nil)
    #expect(reason(&rules, tokens[0], at: 1_199) == nil)
    #expect(reason(&rules, tokens[1], at: 1_199) == .tooManyProviderTokenUpdates)
    #expect(reason(&rules, tokens[0], at: 1_199.5) == nil)
    #expect(reason(&rules, tokens[1], at: 1_200) == nil)
    #expect(reason(&rules, tokens[2], at: 1_300) == .tooManyProviderTokenUpdates)
    #expect(reason(&rules, tokens[2], at: 2_400) == nil)
  }

  @Test("without pacing, a token for each push is taken")
  func noPacing() throws {
    var rules = ConnectionTokenRules(pacing: false)
    for offset in 0..<5 {
      #expect(reason(&rules, try token(madeAt: Double(offset)), at: Double(offset)) == nil)
    }
  }
}
