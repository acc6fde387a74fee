import BroadcastChannels
import Foundation
import Testing

@testable import MatchScripts

/// Source: design.md, "Channel definitions and match scripts".
@Suite struct MatchScriptTests {
  static func read(_ lines: String...) throws -> MatchScript {
    try MatchScript(file: Array(lines.joined(separator: "\n").utf8))
  }

  static func step(_ members: String) throws -> MatchScript.Step {
    try #require(try read(#"{"at":0,"content-state":{"n":1},\#(members)}"#).steps.first)
  }

  // MARK: Format

  @Test func `a line has every documented key`() throws {
    let script = try Self.read(
      #"{"channel":"final"}"#, "",
      #"{"at":"1:02:03","event":"end","priority":5,"content-state":{"n": 1},"relevance-score":7.50,"#
        + #""alert":{"title": "Goal"},"stale-in":"90s","dismiss-in":-1,"expires-in":"4h","timestamp-shift":"-2m"}"#
    )
    let step = try #require(script.steps.first)
    guard case .named(let alias) = script.target else { throw Findings([]) }
    #expect(alias.name == "final" && script.steps.count == 1)
    // 1 h 2 min 3 s are 3,723 s.
    #expect(step.at == 3_723 && step.event == .end && step.priority == .considerate && step.line == 3)
    #expect(step.contentState?.string == #"{"n":1}"# && step.alert?.string == #"{"title":"Goal"}"#)
    #expect(step.relevanceScore == "7.50")
    #expect(
      step.staleIn == 90 && step.dismissIn == -1 && step.expiresIn == 14_400 && step.timestampShift == -120)
  }

  @Test func `what is left out has its default`() throws {
    let step = try #require(try Self.read(#"{"at":1.5,"content-state":{}}"#).steps.first)
    #expect(
      step.at == 1.5 && step.event == .update && step.priority == .immediate && step.timestampShift == 0)
    #expect(step.staleIn == nil && step.dismissIn == nil && step.expiresIn == nil && step.alert == nil)
  }

  @Test(arguments: [
    ("0", 0), ("12.5", 12.5), (#""00:07""#, 7), (#""105:00""#, 6_300), (#""2:00:01""#, 7_201),
  ])
  func `a moment is seconds, mm:ss or h:mm:ss`(text: String, seconds: Double) throws {
    let script = try Self.read(#"{"at":\#(text),"event":"end"}"#)
    #expect(script.steps.first?.at == seconds && script.duration == seconds)
  }

  @Test func `a script without a first channel line has no target`() throws {
    #expect(try Self.read(#"{"at":0,"event":"end"}"#).target == nil)
  }

  @Test func `a definition may stand in the first line`() throws {
    let script = try Self.read(
      #"{"channel":{"app":"com.example.scores","budget":{"capacity":null}}}"#, #"{"at":0,"event":"end"}"#)
    guard case .defined(let definition) = script.target else { throw Findings([]) }
    #expect(definition.settings.app.identifier == "com.example.scores")
    #expect(definition.settings.budget.capacity == nil)
  }

  @Test func `line ends of either kind and empty lines are fine, and steps may share a moment`() throws {
    let script = try Self.read("\r", "{\"at\":3,\"event\":\"end\"}\r", "  ", #"{"at":3,"event":"end"}"#, "")
    #expect(script.steps.map(\.line) == [2, 4])
  }

  // MARK: Mistakes

  /// The second line of each script is wrong.
  @Test(
    arguments: [
      (#"{"at":0"#, "not-json ", "ends"), ("[]", "bad-value ", "an object"), ("7", "bad-value ", "an object"),
      (#"{"event":"end"}"#, "bad-value at", "mm:ss"), (#"{"at":-1,"event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":"1:60","event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":"1:60:00","event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":"1:2:3:4","event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":"kick-off","event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":null,"event":"end"}"#, "bad-value at", "mm:ss"),
      (#"{"at":1}"#, "bad-value content-state", "missing"),
      (#"{"at":1,"event":"start","content-state":{}}"#, "bad-value event", #""update" or "end""#),
      (#"{"at":1,"event":"end","priority":7}"#, "bad-value priority", "10, 5 or 1"),
      (#"{"at":1,"event":"end","priority":"10"}"#, "bad-value priority", "10, 5 or 1"),
      (#"{"at":1,"content-state":1}"#, "bad-value content-state", "an object"),
      (#"{"at":1,"event":"end","relevance-score":"1"}"#, "bad-value relevance-score", "a number"),
      (#"{"at":1,"event":"end","alert":"Goal"}"#, "bad-value alert", "an object"),
      (#"{"at":1,"event":"end","stale-in":"soon"}"#, "bad-value stale-in", "90s"),
      (#"{"at":1,"event":"end","dismiss-in":true}"#, "bad-value dismiss-in", "90s"),
      (#"{"at":1,"event":"end","expires-in":"4 hours"}"#, "bad-value expires-in", "90s"),
      (#"{"at":1,"event":"end","timestamp-shift":null}"#, "bad-value timestamp-shift", "90s"),
      (#"{"at":1,"event":"end","stale_in":1}"#, "unknown-key stale_in", #"did you mean "stale-in"?"#),
      (#"{"channel":"late"}"#, "bad-value channel", "first line"),
      (#"{"at":1,"event":"end","channel":"x"}"#, "unknown-key channel", "no key"),
      (#"{"at":0.5,"event":"end"}"#, "bad-value at", "earlier than the line before"),
    ])
  func `a mistake is named with its line and key`(line: String, what: String, phrase: String) throws {
    let script = [#"{"at":0.7,"event":"end"}"#, line].joined(separator: "\n")
    let findings = try #require(#expect(throws: Findings.self) { try Self.read(script) }).all
    #expect(
      findings.map { "\($0.kind) \($0.key) line \($0.position.line)" } == ["\(what) line 2"], "\(findings)")
    #expect(findings.first?.message.contains(phrase) == true, "\(findings)")
  }

  @Test(
    arguments: [
      (#"{"channel":"no/alias"}"#, "channel", "letters, digits"), (#"{"channel":{}}"#, "app", "missing"),
      (#"{"channel":7}"#, "the definition", "an object"),
      (#"{"channel":{"app":"a.b","windows":{"5":"x"}}}"#, "windows.5", "a number"),
      (#"{"channel":"a","app":"b"}"#, "channel", "stands alone"),
    ])
  func `a wrong first line is named`(line: String, key: String, phrase: String) throws {
    let findings = try #require(
      #expect(throws: Findings.self) { try Self.read(line, #"{"at":0,"event":"end"}"#) }
    ).all
    #expect(findings.map(\.key) == [key] && findings.map(\.position.line) == [1])
    #expect(findings.first?.message.contains(phrase) == true, "\(findings)")
  }

  @Test(arguments: ["", "\n\n", #"{"channel":"final"}"#])
  func `a script without a message is refused`(text: String) throws {
    let findings = try #require(#expect(throws: Findings.self) { try Self.read(text) }).all
    #expect(findings.map(\.kind) == ["empty"])
  }

  @Test func `everything wrong is told at once`() throws {
    let findings = try #require(
      #expect(throws: Findings.self) {
        try Self.read(#"{"at":"x","priority":2}"#, "{", #"{"at":1,"content-state":{},"alert":[]}"#)
      }
    ).all
    let told = findings.map { "\($0.position.line) \($0.key)" }
    #expect(told.sorted() == ["1 at", "1 content-state", "1 priority", "2 ", "3 alert"])
  }

  // MARK: What is sent

  /// Second 1,700,000,000.75 is not a whole one: timestamps are rounded down and dates up, so none is stale early.
  @Test(
    arguments: [
      (1.0, #""stale-in":60"#, #""stale-date":1700000061"#),
      // 60 s played ten times faster are 6 s.
      (10, #""stale-in":60"#, #""stale-date":1700000007"#),
      (1, #""stale-in":-60"#, #""stale-date":1699999941"#),
      (10, #""stale-in":-60"#, #""stale-date":1699999995"#),
      (1, #""event":"end","dismiss-in":30"#, #""dismissal-date":1700000031"#),
      (1, #""timestamp-shift":-15"#, #""timestamp":1699999985"#),
      (10, #""timestamp-shift":-15"#, #""timestamp":1699999985"#),
      (1, #""relevance-score":7.50"#, #""relevance-score":7.50"#),
      (1, #""priority":5"#, #""event":"update""#),
      (1, #""alert":{"title": "a"}"#, #""alert":{"title":"a"}"#),
      (1, #""priority":1"#, #""content-state":{"n":1}"#),
    ])
  func `aps is built for a moment and a speed`(speed: Double, members: String, part: String) throws {
    let aps = try Self.step(members).aps(sentAt: Date(timeIntervalSince1970: 1_700_000_000.75), speed: speed)
    #expect(String(decoding: aps, as: UTF8.self).contains(part))
    #expect(throws: Never.self) { try Payload(body: Array(#"{"aps":"#.utf8) + aps + Array("}".utf8)) }
  }

  @Test func `at a whole second dates are exact`() throws {
    let step = try Self.step(#""stale-in":60"#)
    let aps = String(decoding: step.aps(sentAt: Date(timeIntervalSince1970: 1_700_000_000)), as: UTF8.self)
    #expect(
      aps == #"{"timestamp":1700000000,"event":"update","content-state":{"n":1},"stale-date":1700000060}"#)
  }

  @Test func `an update carries no dismissal date`() throws {
    let aps = try Self.step(#""dismiss-in":30"#).aps(sentAt: Date(timeIntervalSince1970: 1_700_000_000))
    #expect(!String(decoding: aps, as: UTF8.self).contains("dismissal"))
  }

  @Test(
    arguments: [
      (#""expires-in":"1m""#, 1.0, StoragePolicy.latest, 1_700_000_060),
      (#""expires-in":60"#, 10, .latest, 1_700_000_006),
      (#""expires-in":60"#, 1, .none, 0), (#""priority":5"#, 1, .latest, 0),
    ])
  func `an expiration is for channels that store`(
    members: String, speed: Double, policy: StoragePolicy, expected: Int
  )
    throws
  {
    let sent = Date(timeIntervalSince1970: 1_700_000_000)
    let expiration = try Self.step(members).expiration(sentAt: sent, speed: speed, storagePolicy: policy)
    #expect(expiration == Int64(expected))
  }

  // MARK: The shipped scripts

  static let channels = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Channels")
    .standardized

  /// Every script in `Channels/`, by its alias, so that a new one is tested without being listed here.
  static func shipped() throws -> [String] {
    let names = try FileManager.default.contentsOfDirectory(atPath: channels.path)
    let ending = ".match.jsonl"
    return names.filter { $0.hasSuffix(ending) }.map { String($0.dropLast(ending.count)) }.sorted()
  }

  @Test func `four scripts are shipped`() throws {
    let names = ["nba-finals-2016", "tour-time-trial-2020", "wimbledon-final-2008", "world-cup-final-2022"]
    #expect(Set(names).isSubset(of: try Self.shipped()))
  }

  @Test(arguments: try MatchScriptTests.shipped())
  func `a shipped script fits its definition and its device`(name: String) throws {
    let alias = try #require(ChannelAlias(name))
    let definitionFile = try Data(contentsOf: Self.channels.appending(path: "\(name).json"))
    let definition = try ChannelDefinition(file: Array(definitionFile), alias: alias)
    let script = try MatchScript(
      file: Array(try Data(contentsOf: Self.channels.appending(path: "\(name).match.jsonl"))))
    guard case .named(let target) = script.target else { throw Findings([]) }
    #expect(target == alias)
    #expect(definition.contentState != nil && script.steps.last?.event == .end)
    let start = Date(timeIntervalSince1970: 1_700_000_000)
    for step in script.steps {
      let sent = start.addingTimeInterval(step.at)
      let body = Array(#"{"aps":"#.utf8) + step.aps(sentAt: sent) + Array("}".utf8)
      let findings = PayloadDiagnosis.findings(body: body, definition: definition, now: sent)
      #expect(findings.isEmpty, "line \(step.line): \(findings)")
      let expiration = step.expiration(sentAt: sent, storagePolicy: definition.settings.storagePolicy)
      #expect(Expiration(unixSeconds: expiration) != nil)
    }
  }
}
