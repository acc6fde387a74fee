import Foundation
import TestSupport
import Testing

@Suite("touchline soak")
struct SoakTests {
  /// What a test looks at in report.json.
  struct Report: Decodable {
    struct Verdict: Decodable {
      let passed: Bool
    }
    struct Totals: Decodable {
      let deliveries: Int
      let faults: [String: Int]
    }
    let verdict: Verdict
    let totals: Totals
  }

  private static let short = [
    "soak", "--profile", "smoke", "--duration", "4", "--subscribers", "60", "--seed", "7",
  ]

  @Test(
    "a short soak with a server of its own, a restart in it, passes and leaves a report that its schema describes"
  )
  func smoke() async throws {
    try await withFolder { folder in
      let ending = try await Touchline.run(Self.short + ["--report", folder.url.path])
      #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
      #expect(ending.output.contains("passed: "))
      #expect(ending.errors.contains("seed 7: "))
      let json = folder.url.appendingPathComponent("report.json")
      let report = try JSONDecoder().decode(Report.self, from: Data(contentsOf: json))
      #expect(report.verdict.passed && report.totals.deliveries > 0)
      #expect(report.totals.faults["server restarted"] == 1)
      try await validate(json)
      let page = try String(contentsOf: folder.url.appendingPathComponent("report.html"), encoding: .utf8)
      #expect(page.contains("<svg") && page.hasSuffix("</html>\n"))
      // Self-contained: nothing is fetched, nothing is run.
      for word in ["https://", "<script", "<link", "src=", "url("] { #expect(!page.contains(word)) }
    }
  }

  /// With Python's jsonschema, which knows nothing of this program.
  private func validate(_ report: URL) async throws {
    let schema = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../docs/soak-report.schema.json").standardizedFileURL
    let program = """
      import json, sys, jsonschema
      schema = json.load(open(sys.argv[1]))
      jsonschema.Draft202012Validator.check_schema(schema)
      jsonschema.Draft202012Validator(schema).validate(json.load(open(sys.argv[2])))
      """
    let python = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"), ["-c", program, schema.path, report.path])
    python.closeInput()
    let ending = try await python.ending()
    #expect(ending.code == 0, "\(ending.errors)")
  }

  @Test("a server that runs already is used, and no channel is left on it")
  func running() async throws {
    try await withServer { server in
      let ending = try await server.succeed(
        "soak", "--server", server.address, "--duration", "2", "--subscribers", "20", "--rate", "5", "--seed",
        "3")
      #expect(ending.output.contains("passed: "))
      let list = try await server.succeed("channel", "list", "--format", "json")
      #expect(!list.output.contains("soak-"))
    }
  }

  @Test("a condition of --fail-on that is met exits 1 and says so")
  func failOn() async throws {
    let ending = try await Touchline.run(
      ["soak", "--duration", "2", "--subscribers", "8", "--rate", "5", "--seed", "3", "--fail-on", "p50=0"])
    #expect(ending.code == 1)
    #expect(ending.output.contains("--fail-on allows 0.00 ms"))
  }

  @Test("Ctrl-C ends it early, with the verdict of what ran")
  func interrupted() async throws {
    let program = try Touchline.start(["soak", "--duration", "10m", "--subscribers", "8", "--seed", "3"])
    _ = try await program.lines(2)
    program.signal(SIGINT)
    let ending = try await program.ending()
    #expect(ending.code == 0, "\(ending.errors)")
    #expect(ending.output.contains("passed, as far as it ran: "))
  }

  @Test(
    "a soak that makes no sense exits 2 and says why",
    arguments: [
      (["--server", "http://scores.example:80"], "add --allow-remote scores.example"),
      (["--server", "http://scores.example:80", "--allow-remote", "other.example"], "name the same host"),
      (["--allow-remote", "scores.example"], "--allow-remote goes with --server"),
      (["--server", "https://127.0.0.1:8443"], "without TLS"),
      (["--server", "http://127.0.0.1:1", "--restart-server", "1"], "leave out --server"),
      (["--channels", "9", "--subscribers", "3"], "at least one a channel"),
      (["--mix", "10=x"], "weights such as 10=6,5=3,1=1 was expected"),
      (["--profile", "smok"], "smoke, match, kick-off, goal, overnight was expected"),
      (["--fail-on", "p98=1"], "conditions such as"),
      (["--rate", "0"], "0.01 to 1000 messages a second were expected"),
      (["--slow", "101"], "percent, from 0 to 100"),
    ])
  func nonsense(_ words: [String], _ message: String) async throws {
    let ending = try await Touchline.run(["soak"] + words)
    #expect(ending.code == 2)
    #expect(ending.errors.contains(message), "\(ending.errors)")
  }
}
