import BroadcastChannels
import BroadcastServer
import Foundation
import TestSupport
import Testing

@Suite struct BackPressureTests {
  /// About as large as a broadcast may be, so that the kernel's buffers are full soon.
  private func request(_ number: Int, isAlert: Bool) -> Request {
    let more = isAlert ? Request.alert : ""
    let pad = String(repeating: "x", count: 4_800)
    return Request.broadcast(to: "final", Request.aps(home: number, more: #"\#(more)"pad":"\#(pad)","#))
  }

  /// What a subscriber that reads nothing gets when it reads again.
  private func everything(_ subscriber: SubscriberSocket, until last: Int) throws -> [Int] {
    var numbers: [Int] = []
    while numbers.last != last { numbers.append(try #require(subscriber.receive("message").seq)) }
    return numbers
  }

  @Test(arguments: loopCounts) func aSubscriberThatReadsNothingMissesOnlyPlainUpdatesAndDisturbsNobody(
    _ loops: Int
  ) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let slow = try SubscriberSocket(server, streamOf: "final", receiveBuffer: 4_096)
      let other = try SubscriberSocket(server, streamOf: "final")
      for subscriber in [slow, other] { _ = try subscriber.receive("subscribed") }
      let provider = try ProviderConnection(server)
      let last = 1_600
      let alerts = [1_300, 1_301, 1_500]
      for number in 1...last {
        #expect(try provider.send(request(number, isAlert: alerts.contains(number))).status == 200)
        // The other one has each message at once.
        #expect(try other.receive("message").seq == number)
      }
      let numbers = try everything(slow, until: last)
      #expect(numbers == numbers.sorted() && Set(numbers).count == numbers.count)
      #expect(numbers.count < last - 100, "the kernel swallowed everything: publish more")
      #expect(Set(numbers).isSuperset(of: alerts))
      // From then on it is like anybody else.
      #expect(try provider.send(request(last + 1, isAlert: false)).status == 200)
      #expect(try slow.receive("message").seq == last + 1)
    }
  }

  @Test(arguments: loopCounts)
  func aSubscriberThatReadsSlowlyGetsTheEndAlthoughTheChannelIsDeletedRightAfterIt(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let slow = try SubscriberSocket(server, streamOf: "final", receiveBuffer: 4_096)
      _ = try slow.receive("subscribed")
      let provider = try ProviderConnection(server)
      let last = 1_400
      for number in 1..<last {
        #expect(try provider.send(request(number, isAlert: false)).status == 200)
      }
      #expect(try provider.send(.broadcast(to: "final", Request.aps(event: "end"))).status == 200)
      let channel = try server.report("final").id
      #expect(try provider.send(.delete(channel)).status == 204)
      let numbers = try everything(slow, until: last)
      #expect(numbers.count < last - 100, "the kernel swallowed everything: publish more")
      #expect(try slow.receive("unsubscribed").reason == "deleted")
      #expect(try slow.closeCode() == 4_004)
    }
  }

  @Test(arguments: loopCounts) func aSubscriberThatReadsNothingIsClosedWith1013BeyondTheBound(_ loops: Int)
    throws
  {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let slow = try SubscriberSocket(server, streamOf: "final", receiveBuffer: 4_096)
      let other = try SubscriberSocket(server, streamOf: "final")
      for subscriber in [slow, other] { _ = try subscriber.receive("subscribed") }
      let provider = try ProviderConnection(server)
      let last = 1_400
      for number in 1...last {
        #expect(try provider.send(request(number, isAlert: true)).status == 200)
        #expect(try other.receive("message").seq == number)
      }
      var numbers: [Int] = []
      let closed = #expect(throws: SubscriberSocket.Closed.self) {
        while true { numbers.append(try #require(slow.receive("message").seq)) }
      }
      #expect(closed?.code == 1013)
      #expect(numbers == Array(1...max(1, numbers.count)) && numbers.count < last)
      try server.waitForSubscribers(1, of: "final")
    }
  }
}

@Suite struct KeepAliveTests {
  @Test(arguments: loopCounts) func aSilentPeerIsDroppedAndOneThatAnswersPingsStays(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
      $0.keepAlive = KeepAlive(ping: 0.1, silence: 0.4)
    } _: { server in
      let silent = try SubscriberSocket(server, streamOf: "final")
      let alive = try SubscriberSocket(server, streamOf: "final")
      for subscriber in [silent, alive] { _ = try subscriber.receive("subscribed") }
      // The server counts the silent one until its close frame went unanswered for some seconds.
      while try server.report("final").subscribers == 2 {
        let frame = try #require(alive.socket.readFrame())
        try #require(frame.opcode == 9)
        alive.answerPing(frame.payload)
      }
      var frames: [(opcode: UInt8, payload: [UInt8])] = []
      while let frame = silent.socket.readFrame() { frames.append(frame) }
      #expect(frames.count { $0.opcode == 9 } >= 2)
      let close = try #require(frames.last)
      #expect(close.opcode == 8 && Array(close.payload.prefix(2)) == [0x03, 0xE9])

      #expect(try server.send(.broadcast(to: "final")).status == 200)
      #expect(try alive.receive("message").seq == 1)
    }
  }

  @Test(arguments: loopCounts) func aPythonClientStaysByItself(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
      $0.keepAlive = KeepAlive(ping: 0.1, silence: 0.4)
    } _: { server in
      let output = try python(
        """
        import asyncio, websockets
        async def main():
          async with websockets.connect("ws://127.0.0.1:\(server.port)/v1/channels/final/events") as ws:
            await ws.recv()
            try:
              print(await asyncio.wait_for(ws.recv(), 1.2))
            except asyncio.TimeoutError:
              print("open", ws.open)
        asyncio.run(main())
        """)
      #expect(output == "open True\n")
    }
  }
}
