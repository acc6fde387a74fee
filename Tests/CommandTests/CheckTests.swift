import Foundation
import TestSupport
import Testing

@Suite("check")
struct CheckTests {
  /// A file and the finding that it must give.
  struct Case: Sendable, CustomTestStringConvertible {
    var name = "payload.json"
    let text: String
    /// `line:column: severity: key: ` and the beginning of what is wrong.
    let finding: String
    var testDescription: String { finding }
    var isError: Bool { finding.contains(": error: ") }
  }

  private static let definition = """
    {"app": "com.example.scores",
     "content-state": {"home": "Int", "clock": "String", "kickoff": "Date?"}}
    """

  private static let now = Int(Date().timeIntervalSince1970)

  /// A payload over two lines: `aps` with a good timestamp on the first, more members on the second.
  private static func payload(_ members: String, event: String = "update", state: String? = "{}") -> String {
    "{\"aps\":{\"timestamp\":\(now),\"event\":\"\(event)\",\n"
      + ([state.map { "\"content-state\":\($0)" }, members.isEmpty ? nil : members].compactMap { $0 })
      .joined(separator: ",\n") + "}}"
  }

  static let cases: [Case] = [
    Case(text: payload("\"stale_date\":1"), finding: "3:1: error: aps.stale_date: is no key of aps"),
    Case(text: payload("\"colour\":1"), finding: "3:1: warning: aps.colour: is no key of aps"),
    Case(text: payload("\"stale-date\":1"), finding: "3:14: warning: aps.stale-date: is "),
    Case(text: payload("\"attributes\":{}"), finding: "3:1: warning: aps.attributes: belongs to a start"),
    Case(text: payload("\"alert\":{\"title\":\"Goal\"}"), finding: "3:9: warning: aps.alert: has no body"),
    Case(
      text: payload("\"alert\":{\"title\":\"a\",\"body\":\"b\",\"subtitle\":\"c\"}"),
      finding: "3:33: warning: aps.alert.subtitle: is no key of an alert"),
    Case(
      text: payload("\"dismissal-date\":\(now + 60)"),
      finding: "3:18: warning: aps.dismissal-date: has no effect on an update"),
    Case(
      text: payload("\"dismissal-date\":\(now + 6 * 3_600)", event: "end"),
      finding: "3:18: warning: aps.dismissal-date: is 6 h after the sending"),
    Case(
      text: payload("", event: "start"),
      finding: "1:40: error: aps.event: is \"start\"; a broadcast can update"),
    Case(
      text: payload("\"relevance-score\":1", state: nil), finding: "1:8: error: aps.content-state: is missing"
    ),
    Case(
      text: payload("\"relevance-score\":\"high\""),
      finding: "3:19: error: aps.relevance-score: is the string \"high\""),
    Case(
      text: payload("\"stale-date\":\(now)000"),
      finding: "3:14: error: aps.stale-date: is \(now)000; milliseconds?"),
    Case(
      text: "{\"aps\":{\"timestamp\":\(now + 10_800),\"event\":\"end\"}}",
      finding: "1:21: warning: aps.timestamp: is 3 h ahead; "),
    Case(
      text: "{\"aps\":{\"timestamp\":\(now - 36_000),\"event\":\"end\"}}",
      finding: "1:21: warning: aps.timestamp: is 10 h old; "),
    Case(
      text: payload("").dropLast() + ",\n\"channel\":\"x\"}",
      finding: "3:1: warning: channel: is outside of aps"),
    Case(
      text: payload("", state: "{\"text\":\"\(String(repeating: "x", count: 5_100))\"}"),
      finding: "1:1: error: the payload is "),
    Case(
      text: payload("", state: "{\"text\":\"\(String(repeating: "x", count: 4_200))\"}"),
      finding: "2:17: error: aps.content-state: attributes and content state are 4211 bytes together"),
    Case(text: "{\"aps\":\n{", finding: "2:2: error: not JSON: "),
    Case(text: "[1]", finding: "1:1: error: is neither a payload"),
    Case(
      name: "final.json", text: "{\"app\": \"com.example.scores\",\n\"budgett\": {}}",
      finding: "2:1: error: budgett: "),
    Case(
      name: "final.match.jsonl",
      text: "{\"at\": 0, \"event\": \"end\"}\n{\"at\": 1, \"priority\": 3, \"event\": \"end\"}",
      finding: "2:23: error: priority: is the number 3; 10, 5 or 1 was expected"),
    Case(
      name: "payloads.jsonl",
      text: "{\"aps\":{\"timestamp\":\(now),\"event\":\"end\"}}\n\n{\"aps\":{\"timestamp\":\(now)}}",
      finding: "3:8: error: aps.event: is missing"),
  ]

  @Test(
    "what is wrong is told with file, line, column and key; a warning alone exits 0, with --strict 1",
    .serialized,
    arguments: cases)
  func finding(_ checked: Case) async throws {
    try await withFolder([checked.name: checked.text]) { folder in
      let path = folder.path(checked.name)
      let ending = try await Touchline.run(["check", path])
      #expect(ending.lines.contains { $0.hasPrefix("\(path):\(checked.finding)") }, "\(ending.output)")
      #expect(ending.code == (checked.isError ? 1 : 0))
      #expect(ending.errors.hasPrefix("1 file checked: "))
      #expect(try await Touchline.run(["check", "--strict", path]).code == 1)
    }
  }

  static let states: [Case] = [
    Case(text: "{\"home\":1}", finding: "2:17: error: aps.content-state.clock: is missing"),
    Case(
      text: "{\"home\":\"1\",\"clock\":\"\"}",
      finding: "2:25: error: aps.content-state.home: is the string \"1\"; Int was expected"),
    Case(
      text: "{\"home\":1,\"clock\":\"\",\"hoem\":2}",
      finding: "2:38: warning: aps.content-state.hoem: is not declared"),
    Case(
      text: "{\"home\":1,\"clock\":\"\",\"kickoff\":1671375600}",
      finding:
        "2:48: warning: aps.content-state.kickoff: is 1671375600: as Unix seconds that is 2022-12-18T15:00:00Z"
    ),
  ]

  @Test("--definition checks the state that a device would decode", arguments: states)
  func definition(_ checked: Case) async throws {
    try await withFolder([
      "payload.json": Self.payload("", state: checked.text), "final.json": Self.definition,
    ]) { folder in
      let ending = try await Touchline.run(
        ["check", folder.path("payload.json"), "--definition", folder.path("final.json")])
      #expect(
        ending.lines.contains { $0.hasPrefix("\(folder.path("payload.json")):\(checked.finding)") },
        "\(ending.output)")
      #expect(ending.code == (checked.isError ? 1 : 0))
    }
  }

  @Test("a script is checked against the definition that it names, or its own")
  func scriptStates() async throws {
    let step = "{\"at\": 0, \"content-state\": {\"home\": 1}}"
    try await withFolder([
      "final.json": Self.definition, "named.match.jsonl": "{\"channel\": \"final\"}\n\(step)",
      "own.match.jsonl":
        "{\"channel\": {\"app\": \"com.example.scores\", \"content-state\": {\"away\": \"Int\"}}}\n\(step)",
    ]) { folder in
      for (name, key) in [("named", "clock"), ("own", "away")] {
        let path = folder.path("\(name).match.jsonl")
        let ending = try await Touchline.run(["check", path])
        #expect(ending.code == 1)
        #expect(
          ending.output.hasPrefix("\(path):2:1: error: aps.content-state.\(key): is missing"),
          "\(ending.output)")
      }
    }
  }

  private struct Line: Decodable {
    let file: String
    let line, column: Int
    let severity, kind, key, message: String
  }

  @Test("--format json gives an object a finding")
  func json() async throws {
    let input = Array(Self.payload("\"stale_date\":1").utf8)
    let ending = try await Touchline.run(["check", "-", "--format", "json"], input: input)
    #expect(ending.lines.count == 1)
    let line: Line = try decoded(ending.output)
    #expect(line.file == "-" && line.line == 3 && line.column == 1)
    #expect(line.severity == "error" && line.kind == "unknown-key" && line.key == "aps.stale_date")
    #expect(line.message.hasSuffix("did you mean \"stale-date\"?"))
  }

  @Test("standard input is a payload, or payloads one a line")
  func standardInput() async throws {
    let good = Self.payload("").replacing("\n", with: "")
    for (text, code) in [(good, 0), ("\(good)\n\(good)\n", 0), ("\(good)\n{\"aps\":{}}\n", 1)] {
      let ending = try await Touchline.run(["check", "-"], input: Array(text.utf8))
      #expect(ending.code == code, "\(ending.output)")
      if code == 1 { #expect(ending.output.hasPrefix("-:2:"), "\(ending.output)") }
    }
  }

  @Test("a file that can't be read counts as an error, and the others are checked")
  func unreadable() async throws {
    try await withFolder(["payload.json": Self.payload("\"stale_date\":1")]) { folder in
      let ending = try await Touchline.run(
        ["check", "/nowhere/x.json", folder.url.path, folder.path("payload.json")])
      #expect(ending.code == 1)
      #expect(ending.lines.count == 1)
      #expect(ending.errors.contains("/nowhere/x.json: there is no such file\n"))
      #expect(ending.errors.contains("is a folder; a file was expected\n"))
      #expect(ending.errors.hasSuffix("3 files checked: 3 errors, 0 warnings\n"))
      let broken = try await Touchline.run(
        ["check", folder.path("payload.json"), "--definition", "/nowhere/final.json"])
      #expect(broken.code == 1 && broken.errors.contains("/nowhere/final.json"))
    }
  }

  @Test("the shipped channels and matches have nothing to find")
  func shipped() async throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let folder = root.appendingPathComponent("Channels")
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
      .filter { $0.hasSuffix(".json") || $0.hasSuffix(".jsonl") }.sorted()
    #expect(files.count >= 8)
    let ending = try await Touchline.run(
      ["check", "--strict"] + files.map { folder.appendingPathComponent($0).path })
    #expect(ending.output == "")
    #expect(ending.code == 0)
    #expect(ending.errors == "\(files.count) files checked: 0 errors, 0 warnings\n")
  }
}
