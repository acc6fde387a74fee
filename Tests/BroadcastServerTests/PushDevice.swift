import Foundation
import TestSupport
import Testing

/// A device that registers push tokens, over a raw socket.
struct PushDevice {
  let socket: SubscriberSocket

  init(_ server: ServerFixture) throws { socket = try SubscriberSocket(sessionOn: server) }

  /// Registers a token, and gives the answer.
  func register(
    _ kind: String = "update", activity: String = "final", app: String = Request.app, kept: Frame? = nil
  ) throws -> Frame {
    var fields = #""kind":"\#(kind)","app":"\#(app)""#
    if kind == "update" { fields += #","activity":"\#(activity)""# }
    if let token = kept?.token, let secret = kept?.secret {
      fields += #","token":"\#(token)","secret":"\#(secret)""#
    }
    let frame = try socket.ask(#"{"type":"register",\#(fields)}"#)
    try #require(frame.type == "registered", "\(frame)")
    return frame
  }

  func token(_ kind: String = "update") throws -> String { try #require(try register(kind).token) }

  func acknowledge(_ push: Frame, displayed: Bool = false) throws -> Frame {
    let token = try #require(push.token)
    let id = try #require(push.uniqueID)
    return try socket.ask(
      #"{"type":"ack-push","token":"\#(token)","unique-id":"\#(id)","displayed":\#(displayed)}"#)
  }

  func unregister(_ token: String, _ reason: String = "ended") throws {
    let frame = try socket.ask(#"{"type":"unregister","token":"\#(token)","reason":"\#(reason)"}"#)
    try #require(frame.type == "unregistered", "\(frame)")
  }

  /// Goes away, and waits until the server has noticed.
  func leave(_ server: ServerFixture) throws {
    let before = try server.health().sessions
    socket.socket.write(clientFrame(8, [0x03, 0xE8]))
    try waitUntil("the session to end") { try server.health().sessions == before - 1 }
  }
}

extension Request {
  static let id = "2288CF3F-70d8-46a6-97d7-dd5d00867127"

  /// A push to a device's token.
  static func push(to token: String, _ aps: String = Request.aps(), id: String? = nil) -> Request {
    var headers = ["apns-topic": "\(app).push-type.liveactivity", "apns-push-type": "liveactivity"]
    headers["apns-id"] = id
    return Request(
      method: "POST", path: "/3/device/\(token)", headers: headers, body: Array("{\"aps\":\(aps)}".utf8))
  }

  /// An `aps` object that starts an activity, with further members.
  static func start(_ more: String = "") -> String {
    let parts =
      #""attributes-type":"MatchAttributes","attributes":{"home":"Spain"},"alert":{"title":"Kick-off"},"#
    return aps(home: 0, event: "start", more: parts + more)
  }

  /// The same, until when it waits for a device that is away.
  func expiring(in seconds: Int) -> Request { header("apns-expiration", "\(Request.now + seconds)") }
}
