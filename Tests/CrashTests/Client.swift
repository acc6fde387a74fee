import Foundation
import TestSupport

/// Asks a server over HTTP/1.1, one request after the other on one connection.
final class Client {
  struct Answer {
    let status: Int
    let headers: [String: String]
    let body: String
  }

  /// The server is gone, with or without having done what was asked.
  struct Gone: Error {}

  private let port: UInt16
  private var socket: RawSocket?

  init(port: UInt16) { self.port = port }

  func send(
    _ method: String, _ path: String, _ headers: [(String, String)] = [], _ body: String = ""
  ) throws -> Answer {
    guard let socket = socket ?? (try? RawSocket(port: port)) else { throw Gone() }
    self.socket = socket
    let fields = headers.map { "\($0): \($1)\r\n" }.joined()
    socket.write(
      "\(method) \(path) HTTP/1.1\r\nHost: x\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    let head = socket.read(until: "\r\n\r\n")
    let lines = head.components(separatedBy: "\r\n")
    guard head.hasSuffix("\r\n\r\n"),
      let status = lines[0].split(separator: " ").dropFirst().first.flatMap({ Int($0) })
    else { throw Gone() }
    var found: [String: String] = [:]
    for line in lines.dropFirst() {
      let parts = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
      if parts.count == 2 { found[parts[0].lowercased()] = parts[1] }
    }
    let count = found["content-length"].flatMap { Int($0) } ?? 0
    let bytes = count > 0 ? socket.read(count) : []
    guard bytes.count == count else { throw Gone() }
    return Answer(status: status, headers: found, body: String(decoding: bytes, as: UTF8.self))
  }

  /// Makes a channel by a definition.
  func create(_ definition: String) throws -> Answer {
    try send("POST", "/v1/channels", [], #"{"definition":\#(definition)}"#)
  }

  /// What the server tells of a channel; nil when it knows none.
  func channel(_ id: String) throws -> [String: Any]? {
    let answer = try send("GET", "/v1/channels/\(Self.escaped(id))")
    return answer.status == 200 ? try Self.object(answer.body) : nil
  }

  func delete(_ id: String) throws -> Answer { try send("DELETE", "/v1/channels/\(Self.escaped(id))") }

  /// Publishes a state of one number.
  func publish(_ publication: Publication, to channel: String, stored: Bool) throws -> Answer {
    let alert = publication.isAlert ? #","alert":{"title":"t","body":"b"}"# : ""
    let expiration = stored ? Int(Date().timeIntervalSince1970) + 3_600 : 0
    return try send(
      "POST", "/4/broadcasts/apps/com.example.crash",
      [
        ("apns-channel-id", channel), ("apns-push-type", "liveactivity"),
        ("apns-priority", publication.isAlert ? "5" : "10"), ("apns-expiration", "\(expiration)"),
        ("apns-request-id", publication.requestID),
      ],
      #"{"aps":{"timestamp":\#(1_700_000_000 + publication.number),"event":"update","content-state":{"n":\#(publication.number)}\#(alert)}}"#
    )
  }

  static func escaped(_ id: String) -> String {
    id.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? id
  }

  static func object(_ text: String) throws -> [String: Any] {
    try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] ?? [:]
  }
}

/// A message of a publisher, with the id under which it may be sent again.
struct Publication {
  let number: Int
  let requestID: String
  /// Alerts go into the delivery window, and are never replaced there.
  var isAlert = false
}

/// Listens to a channel, as server-sent events.
final class Listener {
  private let socket: RawSocket
  /// What the channel said first.
  let subscribed: [String: Any]

  init(port: UInt16, channel: String, since: String? = nil) throws {
    socket = try RawSocket(port: port)
    let resume = since.map { "Last-Event-ID: \($0)\r\n" } ?? ""
    socket.write(
      "GET /v1/channels/\(Client.escaped(channel))/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\(resume)\r\n"
    )
    _ = socket.read(until: "\r\n\r\n")
    subscribed = try Self.event(socket, "subscribed")
  }

  /// The next message.
  func message() throws -> [String: Any] { try Self.event(socket, "message") }

  private static func event(_ socket: RawSocket, _ name: String) throws -> [String: Any] {
    while true {
      let text = socket.read(until: "\n\n")
      guard text.hasSuffix("\n\n") else { throw Client.Gone() }
      let lines = text.components(separatedBy: "\n")
      guard lines.contains("event: \(name)"), let data = lines.first(where: { $0.hasPrefix("data: ") }) else {
        continue
      }
      return try Client.object(String(data.dropFirst(6)))
    }
  }
}
