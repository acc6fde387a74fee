import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md, "The payload"; design.md, "Bytes are sacred".
@Suite struct PayloadTests {
  static func read(_ text: String) throws -> Payload { try Payload(body: Array(text.utf8)) }
  static func aps(_ members: String) throws -> Payload { try read(#"{"aps":{\#(members)}}"#) }

  @Test func `every documented key is read`() throws {
    let payload = try Self.aps(
      #"""
      "timestamp":1700000000,"event":"end","content-state":{"n": 1},"stale-date":1700000060,
      "dismissal-date":1700000090,"relevance-score":75.5,
      "alert":{"title":"Goal","body":{"loc-key":"goal","loc-args":["Messi",23]},"sound":"default"}
      """#)
    #expect(payload.timestamp == 1_700_000_000 && payload.event == .end)
    #expect(payload.contentState?.string == #"{"n":1}"#)
    #expect(payload.staleDate == 1_700_000_060 && payload.dismissalDate == 1_700_000_090)
    #expect(payload.relevanceScore == 75.5)
    let body = Alert.Text.localized(key: "goal", arguments: ["Messi", "23"])
    #expect(payload.alert == Alert(title: .literal("Goal"), body: body, sound: "default"))
    #expect(body.plain == "goal (Messi, 23)")
  }

  @Test func `the aps object is kept byte for byte`() throws {
    let aps =
      "{ \"event\":\"update\",\n\"content-state\":{\"z\":1.50,\"a\":\"\\u00e9\\/\"} ,\"timestamp\":1700000000 }"
    #expect(try Self.read("{ \"aps\" : \(aps) } ").aps == Array(aps.utf8))
  }

  @Test func `an end needs no content state`() throws {
    let payload = try Self.aps(#""timestamp":1,"event":"end""#)
    #expect(payload.contentState == nil && payload.staleDate == nil && payload.alert == nil)
  }

  @Test func `an unknown key is let through, as the system ignores it`() throws {
    #expect(throws: Never.self) {
      try Self.aps(#""timestamp":1,"event":"update","content-state":{},"state-date":2"#)
    }
  }

  @Test(arguments: [
    (Payload.Event.update, false, false), (.update, true, true), (.end, false, true), (.end, true, true),
  ])
  func `an alert and an end are irreplaceable`(event: Payload.Event, alert: Bool, expected: Bool) throws {
    let body = #"{"aps":\#(BroadcastChannelsTests.aps(0, event, alert: alert))}"#
    #expect(try Self.read(body).isIrreplaceable == expected)
  }

  /// Each body has one thing wrong; the second string is the key that must be named, the third what was expected.
  @Test(
    arguments: [
      ("home=1", "", "not JSON"), ("", "", "not JSON"), ("[]", "", "aps"), ("{}", "aps", "missing"),
      (#"{"aps":[]}"#, "aps", "object"), (#"{"aps":{}}"#, "aps.event", "missing"),
      (#"{"aps":{"event":"start"}}"#, "aps.event", "never start"),
      (#"{"aps":{"event":"stop"}}"#, "aps.event", "update"), (#"{"aps":{"event":1}}"#, "aps.event", "update"),
      (#"{"aps":{"event":"end"}}"#, "aps.timestamp", "missing"),
      (#"{"aps":{"event":"update","timestamp":1}}"#, "aps.content-state", "missing"),
    ])
  func `a body without its required parts is refused`(body: String, key: String, phrase: String) throws {
    let error = try #require(#expect(throws: PayloadError.self) { try Self.read(body) })
    #expect(error.key == key && error.problem.contains(phrase), "\(error)")
    #expect(error.refusal.reason == .badRequestPayload)
  }

  @Test(
    arguments: [
      (#""timestamp":"1700000000""#, "aps.timestamp", "whole number"),
      (#""timestamp":1.5"#, "aps.timestamp", "whole"),
      (#""timestamp":-1"#, "aps.timestamp", "1970"), (#""timestamp":null"#, "aps.timestamp", "whole number"),
      // 1,700,000,000,000 is the year 55840 in seconds and 2023 in milliseconds.
      (#""timestamp":1700000000000"#, "aps.timestamp", "milliseconds"),
      (#""timestamp":1,"stale-date":"soon""#, "aps.stale-date", "whole number"),
      (#""timestamp":1,"stale-date":1700000000000"#, "aps.stale-date", "milliseconds"),
      (#""timestamp":1,"dismissal-date":true"#, "aps.dismissal-date", "whole number"),
      (#""timestamp":1,"relevance-score":"high""#, "aps.relevance-score", "number"),
      (#""timestamp":1,"content-state":[1]"#, "aps.content-state", "object"),
      (#""timestamp":1,"alert":"Goal""#, "aps.alert", "object"),
      (#""timestamp":1,"alert":{"title":7}"#, "aps.alert.title", "string"),
      (#""timestamp":1,"alert":{"body":{"loc-args":[]}}"#, "aps.alert.body", "loc-key"),
      (#""timestamp":1,"alert":{"sound":{}}"#, "aps.alert.sound", "name"),
      (#""timestamp":1,"timestamp":2"#, "", "twice"),
    ])
  func `a value of the wrong kind is refused`(members: String, key: String, phrase: String) throws {
    let error = try #require(
      #expect(throws: PayloadError.self) { try Self.aps(#""event":"end",\#(members)"#) })
    #expect(error.key == key && error.problem.contains(phrase), "\(error)")
  }

  @Test(
    arguments: [
      (-1, nil), (0, .once), (1, .at(1)), (253_402_300_799, .at(253_402_300_799)), (253_402_300_800, nil),
    ]
      as [(Int64, Expiration?)])
  func `an expiration is 0 or a time up to the year 9999`(seconds: Int64, expected: Expiration?) {
    #expect(Expiration(unixSeconds: seconds) == expected)
  }

  @Test(
    arguments: [
      (RefusalReason.badPath, 404), (.methodNotAllowed, 405), (.payloadTooLarge, 413),
      (.tooManyRequests, 429),
      (.internalServerError, 500), (.serviceUnavailable, 503), (.shutdown, 503), (.badExpirationDate, 400),
      (.cannotCreateChannelConfig, 400), (.topicDisallowed, 400),
    ])
  func `a reason has the documented status`(reason: RefusalReason, status: Int) {
    #expect(reason.status == status)
  }
}
