import Foundation
import TestSupport
import Testing

/// A channel's subscriber on a bare WebSocket, which sees the frames as they came.
struct Subscriber {
  private let socket: RawSocket

  /// Subscribes, and waits until that is confirmed.
  init(_ server: ProviderServer, _ channel: String) throws {
    socket = try RawSocket(port: server.port)
    let answer = socket.upgrade(path: "/v1/channels/\(channel)/events")
    try #require(answer.hasPrefix("HTTP/1.1 101"), "\(answer)")
    try #require(try text(of: "subscribed") != "")
  }

  /// The next message's frame.
  func message() throws -> String { try text(of: "message") }

  private func text(of type: String) throws -> String {
    while let frame = socket.readFrame() {
      let text = String(decoding: frame.payload, as: UTF8.self)
      if frame.opcode == 1, text.contains("\"type\":\"\(type)\"") { return text }
    }
    throw WaitedInVain(for: "a frame \(type)", "the connection ended, or nothing came for 20 seconds")
  }
}
