import Foundation
import TestSupport
import Testing

@Suite("The systemd unit", .enabled(if: Tool.systemdAnalyze != nil, missing("systemd-analyze")))
struct UnitTests {
  private static let unit = project.appendingPathComponent("deploy/systemd/touchline.service")

  @Test("systemd-analyze verify has nothing to say, and does about a misspelt setting")
  func verifies() async throws {
    try await withFolder { folder in
      let copy = folder.appendingPathComponent("touchline.service")
      let program = try #require(Touchline.executable).path
      let text = try text(of: "deploy/systemd/touchline.service")
        .replacing("/usr/local/bin/touchline", with: program)
      try text.write(to: copy, atomically: true, encoding: .utf8)
      #expect(try await succeed(Tool.systemdAnalyze, ["--man=no", "verify", copy.path]) == "")
      try text.replacing("ProtectClock=", with: "ProtectClok=").write(
        to: copy, atomically: true, encoding: .utf8)
      let complaint = try await RunningProgram(
        try #require(Tool.systemdAnalyze), ["--man=no", "verify", copy.path]
      ).ending()
      #expect(complaint.errors.contains("Unknown key"), "\(complaint.errors)")
    }
  }

  @Test("its exposure is at most 1.1 of 10, by systemd-analyze security")
  func isHardened() async throws {
    // A program that talks to the Internet and runs on the host's files can't have less than 1.1.
    try await succeed(
      Tool.systemdAnalyze, ["security", "--offline=true", "--threshold=11", "--no-pager", Self.unit.path])
  }

  @Test(
    "the installation puts each file where the unit looks for it, and leaves settings that are there alone")
  func installs() async throws {
    try await withFolder { folder in
      let install = project.appendingPathComponent("deploy/systemd/install")
      let program = try #require(Touchline.executable).path
      try await succeed(install, ["--root", folder.path, program])
      let unit = try String(
        contentsOf: folder.appendingPathComponent("etc/systemd/system/touchline.service"), encoding: .utf8)
      let start = try #require(unit.split(separator: "\n").first { $0.hasPrefix("ExecStart=") })
      let words = start.dropFirst("ExecStart=".count).split(separator: " ").map(String.init)
      #expect(FileManager.default.isExecutableFile(atPath: folder.path + words[0]))
      let settings = folder.path + (try #require(words.last))
      #expect(
        try String(contentsOfFile: settings, encoding: .utf8) == text(of: "deploy/systemd/touchline.json"))
      try "{}".write(toFile: settings, atomically: false, encoding: .utf8)
      try await succeed(install, ["--root", folder.path, program])
      #expect(try String(contentsOfFile: settings, encoding: .utf8) == "{}")
    }
  }

  /// The names that a filter's items stand for; groups begin with an @ and hold further ones.
  private static func calls(_ items: [String]) async throws -> Set<String> {
    var names: Set<String> = []
    for item in items {
      guard item.hasPrefix("@") else {
        names.insert(item)
        continue
      }
      let members = try await succeed(Tool.systemdAnalyze, ["syscall-filter", "--no-pager", item])
        .split(separator: "\n").dropFirst().map { $0.trimmingCharacters(in: .whitespaces) }
      names.formUnion(try await calls(members.filter { !$0.isEmpty && !$0.hasPrefix("#") }))
    }
    return names
  }

  /// What the unit allows: its filters in their order, and @default, which systemd always adds (systemd.exec(5)).
  private static func allowed() async throws -> Set<String> {
    var names = try await calls(["@default"])
    for line in try text(of: "deploy/systemd/touchline.service").split(separator: "\n") {
      guard line.hasPrefix("SystemCallFilter=") else { continue }
      let value = line.dropFirst("SystemCallFilter=".count)
      let items = value.drop { $0 == "~" }.split(separator: " ").map(String.init)
      if value.hasPrefix("~") {
        names.subtract(try await calls(items))
      } else {
        names.formUnion(try await calls(items))
      }
    }
    return names
  }

  @Test(
    "a whole session makes only system calls that the unit allows",
    .enabled(if: Tool.strace != nil, missing("strace")))
  func systemCalls() async throws {
    try await withFolder { folder in
      let trace = folder.appendingPathComponent("trace").path
      let program = try #require(Touchline.executable).path
      let settings = folder.appendingPathComponent("touchline.json")
      try """
      {"listen": "127.0.0.1:0", "provider-listen": "127.0.0.1:0", "store": "\(folder.path)/channels.sqlite"}
      """.write(to: settings, atomically: true, encoding: .utf8)
      let manager = try NotifySocket(folder.appendingPathComponent("notify").path)
      let traced = try RunningProgram(
        try #require(Tool.strace),
        ["-f", "-qq", "-o", trace, program, "serve", "--config", settings.path],
        environment: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "500000"])
      let ports = try await traced.lines(2).map { line in
        try #require(line.split(separator: ":").last.flatMap { UInt16($0) }, "\(line)")
      }
      let server = ["TOUCHLINE_SERVER": "http://127.0.0.1:\(ports[0])"]
      // Each call of a traced server waits for its turn on the processor, and commands wait for an answer no longer than 10 s.
      func untilDone(_ arguments: String...) async throws {
        var last = ""
        for _ in 0..<20 {
          let ending = try await Touchline.run(arguments, environment: server)
          // What was asked before and answered too late has been done.
          if ending.code == 0 || ending.errors.contains("AliasTaken") { return }
          last = ending.errors
        }
        Issue.record("\(arguments): \(last)")
      }
      try await untilDone("channel", "create", "final", "--app", "com.example.scores", "--storage", "latest")
      let watch = try Touchline.start(["watch", "final", "--format", "json"], environment: server)
      try await watch.notice("final: ")
      try await untilDone("publish", "final", "--state", #"{"n":1}"#, "--expires-in", "1h")
      try await watch.lines(1)
      try await succeed(
        Tool.curl,
        [
          "-sf", "--http2", "--cacert", "\(folder.path)/touchline-tls/ca.pem",
          "https://127.0.0.1:\(ports[1])/readyz",
        ])
      // The process' figures come from /proc.
      try await succeed(Tool.curl, ["-sf", "http://127.0.0.1:\(ports[0])/metrics"])
      // The traced process is strace's child.
      let children = try String(
        contentsOfFile: "/proc/\(traced.processIdentifier)/task/\(traced.processIdentifier)/children",
        encoding: .utf8)
      let process = try #require(children.split(separator: " ").first.flatMap { Int32($0) })
      kill(process, SIGHUP)
      _ = try await manager.datagram("READY=1", count: 2)
      kill(process, SIGTERM)
      let ending = try await traced.ending()
      #expect(ending.code == 0, "\(ending.errors)")
      watch.signal(SIGTERM)
      _ = try await watch.ending()

      let calls = try String(contentsOfFile: trace, encoding: .utf8).split(separator: "\n").compactMap {
        line in
        // "1234 name(…", without signals, ends and resumed calls.
        line.split(separator: " ", maxSplits: 1).last.flatMap { call -> String? in
          let name = call.drop { $0 == " " }.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
          return call.contains("(") && !name.isEmpty ? String(name) : nil
        }
      }
      // Enough to be a session: it listened, sent, and made a promise durable.
      #expect(Set(["listen", "accept4", "sendto", "fdatasync"]).isSubset(of: calls))
      // Only as root SQLite gives its log to its file's owner; the unit's user never asks.
      let rootOnly: Set<String> = geteuid() == 0 ? ["fchown"] : []
      // libdispatch asks for its threads' priority, and goes on when it doesn't get it.
      let unneeded: Set<String> = ["setpriority"]
      let refused = Set(calls).subtracting(try await Self.allowed().union(rootOnly).union(unneeded))
      #expect(refused.isEmpty, "not allowed: \(refused.sorted())")
    }
  }
}
