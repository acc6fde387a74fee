import Foundation
import Testing

@testable import BroadcastChannels

/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
@Suite struct DevicePayloadTests {
  /// The members of a start that is in order.
  private static let members = [
    "timestamp": "1700000000", "event": #""start""#, "attributes-type": #""MatchAttributes""#,
    "attributes": #"{"home": "Spain"}"#, "content-state": #"{"n": 0}"#, "alert": #"{"title":"Kick-off"}"#,
  ]

  private func payload(
    _ changes: [String: String?] = [:], to destination: Payload.Destination = .device
  ) throws -> Payload {
    var members = Self.members
    for (name, value) in changes { members[name] = value }
    let text = members.sorted { $0.key < $1.key }.map { "\"\($0)\":\($1)" }.joined(separator: ",")
    return try Payload(body: Array("{\"aps\":{\(text)}}".utf8), to: destination)
  }

  private func problem(_ changes: [String: String?]) throws -> String {
    try #require(#expect(throws: PayloadError.self) { try payload(changes) }).description
  }

  @Test func `a start carries the activity's type, attributes, first state and alert`() throws {
    let payload = try payload()
    let start = try #require(payload.start)
    #expect(payload.event == .start && payload.isIrreplaceable)
    #expect(start.attributesType == "MatchAttributes" && start.attributes.string == #"{"home":"Spain"}"#)
    #expect(payload.contentState?.string == #"{"n":0}"# && start.input == .none)
  }

  @Test func `its updates come from a channel, by id or alias, or from a token`() throws {
    let id = "NM2Pkgbowhu92K7e9R4esQ=="
    #expect(try payload(["input-push-channel": "\"\(id)\""]).start?.input == .channel(id))
    #expect(try payload(["input-push-channel": #""final""#]).start?.input == .channel("final"))
    #expect(try payload(["input-push-token": "1"]).start?.input == .token)
  }

  @Test(arguments: ["attributes-type", "attributes", "content-state", "alert", "timestamp"])
  func `a start without one of its parts is refused, and the part is named`(key: String) throws {
    #expect(try problem([key: nil]).hasPrefix("aps.\(key) is missing; "))
  }

  @Test(arguments: [
    ("attributes-type", "7"), ("attributes-type", #""""#), ("attributes", "[]"), ("alert", #""Goal""#),
    ("input-push-channel", "1"), ("input-push-channel", #""***""#), ("input-push-token", "2"),
    ("input-push-token", "true"),
  ])
  func `a part that is something else is refused, and named`(key: String, value: String) throws {
    #expect(try problem([key: value]).hasPrefix("aps.\(key) is "))
  }

  @Test func `a start has one source of updates`() throws {
    let both = try problem(["input-push-channel": #""final""#, "input-push-token": "1"])
    #expect(both.contains("leave one of the two out"))
  }

  @Test func `a broadcast still can't start an activity`() throws {
    let error = try #require(#expect(throws: PayloadError.self) { try payload(to: .channel) })
    #expect(error.description.contains("never start one"))
    #expect(Payload.Destination.channel.event("start") == nil)
    #expect(Payload.Destination.device.event("start") == .start)
  }

  @Test func `updates and ends are the same as in a broadcast`() throws {
    for event in ["update", "end"] {
      let body = Array("{\"aps\":\(aps(3, event == "end" ? .end : .update))}".utf8)
      let payload = try Payload(body: body, to: .device)
      #expect(
        payload.event.rawValue == event && payload.start == nil && payload.timestamp == epochSeconds + 3)
    }
    #expect(try problem(["event": nil]).contains(#"a "start", an "update" or an "end""#))
    #expect(try problem(["event": #""begin""#]).contains(#"a "start", an "update" or an "end""#))
  }

  @Test func `a device's payload may have 4,096 bytes, a broadcast's 5,120`() {
    #expect(Payload.Destination.device.payloadBytes == 4_096)
    #expect(Payload.Destination.channel.payloadBytes == 5_120)
  }

  @Test func `the diagnosis knows the keys of a start, and a misspelt one of them`() {
    func kinds(_ aps: String) -> [String] {
      PayloadDiagnosis.findings(
        body: Array("{\"aps\":{\(aps)}}".utf8), to: .device, definition: nil, now: moment(0)
      ).map { "\($0.kind) \($0.key)" }
    }
    let members = Self.members.map { "\"\($0)\":\($1)" } + [#""alert-x":1"#, #""input-push-chanel":"final""#]
    let found = kinds(members.joined(separator: ","))
    #expect(found.contains("unknown-key aps.input-push-chanel"))
    #expect(!found.contains { $0.hasPrefix("start-key") || $0.hasPrefix("refused") })
    let update = aps(0).dropFirst().dropLast()
    #expect(kinds("\(update),\"attributes\":{}") == ["start-key aps.attributes"])
  }
}
