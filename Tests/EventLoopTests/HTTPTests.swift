import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct HTTPTests {
  private func exchange(_ port: UInt16, _ request: String, end: Bool = false) throws -> String {
    let socket = try RawSocket(port: port)
    socket.write(request)
    if end { socket.endWriting() }
    return socket.readAll()
  }

  @Test func curlGetsPutsAndDeletes() throws {
    let server = try TestServer()
    defer { server.stop() }
    let url = "http://127.0.0.1:\(server.port)"
    #expect(
      try run("/usr/bin/curl", ["-s", url + "/a%2Fb?x=1&y=a+b%26c"]) == "GET|/a/b|x=1&y=a b&c||false|-")
    #expect(
      try run("/usr/bin/curl", ["-s", "-X", "PUT", "-H", "X-Test: yes", "-d", "body", url + "/p"])
        == "PUT|/p||body|false|yes")
    #expect(
      try run("/usr/bin/curl", ["-s", "-X", "DELETE", "-d", "b", url + "/p"]) == "DELETE|/p||b|false|-")
    #expect(try run("/usr/bin/curl", ["-s", "-X", "BREW", url + "/pot"]) == "BREW|/pot|||false|-")
    #expect(try run("/usr/bin/curl", ["-s", "-I", url + "/h"]).contains("content-length: 17\r\n"))
    let empty = try run("/usr/bin/curl", ["-si", url + "/empty"])
    #expect(empty.hasPrefix("HTTP/1.1 204 No Content\r\n") && !empty.contains("content-length"))
    #expect(try run("/usr/bin/curl", ["-s", url + "/big"]).utf8.count == 900_000)
    #expect(
      try run("/usr/bin/curl", ["-s", "-w", " %{num_connects}", url + "/1", url + "/2"])
        .hasSuffix("GET|/2|||false|- 0"))
  }

  @Test func pythonReusesTheConnection() throws {
    let server = try TestServer()
    defer { server.stop() }
    let output = try python(
      """
      import http.client
      c = http.client.HTTPConnection("127.0.0.1", \(server.port))
      ports = set()
      for i in range(5):
        c.request("POST", "/x", body="n%d" % i)
        ports.add(c.sock.getsockname()[1])
        r = c.getresponse(); print(r.read().decode())
      print(len(ports))
      c.request("GET", "/x", headers={"Connection": "close"})
      r = c.getresponse(); r.read(); print(r.getheader("connection"), c.sock)
      """)
    #expect(
      output == (0..<5).map { "POST|/x||n\($0)|false|-\n" }.joined() + "1\nclose None\n")
  }

  @Test(arguments: [
    ("/ab%2Fc%2B%3D%3D", "/ab/c+=="), ("/%2F%2Fx%2F%2F", "///x//"), ("/%2e%2e/a/../b/.", "/../a/../b/."),
    ("//a//b", "//a//b"), ("/a+b%20c", "/a+b c"), ("/%C3%A4%FF", "/ä\u{fffd}"),
    ("http://other.example/abs?q", "/abs"), ("/a%3Fb", "/a?b"),
  ])
  func pathsAreDecodedAndOtherwiseLeftAlone(_ raw: String, _ path: String) throws {
    let server = try TestServer()
    defer { server.stop() }
    let answer = try exchange(server.port, "GET \(raw) HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(answer.contains("GET|\(path)|"))
  }

  @Test(arguments: [
    ("GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", "400 "), ("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400 "),
    ("GET / HTTP/1.1\r\n\r\n", "400 "), ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "400 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 "),
    ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", "400 "), ("GET / HTTP/1.1\nHost: x\n\r\n\r\n", "400 "),
    ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400 "), ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", "505 "),
    ("\u{1}\u{2}\u{3} garbage\r\n\r\n", "400 "), ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "400 "),
    ("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "426 "),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 "),
    ("GET / HTTP/1.1\r\nHost: x\r\nA: " + String(repeating: "a", count: 9_000) + "\r\n\r\n", "431 "),
  ])
  func whatCannotBeTrustedIsRefusedAndClosed(_ request: String, _ status: String) throws {
    let server = try TestServer()
    defer { server.stop() }
    let answer = try exchange(server.port, request)
    #expect(answer.hasPrefix("HTTP/1.1 \(status)"))
    #expect(answer.contains("connection: close\r\n") && answer.contains("{\"reason\":"))
    #expect(try exchange(server.port, "GET / HTTP/1.0\r\n\r\n").contains("GET|/|"))
  }

  @Test func anotherUpgradeIsIgnored() throws {
    let server = try TestServer()
    defer { server.stop() }
    let answer = try exchange(
      server.port,
      "POST /p HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        + "HTTP2-Settings: AAMAAABk\r\nContent-Length: 3\r\n\r\nabc"
        + "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n") && answer.contains("POST|/p||abc|false|-"))
    #expect(answer.contains("GET|/next|"))
  }

  @Test func chunkedBodiesAreDecoded() throws {
    let server = try TestServer()
    defer { server.stop() }
    let answer = try exchange(
      server.port,
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
        + "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    #expect(answer.contains("POST|/c||abc0123456789|false|-"))
    #expect(answer.contains("GET|/next|"))
  }

  @Test func pipelinedRequestsAreAnsweredInOrder() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.write(
      "GET /later HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        + "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    var waiting = 0
    while waiting == 0 { waiting = try server.loop.on { _ in server.service.pending.count } }
    try server.loop.on { _ in
      server.service.pending[0].answer(HTTPResponse(status: 202, body: Array("first".utf8)))
      server.service.pending[0].answer(HTTPResponse(status: 500))
      #expect(server.service.pending[0].isClosed)
    }
    let text = socket.readAll()
    let first = try #require(text.range(of: "first")).lowerBound
    let second = try #require(text.range(of: "POST|/2||abc")).lowerBound
    let third = try #require(text.range(of: "GET|/3|")).lowerBound
    #expect(first < second && second < third)
    #expect(!text.contains("500"))
  }

  @Test func aBodyThatIsTooLargeIsCutAndTheConnectionEnds() throws {
    let server = try TestServer { $0.maxBodyBytes = 1_000 }
    defer { server.stop() }
    let url = "http://127.0.0.1:\(server.port)/"
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("eventloop-\(UUID())")
    try Data(repeating: 0x62, count: 3_000_000).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let answer = try run("/usr/bin/curl", ["-si", "--data-binary", "@\(file.path)", url])
    #expect(answer.contains("|true|-") && answer.contains("connection: close"))
    let exact = try run("/usr/bin/curl", ["-s", "-d", String(repeating: "c", count: 1_000), url])
    #expect(exact.hasSuffix("c|false|-"))
    let chunked = try run(
      "/usr/bin/curl", ["-s", "-H", "Transfer-Encoding: chunked", "--data-binary", "@\(file.path)", url])
    #expect(chunked.contains("|true|-"))
  }

  @Test func aSlowRequestIsEnded() throws {
    let server = try TestServer { $0.handshakeTimeout = 0.3 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.write("GET / HT")
    #expect(socket.readAll().hasPrefix("HTTP/1.1 408 "))
    #expect(try RawSocket(port: server.port).readAll() == "")
  }

  @Test func aRestingConnectionIsEnded() throws {
    let server = try TestServer { $0.idleTimeout = 0.3 }
    defer { server.stop() }
    #expect(try exchange(server.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").contains("keep-alive"))
  }

  @Test func aPeerThatEndedItsSendingStillGetsItsAnswer() throws {
    let server = try TestServer()
    defer { server.stop() }
    #expect(try exchange(server.port, "GET /e HTTP/1.1\r\nHost: x\r\n\r\n", end: true).contains("GET|/e|"))
    let socket = try RawSocket(port: server.port)
    socket.write("GET /later HTTP/1.1\r\nHost: x\r\n\r\n")
    socket.endWriting()
    while try server.loop.on({ _ in server.service.pending.isEmpty }) {}
    try server.loop.on { _ in server.service.pending[0].answer(HTTPResponse(status: 200, body: [0x21])) }
    #expect(socket.readAll().hasSuffix("\r\n\r\n!"))
  }

  @Test func aReaderThatGoesOnHasMoreTime() throws {
    let server = try TestServer { $0.sendBufferBytes = 16_384 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    socket.write("GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
    let deadline: () throws -> Double = {
      try server.loop.on { _ in
        try #require(server.server?.connections.values.compactMap { $0 as? HTTPConnection }.first).deadline
      }
    }
    _ = socket.read(1)
    let first = try deadline()
    #expect(socket.read(400_000).count == 400_000)
    #expect(try deadline() > first)
  }

  @Test func whoAsksForAWebSocketWhileTheServerEndsIsRefused() throws {
    let server = try TestServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.write("GET /ws HTTP/1.1\r\nHost: x\r\n")
    try server.waitForCount(1)
    try waitUntil("half a head") {
      try server.loop.on { _ in
        server.server?.connections.values.contains { ($0 as? HTTPConnection)?.input.isEmpty == false } == true
      }
    }
    try server.loop.on { _ in server.server?.stopAccepting() }
    let rest = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    socket.write(rest + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    #expect(socket.readAll().hasPrefix("HTTP/1.1 503 "))
    #expect(server.service.recorders.value.isEmpty)
  }

  @Test func eventStreamsFlowToCurlAndEndWithClose() throws {
    let server = try TestServer()
    defer { server.stop() }
    let service = server.service
    let feeder = Thread {
      guard let recorder = try? service.recorder(0) else { return }
      try? server.loop.on { _ in
        for number in 0..<3 {
          #expect(recorder.connection?.send(OutgoingBytes(raw: Array("data: \(number)\n\n".utf8))) == true)
        }
        recorder.connection?.close(code: 1000, reason: "")
        recorder.connection?.close(code: 1000, reason: "")
      }
    }
    feeder.start()
    let output = try run("/usr/bin/curl", ["-siN", "http://127.0.0.1:\(server.port)/events"])
    #expect(output.hasSuffix("data: 0\n\ndata: 1\n\ndata: 2\n\n"))
    #expect(output.contains("connection: close\r\n") && !output.contains("content-length"))
    try service.recorder(0).events.wait("closed") { $0 == ["opened -", "closed - "] }
    try server.waitForCount(0)
  }

  @Test func aStalledEventStreamLosesNothing() throws {
    let server = try TestServer { $0.sendBufferBytes = 32_768 }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
    socket.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = socket.read(until: "\r\n\r\n")
    let recorder = try server.service.recorder(0)
    let next = Box(0)
    let refused = Box(0)
    let pump: @Sendable (Connection) -> Void = { connection in
      while next.value < 10_000 {
        let text = "data: \(next.value) " + String(repeating: "x", count: 180) + "\n\n"
        guard connection.send(OutgoingBytes(raw: Array(text.utf8))) else {
          refused.change { $0 += 1 }
          return
        }
        next.change { $0 += 1 }
      }
      connection.close(code: 1000, reason: "")
    }
    try server.loop.on { _ in
      recorder.onWritable = pump
      if let connection = recorder.connection { pump(connection) }
    }
    #expect(refused.value == 1)
    let lines = socket.readAll().split(separator: "\n")
    #expect(lines.count == 10_000)
    #expect(lines.enumerated().allSatisfy { $1.hasPrefix("data: \($0) ") })
    try recorder.events.wait("closed") { $0.last == "closed - " }
  }

  @Test func aReaderThatLeavesIsNoticed() throws {
    let server = try TestServer()
    defer { server.stop() }
    for ending in ["close", "reset"] {
      let before = server.service.recorders.value.count
      let socket = try RawSocket(port: server.port)
      socket.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
      _ = socket.read(until: "\r\n\r\n")
      if ending == "reset" { socket.reset() } else { socket.endWriting() }
      try server.service.recorder(before).events.wait("closed") { $0.last == "closed - " }
    }
    try server.waitForCount(0)
  }

  @Test func ownClientSendsAndReads() throws {
    let server = try TestServer()
    defer { server.stop() }
    let result = Box<Result<HTTPClientResponse, HTTPClientError>?>(nil)
    func send(_ method: String, _ path: String, _ body: [UInt8] = [], timeout: Double = 5) throws {
      result.value = nil
      try server.loop.on { loop in
        HTTPClient(loop: loop).send(
          method: method, url: "http://127.0.0.1:\(server.port)\(path)", headers: [("x-test", "hé")],
          body: body,
          timeout: timeout, readableHeaders: ["apns-unique-id", "content-type", "x-none"]
        ) { result.value = $0 }
      }
      try result.wait("answer") { $0 != nil }
    }
    try send("POST", "/a%2Fb?c=d", Array("hello".utf8))
    let response = try #require(result.value).get()
    #expect(response.status == 200)
    #expect(String(decoding: response.body, as: UTF8.self) == "POST|/a/b|c=d|hello|false|hé")
    #expect(response.headers == ["apns-unique-id": "u-1", "content-type": "text/plain"])
    try send("GET", "/empty")
    #expect(try result.value?.get().status == 204)
    try send("DELETE", "/big")
    #expect(try result.value?.get().body.count == 900_000)
    try send("PUT", "/", [UInt8](repeating: 0x61, count: 60_000))
    #expect(try result.value?.get().body.count == 60_000 + "PUT|/|||false|hé".utf8.count)
    try send("GET", "/later", timeout: 0.2)
    #expect(result.value == .failure(.timedOut(address: "127.0.0.1:\(server.port)")))
    try server.loop.on { loop in
      HTTPClient(loop: loop).send(url: "http://127.0.0.1:1/") { result.value = $0 }
    }
    try result.wait("refusal") { if case .failure(.unreachable)? = $0 { true } else { false } }
  }
}
