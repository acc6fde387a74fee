import Foundation
import TestSupport
import Testing

@Suite("Prometheus and Grafana", .serialized)
struct MonitoringTests {
  private static let folder = project.appendingPathComponent("deploy/prometheus")

  private static func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  @Test(
    "promtool takes the configuration and the rules, and the rules' own tests pass",
    .enabled(if: Tool.promtool != nil, missing("promtool")))
  func rules() async throws {
    try await succeed(Tool.promtool, ["check", "config", Self.path("prometheus.yml")])
    try await succeed(Tool.promtool, ["check", "rules", "--lint-fatal", Self.path("touchline-alerts.yml")])
    try await succeed(Tool.promtool, ["test", "rules", Self.path("touchline-alerts.test.yml")])
  }

  private static func words(after prefix: String, in text: String) -> [String] {
    text.split(separator: "\n").compactMap { line in
      let line = line.trimmingCharacters(in: .whitespaces)
      return line.hasPrefix(prefix) ? String(line.dropFirst(prefix.count)) : nil
    }
  }

  @Test("every alert has a test, and says what to do")
  func alerts() throws {
    let rules = try text(of: "deploy/prometheus/touchline-alerts.yml")
    let tests = try text(of: "deploy/prometheus/touchline-alerts.test.yml")
    let alerts = Self.words(after: "- alert: ", in: rules)
    #expect(alerts.count >= 13)
    #expect(Self.words(after: "action: ", in: rules).count == alerts.count)
    #expect(Self.words(after: "summary: ", in: rules).count == alerts.count)
    for alert in alerts { #expect(tests.contains("alertname=\"\(alert)\""), "\(alert) has no test") }
  }

  // MARK: The dashboard

  private struct Dashboard: Decodable {
    struct Source: Decodable { let type, uid: String }
    struct Target: Decodable {
      let refId, expr: String
      let datasource: Source
    }
    struct Place: Decodable { let h, w, x, y: Int }
    struct Panel: Decodable {
      let id: Int
      let type, title: String
      let gridPos: Place
      let datasource: Source?
      let targets: [Target]?
    }
    struct Variable: Decodable { let name, type: String }
    struct Variables: Decodable { let list: [Variable] }
    let title, uid: String
    let schemaVersion: Int
    let templating: Variables
    let panels: [Panel]
  }

  private static func dashboard() throws -> Dashboard {
    try JSONDecoder().decode(
      Dashboard.self, from: Data(try text(of: "deploy/grafana/touchline.json").utf8))
  }

  /// The expressions, with what Grafana fills in.
  private static func expressions() throws -> [String] {
    try dashboard().panels.flatMap { $0.targets ?? [] }.map {
      $0.expr.replacing("$__rate_interval", with: "1m").replacing("$job", with: "touchline")
        .replacing("$instance", with: ".*")
    }
  }

  @Test("the dashboard asks the data source that its variable names, and no panel lies on another")
  func dashboardIsWhole() throws {
    let dashboard = try Self.dashboard()
    #expect(dashboard.templating.list.map(\.name) == ["datasource", "job", "instance"])
    #expect(dashboard.templating.list.first?.type == "datasource")
    #expect(Set(dashboard.panels.map(\.id)).count == dashboard.panels.count)
    for panel in dashboard.panels where panel.type != "row" {
      let targets = try #require(panel.targets, "\(panel.title)")
      #expect(!targets.isEmpty && Set(targets.map(\.refId)).count == targets.count, "\(panel.title)")
      for source in targets.map(\.datasource) + [panel.datasource].compactMap(\.self) {
        #expect(source.type == "prometheus" && source.uid == "${datasource}", "\(panel.title)")
      }
    }
    var taken: Set<[Int]> = []
    for panel in dashboard.panels {
      let place = panel.gridPos
      #expect(place.x >= 0 && place.x + place.w <= 24, "\(panel.title)")
      for y in place.y..<place.y + place.h {
        for x in place.x..<place.x + place.w {
          #expect(taken.insert([x, y]).inserted, "\(panel.title) lies on another panel")
        }
      }
    }
  }

  @Test(
    "every expression of the dashboard is one of Prometheus'",
    .enabled(if: Tool.promtool != nil, missing("promtool")))
  func expressionsParse() async throws {
    try await withFolder { folder in
      let file = folder.appendingPathComponent("rules.json")
      let rules = try Self.expressions().enumerated().map { ["record": "panel:\($0)", "expr": $1] }
      #expect(rules.count >= 30)
      // JSON is YAML.
      let groups: [String: Any] = ["groups": [["name": "dashboard", "rules": rules] as [String: Any]]]
      try JSONSerialization.data(withJSONObject: groups, options: .withoutEscapingSlashes).write(to: file)
      try await succeed(Tool.promtool, ["check", "rules", file.path])
    }
  }

  // MARK: What the server really has

  /// The names of metrics in expressions.
  private static func names(in text: String) -> Set<String> {
    Set(
      text.matches(of: /\b(?:touchline|process)_[a-z_]+/).map { match in
        let name = String(match.output)
        return ["_bucket", "_count", "_sum"].first { name.hasSuffix($0) }
          .map { String(name.dropLast($0.count)) } ?? name
      })
  }

  @Test("alerts and dashboard ask only for metrics that the server has")
  func metricsExist() async throws {
    let rules = Self.words(after: "expr: ", in: try text(of: "deploy/prometheus/touchline-alerts.yml"))
    let folded = try text(of: "deploy/prometheus/touchline-alerts.yml").split(separator: "\n")
      .filter { $0.contains("rate(") }.joined(separator: "\n")
    let wanted = Self.names(in: (rules + [folded] + (try Self.expressions())).joined(separator: "\n"))
    #expect(wanted.count >= 25)
    try await withFolder { folder in
      let server = try await DeployedServer(in: folder)
      let socket = try RawSocket(port: server.port)
      socket.write("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      let families = Set(
        Self.words(after: "# TYPE ", in: socket.readAll()).compactMap {
          $0.split(separator: " ").first.map(String.init)
        })
      #expect(wanted.subtracting(families).isEmpty, "unknown: \(wanted.subtracting(families).sorted())")
      try await server.stop()
    }
  }

  @Test(
    "Prometheus scrapes the server by the configuration, and no alert is raised about a server that works",
    .enabled(if: Tool.prometheus != nil, missing("prometheus")))
  func scrapes() async throws {
    try await withFolder { folder in
      let server = try await DeployedServer(in: folder)
      let shipped = try text(of: "deploy/prometheus/prometheus.yml")
      try #require(shipped.contains("127.0.0.1:8080") && shipped.contains("interval: 15s"))
      let file = folder.appendingPathComponent("prometheus.yml")
      try shipped.replacing("127.0.0.1:8080", with: "127.0.0.1:\(server.port)")
        .replacing("interval: 15s", with: "interval: 1s").write(to: file, atomically: true, encoding: .utf8)
      try text(of: "deploy/prometheus/touchline-alerts.yml").write(
        to: folder.appendingPathComponent("touchline-alerts.yml"), atomically: true, encoding: .utf8)
      let port = try freePort()
      let prometheus = try RunningProgram(
        try #require(Tool.prometheus),
        [
          "--config.file=\(file.path)", "--storage.tsdb.path=\(folder.path)/tsdb",
          "--web.listen-address=127.0.0.1:\(port)",
        ])
      func ask(_ expression: String) throws -> String {
        guard let socket = try? RawSocket(port: port) else { return "" }
        let query = expression.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        socket.write("GET /api/v1/query?query=\(query) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return socket.readAll()
      }
      _ = try await eventually("a scrape: \(prometheus.errors.text.suffix(1_000))") {
        try ask("min_over_time(touchline_ready[10s]) + up").contains(",\"2\"]") ? () : nil
      }
      let alerts = try ask("ALERTS")
      #expect(alerts.contains(#""result":[]"#), "\(alerts)")
      prometheus.signal(SIGTERM)
      _ = try await prometheus.ending()
      try await server.stop()
    }
  }
}
