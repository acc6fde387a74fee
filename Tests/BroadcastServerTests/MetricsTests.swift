import BroadcastChannels
import EventLoop
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

extension ServerFixture {
  /// The value of a series of `/metrics`, by its whole name with labels; nil when it isn't there.
  func metric(_ series: String) throws -> Double? {
    let answer = try send(.get("/metrics"))
    try #require(answer.status == 200, "\(answer.text)")
    let line = answer.text.split(separator: "\n").first { $0.hasPrefix(series + " ") }
    return line.flatMap { Double($0.dropFirst(series.count + 1)) }
  }
}

@Suite struct MetricsTests {
  private static let rejecting =
    #"{"app":"com.example.scores","budget":{"capacity":2,"refill-per-hour":0,"over-budget":"reject"},"windows":{"5":0.02}}"#

  @Test func publishesAreCountedByOutcomeAndRefusalsByReason() throws {
    try withServer {
      $0.definitions = [try definition("final", Self.rejecting)]
    } _: { server in
      try server.publish()
      try server.publish()
      for _ in 0..<3 { #expect(try server.send(.broadcast(to: "final")).status == 429) }
      #expect(try server.send(.broadcast(to: "AAAAAAAAAAAAAAAAAAAAAA==")).status == 400)
      try server.publish(priority: 5)
      try waitUntil("the window's end") {
        try server.metric("touchline_window_wait_seconds_count") == 1
      }
      let again = Request.broadcast(to: "final", priority: 5)
        .header("apns-request-id", "2288cf3f-70d8-46a6-97d7-dd5d00867127")
      for _ in 0..<2 { #expect(try server.send(again).status == 200) }
      #expect(try server.metric(#"touchline_publishes_total{outcome="delivered"}"#) == 2)
      #expect(try server.metric(#"touchline_publishes_total{outcome="windowed"}"#) == 2)
      #expect(try server.metric(#"touchline_publishes_total{outcome="repeated"}"#) == 1)
      #expect(try server.metric(#"touchline_publishes_total{outcome="dropped"}"#) == 0)
      #expect(try server.metric(#"touchline_publishes_refused_total{reason="TooManyRequests"}"#) == 3)
      #expect(try server.metric(#"touchline_publishes_refused_total{reason="ChannelNotRegistered"}"#) == 1)
      #expect(try server.metric(#"touchline_provider_answers_total{status="200"}"#) == 5)
      #expect(try server.metric(#"touchline_provider_answers_total{status="429"}"#) == 3)
      #expect(try server.metric("touchline_provider_answer_duration_seconds_count") == 9)
      #expect(try server.metric("touchline_channels_budget_exhausted") == 1)
      #expect(try server.metric("touchline_channels_budget_limited") == 1)
      let id = try server.report("final").id
      #expect(
        try server.metric(#"touchline_channel_budget_remaining{channel="\#(id)",alias="final"}"#) == 0)
      #expect(try server.metric(#"touchline_channel_budget_limit{channel="\#(id)",alias="final"}"#) == 2)
    }
  }

  @Test func deliveriesAreCountedOnceASubscriberAndMessage() throws {
    try withServer {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let sockets = try (0..<3).map { _ in try SubscriberSocket(server, "/v1/channels/final/events") }
      for socket in sockets { #expect(try socket.receive().type == "subscribed") }
      for home in 1...2 { try server.publish(Request.aps(home: home)) }
      for socket in sockets {
        for _ in 0..<2 { #expect(try socket.receive().type == "message") }
      }
      try sockets[0].acknowledge(2, displayed: [2])
      #expect(try server.metric("touchline_subscriptions") == 3)
      #expect(try server.metric("touchline_sessions") == 3)
      #expect(try server.metric(#"touchline_connections{port="main",kind="websocket"}"#) == 3)
      #expect(try server.metric("touchline_deliveries_total") == 6)
      let bytes = try #require(try server.metric("touchline_delivered_bytes_total"))
      #expect(bytes > 6 * 100)
      #expect(try server.metric("touchline_acknowledgements_total") == 2)
      #expect(try server.metric("touchline_displays_total") == 1)
      #expect(try server.metric("touchline_fanout_subscribers_count") == 2)
      #expect(try server.metric("touchline_fanout_subscribers_sum") == 6)
      #expect(try server.metric("touchline_fanout_duration_seconds_count") == 2)
      #expect(try server.metric(#"touchline_channels{storage_policy="0"}"#) == 1)
      // What was counted stays when the channel goes.
      let id = try server.report("final").id
      #expect(try server.send(.delete(id)).status == 204)
      for socket in sockets { #expect(try socket.receive().type == "unsubscribed") }
      #expect(try server.metric("touchline_deliveries_total") == 6)
      #expect(try server.metric(#"touchline_channels{storage_policy="0"}"#) == 0)
    }
  }

  @Test func theAnswerIsThatOfPrometheusAndEveryFamilyIsDescribedOnce() throws {
    try withServer { server in
      let answer = try server.send(.get("/metrics"))
      #expect(answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
      for family in MetricFamily.all {
        #expect(answer.text.contains("# HELP \(family.name) \(family.help)\n"), "\(family.name)")
        #expect(answer.text.contains("# TYPE \(family.name) \(family.kind.rawValue)\n"), "\(family.name)")
      }
      let lines = answer.text.split(separator: "\n")
      #expect(lines.count { $0.hasPrefix("# TYPE ") } == MetricFamily.all.count)
      let resident = try #require(try server.metric("process_resident_memory_bytes"))
      let open = try #require(try server.metric("process_open_fds"))
      #expect(resident > 1_000_000 && open > 3)
      let start = try #require(try server.metric("process_start_time_seconds"))
      #expect(abs(start - Date().timeIntervalSince1970) < 86_400)
    }
  }

  @Test func namesAndUnitsFollowThePrometheusConventions() {
    for family in MetricFamily.all {
      #expect((family.kind == .counter) == family.name.hasSuffix("_total"), "\(family.name)")
      #expect(family.name.hasPrefix("touchline_") || family.name.hasPrefix("process_"))
      #expect(family.help.hasSuffix("."))
      #expect(!["_milliseconds", "_ms", "_kb"].contains { family.name.contains($0) })
    }
    #expect(Set(MetricFamily.all.map(\.name)).count == MetricFamily.all.count)
  }

  @Test func labelsAreEscapedAndBucketsAddUp() {
    var text = Exposition()
    text.add(MetricFamily("a", .gauge, "A.", labels: ["l"]), [(["x\"\\\ny"], 1.5)])
    var histogram = Histogram([1, 2])
    for value in [0.5, 1, 1.5, 3] { histogram.observe(value) }
    text.add(MetricFamily("h", .histogram, "H."), histogram)
    #expect(
      text.text == """
        # HELP a A.
        # TYPE a gauge
        a{l="x\\"\\\\\\ny"} 1.5
        # HELP h H.
        # TYPE h histogram
        h_bucket{le="1"} 2
        h_bucket{le="2"} 3
        h_bucket{le="+Inf"} 4
        h_sum 6
        h_count 4

        """)
  }

  @Test func onlySoManyChannelsHaveSeriesOfTheirOwn() throws {
    try withServer {
      $0.definitions = try (0..<Limits.metricsChannels + 5).map { try definition("c\($0)") }
    } _: { server in
      let text = try server.send(.get("/metrics")).text
      let series = text.split(separator: "\n").filter { $0.hasPrefix("touchline_channel_budget_remaining{") }
      #expect(series.count == Limits.metricsChannels)
      #expect(try server.metric("touchline_channels_budget_limited") == Double(Limits.metricsChannels + 5))
    }
  }

  @Test func whatStandsInTheDocumentationIsWhatThereIs() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let page = try String(contentsOf: root.appendingPathComponent("docs/operating.md"), encoding: .utf8)
    func rows(_ prefix: String) -> Set<String> {
      Set(
        page.split(separator: "\n").filter { $0.hasPrefix("| `\(prefix)") }
          .compactMap { $0.split(separator: "`").dropFirst().first.map(String.init) })
    }
    #expect(rows("touchline_").union(rows("process_")) == Set(MetricFamily.all.map(\.name)))
    for family in MetricFamily.all {
      let labels = family.labels.map { "`\($0)`" }.joined(separator: ", ")
      #expect(
        page.contains("| `\(family.name)` | \(family.kind.rawValue) | \(labels) | \(family.help) |"),
        "\(family.name)")
    }
    for event in LogEvent.allCases { #expect(page.contains("| `\(event.rawValue)` |"), "\(event.rawValue)") }
    for setting in Setting.all {
      let row =
        "| `\(setting.key)` | `\(setting.placeholder.replacing("|", with: "\\|"))` | \(setting.standard) | \(setting.change.rawValue) | \(setting.help) |"
      #expect(page.contains(row), "\(row)")
    }
  }
}

@Suite struct MetricsAccessTests {
  private let folder: TestFolder

  init() throws { folder = try TestFolder() }

  private func writeToken(_ text: String) throws -> String {
    let path = "\(folder.path)/token"
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    return path
  }

  private func status(_ server: ServerFixture, _ headers: [String: String] = [:]) throws -> Int {
    var request = Request.get("/metrics")
    request.headers = headers
    return try server.send(request).status
  }

  @Test func programsOnThisMachineMayReadThemAndProxiesMayNot() throws {
    try withServer { server throws in
      #expect(try status(server) == 200)
      #expect(try status(server, ["x-forwarded-for": "192.0.2.1"]) == 403)
      #expect(try status(server, ["authorization": "bearer x"]) == 200)
    }
  }

  @Test func offIsForNobodyAndAllForEverybody() throws {
    try withServer {
      $0.settings = { $0.metricsAccess = .off }
    } _: { server throws in
      #expect(try status(server) == 403)
    }
    try withServer {
      $0.settings = { $0.metricsAccess = .all }
    } _: { server throws in
      #expect(try status(server, ["via": "1.1 proxy"]) == 200)
    }
  }

  @Test func whoeverShowsTheTokenMayReadThem() throws {
    let path = try writeToken("0123456789abcdef\n")
    try withServer {
      $0.settings = {
        $0.metricsAccess = .off
        $0.metricsToken = path
      }
    } _: { server throws in
      #expect(try status(server, ["authorization": "Bearer 0123456789abcdef"]) == 200)
      for wrong in ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "0123456789abcdef", "Bearer"] {
        #expect(try status(server, ["authorization": wrong]) == 403, "\(wrong)")
      }
    }
  }

  /// nginx carries TLS on to the provider port, and says nothing of whom it brings.
  @Test func nobodyIsLocalOnTheProviderPort() throws {
    let access = try MetricsAccess(ServerConfiguration())
    for (address, listener, isAllowed) in [
      ("127.0.0.1", "", true), ("::1", "", true), ("::ffff:127.0.0.1", "", true), ("192.0.2.1", "", false),
      ("127.0.0.1", BroadcastServer.providerPortName, false),
    ] {
      let peer = HTTPPeer(remoteAddress: address, listener: listener)
      let request = HTTPRequest(method: "GET", path: "/metrics", peer: peer)
      #expect(((try? access.check(request)) != nil) == isAllowed, "\(address) \(listener)")
    }
  }

  @Test(arguments: [
    "correct-horse-battery", String(repeating: "5eC2e7", count: 10), "c2VjcmV0/c2VjcmV0/c2Vj",
  ])
  func aTokenInThePlaceOfItsFileIsNotRepeated(_ secret: String) throws {
    var configuration = ServerConfiguration()
    configuration.metricsToken = secret
    let broken = try #require(
      #expect(throws: MetricsAccess.BrokenToken.self) { try MetricsAccess(configuration) })
    #expect(!broken.description.contains(secret.prefix(9)), "\(broken)")
    #expect(broken.description.contains("the path of a file with a token was expected"), "\(broken)")
  }

  @Test(arguments: ["", "short", "two words 0123456789", "0123456789abcde\u{e9}"])
  func aTokenThatIsNoSecretIsRefused(_ text: String) throws {
    var configuration = ServerConfiguration()
    configuration.metricsToken = try writeToken(text)
    #expect(throws: MetricsAccess.BrokenToken.self) { try MetricsAccess(configuration) }
  }
}

@Suite struct ReadinessTests {
  private struct Ready: Decodable, Equatable {
    struct Reason: Decodable, Equatable { let reason: String }
    let status: String
    let reasons: [Reason]?
  }

  @Test func aServerIsReadyUntilItShutsDown() throws {
    try withServer { server in
      let connection = try ProviderConnection(server)
      let before = try connection.send(.get("/readyz"))
      #expect(before.status == 200)
      #expect(try before.json(Ready.self) == Ready(status: "ready", reasons: nil))
      #expect(try server.metric("touchline_ready") == 1)
      // A request that had begun before, and a WebSocket that keeps the server alive for a while.
      let request = Request(method: "GET", path: "/readyz", body: Array("{}".utf8)).bytes
      connection.socket.write(Array(request.dropLast()))
      let socket = try SubscriberSocket(server, "/v1/events")
      server.shutDown()
      // The goodbye, and a close frame that is not answered.
      #expect(socket.socket.readFrame()?.opcode == 1)
      #expect(socket.socket.readFrame()?.opcode == 8)
      connection.socket.write(Array(request.suffix(1)))
      let after = try connection.readAnswer()
      #expect(after.status == 503)
      #expect(try after.json(Ready.self) == Ready(status: "not-ready", reasons: [.init(reason: "draining")]))
    }
  }
}
