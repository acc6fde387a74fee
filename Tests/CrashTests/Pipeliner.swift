import Foundation
import TestSupport

/// A publisher that sends its messages in bursts over a WebSocket, so that several are under way when the server goes down.
///
/// Its messages are numbered from 1 and each is a delivery, so that everything a channel remembers must tell the same number:
/// no less than was answered, no more than was sent.
///
/// `@unchecked` is safe: as ``Publisher``.
final class Pipeliner: @unchecked Sendable {
  private static let burst = 8
  private var channel = ""
  private var sent = 0
  private var answered = 0
  private var uniqueIDs: [Int: String] = [:]
  private(set) var promises = 0

  func begin(_ client: Client) throws {
    let answer = try client.create(
      #"{"app":"com.example.crash","message-storage-policy":1,"budget":{"capacity":\#(Publisher.capacity),"refill-per-hour":0},"publish-rate":{"per-second":null}}"#
    )
    channel = try Client.object(answer.body)["id"] as? String ?? ""
  }

  /// A request id that tells the message's number.
  private func requestID(_ number: Int) -> String {
    "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - "\(number)".count) + "\(number)"
  }

  private func frame(_ number: Int) -> String {
    #"{"type":"publish","channel":"\#(channel)","request-id":"\#(requestID(number))","expiration":\#(Int(Date().timeIntervalSince1970) + 3_600),"aps":{"timestamp":\#(1_700_000_000 + number),"event":"update","content-state":{"n":\#(number)}}}"#
  }

  private func connect(_ port: UInt16) throws -> RawSocket {
    guard let socket = try? RawSocket(port: port),
      socket.upgrade(path: "/v1/events", headers: "Sec-WebSocket-Protocol: touchline.v1\r\n").contains(
        " 101 ")
    else { throw Client.Gone() }
    return socket
  }

  private func answer(_ socket: RawSocket) throws -> [String: Any] {
    while true {
      guard let frame = socket.readFrame() else { throw Client.Gone() }
      if frame.opcode == 1 { return try Client.object(String(decoding: frame.payload, as: UTF8.self)) }
    }
  }

  /// Publishes until the server is gone.
  func run(port: UInt16, answered count: () -> Void) throws {
    do {
      let socket = try connect(port)
      while true {
        let first = sent + 1
        sent += Self.burst
        for number in first...sent { socket.write(clientFrame(1, Array(frame(number).utf8))) }
        for number in first...sent {
          try accept(try answer(socket), number)
          answered = number
          count()
        }
      }
    } catch is Client.Gone {}
  }

  private func accept(_ answer: [String: Any], _ number: Int) throws {
    try Broken.unless(
      answer["type"] as? String == "published" && answer["request-id"] as? String == requestID(number)
        && answer["outcome"] as? String == "delivered", "message \(number) was answered \(answer)")
    uniqueIDs[number] = answer["unique-id"] as? String
    uniqueIDs[number - 100] = nil
  }

  /// Holds the server to what it answered.
  func check(port: UInt16) throws {
    guard let told = try Client(port: port).channel(channel), let stored = told["seq"] as? Int else {
      throw Broken(description: "the pipelined channel is lost")
    }
    try Broken.unless(
      (answered...sent).contains(stored),
      "\(stored) messages are there; \(answered) were answered, \(sent) sent")
    let quota = (told["budget"] as? [String: Any])?["priority-10"] as? [String: Any]
    try Broken.unless(
      quota?["remaining"] as? Int == Publisher.capacity - stored,
      "\(stored) messages, and a budget of \(quota ?? [:])")
    if stored > 0 {
      let newest = try Listener(port: port, channel: channel).message()
      let state = (newest["aps"] as? [String: Any])?["content-state"] as? [String: Any]
      try Broken.unless(
        state?["n"] as? Int == stored && newest["seq"] as? Int == stored,
        "\(newest) is stored after \(stored) messages")
    }
    // Everything once more, as a publisher does that was not answered: what happened is answered as before.
    let socket = try connect(port)
    for number in max(1, answered - 20)..<sent + 1 {
      socket.write(clientFrame(1, Array(frame(number).utf8)))
      let again = try answer(socket)
      let known = number <= answered ? uniqueIDs[number] : nil
      try Broken.unless(
        (again["repeated"] as? Bool == true) == (number <= stored)
          && (known == nil || again["unique-id"] as? String == known),
        "message \(number) of \(stored) was repeated and answered \(again)")
      try accept(again, number)
    }
    promises += stored > 0 ? 24 : 0
    answered = sent
  }
}
