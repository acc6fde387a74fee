import Foundation
import TestSupport
import Testing

@Suite("h2load: many requests at once")
struct LoadTests {
  /// Sends 10,000 requests over four connections of 100 streams each, and expects each to be answered with 2xx.
  private func load(
    _ server: ProviderServer, _ path: String, _ body: String, _ headers: [String]
  ) async throws {
    let file = server.folder.appending(path: "load.json")
    try body.write(to: file, atomically: false, encoding: .utf8)
    let token = try await server.token()
    let output = try await Sender.debian(
      "h2load",
      [
        "--requests=10000", "--clients=4", "--max-concurrent-streams=100", "--data=\(file.path)",
        "--header=authorization: bearer \(token)",
      ] + headers.map { "--header=\($0)" } + ["https://127.0.0.1:\(server.providerPort)\(path)"])
    #expect(
      output.contains(
        "requests: 10000 total, 10000 started, 10000 done, 10000 succeeded, 0 failed, 0 errored, 0 timeout"),
      "\(output)")
    #expect(output.contains("status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx"), "\(output)")
  }

  @Test("10,000 broadcasts are answered with 200, and each is counted once")
  func broadcasts() async throws {
    try await withProviderServer { server in
      let payload = OddPayload()
      try await load(
        server, "/4/broadcasts/apps/com.example.scores", payload.body,
        ["apns-channel-id: final", "apns-push-type: liveactivity", "apns-priority: 10", "apns-expiration: 0"])
      #expect(try await server.counts("final")["accepted"] == 10_000)
    }
  }

  @Test("an app has at most 10,000 channels; one more is refused over HTTP/1.1 and HTTP/2")
  func channels() async throws {
    try await withProviderServer(channels: [:]) { server in
      let body = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
      let path = "/1/apps/com.example.scores/channels"
      try await load(server, path, body, [])
      let one = Ask("POST", path, body: body)
      for version in HTTPVersion.allCases {
        let answer = try #require(try await version.ask(server, [[one]])[0].first)
        #expect(answer.status == 400 && answer.body == #"{"reason":"CannotCreateChannelConfig"}"#)
      }
    }
  }
}
