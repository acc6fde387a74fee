import Foundation
import TestSupport
import Testing

@Suite("Readiness by sd_notify")
struct ReadinessTests {
  @Test(
    "READY comes when the ports can be reached, RELOADING and READY on SIGHUP, STOPPING on SIGTERM",
    arguments: [false, true])
  func notifies(_ isAbstract: Bool) async throws {
    try await withFolder { folder in
      let name = isAbstract ? "@touchline-\(UUID())" : folder.appendingPathComponent("notify").path
      let manager = try NotifySocket(name)
      let file = folder.appendingPathComponent("touchline.json").path
      try #"{"listen": "127.0.0.1:0", "provider-listen": "off", "store": "memory"}"#.write(
        toFile: file, atomically: true, encoding: .utf8)
      let program = try Touchline.start(
        ["serve", "--config", file], environment: ["NOTIFY_SOCKET": manager.name])
      let ready = try await manager.datagram("READY=1")
      let status = try #require(ready.first { $0.hasPrefix("STATUS=listening on http://127.0.0.1:") })
      let port = try #require(status.split(separator: ":").last.flatMap { UInt16($0) }, "\(status)")
      // Not "eventually": whoever is told READY may connect at once.
      _ = try RawSocket(port: port)

      let asked = ContinuousClock.now
      program.signal(SIGHUP)
      let reloading = try await manager.datagram("RELOADING=1")
      let stamp = try #require(reloading.first { $0.hasPrefix("MONOTONIC_USEC=") }?.dropFirst(15))
      let time = try #require(Int64(stamp), "\(stamp)")
      // The time of the reload by the same clock, so not before it was asked for and not after now.
      var now = timespec()
      clock_gettime(CLOCK_MONOTONIC, &now)
      let ended = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
      let passed = Int64((ContinuousClock.now - asked) / .microseconds(1)) + 1_000
      #expect(time <= ended && time >= ended - passed)
      _ = try await manager.datagram("READY=1", count: 2)
      _ = try RawSocket(port: port)

      program.signal(SIGTERM)
      _ = try await manager.datagram("STOPPING=1")
      let ending = try await program.ending()
      #expect(ending.code == 0, "\(ending.errors)")
      let words = manager.datagrams.compactMap(\.first)
      #expect(words == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"])
    }
  }

  @Test("with WatchdogSec= it gives signs of life, and none without")
  func watchdog() async throws {
    try await withFolder { folder in
      let manager = try NotifySocket(folder.appendingPathComponent("notify").path)
      let server = try await DeployedServer(
        in: folder, environment: ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "100000"])
      _ = try await manager.datagram("WATCHDOG=1", count: 3)
      try await server.stop()
      // Read to the end, so that what follows counts the second server's alone.
      let signs = manager.datagrams.filter { $0 == ["WATCHDOG=1"] }.count
      let unwatched = try await DeployedServer(in: folder, environment: ["NOTIFY_SOCKET": manager.name])
      _ = try await manager.datagram("READY=1", count: 2)
      try await unwatched.stop()
      #expect(manager.datagrams.filter { $0 == ["WATCHDOG=1"] }.count == signs)
    }
  }

  @Test("a service manager that has gone, or a name that is none, doesn't keep it from serving")
  func nobodyListens() async throws {
    for name in ["/nowhere/notify", "@touchline-nobody-\(UUID())", "nonsense", ""] {
      try await withFolder { folder in
        let server = try await DeployedServer(in: folder, environment: ["NOTIFY_SOCKET": name])
        #expect(try server.sessions() == 0)
        try await server.stop()
      }
    }
  }
}

@Suite("touchline health")
struct HealthTests {
  @Test("a server that works is exit 0 and \"ok\", or its own JSON")
  func healthy() async throws {
    try await withFolder { folder in
      let server = try await DeployedServer(in: folder)
      #expect(try await server.command("health") == "ok\n")
      let json = try await server.command("health", "--format", "json")
      #expect(json.hasPrefix(#"{"status":"ok""#) && json.hasSuffix("}\n"))
      let secure = try await Touchline.run(
        ["health", "--server", "https://127.0.0.1:\(server.providerPort)", "--ca", server.authority])
      #expect(secure.code == 0 && secure.output == "ok\n", "\(secure.errors)")
      // It shows no token, so that a key that isn't there is no reason.
      let keyless = try await Touchline.run(
        ["health"], environment: ["TOUCHLINE_SERVER": server.address, "TOUCHLINE_KEY": "/nowhere/key.p8"])
      #expect(keyless.code == 0, "\(keyless.errors)")
      try await server.stop()
    }
  }

  @Test(
    "nobody there, no answer in time, or another program: exit 1 with the reason", .timeLimit(.minutes(2)))
  func unhealthy() async throws {
    let nobody = try freePort()
    let refused = try await Touchline.run(["health", "--server", "http://127.0.0.1:\(nobody)"])
    #expect(refused.code == 1 && refused.output == "")
    #expect(refused.errors.contains("no answer from 127.0.0.1:\(nobody)"), "\(refused.errors)")
    // A socket that listens and never answers.
    let silent = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"),
      [
        "-uc",
        "import socket, sys\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1])\nsys.stdin.read()",
      ])
    let port = try await silent.lines(1)[0]
    let late = try await Touchline.run(
      ["health", "--timeout", "0.2s", "--server", "http://127.0.0.1:\(port)"])
    #expect(late.code == 1 && late.errors.contains("did not answer in time"), "\(late.errors)")
    silent.closeInput()
    _ = try await silent.ending()
    let other = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"), ["-um", "http.server", "0", "--bind", "127.0.0.1"])
    let address = try #require(try await other.lines(1)[0].split(separator: " ").first { Int($0) != nil })
    let unknown = try await Touchline.run(["health", "--server", "http://127.0.0.1:\(address)"])
    #expect(unknown.code == 1 && unknown.errors.contains("is it a Touchline server?"), "\(unknown.errors)")
    other.signal(SIGTERM)
    _ = try await other.ending()
  }

  @Test("a timeout that makes no sense is exit 2", arguments: ["0s", "61s", "soon"])
  func timeout(_ text: String) async throws {
    let ending = try await Touchline.run(["health", "--timeout", text])
    #expect(ending.code == 2 && ending.errors.contains("--timeout"), "\(ending.errors)")
  }
}
