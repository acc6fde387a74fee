import Foundation
import SubscriberSwarm
import TestSupport
import Testing

/// The lean client's honesty: a client that shares no code with it, `touchline watch` over libwebsockets, is beside it.
@Suite("The swarm beside a client of libwebsockets")
struct WitnessTests {
  private struct Seen: Equatable, Decodable {
    let seq: Int
    let count: Int
  }

  /// A message as the subscriber's protocol has it.
  private struct Frame: Decodable {
    struct Aps: Decodable {
      struct State: Decodable { let count: Int }
      let state: State
      enum CodingKeys: String, CodingKey { case state = "content-state" }
    }
    let type: String
    let seq: Int?
    let aps: Aps?
  }

  /// A line of `watch --format json`.
  private struct Line: Decodable {
    struct State: Decodable { let count: Int }
    let seq: Int?
    let state: State?
    enum CodingKeys: String, CodingKey {
      case seq
      case state = "content-state"
    }
  }

  private final class Listener: SwarmHandler {
    var isSubscribed = false
    var seen: [Seen] = []
    var problems: [String] = []

    func opened(_ connection: Swarm.ID, tag: Int) {}

    func received(_ text: ArraySlice<UInt8>, _ connection: Swarm.ID, tag: Int) {
      guard let frame = try? JSONDecoder().decode(Frame.self, from: Data(text)) else {
        return problems.append(String(decoding: text, as: UTF8.self))
      }
      if frame.type == "subscribed" { isSubscribed = true }
      if let seq = frame.seq, let count = frame.aps?.state.count { seen.append(Seen(seq: seq, count: count)) }
    }

    func closed(_ connection: Swarm.ID, tag: Int, code: UInt16?, problem: String?, wasOpen: Bool) {
      problems.append("closed: \(problem ?? code.map(String.init) ?? "")")
    }
  }

  private static let messages = 300

  @Test("both see the same messages under the same numbers, in the same order", arguments: [false, true])
  func sameSequence(_ isSecure: Bool) async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
      "touchline-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let tls = isSecure ? ["--tls", "--tls-dir", folder.path] : []
    let server = try Touchline.start(
      ["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--provider-listen", "off"] + tls)
    let port = try #require(try await server.lines(1)[0].split(separator: ":").last.flatMap { UInt16($0) })
    let authority = folder.appendingPathComponent("ca.pem").path
    let variables = [
      "TOUCHLINE_SERVER": "\(isSecure ? "https" : "http")://127.0.0.1:\(port)",
      "TOUCHLINE_CA": isSecure ? authority : "",
    ]
    let created = try await Touchline.run(
      [
        "channel", "create", "both", "--app", "com.example.scores", "--frequent-updates", "--budget",
        "100000",
        "--publish-rate", "none",
      ], environment: variables)
    try #require(created.code == 0, "\(created.errors)")

    let swarm = try Swarm(
      host: "127.0.0.1", port: port, security: isSecure ? Swarm.Security(authority: authority) : nil)
    let listener = Listener()
    swarm.handler = listener
    _ = try #require(swarm.connect(path: "/v1/channels/both/events", tag: 0))
    func turn(_ what: String, until isTrue: @escaping () -> Bool) async throws {
      try await eventually("\(what), \(listener.problems)") {
        swarm.turn()
        return isTrue() ? () : nil
      }
    }
    try await turn("the swarm's subscription") { listener.isSubscribed }
    let watch = try Touchline.start(["watch", "both", "--format", "json"], environment: variables)
    try await watch.notice("both: ")
    let lines = (1...Self.messages).map { "{\"count\":\($0)}\n" }.joined()
    let published = try await Touchline.run(
      ["publish", "both", "--lines"], input: Array(lines.utf8), environment: variables)
    try #require(published.code == 0, "\(published.errors)")

    try await turn("\(Self.messages) messages") { listener.seen.count >= Self.messages }
    let watched = try await watch.lines(Self.messages).compactMap { line -> Seen? in
      let line = try JSONDecoder().decode(Line.self, from: Data(line.utf8))
      guard let seq = line.seq, let count = line.state?.count else { return nil }
      return Seen(seq: seq, count: count)
    }
    #expect(listener.seen == watched)
    #expect(listener.seen == (1...Self.messages).map { Seen(seq: $0, count: $0) })
    #expect(listener.problems == [])
    for program in [watch, server] {
      program.signal(SIGTERM)
      _ = try await program.ending()
    }
  }

  @Test("a certificate that nobody trusts is said to be the reason")
  func untrusted() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
      "touchline-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let server = try Touchline.start([
      "serve", "--listen", "127.0.0.1:0", "--store", "memory", "--provider-listen", "off",
      "--tls", "--tls-dir", folder.path,
    ])
    let port = try #require(try await server.lines(1)[0].split(separator: ":").last.flatMap { UInt16($0) })
    // The system's authorities.
    let swarm = try Swarm(host: "127.0.0.1", port: port, security: Swarm.Security())
    let listener = Listener()
    swarm.handler = listener
    _ = swarm.connect(path: "/v1/events", tag: 0)
    try await eventually("a refusal") {
      swarm.turn()
      return listener.problems.first.map { #expect($0.contains("the server's certificate is not accepted")) }
    }
    server.signal(SIGTERM)
    _ = try await server.ending()
  }

  @Test("a file that holds no authority is refused with its name")
  func noAuthority() {
    #expect(throws: Swarm.Failure.self) {
      try Swarm(host: "127.0.0.1", port: 1, security: Swarm.Security(authority: "/dev/null"))
    }
  }
}
