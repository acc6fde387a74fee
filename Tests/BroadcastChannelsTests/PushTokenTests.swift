import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md; Apple, "Handling error responses from APNs".
@Suite struct PushTokenTests {
  @Test func `a token is pairs of hexadecimal digits, in either case`() {
    #expect(PushToken("0aFF")?.hex == "0aff")
    #expect(PushToken("0aFF") == PushToken("0AFf"))
    #expect(PushToken(String(repeating: "ab", count: 256)) != nil)
    for text in ["", "a", "abc", "0x", "ab cd", "é9", "１２", String(repeating: "ab", count: 257)] {
      #expect(PushToken(text) == nil, "\(text)")
    }
  }

  @Test func `a new token has 32 random bytes`() {
    var random = SystemRandomNumberGenerator()
    let tokens = (0..<50).map { _ in PushToken.random(using: &random) }
    #expect(Set(tokens).count == 50)
    #expect(tokens.allSatisfy { $0.hex.count == 64 && PushToken($0.hex) == $0 })
  }

  @Test func `a token in a sentence shows its first digits only`() throws {
    let token = try #require(PushToken("0123456789abcdef"))
    #expect("\(token)" == "01234567…")
  }

  /// What stands in a token's place, and a word of the sentence that names the mistake.
  @Test(arguments: [
    ("", "ends before the token"),
    ("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJBQkNERTEyMzQ1In0.c2lnbmF0dXJl", "JWT"),
    ("<0a1b2c3d 4e5f6071>", "two hexadecimal digits"),
    ("0a1b2", "odd number"),
    (String(repeating: "ab", count: 300), "600 digits"),
    ("NM2Pkgbowhu92K7e9R4esQ==", "/4/broadcasts/apps/<bundle-id>"),
    ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "this is base64; write"),
    ("world-cup-final", "no device token"),
  ])
  func `a mistaken token is told what it is, and is not repeated`(text: String, word: String) {
    let sentence = PushToken.mistake(text)
    #expect(sentence.contains(word))
    #expect(text.isEmpty || !sentence.contains(text))
  }

  @Test func `the topic is the bundle id with the suffix`() throws {
    #expect(try PushTopic("com.example.scores.push-type.liveactivity").app == app)
  }

  @Test(arguments: [
    "com.example.scores", "com.example.scores.push-type.voip", ".push-type.liveactivity", "",
    "com.example.scores.push-type.liveactivity.push-type.liveactivity", "no_bundle.push-type.liveactivity",
  ])
  func `anything else is a bad topic`(text: String) throws {
    let refusal = try refusal { _ = try PushTopic(text) }
    #expect(refusal.reason == .badTopic && refusal.reason.status == 400)
    #expect(refusal.detail.contains("suffix is missing") == (text == "com.example.scores"))
  }
}
