import BroadcastChannels
import Foundation
import LiveActivities
import Testing

@testable import Rehearsal

@Suite struct VerdictTests {
  static let end = #""event":"end","dismiss-in":-1"#

  static func verdict(_ steps: [String], channel: [String: String] = [:]) throws -> Verdict {
    Verdict(try Timeline.rehearse(steps, channel: channel))
  }

  @Test func `a clean script is good`() throws {
    let verdict = try Self.verdict(["0 n=1", "10 n=2 \(Self.end)"])
    #expect(!verdict.isBad && verdict.messages == 2 && verdict.end == Verdict.Place(at: 10, line: 3))
    // {"aps":{"timestamp":1800000010,"event":"end","content-state":{"n":2},"dismissal-date":1800000009}}
    #expect(verdict.largest?.bytes == 98 && verdict.largest?.line == 3)
    #expect(
      verdict.lines == [
        "2 messages, 0 alerts", "priority 10 stayed within the channel's budget", "the card is never stale",
        "the publisher ends it at 0:00:10", "the largest payload has 98 of 5120 bytes (line 3)",
      ])
  }

  @Test(arguments: [
    ("demote", "demoted", false, "over budget, demoted to priority 5: 2: 0:00:01 (line 3), 0:00:02 (line 4)"),
    ("drop", "dropped", true, "over budget, dropped: 2: 0:00:01 (line 3), 0:00:02 (line 4)"),
    ("reject", "rejected", true, "rejected: 2: 0:00:01 (line 3), 0:00:02 (line 4)"),
  ])
  func `what is over budget is told with its time and line`(
    policy: String, key: String, isBad: Bool, line: String
  ) throws {
    let steps = ["0 n=1", "1 n=2", "2 n=3", "60 n=4 \"priority\":5,\(Self.end)"]
    let verdict = try Self.verdict(steps, channel: TimelineTests.budget(policy))
    #expect(verdict.overBudget == [key: [.init(at: 1, line: 3), .init(at: 2, line: 4)]])
    #expect(verdict.isBad == isBad && verdict.lines.contains(line))
  }

  @Test func `what a window swallows is told`() throws {
    let verdict = try Self.verdict([#"0 n=1 "priority":5"#, #"0.5 n=2 "priority":5"#, "9 n=3 \(Self.end)"])
    #expect(verdict.swallowed == [.init(at: 0.5, line: 2)] && !verdict.isBad)
    #expect(verdict.lines.contains("swallowed by a window: 1: 0:00:00.5 (line 2)"))
  }

  @Test func `stretches in which the card is stale`() throws {
    let verdict = try Self.verdict([
      #"0 n=1 "stale-in":10"#, "15 n=2", #"20 n=3 "stale-in":-1"#, #"30 n=4 "stale-in":-1"#,
      #"40 n=5 "stale-in":10"#, "60 n=6 \(Self.end)",
    ])
    #expect(verdict.stale == [.init(from: 10, to: 15), .init(from: 20, to: 40), .init(from: 50, to: 60)])
    #expect(
      verdict.lines.contains(
        "the card is stale: 0:00:10 to 0:00:15, 0:00:20 to 0:00:40, 0:00:50 to 0:01:00"))
  }

  @Test func `stale until the eighth hour`() throws {
    let verdict = try Self.verdict([#"0 n=1 "stale-in":10"#])
    #expect(verdict.stale == [.init(from: 10, to: 28_800)])
    #expect(verdict.end == nil && verdict.reachedLifetime && verdict.isBad)
    #expect(verdict.lines.contains { $0.hasPrefix("no end is ever shown") })
  }

  @Test(arguments: [
    ([#"10 n=1"#, #"15 n=2 "timestamp-shift":-10"#, "20 n=3 \(end)"], [Verdict.Place(at: 15, line: 3)]),
    (["0 n=1", #"5 n=2 "event":"end","dismiss-in":60"#, "9 n=3"], [Verdict.Place(at: 9, line: 4)]),
  ])
  func `what the device ignores is told`(steps: [String], ignored: [Verdict.Place]) throws {
    #expect(try Self.verdict(steps).ignored == ignored)
  }

  @Test(arguments: [
    (1, "1 message comes after the card is gone"), (3, "3 messages come after the card is gone"),
  ])
  func `messages after the dismissal are not sent`(count: Int, line: String) throws {
    let late = (0..<count).map { "\(20 + $0) n=9" }
    let verdict = try Self.verdict(["0 n=1", "10 n=2 \(Self.end)"] + late)
    #expect(verdict.unsent == count && verdict.isBad && verdict.lines.contains(line))
  }

  @Test func `an error that check finds makes it bad, once a kind`() throws {
    let channel = ["content-state": #"{"n":"String"}"#]
    let verdict = try Self.verdict(["0 n=1", "5 n=2", "10 n=3 \(Self.end)"], channel: channel)
    #expect(verdict.findings.map(\.kind) == ["state-type"] && verdict.isBad)
    let line = try #require(verdict.lines.last)
    #expect(line.hasPrefix("check: line 2: error: aps.content-state.n is the number 1; String was expected"))
  }

  @Test func `a long list is cut`() throws {
    let steps = (0..<12).map { "\($0) n=1" } + ["60 n=2 \"priority\":5,\(Self.end)"]
    let verdict = try Self.verdict(steps, channel: TimelineTests.budget("drop"))
    let line = try #require(verdict.lines.first { $0.hasPrefix("over budget, dropped: 11:") })
    #expect(line.hasSuffix("0:00:08 (line 10), and 3 more"))
  }

  // MARK: Presentations

  @Test func `a state that doesn't fit a presentation is told once, where it first happens`() throws {
    let shown = ["presentations": #"{"minimal":"{n}"}"#]
    let verdict = try Self.verdict(
      ["0 n=1", "1 n=123456", "2 n=1234567", "9 n=1 \(Self.end)"], channel: shown)
    let misfits = verdict.findings.filter { $0.kind == "presentation-fit" }
    #expect(misfits.map(\.message) == ["is 6 columns wide; 5 fit"] && misfits.first?.position.line == 3)
    #expect(
      verdict.findings.contains { $0.key == "presentations.banner" && $0.message.contains("mandatory") })
  }

  @Test func `an island that moves is told`() throws {
    let shown = ["presentations": #"{"compact-trailing":"{n|number:1}"}"#]
    let verdict = try Self.verdict(["0 n=9", "1 n=8", "2 n=10", "9 n=1 \(Self.end)"], channel: shown)
    let moves = verdict.findings.filter { $0.kind == "presentation-fit" }
    #expect(moves.map(\.message) == ["is 2 columns wide here and 1 at line 2: the island moves"])
    #expect(moves.first?.position.line == 4)
  }

  @Test func `an alert's key that a language lacks is told`() throws {
    let strings = ["strings": #"{"en":{"GOAL":"Goal"},"es":{"GOLA":"Gol"}}"#]
    let alert = #""alert":{"title":{"loc-key":"GOAL"},"body":"b"}"#
    let verdict = try Self.verdict(["0 n=1 \(alert)", "9 n=2 \(Self.end)"], channel: strings)
    let finding = try #require(verdict.findings.first)
    #expect(
      verdict.findings.count == 1 && finding.kind == "loc-key" && finding.key == "aps.alert.title.loc-key")
    #expect(finding.message == "is \"GOAL\", and strings.es has no such key; did you mean \"GOLA\"?")
  }

  // MARK: JSON

  @Test func `the verdict for a script is JSON`() throws {
    let steps = [
      #"0 n=1 "stale-in":10"#, "15 n=2", #"16 n=3 "alert":{"title":"a \"b\"","body":"c"}"#,
      "60 n=4 \(Self.end)", "70 n=5",
    ]
    let json = try Self.verdict(steps, channel: TimelineTests.budget("drop")).json
    let root = try JSONDocument(Array(json.utf8)).root
    #expect(
      root.members?.map(\.name) == [
        "messages", "demoted", "dropped", "rejected", "superseded", "deferred", "ignored", "stale", "alerts",
        "end", "unsent", "largest-payload", "findings", "ok",
      ])
    #expect(root["dropped"]?.elements?.map { $0["at"]?.number?.text } == ["15", "16", "60", "70"])
    #expect(root["stale"]?.elements?.first?["from"]?.number?.int == 10)
    #expect(root["end"]?.isNull == true && root["ok"]?.bool == false)
    #expect(try JSONSerialization.jsonObject(with: Data(json.utf8)) is [String: Any])
  }
}
