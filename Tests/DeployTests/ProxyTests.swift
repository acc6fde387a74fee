import Foundation
import TestSupport
import Testing

@Suite("nginx in front", .serialized, .enabled(if: Tool.nginx != nil, missing("nginx")))
struct ProxyTests {
  /// A channel whose id has a slash, a plus and padding, made through the proxy until one has.
  private static func awkwardChannel(_ server: DeployedServer) async throws -> String {
    for _ in 0..<200 {
      let id = try await server.command("channel", "create", "--app", "com.example.scores")
        .trimmingCharacters(in: .newlines)
      if id.contains("/"), id.contains("+") { return id }
      try await server.command("channel", "delete", id)
    }
    throw WaitedInVain(for: "an id with a slash and a plus", "200 had none")
  }

  private static func encoded(_ id: String) -> String {
    id.replacing("/", with: "%2F").replacing("+", with: "%2B").replacing("=", with: "%3D")
  }

  private static func withProxy(
    settings: [String] = [], timeout: String = "75s",
    _ body: (DeployedServer, Proxy, _ folder: URL) async throws -> Void
  ) async throws {
    try await withFolder { folder in
      let server = try await DeployedServer(in: folder, settings: settings)
      let proxy = try await Proxy(in: folder, before: server, timeout: timeout)
      try await body(server, proxy, folder)
      try await proxy.stop()
      try await server.stop()
    }
  }

  private static func curlStream(_ url: String, _ authority: String) throws -> RunningProgram {
    try RunningProgram(
      try #require(Tool.curl),
      ["-sN", "--cacert", authority, "-H", "accept: text/event-stream", url])
  }

  @Test(
    "a channel id with a slash reaches the server: streams, a publish over HTTP/2, and everybody hears it")
  func passesThrough() async throws {
    try await Self.withProxy { server, proxy, _ in
      let id = try await Self.awkwardChannel(server)
      let place = "127.0.0.1:\(proxy.port)/v1/channels/\(Self.encoded(id))/events"
      let socket = try await ProxyClient("wss://\(place)", authority: server.authority)
      let subscribed = try await socket.program.lines(2)[1]
      #expect(subscribed.contains(#""type":"subscribed""#) && subscribed.contains(id))
      let events = try Self.curlStream("https://\(place)", server.authority)
      // The first event comes before anything was published: nothing on the way keeps it back.
      _ = try await eventually("the first event: \(events.output.text) \(events.errors.text)") {
        events.output.text.contains("subscribed") ? () : nil
      }
      let body =
        #"{"aps":{"timestamp":\#(Int(Date().timeIntervalSince1970)),"event":"update","content-state":{"home":1}}}"#
      let answer = try await succeed(
        Tool.curl,
        [
          "-si", "--http2", "--cacert", server.authority,
          "https://127.0.0.1:\(proxy.port)/4/broadcasts/apps/com.example.scores",
          "-H", "apns-channel-id: \(id)", "-H", "apns-push-type: liveactivity", "-H", "apns-priority: 10",
          "-H", "apns-expiration: 0", "-d", body,
        ])
      #expect(answer.hasPrefix("HTTP/2 200"), "\(answer)")
      #expect(answer.contains("touchline-outcome: delivered"), "\(answer)")
      #expect(try await socket.program.lines(3)[2].contains(#""home":1"#))
      _ = try await eventually("the event: \(events.output.text)") {
        events.output.text.contains(#""home":1"#) ? () : nil
      }
      let shown = try await succeed(
        Tool.curl,
        [
          "-s", "--cacert", server.authority,
          "https://127.0.0.1:\(proxy.port)/v1/channels/\(Self.encoded(id))",
        ])
      #expect(shown.contains(id), "\(shown)")
    }
  }

  @Test("streams outlive the proxy's timeouts, because the server pings; without pings they would not")
  func staysOpen() async throws {
    try await Self.withProxy(settings: [#""ping-seconds": 0.5"#], timeout: "4s") { server, proxy, _ in
      try await server.command("channel", "create", "final")
      let place = "127.0.0.1:\(proxy.port)/v1/channels/final/events"
      let socket = try await ProxyClient("wss://\(place)", authority: server.authority)
      try await socket.program.lines(2)
      let events = try Self.curlStream("https://\(place)", server.authority)
      _ = try await eventually("the first event") { events.output.text.contains("subscribed") ? () : nil }
      try await Task.sleep(for: .seconds(6))
      try await server.command("publish", "final", "--state", #"{"home":2}"#)
      #expect(try await socket.program.lines(3)[2].contains(#""home":2"#))
      _ = try await eventually("the event: \(events.output.text)") {
        events.output.text.contains(#""home":2"#) ? () : nil
      }
    }
    // The counter-check: the same with a server that keeps silent longer than the proxy waits.
    try await Self.withProxy(settings: [#""ping-seconds": 60"#, #""silence-seconds": 600"#], timeout: "1s") {
      server, proxy, _ in
      try await server.command("channel", "create", "final")
      let socket = try await ProxyClient(
        "wss://127.0.0.1:\(proxy.port)/v1/channels/final/events", authority: server.authority)
      _ = try await eventually("the proxy's patience: \(socket.program.output.text)") {
        socket.program.output.text.contains("closed without a word") ? () : nil
      }
    }
  }

  @Test("a client that goes away is gone for the server too")
  func noticesLeaving() async throws {
    try await Self.withProxy { server, proxy, _ in
      try await server.command("channel", "create", "final")
      let place = "127.0.0.1:\(proxy.port)/v1/channels/final/events"
      let socket = try await ProxyClient("wss://\(place)", authority: server.authority)
      let events = try Self.curlStream("https://\(place)", server.authority)
      _ = try await eventually("two sessions") { try server.sessions() == 2 ? () : nil }
      socket.program.signal(SIGKILL)
      events.signal(SIGKILL)
      _ = try await eventually("no session") { try server.sessions() == 0 ? () : nil }
    }
  }

  @Test("two teams' requests through the proxy don't meet on one connection")
  func teams() async throws {
    try await withFolder { folder in
      let keys = folder.appendingPathComponent("keys").path
      let server: DeployedServer
      do {
        for (team, app) in [("TEAM111111", "com.example.one"), ("TEAM222222", "com.example.two")] {
          let made = try await Touchline.run([
            "token", "new-key", "--dir", keys, "--team", team, "--app", app,
          ])
          try #require(made.code == 0, "\(made.errors)")
        }
        server = try await DeployedServer(in: folder, options: ["--keys", keys])
      }
      let proxy = try await Proxy(in: folder, before: server)
      let files = try FileManager.default.contentsOfDirectory(atPath: keys).filter { $0.hasSuffix(".p8") }
      try #require(files.count == 2)
      for _ in 0..<3 {
        for (index, file) in files.sorted().enumerated() {
          let list = try await Touchline.run(
            ["channel", "list", "--key", "\(keys)/\(file)", "--ca", server.authority],
            environment: ["TOUCHLINE_SERVER": "https://127.0.0.1:\(proxy.port)"])
          #expect(list.code == 0, "key \(index): \(list.errors)")
        }
      }
      try await proxy.stop()
      try await server.stop()
    }
  }

  @Test("what is too large, and what is for this machine alone, stays outside")
  func bounds() async throws {
    try await Self.withProxy { server, proxy, folder in
      try await server.command("channel", "create", "final")
      let large = folder.appendingPathComponent("large").path
      func status(_ bytes: Int, _ path: String) async throws -> String {
        try Data(count: bytes).write(to: URL(fileURLWithPath: large))
        return try await succeed(
          Tool.curl,
          [
            "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", server.authority,
            "https://127.0.0.1:\(proxy.port)\(path)",
          ] + (bytes > 0 ? ["--data-binary", "@\(large)"] : []))
      }
      // Apple's bound is the server's to tell; the proxy's stands above it.
      #expect(try await status(70_000, "/v1/channels") == "413")
      #expect(try await status(200_000, "/v1/channels") == "413")
      #expect(try await status(0, "/metrics") == "404")
      #expect(try await status(0, "/healthz") == "200")
      let log = try String(contentsOf: folder.appendingPathComponent("nginx.log"), encoding: .utf8)
      #expect(log.contains("POST /v1/channels HTTP/2.0 413"))
      _ = try await status(0, "/v1/channels?token=secret")
      let after = try String(contentsOf: folder.appendingPathComponent("nginx.log"), encoding: .utf8)
      #expect(!after.contains("secret"))
    }
  }

  @Test("no token gets into the proxy's logs, whatever becomes of the request")
  func tokens() async throws {
    try await withFolder { folder in
      let server = try await DeployedServer(in: folder)
      let proxy = try await Proxy(in: folder, before: server)
      let device = String(repeating: "0123456789abcdef", count: 4)
      let paths = ["/3/device/\(device)", "//3/Device/\(device.uppercased())/x", "/v1/channels?token=secret"]
      func ask() async throws {
        for path in paths {
          try await succeed(
            Tool.curl,
            ["-s", "--cacert", server.authority, "--path-as-is", "https://127.0.0.1:\(proxy.port)\(path)"])
        }
      }
      try await ask()
      // Without a server behind it nginx would write the request lines into its log of errors.
      try await server.stop()
      try await ask()
      try await proxy.stop()
      let logs = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
        $0.hasSuffix(".log")
      }
      #expect(logs.sorted() == ["nginx-error.log", "nginx-site-error.log", "nginx.log"])
      for log in logs {
        let text = try String(contentsOf: folder.appendingPathComponent(log), encoding: .utf8).lowercased()
        #expect(!text.contains("secret") && !text.contains("0123456789"), "\(log): \(text)")
      }
      let access = try String(contentsOf: folder.appendingPathComponent("nginx.log"), encoding: .utf8)
      #expect(access.contains(" GET /3/device/01234567... HTTP/2.0 "), "\(access)")
      #expect(access.contains(" GET /v1/channels HTTP/2.0 502 "), "\(access)")
    }
  }

  @Test("a proxy that carries TLS on makes nobody local: the metrics stay inside")
  func metricsBehindStream() async throws {
    try await Self.withProxy { server, proxy, _ in
      func status(_ port: UInt16) async throws -> String {
        try await succeed(
          Tool.curl,
          [
            "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", server.authority,
            "https://127.0.0.1:\(port)/metrics",
          ])
      }
      #expect(try await status(proxy.streamPort) == "403")
      #expect(try await status(server.providerPort) == "403")
      let main = try await succeed(
        Tool.curl, ["-s", "-o", "/dev/null", "-w", "%{http_code}", "\(server.address)/metrics"])
      #expect(main == "200")
    }
  }

  @Test(
    "the provider port behind 'stream' keeps its own TLS: HTTP/2 end to end, and the server's certificate")
  func passthrough() async throws {
    try await Self.withProxy { server, proxy, _ in
      let answer = try await succeed(
        Tool.curl,
        ["-si", "--http2", "--cacert", server.authority, "https://127.0.0.1:\(proxy.streamPort)/healthz"])
      #expect(answer.hasPrefix("HTTP/2 200"), "\(answer)")
      // Two requests of one sender share its one connection, as they do without the proxy.
      let two = try await succeed(
        Tool.curl,
        [
          "-s", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_version} %{num_connects}\n", "--http2",
          "--cacert", server.authority, "https://127.0.0.1:\(proxy.streamPort)/healthz",
          "https://127.0.0.1:\(proxy.streamPort)/healthz",
        ])
      #expect(two == "2 1\n2 0\n")
    }
  }
}
