import Foundation
import TestSupport
import Testing

/// A library from PyPI, and what it lets its user see of three pushes: accepted, to an unknown token, and to the token of
/// an activity that has ended.
struct Library: CustomTestStringConvertible {
  struct Answer: Decodable, Equatable {
    /// nil where the library hides it.
    var status: Int?
    var reason: String?
    /// Whether the answer had the `apns-id` that was sent, letter by letter; nil where the library hides it.
    var echo: Bool?
  }

  let name: String
  let answers: [Answer]

  var testDescription: String { name }
  var script: String { "\(name)_sender.py" }

  static let all = [
    Library(
      name: "aioapns",
      answers: [
        Answer(status: 200, echo: true), Answer(status: 400, reason: "BadDeviceToken", echo: true),
        Answer(status: 410, reason: "ExpiredToken", echo: true),
      ]),
    Library(
      name: "kalyke",
      answers: [
        Answer(status: 200, echo: true), Answer(reason: "BadDeviceToken"), Answer(reason: "ExpiredToken"),
      ]),
    Library(
      name: "pyapns_client",
      answers: [
        Answer(status: 200), Answer(status: 400, reason: "BadDeviceToken", echo: true),
        Answer(reason: "ExpiredToken"),
      ]),
    Library(
      name: "simple_apns",
      answers: [
        Answer(status: 200), Answer(reason: "Invalid device token"),
        Answer(reason: "Token is no longer valid"),
      ]),
    Library(
      name: "apns2",
      answers: [Answer(status: 200), Answer(reason: "BadDeviceToken"), Answer(reason: "ExpiredToken")]),
  ]
}

@Suite("Senders to one activity")
struct DeviceSenderTests {
  private static let channels = ["final": openChannel, "semi": openChannel]
  private static let unknown = String(repeating: "ab", count: 32)
  private static let payload = """
    {"aps":{"timestamp":1700000000,"event":"update","content-state":{"home":2,"away":1}}}
    """

  @Test(
    "an APNs library's update reaches the activity, and its refusals carry the reason",
    arguments: Library.all.filter { Sender.isInstalled($0) })
  func libraries(_ library: Library) async throws {
    struct Told: Decodable { let answers: [Library.Answer] }
    try await withProviderServer(channels: Self.channels) { server in
      let watch = try await WatchedActivity(server, "final")
      let ended = try await WatchedActivity(server, "semi").endedToken(server)
      let file = server.folder.appending(path: "payload.json")
      try Self.payload.write(to: file, atomically: false, encoding: .utf8)
      let output = try await Sender.python(
        library.script,
        server.senderOptions + ["--payload", file.path, watch.token, Self.unknown, ended])
      #expect(try JSONDecoder().decode(Told.self, from: output).answers == library.answers)
      let line = try await watch.line(cause: "update")
      #expect(line.by == "push" && line.contentState == ["home": 2, "away": 1])
    }
  }

  @Test("httpx sees every header of a push's answer")
  func httpx() async throws {
    struct Seen: Decodable { let seen: [String: SeenAnswer] }
    try await withProviderServer(channels: Self.channels) { server in
      let watch = try await WatchedActivity(server, "final")
      let file = server.folder.appending(path: "payload.json")
      try Self.payload.write(to: file, atomically: false, encoding: .utf8)
      let output = try await Sender.python(
        "httpx_sender.py",
        server.senderOptions + ["--payload", file.path, "--channel", "semi", watch.token, Self.unknown])
      let seen = try JSONDecoder().decode(Seen.self, from: output).seen
      let accepted = try #require(seen["push 0"])
      #expect(accepted.status == 200 && accepted.body == "" && accepted.http == "HTTP/2")
      #expect(accepted.headers["apns-id"] == accepted.sent?["apns-id"])
      accepted.expectUUID("apns-unique-id")
      let refused = try #require(seen["push 1"])
      #expect(refused.status == 400 && refused.body == #"{"reason":"BadDeviceToken"}"#)
      #expect(refused.headers["apns-id"] == refused.sent?["apns-id"])
      #expect(try await watch.line(cause: "update").contentState == ["home": 2, "away": 1])
    }
  }
}
