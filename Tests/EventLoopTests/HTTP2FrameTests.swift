import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// What honest clients do, frame by frame.
@Suite(.serialized) struct HTTP2FrameTests {
  @Test("the server's first frame is SETTINGS with its limits, and theirs is acknowledged")
  func settings() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    let first = try #require(client.next())
    #expect(first.type == 4 && first.flags == 0)
    let values = stride(from: 0, to: first.payload.count, by: 6).map { index in
      [UInt32(first.payload[index + 1]), first.number(at: index + 2)]
    }
    // MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, NO_RFC7540_PRIORITIES (RFC 9113 section 6.5.2, RFC 9218 section 2.1).
    #expect(values == [[3, 256], [6, 8_192], [9, 1]])
    let acknowledged = try client.next { $0.type == 4 }
    #expect(acknowledged.flags == 1)
  }

  @Test("an answer without a body ends with HEADERS; a small body is one DATA frame")
  func ends() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(
      FrameClient.head(13, "GET", "/empty"), FrameClient.head(15, "GET", "/error"),
      FrameClient.head(17, "HEAD", "/x"))
    let answers = try client.answers(13, 15, 17)
    let empty = try #require(answers[13])
    #expect(empty.fields[":status"] == "204" && empty.frames.map(\.type) == [1])
    let error = try #require(answers[15])
    #expect(error.fields[":status"] == "400" && error.frames.map(\.type) == [1, 0])
    #expect(error.fields["apns-id"] == "A-b" && error.fields["content-length"] == "14")
    #expect(error.body == "{\"reason\":\"x\"}")
    let head = try #require(answers[17])
    #expect(head.fields[":status"] == "200" && head.frames.map(\.type) == [1])
    #expect(head.fields["content-length"] == "17")
  }

  @Test("host is the authority's, unless there is a host field")
  func authority() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(
      FrameClient.head(1, "GET", "/a", [(":authority", "api.example:2197")]),
      FrameClient.head(3, "GET", "/b", [("host", "other.example")]))
    _ = try client.answers(1, 3)
    #expect(server.service.requests.value.map { $0.header("host") } == ["api.example:2197", "other.example"])
    #expect(server.service.requests.value.map(\.peer.httpVersion) == ["2", "2"])
  }

  @Test("a body comes in any number of DATA frames, empty ones and trailers included")
  func manyDataFrames() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "POST", "/p", ends: false))
    for _ in 0..<300 { client.send(FrameClient.data(1, "a", ends: false)) }
    client.send(FrameClient.data(1, "", ends: false))
    client.send(
      Frame(
        type: 1, flags: Frame.endHeaders | Frame.endStream, stream: 1,
        payload: FrameClient.field("x-test", "late")))
    let answer = try client.answer(1)
    #expect(answer.body == "POST|/p||" + String(repeating: "a", count: 300) + "|false|-")
  }

  @Test("every PING is acknowledged with its bytes")
  func pings() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    for byte: UInt8 in 1...5 {
      client.send(Frame(type: 6, flags: 0, stream: 0, payload: [UInt8](repeating: byte, count: 8)))
      let answer = try client.next { $0.type == 6 }
      #expect(answer.flags == 1 && answer.payload == [UInt8](repeating: byte, count: 8))
    }
  }

  @Test("expect: 100-continue gets its 100 before the answer")
  func expects() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "POST", "/p", [("host", "h"), ("expect", "100-continue")], ends: false))
    let first = try client.next { $0.type == 1 }
    #expect(client.fields(first)[":status"] == "100" && !first.endsStream)
    client.send(FrameClient.data(1, "now", ends: true))
    #expect(try client.answer(1).body == "POST|/p||now|false|-")
  }

  @Test(
    "a tunnel and a broken path are refused with an answer", arguments: [("CONNECT", "405"), ("GET", "400")])
  func refusals(method: String, status: String) throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    if method == "CONNECT" {
      let fields = FrameClient.field(":method", "CONNECT") + FrameClient.field(":authority", "a:1")
      client.send(Frame(type: 1, flags: 5, stream: 1, payload: fields))
    } else {
      client.send(FrameClient.head(1, method, "/%zz"))
    }
    #expect(try client.answer(1).fields[":status"] == status)
  }

  @Test("a body over the limit is cut for the service, and the connection goes on")
  func longBody() throws {
    let server = try TestServer { $0.maxBodyBytes = 10 }
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "POST", "/p", ends: false))
    let piece = String(repeating: "b", count: 16_000)
    // More than the windows of 65,535 bytes: credit must come although nobody keeps the bytes. It comes in parts, by how the
    // server happens to read, and an honest client waits for enough of it.
    var credit: [UInt32: Int] = [0: 65_535, 1: 65_535]
    for index in 0..<12 {
      while credit.values.contains(where: { $0 < piece.utf8.count }) {
        let update = try client.next { $0.type == 8 && $0.stream <= 1 }
        credit[update.stream]? += Int(update.number(at: 0))
      }
      client.send(FrameClient.data(1, piece, ends: index == 11))
      for stream in credit.keys { credit[stream]? -= piece.utf8.count }
    }
    client.send(FrameClient.head(3))
    let answers = try client.answers(3)
    #expect(answers[3]?.body == "GET|/x|||false|-")
    #expect(server.service.requests.value.first?.body.count == 10)
    #expect(server.service.requests.value.first?.bodyTruncated == true)
  }

  @Test("streams over the limit, opened before SETTINGS were read, are refused one by one")
  func overshoot() throws {
    let server = try TestServer { $0.http2.maxConcurrentStreams = 100 }
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    for index in 0..<110 { client.send(FrameClient.head(UInt32(index * 2 + 1), "GET", "/later")) }
    for index in 100..<110 {
      let refused = try client.next { $0.type == 3 }
      // REFUSED_STREAM: safe to send again (RFC 9113 section 8.7).
      #expect(refused.stream == UInt32(index * 2 + 1) && refused.errorCode == 7)
    }
    try server.loop.on { _ in
      #expect(server.service.pending.count == 100)
      for exchange in server.service.pending { exchange.answer(HTTPResponse(status: 200)) }
    }
    for _ in 0..<100 { _ = try client.next { $0.type == 1 && $0.endsStream } }
  }

  @Test("event streams share a connection, and each ends by itself")
  func eventStreams() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1, "GET", "/events"), FrameClient.head(3, "GET", "/events"))
    for stream: UInt32 in [1, 3] {
      let head = try client.next { $0.type == 1 && $0.stream == stream }
      #expect(client.fields(head)["content-type"] == "text/event-stream" && !head.endsStream)
    }
    let first = try server.service.recorder(0)
    let second = try server.service.recorder(1)
    try server.loop.on { _ in
      #expect(first.connection?.send(OutgoingBytes(raw: Array("data: one\n\n".utf8))) == true)
      #expect(second.connection?.send(OutgoingBytes(raw: Array("data: two\n\n".utf8))) == true)
      first.connection?.close(code: 1000, reason: "")
    }
    let one = try client.next { $0.type == 0 && $0.stream == 1 }
    #expect(String(decoding: one.payload, as: UTF8.self) == "data: one\n\n" && one.endsStream)
    let two = try client.next { $0.type == 0 && $0.stream == 3 }
    #expect(String(decoding: two.payload, as: UTF8.self) == "data: two\n\n" && !two.endsStream)
    try first.events.wait("closed") { $0.last == "closed - " }
    client.send(Frame(type: 3, flags: 0, stream: 3, payload: big(8)))
    try second.events.wait("closed") { $0.last == "closed - " }
  }

  @Test("an event stream whose reader gives no credit takes one message and says when it can go on")
  func eventStreamCredit() throws {
    let server = try TestServer()
    defer { server.stop() }
    // SETTINGS_INITIAL_WINDOW_SIZE 4.
    let client = try FrameClient(port: server.port, settings: [(4, 4)])
    client.send(FrameClient.head(1, "GET", "/events"))
    let recorder = try server.service.recorder(0)
    let message = OutgoingBytes(raw: Array("data: 1\n\n".utf8))
    try server.loop.on { _ in
      #expect(recorder.connection?.send(message) == true)
      #expect(recorder.connection?.send(message) == false)
    }
    let part = try client.next { $0.type == 0 }
    #expect(part.payload.count == 4)
    #expect(recorder.events.value == ["opened -"])
    client.send(Frame(type: 8, flags: 0, stream: 1, payload: big(100)))
    let rest = try client.next { $0.type == 0 }
    #expect(String(decoding: part.payload + rest.payload, as: UTF8.self) == "data: 1\n\n")
    try recorder.events.wait("writable") { $0 == ["opened -", "writable"] }
    try server.loop.on { _ in #expect(recorder.connection?.send(message) == true) }
    let next = try client.next { $0.type == 0 }
    #expect(next.payload.count == 9)
  }

  @Test("a server that stops accepting says GOAWAY, finishes what is open and closes")
  func drain() throws {
    let server = try TestServer()
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(5, "GET", "/later"))
    try waitUntil("the request") { try server.loop.on { _ in server.service.pending.count == 1 } }
    try server.loop.on { _ in server.server?.stopAccepting() }
    let goAway = try client.next { $0.type == 7 }
    #expect(goAway.number(at: 0) == 5 && goAway.errorCode == 0)
    try server.loop.on { _ in
      server.service.pending[0].answer(HTTPResponse(status: 200, body: Array("late".utf8)))
    }
    #expect(try client.answer(5).body == "late")
    #expect(client.next() == nil)
    try server.waitForCount(0)
  }

  @Test("a connection without streams is told GOAWAY after the idle time")
  func idle() throws {
    let server = try TestServer {
      $0.http2.idleTimeout = 0.2
      $0.idleTimeout = 0.2
    }
    defer { server.stop() }
    let client = try FrameClient(port: server.port)
    client.send(FrameClient.head(1))
    _ = try client.answer(1)
    let goAway = try client.goAway()
    #expect(goAway.number(at: 0) == 1 && goAway.errorCode == 0)
  }
}
