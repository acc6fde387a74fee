import Foundation
import TestSupport
import Testing

// One after the other: each soak is several processes that keep the machine busy for seconds.
@Suite("touchline soak", .serialized)
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

  /// Whatever folder the tests are run from.
  private static let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../Channels/nba-finals-2016.match.jsonl").standardizedFileURL.path

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

  private struct Cost: Decodable {
    struct Process: Decodable {
      let name: String
      let share: Double
      let max_resident_bytes: Int
    }
    struct Soak: Decodable { let processes: [Process] }
    let soak_cost: Soak
  }

  @Test("with several processes, over TLS, the verdict and the sums are those of all of them")
  func processes() async throws {
    try await withFolder { folder in
      let ending = try await Touchline.run(
        Self.short + ["--processes", "3", "--tls", "--report", folder.url.path])
      #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
      #expect(ending.output.contains("60 activities in 3 processes on 4 channels"))
      let json = folder.url.appendingPathComponent("report.json")
      try await validate(json)
      let report = try JSONDecoder().decode(Report.self, from: Data(contentsOf: json))
      #expect(report.totals.deliveries > 0 && report.totals.faults["server restarted"] == 1)
      let cost = try JSONDecoder().decode(Cost.self, from: Data(contentsOf: json)).soak_cost
      #expect(cost.processes.map(\.name) == ["judge", "part 0", "part 1", "part 2"])
      #expect(cost.processes.allSatisfy { $0.share > 0 && $0.max_resident_bytes > 1_000_000 })
    }
  }

  @Test("a server that checks tokens is shown a provider's, over TLS; without one the soak fails and says so")
  func tokens() async throws {
    try await withFolder { folder in
      let made = try await Touchline.run([
        "token", "new-key", "--dir", folder.path("keys"), "--team", "TEAM123456", "--app",
        "com.example.scores",
      ])
      let key = try #require(made.lines.first { $0.hasSuffix(".p8") }?.split(separator: " ").last)
      let server = try Touchline.start([
        "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--keys", folder.path("keys"),
        "--tls",
        "--tls-dir", folder.path("tls"),
      ])
      let port = try #require(try await server.lines(1)[0].split(separator: ":").last)
      let words = [
        "soak", "--server", "https://127.0.0.1:\(port)", "--ca", folder.path("tls/ca.pem"), "--duration", "2",
        "--subscribers", "12", "--rate", "5", "--seed", "3",
      ]
      for more in [["--key", String(key)], ["--key", String(key), "--processes", "2"]] {
        let ending = try await Touchline.run(words + more)
        #expect(ending.code == 0 && ending.output.contains("passed: "), "\(ending.output)\(ending.errors)")
      }
      let stranger = try await Touchline.run(words)
      #expect(stranger.code == 1 && stranger.errors.contains("provider token"), "\(stranger.errors)")
      let untrusted = try await Touchline.run(
        ["soak", "--server", "https://127.0.0.1:\(port)", "--ca", folder.path("keys/teams.json")]
          + words.dropFirst(5))
      #expect(untrusted.code == 1 && untrusted.errors.contains("teams.json"), "\(untrusted.errors)")
      server.signal(SIGTERM)
      #expect(try await server.ending().code == 0)
    }
  }

  /// The children of a process (proc(5), "children").
  private func children(of pid: Int32) throws -> [Int32] {
    let text = try String(contentsOfFile: "/proc/\(pid)/task/\(pid)/children", encoding: .utf8)
    return text.split(separator: " ").compactMap { Int32($0) }
  }

  /// Whether a process has ended; one that nobody has waited for yet has, too.
  private func hasEnded(_ pid: Int32) -> Bool {
    guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return true }
    return text.split(separator: ")").last?.split(separator: " ").first == "Z"
  }

  @Test("a soak that is killed leaves no process behind, and the next one removes its folder, and no other")
  func killed() async throws {
    try await withFolder { folder in
      let environment = ["TMPDIR": folder.url.path]
      let program = try Touchline.start(
        ["soak", "--duration", "10m", "--subscribers", "8", "--seed", "3", "--processes", "2"],
        environment: environment)
      _ = try await program.lines(2)
      let children = try children(of: program.processIdentifier)
      #expect(children.count == 3 && !children.contains(where: hasEnded))
      program.signal(SIGKILL)
      _ = try await program.ending()
      try await eventually("the end of \(children)") { children.allSatisfy(hasEnded) ? () : nil }
      let left = "touchline-soak-\(program.processIdentifier)"
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [left])

      // The folder of a process that lives, a file and a link with the name of one that is gone, and other names.
      let gone = "touchline-soak-\(Int32.max)"
      let kept = [
        "touchline-soak-\(getpid())", "touchline-soak-", "touchline-soak-07", "touchline-soak-1x", "other",
      ]
      for name in kept {
        try FileManager.default.createDirectory(
          at: folder.url.appendingPathComponent(name), withIntermediateDirectories: true)
      }
      try FileManager.default.createSymbolicLink(
        atPath: folder.path(gone), withDestinationPath: folder.path("other"))
      try Data().write(to: URL(fileURLWithPath: folder.path("other/file")))
      try Data().write(to: URL(fileURLWithPath: folder.path("touchline-soak-\(Int32.max - 1)")))
      let next = try await Touchline.run(
        ["soak", "--duration", "2", "--subscribers", "8", "--rate", "5", "--seed", "3"],
        environment: environment)
      #expect(next.code == 0, "\(next.output)\(next.errors)")
      let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
      #expect(Set(names) == Set(kept + [gone, "touchline-soak-\(Int32.max - 1)"]))
      #expect(FileManager.default.fileExists(atPath: folder.path("other/file")))
    }
  }

  @Test("a folder whose lock somebody holds is in use, whatever its name says")
  func locked() async throws {
    try await withFolder { folder in
      let name = "touchline-soak-\(Int32.max)"
      try FileManager.default.createDirectory(
        at: folder.url.appendingPathComponent(name), withIntermediateDirectories: true)
      let lock = open(folder.path("\(name)/lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
      try #require(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
      let words = ["soak", "--duration", "2", "--subscribers", "8", "--rate", "5", "--seed", "3"]
      let environment = ["TMPDIR": folder.url.path]
      #expect(try await Touchline.run(words, environment: environment).code == 0)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [name])
      close(lock)
      #expect(try await Touchline.run(words, environment: environment).code == 0)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [])
    }
  }

  @Test("connections that fail because the soak has stopped its server aren't held against it")
  func restarts() async throws {
    try await withFolder { folder in
      let ending = try await Touchline.run([
        "soak", "--duration", "6", "--subscribers", "60", "--rate", "5", "--seed", "7", "--restart-server",
        "2",
        "--fail-on", "failed-connections=0", "--report", folder.url.path,
      ])
      #expect(ending.code == 0, "\(ending.output)\(ending.errors)")
      #expect(ending.output.contains("server restarted 1×") && ending.output.contains("server killed 1×"))
      let json = folder.url.appendingPathComponent("report.json")
      try await validate(json)
      let samples = try JSONDecoder().decode(Samples.self, from: Data(contentsOf: json)).samples
      #expect(samples.flatMap(\.events).filter { $0 != "flood" } == ["server restarted", "server killed"])
      let page = try String(contentsOf: folder.url.appendingPathComponent("report.html"), encoding: .utf8)
      #expect(page.contains(">server killed</text>") && page.contains(">server restarted</text>"))
    }
  }

  private struct Samples: Decodable {
    struct Sample: Decodable { let events: [String] }
    let samples: [Sample]
  }

  @Test("a server whose parent has ended before it could ask to be told doesn't start")
  func orphan() async throws {
    let ending = try await Touchline.run([
      "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--end-with", "1",
    ])
    #expect(ending.code == 1 && ending.output == "")
    #expect(ending.errors.contains("--end-with names, is not the one that started this one"))
  }

  @Test("a condition of --fail-on that is met exits 1 and says so")
  func failOn() async throws {
    let ending = try await Touchline.run(
      ["soak", "--duration", "2", "--subscribers", "8", "--rate", "5", "--seed", "3", "--fail-on", "p50=0"])
    #expect(ending.code == 1)
    #expect(ending.output.contains("--fail-on allows 0.00 ms"))
  }

  @Test("a soak whose server doesn't come back fails, and says who is not subscribed, since when")
  func unreachable() async throws {
    let server = try Touchline.start(["serve", "--listen", "127.0.0.1:0", "--provider-listen", "off"])
    let port = try #require(try await server.lines(1)[0].split(separator: ":").last)
    let soak = try Touchline.start([
      "soak", "--server", "http://127.0.0.1:\(port)", "--duration", "4", "--subscribers", "8", "--channels",
      "2", "--rate", "5", "--seed", "3", "--no-faults", "--fail-on", "failed-connections=0",
    ])
    _ = try await soak.lines(2)
    server.signal(SIGKILL)
    _ = try await server.ending()
    let ending = try await soak.ending()
    #expect(ending.code == 1, "\(ending.output)\(ending.errors)")
    #expect(ending.output.contains("unreachable: channel 0, subscriber 0 at "), "\(ending.output)")
    #expect(ending.output.contains("not subscribed since "))
    // The server wasn't the soak's own to stop.
    #expect(
      ending.output.contains("--fail-on allows 0\n") && ending.output.contains("failed-connections is "))
  }

  @Test("who stops reading a soak's lines gets its verdict and its report all the same")
  func unread() async throws {
    try await withFolder { folder in
      let program = try #require(Touchline.executable).path
      let ending = try await RunningProgram(
        URL(fileURLWithPath: "/bin/bash"),
        [
          "-c",
          """
          \(program) soak --duration 2s --ramp 0.5s --subscribers 4 --channels 1 --no-faults --seed 5 \
            --fail-on p50=0.001ms --report \(folder.url.path) | head -1
          exit ${PIPESTATUS[0]}
          """,
        ]
      ).ending()
      #expect(ending.code == 1, "\(ending.errors)")
      #expect(FileManager.default.fileExists(atPath: folder.url.appendingPathComponent("report.json").path))
    }
  }

  @Test("a channel that is deleted under a soak is a violation, once")
  func deleted() async throws {
    try await withServer { server in
      let soak = try Touchline.start([
        "soak", "--server", server.address, "--duration", "3", "--subscribers", "8", "--channels", "2",
        "--rate", "5", "--seed", "3", "--no-faults",
      ])
      _ = try await soak.lines(2)
      let list = try await server.succeed("channel", "list")
      let alias = try #require(
        list.output.split(whereSeparator: \.isWhitespace).first {
          $0.hasPrefix("soak-") && $0.hasSuffix("-1")
        })
      _ = try await server.succeed("channel", "delete", String(alias))
      let ending = try await soak.ending()
      #expect(ending.code == 1, "\(ending.output)\(ending.errors)")
      #expect(ending.output.contains("unreachable: channel 1, subscriber "), "\(ending.output)")
      #expect(ending.output.contains("answered 404"))
    }
  }

  @Test(
    "a process that ends by itself ends the run: with a verdict and a report, and how it ended",
    arguments: [("serve", "the soak's server, process "), ("--part", "part ")])
  func died(_ word: String, _ message: String) async throws {
    try await withFolder { folder in
      let soak = try Touchline.start([
        "soak", "--duration", "10m", "--subscribers", "8", "--seed", "3", "--processes", "2", "--report",
        folder.url.path,
      ])
      _ = try await soak.lines(2)
      let victim = try #require(
        try children(of: soak.processIdentifier).first { pid in
          try String(contentsOfFile: "/proc/\(pid)/cmdline", encoding: .utf8).split(separator: "\0")
            .contains { $0 == word }
        })
      kill(victim, SIGKILL)
      let ending = try await soak.ending()
      #expect(ending.code == 1, "\(ending.errors)")
      #expect(ending.output.contains(message) && ending.output.contains("\(victim)"), "\(ending.output)")
      #expect(ending.output.contains("signal 9"))
      let json = folder.url.appendingPathComponent("report.json")
      #expect(try JSONDecoder().decode(Report.self, from: Data(contentsOf: json)).verdict.passed == false)
      try await validate(json)
    }
  }

  @Test("a soak that ends before anything was delivered has not passed")
  func nothing() async throws {
    let program = try Touchline.start([
      "soak", "--duration", "10m", "--subscribers", "8", "--rate", "0.01", "--seed", "3", "--fail-on",
      "p99=1s",
    ])
    _ = try await program.lines(1)
    program.signal(SIGINT)
    let ending = try await program.ending()
    #expect(ending.code == 1, "\(ending.errors)")
    #expect(ending.output.contains("nothing was checked"), "\(ending.output)")
    #expect(ending.output.contains("p99 is not known: nothing was delivered"))
  }

  @Test("a report that can't be written is noticed before the run")
  func unwritable() async throws {
    try await withFolder { folder in
      try FileManager.default.createDirectory(
        at: folder.url.appendingPathComponent("report.json"), withIntermediateDirectories: true)
      for path in ["/proc", folder.url.path] {
        let ending = try await Touchline.run(["soak", "--duration", "10m", "--report", path])
        #expect(ending.code == 1 && ending.output == "", "\(ending.output)")
        #expect(ending.errors.contains(path) && ending.errors.contains("report"), "\(ending.errors)")
      }
    }
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
      (["--server", "https://127.0.0.1:8443", "--tls"], "--tls is for the soak's own server"),
      (["--key", "AuthKey_ABC123DEFG.p8"], "--key goes with --server"),
      (["--processes", "0"], "how many, from 1 to 64, was expected"),
      (["--server", "http://127.0.0.1:1", "--restart-server", "1"], "leave out --server"),
      (["--channels", "9", "--subscribers", "3"], "at least one a channel"),
      (["--mix", "10=x"], "weights such as 10=6,5=3,1=1 was expected"),
      (["--profile", "smok"], "smoke, match, kick-off, goal, overnight was expected"),
      (["--fail-on", "p98=1"], "conditions such as"),
      (["--server", "http://127.0.0.1:1", "--fail-on", "rss=300"], "memory of another one isn't known"),
      (["--rate", "0"], "0.01 to 1000 messages a second were expected"),
      (["--slow", "101"], "percent, from 0 to 100"),
      (["--speed", "2"], "--speed is for a script"),
      (["--script", script, "--rate", "2"], "--rate and a script don't go together"),
      (["--script", script, "--mix", "10=1"], "--mix and a script don't go together"),
      (["--script", script, "--stale-in", "3"], "--stale-in and a script don't go together"),
      (["--script", script, "--duration", "10s", "--speed", "3"], "a script has its own length"),
      (
        ["--script", script, "--duration", "10s", "--ramp", "6s"],
        "the script takes 10.0 s; half of that is the most"
      ),
    ])
  func nonsense(_ words: [String], _ message: String) async throws {
    let ending = try await Touchline.run(["soak"] + words)
    #expect(ending.code == 2)
    #expect(ending.errors.contains(message), "\(ending.errors)")
  }
}
