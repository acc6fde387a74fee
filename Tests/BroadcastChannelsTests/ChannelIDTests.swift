import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md, "Requests"; design.md, "The subscriber's WebSocket protocol" (ids in paths).
@Suite struct ChannelIDTests {
  @Test func `a new id is base64 of 16 random bytes and reads back`() throws {
    var generator = SystemRandomNumberGenerator()
    var seen: Set<ChannelID> = []
    for _ in 0..<1_000 {
      let id = ChannelID.random(using: &generator)
      // 16 bytes: ceil(16 / 3) * 4 = 24 characters, two of them padding.
      #expect(id.base64.count == 24 && id.base64.hasSuffix("=="))
      #expect(try #require(Data(base64Encoded: id.base64)).count == 16)
      #expect(ChannelID(id.base64) == id)
      #expect(!id.base64.hasPrefix("/") && !id.base64.contains("//"))
      #expect(ChannelAlias(id.base64) == nil)
      seen.insert(id)
    }
    #expect(seen.count == 1_000)
  }

  @Test(arguments: ["", "A", "AAA", "not base64!", "AAAAAA=", "AAAA\n", " AAAA", "AA-_", "AB=="])
  func `what is not canonical base64 is no channel id`(text: String) {
    // "AB==" has bits behind its only byte: a second spelling of "AA==".
    #expect(ChannelID(text) == nil)
  }

  @Test(arguments: [(1, true), (16, true), (64, true), (65, false)])
  func `no length is assumed up to 64 bytes`(bytes: Int, isID: Bool) {
    #expect((ChannelID(Data(repeating: 7, count: bytes).base64EncodedString()) != nil) == isID)
  }

  @Test func `an id is percent-encoded in a path`() throws {
    #expect(try #require(ChannelID("+/+/AA==")).pathSegment == "%2B%2F%2B%2FAA%3D%3D")
    #expect(ChannelID.pathSegment("world-cup_2022.final~") == "world-cup_2022.final~")
  }

  @Test(
    arguments: [
      ("world-cup-final-2022", true), ("a", true), ("9.b_C-d", true), ("", false), (".hidden", false),
      ("-x", false), ("a/b", false), ("a b", false), ("a=", false), ("é", false), ("..", false),
      (String(repeating: "a", count: 64), true), (String(repeating: "a", count: 65), false),
    ])
  func `an alias is a plain file name of at most 64 characters`(name: String, isAlias: Bool) {
    #expect((ChannelAlias(name) != nil) == isAlias)
  }

  @Test(
    arguments: [
      ("com.example.scores", true), ("Com.Example-2.x", true), ("", false), ("com/example", false),
      ("com.example scores", false), ("com_example", false), ("cöm", false),
      (String(repeating: "a", count: 155), true), (String(repeating: "a", count: 156), false),
    ])
  func `a bundle id has letters, digits, hyphens and dots`(text: String, isID: Bool) {
    #expect((BundleID(text) != nil) == isID)
  }

  @Test(
    arguments: [
      ("com.example.scores.push-type.liveactivity", true), ("com.example.scores", false),
      ("com.example.push-types", false),
    ])
  func `a push-type suffix is seen`(text: String, hasSuffix: Bool) throws {
    #expect(try #require(BundleID(text)).hasPushTypeSuffix == hasSuffix)
  }

  @Test func `unique ids are lower-case version-4 UUIDs`() throws {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<200 {
      let text = UniqueID.random(using: &generator).text
      #expect(
        text.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil)
      #expect(UUID(uuidString: text) != nil)
    }
  }

  @Test(
    arguments: [
      ("e:5", "e", 5), ("a:b:0", "a:b", 0), ("1x9:12345", "1x9", 12_345), (":5", nil, 0), ("e", nil, 0),
      ("e:", nil, 0), ("e:-1", nil, 0), ("e:x", nil, 0), ("", nil, 0), ("e:99999999999999999999", nil, 0),
    ] as [(String, String?, Int)])
  func `a position is an epoch, a colon and a number`(text: String, epoch: String?, sequence: Int) {
    let position = StreamPosition(text)
    #expect(position == epoch.map { StreamPosition(epoch: $0, sequence: sequence) })
    if let position { #expect(position.description == text) }
  }
}
