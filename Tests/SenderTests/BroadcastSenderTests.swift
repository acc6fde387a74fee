import Foundation
import TestSupport
import Testing

@Suite("Broadcast senders over HTTP/2")
struct BroadcastSenderTests {
  private struct Seen: Decodable {
    let created: String
    let seen: [String: SeenAnswer]

    subscript(step: String) -> SeenAnswer {
      get throws { try #require(seen[step], "the sender had no answer to \(step)") }
    }
  }

  /// What create, list, broadcast and delete must answer to any sender.
  private func expectAnswers(_ seen: Seen, _ location: SourceLocation = #_sourceLocation) throws {
    let create = try seen["create"]
    #expect(create.status == 201 && create.body == "", sourceLocation: location)
    create.expectUUID("apns-request-id", location)
    let list = try seen["list"]
    #expect(list.status == 200 && list.body.contains("\"\(seen.created)\""), sourceLocation: location)
    let broadcast = try seen["broadcast"]
    #expect(broadcast.status == 200 && broadcast.body == "", sourceLocation: location)
    broadcast.expectUUID("apns-unique-id", location)
    #expect(
      broadcast.headers["apns-request-id"] == broadcast.sent?["apns-request-id"], sourceLocation: location)
    let delete = try seen["delete"]
    #expect(delete.status == 204 && delete.body == "", sourceLocation: location)
  }

  private func channelID(_ server: ProviderServer) async throws -> String {
    struct Shown: Decodable { let id: String }
    let shown = try await server.succeed("channel", "show", "final", "--format", "json").output
    return try JSONDecoder().decode(Shown.self, from: Data(shown.utf8)).id
  }

  @Test("httpx creates, reads, lists, broadcasts and deletes; the subscriber gets the bytes of its aps")
  func httpx() async throws {
    try await withProviderServer { server in
      let subscriber = try Subscriber(server, "final")
      let payload = OddPayload()
      let arguments = [
        "--payload", try payload.write(into: server.folder), "--channel", try await channelID(server),
      ]
      let output = try await Sender.python("httpx_sender.py", server.senderOptions + arguments)
      let seen = try JSONDecoder().decode(Seen.self, from: output)
      try expectAnswers(seen)
      #expect(seen.seen.values.allSatisfy { $0.http == "HTTP/2" })
      let read = try seen["read"]
      #expect(read.status == 200 && read.body == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
      #expect(read.headers["apns-request-id"] == read.sent?["apns-request-id"])
      let gone = try seen["read what is deleted"]
      #expect(gone.status == 400 && gone.body == #"{"reason":"ChannelNotRegistered"}"#)
      #expect(try subscriber.message().contains("\"aps\":\(payload.aps)"))
    }
  }

  @Test("Node's http2 creates, lists, broadcasts and deletes; the subscriber gets the bytes of its aps")
  func node() async throws {
    try await withProviderServer { server in
      let subscriber = try Subscriber(server, "final")
      let payload = OddPayload()
      let arguments = [
        "--payload", try payload.write(into: server.folder), "--channel", try await channelID(server),
      ]
      let output = try await Sender.node(server.senderOptions + arguments)
      try expectAnswers(try JSONDecoder().decode(Seen.self, from: output))
      #expect(try subscriber.message().contains("\"aps\":\(payload.aps)"))
    }
  }

  /// An answer that curl wrote with `--include`.
  private struct CurlAnswer {
    let status: String
    let headers: [String: String]
    let body: String

    init(_ output: String) {
      let parts = output.components(separatedBy: "\r\n\r\n")
      let lines = parts[0].components(separatedBy: "\r\n")
      status = lines[0].trimmingCharacters(in: .whitespaces)
      let fields = lines.dropFirst().compactMap { line in
        line.firstIndex(of: ":").map { colon in
          (String(line[..<colon]), line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces))
        }
      }
      headers = Dictionary(fields) { first, _ in first }
      body = parts.dropFirst().joined(separator: "\r\n\r\n")
    }
  }

  @Test("curl --http2 creates, reads, lists, broadcasts and deletes")
  func curl() async throws {
    try await withProviderServer { server in
      let token = try await server.token()
      func curl(_ arguments: String...) async throws -> CurlAnswer {
        let common = [
          "--silent", "--show-error", "--include", "--http2", "--cacert", server.authority,
          "--header", "authorization: bearer \(token)",
        ]
        return CurlAnswer(try await Sender.debian("curl", common + arguments))
      }
      let base = "https://127.0.0.1:\(server.providerPort)"
      let channels = "\(base)/1/apps/com.example.scores/channels"
      let create = try await curl(
        "--data", #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#, channels)
      #expect(create.status == "HTTP/2 201" && create.body == "")
      let id = try #require(create.headers["apns-channel-id"])
      let named = "apns-channel-id: \(id)"
      let read = try await curl("--header", named, channels)
      #expect(read.body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
      let list = try await curl("\(base)/1/apps/com.example.scores/all-channels")
      #expect(list.status == "HTTP/2 200" && list.body.contains("\"\(id)\""))

      let encoded = id.addingPercentEncoding(withAllowedCharacters: .alphanumerics)
      let subscriber = try Subscriber(server, try #require(encoded))
      let payload = OddPayload()
      let broadcast = try await curl(
        "--header", named, "--header", "apns-push-type: liveactivity", "--header", "apns-priority: 10",
        "--header", "apns-expiration: 0", "--data-binary", "@\(try payload.write(into: server.folder))",
        "\(base)/4/broadcasts/apps/com.example.scores")
      #expect(broadcast.status == "HTTP/2 200" && broadcast.body == "")
      #expect(UUID(uuidString: broadcast.headers["apns-unique-id"] ?? "") != nil)
      #expect(try subscriber.message().contains("\"aps\":\(payload.aps)"))

      let delete = try await curl("--request", "DELETE", "--header", named, channels)
      #expect(delete.status == "HTTP/2 204" && delete.body == "")
    }
  }

  @Test("curl finds the certificate good for Apple's host names")
  func appleNames() async throws {
    try await withProviderServer { server in
      for host in ["api.push.apple.com", "api.sandbox.push.apple.com", "api.development.push.apple.com"] {
        let output = try await Sender.debian(
          "curl",
          [
            "--silent", "--show-error", "--http2", "--cacert", server.authority,
            "--connect-to", "\(host):443:127.0.0.1:\(server.providerPort)",
            "--header", "authorization: bearer \(try await server.token())",
            "https://\(host)/1/apps/com.example.scores/all-channels",
          ])
        #expect(output.hasPrefix(#"{"channels":["#), "\(host): \(output)")
      }
    }
  }

  @Test("nghttp, which starts at stream 13 and sends PRIORITY, is answered on every stream")
  func nghttp() async throws {
    try await withProviderServer { server in
      let subscriber = try Subscriber(server, "final")
      let payload = OddPayload()
      let path = "https://127.0.0.1:\(server.providerPort)/4/broadcasts/apps/com.example.scores"
      let output = try await Sender.debian(
        "nghttp",
        [
          "--verbose", "--no-verify-peer", "--multiply=3",
          "--header=authorization: bearer \(try await server.token())",
          "--header=apns-channel-id: \(try await channelID(server))", "--header=apns-push-type: liveactivity",
          "--header=apns-priority: 10", "--header=apns-expiration: 0",
          "--data=\(try payload.write(into: server.folder))", path,
        ])
      #expect(output.components(separatedBy: ":status: 200").count == 4, "\(output)")
      #expect(output.contains("send PRIORITY frame") && output.contains("(stream_id=13)"))
      #expect(output.components(separatedBy: "apns-unique-id: ").count == 4, "\(output)")
      for _ in 0..<3 { #expect(try subscriber.message().contains("\"aps\":\(payload.aps)")) }
    }
  }
}
