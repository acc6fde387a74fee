import BroadcastServer
import Foundation
import TestSupport
import Testing

@Suite struct FanOutTests {
  private func publish(_ number: Int, pad: Int = 0) -> String {
    let filler = String(repeating: "x", count: pad)
    return #"{"type":"publish","channel":"final","priority":10,"expiration":0,"#
      + #""aps":{"timestamp":\#(number),"event":"update","content-state":{"home":\#(number),"pad":"\#(filler)"}}}"#
  }

  private func numbers(_ subscriber: SubscriberSocket, _ count: Int) throws -> [Int?] {
    try (0..<count).map { _ in try subscriber.receive("message").seq }
  }

  @Test(
    "messages that come in one read reach every subscriber once and in order, and each is counted",
    arguments: loopCounts)
  func together(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let subscribers = try (0..<60).map { _ in try SubscriberSocket(server, streamOf: "final") }
      for subscriber in subscribers { _ = try subscriber.receive("subscribed") }
      let publisher = try SubscriberSocket(sessionOn: server)
      publisher.socket.write((1...20).flatMap { clientFrame(1, Array(publish($0).utf8)) })
      for subscriber in subscribers { #expect(try numbers(subscriber, 20) == Array(1...20)) }
      for _ in 1...20 { _ = try publisher.receive("published") }
      #expect(try server.report("final").counts.written == 60 * 20)
    }
  }

  @Test(
    "a session that subscribes between two messages of one read hears the second, and behind its answer",
    arguments: loopCounts)
  func subscribesBetween(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let early = try SubscriberSocket(server, streamOf: "final")
      _ = try early.receive("subscribed")
      let session = try SubscriberSocket(sessionOn: server)
      let subscribe = #"{"type":"subscribe","channel":"final"}"#
      let unsubscribe = #"{"type":"unsubscribe","channel":"final"}"#
      session.socket.write(
        [publish(1), subscribe, publish(2), publish(3), unsubscribe, publish(4)].flatMap {
          clientFrame(1, Array($0.utf8))
        })
      var seen: [String] = []
      for _ in 0..<8 {
        let frame = try session.receive()
        seen.append("\(frame.type) \(frame.type == "published" ? "" : frame.seq.map(String.init) ?? "-")")
      }
      let heard = seen.filter { $0 != "published " }
      // What was published before it left is still its own.
      #expect(heard == ["subscribed 1", "message 2", "message 3", "unsubscribed -"])
      #expect(try numbers(early, 4) == [1, 2, 3, 4])
    }
  }

  @Test(
    "a subscriber whose socket is full in the middle of several messages gets whole frames, in order",
    arguments: loopCounts)
  func cutInTheMiddle(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let slow = try SubscriberSocket(server, streamOf: "final", receiveBuffer: 4_096)
      let quick = try SubscriberSocket(server, streamOf: "final")
      for subscriber in [slow, quick] { _ = try subscriber.receive("subscribed") }
      let publisher = try SubscriberSocket(sessionOn: server)
      var last = 0
      for _ in 0..<160 {
        publisher.socket.write(
          (last + 1...last + 10).flatMap { clientFrame(1, Array(publish($0, pad: 4_500).utf8)) })
        for _ in 0..<10 { _ = try publisher.receive("published") }
        #expect(try numbers(quick, 10) == Array(last + 1...last + 10))
        last += 10
      }
      var seen: [Int] = []
      while seen.last != last { seen.append(try #require(slow.receive("message").seq)) }
      #expect(seen == seen.sorted() && Set(seen).count == seen.count)
      #expect(seen.count < last, "the kernel swallowed everything: publish more")
    }
  }

  @Test(
    "over TLS a subscriber whose socket is full in the middle gets whole frames, in order",
    arguments: loopCounts)
  func cutInTheMiddleOverTLS(_ loops: Int) async throws {
    let folder = try TestFolder()
    let server = try ServerFixture(loops: loops) {
      $0.definitions = [try unlimited("final")]
      $0.tlsFolder = folder.path
      // The client knows no ping.
      $0.keepAlive = KeepAlive(ping: 600, silence: 1_200)
    }
    let port = try #require(server.securePort)
    let slow = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"),
      [
        "-c",
        """
        import json, socket, ssl, sys
        raw = socket.socket(); raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); raw.connect(("127.0.0.1", \(port)))
        context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
        s = context.wrap_socket(raw)
        s.sendall(b"GET /v1/channels/final/events HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\n"
          b"Connection: Upgrade\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n")
        stream = s.makefile("rb")
        while stream.readline() != b"\\r\\n": pass
        def frame():
          n = stream.read(2)[1]
          if n == 126: n = int.from_bytes(stream.read(2), "big")
          return json.loads(stream.read(n))
        print(frame()["type"], flush=True)
        last = int(sys.stdin.readline())
        seq = 0
        while seq != last:
          seq = frame()["seq"]; print(seq)
        """,
      ])
    #expect(try await slow.lines(1) == ["subscribed"])
    let quick = try SubscriberSocket(server, streamOf: "final")
    _ = try quick.receive("subscribed")
    let publisher = try SubscriberSocket(sessionOn: server)
    var last = 0
    for _ in 0..<160 {
      publisher.socket.write(
        (last + 1...last + 10).flatMap { clientFrame(1, Array(publish($0, pad: 4_500).utf8)) })
      for _ in 0..<10 { _ = try publisher.receive("published") }
      #expect(try numbers(quick, 10) == Array(last + 1...last + 10))
      last += 10
    }
    slow.send("\(last)\n")
    let seen = try await slow.ending().lines.dropFirst().compactMap { Int($0) }
    #expect(seen.last == last && seen == seen.sorted() && Set(seen).count == seen.count)
    #expect(seen.count < last, "the kernel swallowed everything: publish more")
    server.shutDown()
    try server.waitForEnd()
  }
}
