import Foundation
import TestSupport
import Testing

/// A request as a provider's program would write it.
struct Request: Sendable {
  var method: String
  var path: String
  var headers: [String: String] = [:]
  var body: [UInt8] = []

  static let app = "com.example.scores"

  static func get(_ path: String) -> Request { Request(method: "GET", path: path) }

  static func create(policy: Int = 0, app: String = app) -> Request {
    Request(
      method: "POST", path: "/1/apps/\(app)/channels",
      body: Array(#"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#.utf8))
  }

  static func read(_ channel: String, app: String = app) -> Request {
    Request(method: "GET", path: "/1/apps/\(app)/channels", headers: ["apns-channel-id": channel])
  }

  static func delete(_ channel: String, app: String = app) -> Request {
    Request(method: "DELETE", path: "/1/apps/\(app)/channels", headers: ["apns-channel-id": channel])
  }

  static func list(app: String = app) -> Request { get("/1/apps/\(app)/all-channels") }

  static func broadcast(
    to channel: String, _ aps: String = Request.aps(), priority: Int = 10, expiration: Int = 0,
    app: String = app
  ) -> Request {
    Request(
      method: "POST", path: "/4/broadcasts/apps/\(app)",
      headers: [
        "apns-channel-id": channel, "apns-push-type": "liveactivity", "apns-priority": "\(priority)",
        "apns-expiration": "\(expiration)",
      ],
      body: Array("{\"aps\":\(aps)}".utf8))
  }

  /// An `aps` object of the present, with further members in front of its content state.
  static func aps(home: Int = 1, event: String = "update", more: String = "", timestamp: Int = now) -> String
  {
    #"{"timestamp":\#(timestamp),"event":"\#(event)",\#(more)"content-state":{"home":\#(home)}}"#
  }

  /// An alert to stand in front of the content state.
  static let alert = #""alert":{"title":"Goal","body":"1–0"},"#

  /// A broadcast's body of a certain size.
  static func body(bytes: Int) -> [UInt8] {
    let head = #"{"aps":{"timestamp":\#(now),"event":"update","content-state":{"pad":""#
    let tail = #""}}}"#
    return Array((head + String(repeating: "x", count: bytes - head.count - tail.count) + tail).utf8)
  }

  static var now: Int { Int(Date().timeIntervalSince1970) }

  /// The same with a header set, or left out with nil.
  func header(_ name: String, _ value: String?) -> Request {
    var copy = self
    copy.headers[name] = value
    return copy
  }

  /// The same with another body.
  func body(_ text: String) -> Request {
    var copy = self
    copy.body = Array(text.utf8)
    return copy
  }

  var bytes: [UInt8] {
    var text = "\(method) \(path) HTTP/1.1\r\nhost: localhost\r\n"
    for (name, value) in headers { text += "\(name): \(value)\r\n" }
    if !body.isEmpty { text += "content-length: \(body.count)\r\n" }
    return Array("\(text)\r\n".utf8) + body
  }
}

/// What the server answered.
struct Answer {
  let status: Int
  let headers: [String: String]
  let body: [UInt8]

  var text: String { String(decoding: body, as: UTF8.self) }

  /// The API's code; the provider API's error bodies have nothing else in them.
  var reason: String? {
    struct Body: Decodable { let reason: String }
    return try? JSONDecoder().decode(Body.self, from: Data(body)).reason
  }

  func json<T: Decodable>(_ type: T.Type) throws -> T {
    try JSONDecoder().decode(type, from: Data(body))
  }
}

/// One HTTP connection that is kept alive: requests go out one after the other.
final class ProviderConnection {
  let socket: RawSocket

  init(_ server: ServerFixture, from host: String? = nil) throws {
    socket = try RawSocket(port: server.port, from: host)
  }

  func send(_ request: Request) throws -> Answer {
    socket.write(request.bytes)
    return try readAnswer(toHead: request.method == "HEAD")
  }

  func readAnswer(toHead: Bool = false) throws -> Answer {
    let lines = socket.read(until: "\r\n\r\n").split(separator: "\r\n")
    let status = try #require(lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) })
    var headers: [String: String] = [:]
    for line in lines.dropFirst() {
      let colon = try #require(line.firstIndex(of: ":"))
      let name = line[..<colon].lowercased()
      try #require(headers[name] == nil, "the header \(name) came twice")
      headers[name] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
    }
    let count = headers["content-length"].flatMap { Int($0) } ?? 0
    return Answer(status: status, headers: headers, body: toHead ? [] : socket.read(count))
  }
}

extension ServerFixture {
  /// Sends one request over a connection of its own.
  func send(_ request: Request) throws -> Answer { try ProviderConnection(self).send(request) }

  /// Creates a channel as Apple's API does, and gives its id.
  func createChannel(policy: Int = 0, app: String = Request.app) throws -> String {
    let answer = try send(.create(policy: policy, app: app))
    try #require(answer.status == 201)
    return try #require(answer.headers["apns-channel-id"])
  }

  struct ChannelReport: Decodable {
    struct Counts: Decodable {
      let accepted, delivered, windowed, demoted, superseded, dropped, rejected, repeated: Int
      let written, acknowledged: Int
    }
    let id: String
    let alias: String?
    let epoch: String
    let seq: Int
    let subscribers: Int
    let counts: Counts
  }

  /// What the server says about a channel.
  func report(_ channel: String) throws -> ChannelReport {
    try send(.get("/v1/channels/\(pathSegment(channel))")).json(ChannelReport.self)
  }

  struct Health: Decodable {
    let status: String
    let channels: Int
    let sessions: Int
  }

  /// How the server is.
  func health() throws -> Health { try send(.get("/healthz")).json(Health.self) }

  func waitForSubscribers(_ count: Int, of channel: String) throws {
    try waitUntil("\(count) subscribers") { try report(channel).subscribers == count }
  }
}

/// An id in a URL: `+`, `/` and `=` are percent-encoded.
func pathSegment(_ channel: String) -> String {
  channel.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(["-", ".", "_"])) ?? channel
}
