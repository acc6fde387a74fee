import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md, "Known traps that senders fall into".
@Suite struct PayloadDiagnosisTests {
  static func findings(_ body: String, definition: ChannelDefinition? = nil, at seconds: Double = 0)
    -> [Finding]
  {
    PayloadDiagnosis.findings(body: Array(body.utf8), definition: definition, now: moment(seconds))
  }

  /// A correct update at second 0 with some further members, on line 2.
  static func update(_ members: String, state: String = #"{"n":1}"#, at seconds: Double = 0) -> [Finding] {
    let body = """
      {"aps":{"timestamp":\(epochSeconds),"event":"update","content-state":\(state),
      \(members)}}
      """
    return findings(body, at: seconds)
  }

  @Test func `a correct payload has no findings`() throws {
    let definition = try DefinitionTests.read(members: #""content-state": {"n": "Int"}, "attributes": {}"#)
    #expect(Self.findings(#"{"aps":\#(aps(0, alert: true))}"#, definition: definition).isEmpty)
    #expect(Self.update(#""stale-date":\#(epochSeconds + 60),"relevance-score":1"#).isEmpty)
  }

  @Test(
    arguments: [
      (#""state-date":1700000060"#, "error unknown-key aps.state-date", #"did you mean "stale-date"?"#),
      (#""relevance":1"#, "error unknown-key aps.relevance", #"did you mean "relevance-score"?"#),
      (#""colour":1"#, "warning unknown-key aps.colour", "ignores it"),
      (#""attributes-type":"A""#, "warning start-key aps.attributes-type", "start"),
      (#""attributes":{}"#, "warning start-key aps.attributes", "start"),
      (#""input-push-token":1"#, "warning start-key aps.input-push-token", "start"),
      (#""alert":{"titel":"a","title":"a","body":"b"}"#, "error unknown-key aps.alert.titel", #""title""#),
      (#""alert":{"title":"a"}"#, "warning alert-text aps.alert", "no body"),
      (#""alert":{"body":"a"}"#, "warning alert-text aps.alert", "no title"),
      (#""dismissal-date":1700000060"#, "warning dismissal-update aps.dismissal-date", "end"),
      (#""stale-date":"soon""#, "error refused aps.stale-date", "Unix seconds"),
      // At second 0 of the tests it is 1700000000.
      (#""stale-date":1699999940"#, "warning stale-past aps.stale-date", "60 s"),
      (#""stale-date":1700000000"#, "warning stale-past aps.stale-date", "stale on arrival"),
      (#""stale-date":1699996400"#, "warning stale-past aps.stale-date", "60 min"),
    ])
  func `a trap is diagnosed at its key and line`(members: String, what: String, phrase: String) throws {
    let findings = Self.update(members)
    #expect(findings.map(\.brief) == ["\(what) line 2"])
    #expect(findings.first?.message.contains(phrase) == true, "\(findings)")
  }

  @Test func `a start on a broadcast is refused and its keys are pointed at`() {
    let body = """
      {"aps":{"timestamp":\(epochSeconds),"event":"start","content-state":{},
      "attributes-type":"A",
      "attributes":{}}}
      """
    let findings = Self.findings(body)
    let expected = [
      "error refused aps.event line 1", "warning start-key aps.attributes-type line 2",
      "warning start-key aps.attributes line 3",
    ]
    #expect(findings.map(\.brief) == expected)
    #expect(findings.first?.message.contains("never start") == true)
  }

  @Test(arguments: [
    ("{\"aps\":\n{]}", "error not-json  line 2"), ("[]", "error refused  line 1"),
    ("{}", "error refused aps line 1"),
  ])
  func `a body that is no payload is told so`(body: String, what: String) {
    #expect(Self.findings(body).map(\.brief) == [what])
  }

  @Test func `a key beside aps is pointed at`() {
    let body = "{\"aps\":\(aps(0)),\n\"channel\":1}"
    #expect(Self.findings(body).map(\.brief) == ["warning unknown-key channel line 2"])
  }

  @Test(arguments: [(5_120, []), (5_121, ["too-large"])])
  func `a body of more than 5,120 bytes is refused`(size: Int, kinds: [String]) {
    let body = #"{"aps":\#(aps(0))"#
    let padded = body + String(repeating: " ", count: size - body.utf8.count - 1) + "}"
    #expect(padded.utf8.count == size)
    #expect(Self.findings(padded).map(\.kind) == kinds)
  }

  /// Attributes `{"a":1}` are 7 bytes, a state `{"n":"…"}` 8 and its text.
  @Test(arguments: [(4_081, []), (4_082, ["state-too-large"])])
  func `attributes and state are 4,096 bytes together at most`(text: Int, kinds: [String]) throws {
    let definition = try DefinitionTests.read(
      members: #""content-state": {"n": "String"}, "attributes": {"a": 1}"#)
    let state = #"{"n":"\#(String(repeating: "x", count: text))"}"#
    let body = #"{"aps":{"timestamp":\#(epochSeconds),"event":"update","content-state":\#(state)}}"#
    #expect(Self.findings(body, definition: definition).map(\.kind) == kinds)
  }

  /// The 4 KB are those of the encoded values, which have no white space.
  @Test func `white space in a state does not count towards its 4 KB`() {
    let state = "{\"n\":" + String(repeating: " ", count: 4_100) + "1}"
    #expect(Self.update(#""relevance-score":1"#, state: state).isEmpty)
  }

  @Test(
    arguments: [
      (-28_800.0, []), (-28_801, ["timestamp-past"]), (60, []), (61, ["timestamp-future"]),
    ] as [(Double, [String])])
  func `a timestamp far from the sending is pointed at`(offset: Double, kinds: [String]) {
    #expect(Self.findings(#"{"aps":\#(aps(Int(offset)))}"#).map(\.kind) == kinds)
  }

  /// 4 hours are 14,400 s.
  @Test(arguments: [(-5, []), (14_400, []), (14_401, ["dismissal-late"])])
  func `a dismissal later than 4 hours is pointed at`(offset: Int, kinds: [String]) {
    let body =
      #"{"aps":{"timestamp":\#(epochSeconds),"event":"end","dismissal-date":\#(epochSeconds + Int64(offset))}}"#
    #expect(Self.findings(body).map(\.kind) == kinds)
  }

  @Test func `the state is checked against the definition, in the order of the text`() throws {
    let definition = try DefinitionTests.read(
      members: #""content-state": {"home": "Int", "away": "Int", "kickoff": "Date?"}"#)
    let body = """
      {"aps":{"timestamp":\(epochSeconds),"event":"update","content-state":
      {"home":"1",
      "kickoff":1671375600,
      "awey":2}}}
      """
    let expected = [
      "error state-missing aps.content-state.away line 2", "error state-type aps.content-state.home line 2",
      "warning state-date aps.content-state.kickoff line 3",
      "warning state-unknown aps.content-state.awey line 4",
    ]
    #expect(Self.findings(body, definition: definition).map(\.brief) == expected)
  }

  @Test func `a body out of a longer file has that file's lines`() {
    let findings = PayloadDiagnosis.findings(
      body: Array("{\n}".utf8), definition: nil, now: moment(0), firstLine: 10)
    #expect(findings.map(\.position.line) == [10])
  }
}
