import Foundation
import TestSupport
import Testing

/// A frame of `touchline.v1` from the server, with every field that any of them has.
struct Frame: Decodable {
  let type: String
  let channel: String?
  let alias: String?
  let epoch: String?
  let seq: Int?
  let policy: Int?
  let uniqueID: String?
  let priority: Int?
  let sent: Double?
  let requestID: String?
  let outcome: String?
  let repeated: Bool?
  let reason: String?
  let message: String?
  let retryAfter: Double?
  let retryIn: Double?
  let budget: Budget?
  let action: String?
  let sets: [String: Bool]?
  let token: String?
  let secret: String?
  let kind: String?
  let activity: String?
  let replaces: String?
  let apnsID: String?
  let collapseID: String?

  struct Budget: Decodable {
    struct Quota: Decodable { let limit, remaining: Int }
    let priority10: Quota?
    let publishRate: Quota?

    enum CodingKeys: String, CodingKey {
      case priority10 = "priority-10"
      case publishRate = "publish-rate"
    }
  }

  enum CodingKeys: String, CodingKey {
    case type, channel, alias, epoch, seq, priority, sent, outcome, repeated, reason, message, budget, action,
      sets, token, secret, kind, activity, replaces
    case apnsID = "apns-id"
    case collapseID = "collapse-id"
    case policy = "message-storage-policy"
    case uniqueID = "unique-id"
    case requestID = "request-id"
    case retryAfter = "retry-after"
    case retryIn = "retry-in"
  }
}

/// A WebSocket client that does nothing by itself: no pong, no answer to a close.
final class SubscriberSocket {
  struct Closed: Error, Equatable {
    let code: Int
    let reason: String
  }

  let socket: RawSocket
  /// The status line and headers of the handshake's answer.
  let head: String

  init(_ server: ServerFixture, _ path: String, headers: String = "", receiveBuffer: Int32? = nil) throws {
    socket = try RawSocket(port: server.port, receiveBuffer: receiveBuffer)
    head = socket.upgrade(path: path, headers: headers)
  }

  /// One channel's stream; its `subscribed` frame is still to be read.
  convenience init(_ server: ServerFixture, streamOf channel: String, receiveBuffer: Int32? = nil) throws {
    try self.init(
      server, "/v1/channels/\(pathSegment(channel))/events", receiveBuffer: receiveBuffer)
  }

  /// A session for many channels.
  convenience init(sessionOn server: ServerFixture) throws {
    try self.init(server, "/v1/events", headers: "Sec-WebSocket-Protocol: touchline.v1\r\n")
  }

  func send(_ text: String) { socket.write(clientFrame(1, Array(text.utf8))) }

  func answerPing(_ payload: [UInt8]) { socket.write(clientFrame(10, payload)) }

  /// The next text, whatever pings come before it.
  ///
  /// - Throws: ``Closed`` when a close frame comes instead; it is answered as a client has to.
  func receiveText() throws -> String {
    while true {
      let frame = try #require(socket.readFrame(), "the connection broke off, or nothing came")
      switch frame.opcode {
      case 1: return String(decoding: frame.payload, as: UTF8.self)
      case 8:
        socket.write(clientFrame(8, frame.payload))
        let code = frame.payload.prefix(2).reduce(0) { $0 << 8 | Int($1) }
        throw Closed(code: code, reason: String(decoding: frame.payload.dropFirst(2), as: UTF8.self))
      default: continue
      }
    }
  }

  func receive() throws -> Frame {
    try JSONDecoder().decode(Frame.self, from: Data(receiveText().utf8))
  }

  /// The next frame, which has to be of a type.
  func receive(_ type: String) throws -> Frame {
    let frame = try receive()
    try #require(frame.type == type, "\(frame)")
    return frame
  }

  /// Sends a frame and gives the next one that comes back.
  func ask(_ text: String) throws -> Frame {
    send(text)
    return try receive()
  }

  /// Waits for the close frame, and gives its code.
  func closeCode() throws -> Int {
    do {
      while true { _ = try receiveText() }
    } catch let closed as Closed {
      return closed.code
    }
  }
}
