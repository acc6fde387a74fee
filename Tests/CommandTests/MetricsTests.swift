import Foundation
import TestSupport
import Testing

@Suite("/metrics")
struct MetricsTests {
  /// deploy/setup --tests unpacks it: installing the package would begin to scrape.
  private static let checker = [".build/tools/usr/bin/promtool", "/usr/bin/promtool"].map { path in
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return URL(fileURLWithPath: path, relativeTo: root)
  }.first { FileManager.default.isExecutableFile(atPath: $0.path) }

  @Test("promtool finds nothing wrong with them", .enabled(if: checker != nil, "promtool isn't there"))
  func promtool() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try await server.watch("final")
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
      try await watch.lines(1)
      let curl = try RunningProgram(
        URL(fileURLWithPath: "/usr/bin/curl"), ["-sS", "--fail", "\(server.address)/metrics"])
      let metrics = try await curl.ending()
      #expect(metrics.output.contains("touchline_deliveries_total 1\n"), "\(metrics.output)\(metrics.errors)")
      let check = try RunningProgram(try #require(Self.checker), ["check", "metrics"])
      check.send(metrics.output)
      check.closeInput()
      let ending = try await check.ending()
      #expect(
        ending.code == 0 && ending.output == "" && ending.errors == "", "\(ending.output)\(ending.errors)")
      watch.signal(SIGINT)
      _ = try await watch.ending()
    }
  }
}
