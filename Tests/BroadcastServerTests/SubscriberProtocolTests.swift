import BroadcastChannels
import Foundation
import SubscriberProtocol
import TestSupport
import Testing

@Suite struct SubscriberProtocolTests {
  @Test(
    "codes that libwebsockets doesn't know are told from their reasons, all others stay",
    arguments: [
      (1002, ServerFrame.goodbyeReason(retryIn: 1.5), 1012), (1002, CloseCode.tooSlow, 1013),
      (1002, CloseCode.nothingRead(silence: 50), 1013), (1002, "a reserved bit is set", 1002),
      (1002, "", 1002), (1008, CloseCode.tooSlow, 1008), (4001, "x", 4001), (4003, "x", 4003),
      (nil, CloseCode.tooSlow, nil),
    ] as [(UInt16?, String, UInt16?)])
  func closeCodes(_ heard: UInt16?, _ reason: String, _ sent: UInt16?) {
    #expect(CloseCode.sent(heard, reason: reason) == sent)
  }

  /// Found by fuzzing: what a client reads it can write again, and JSON has no word for infinity.
  @Test func numbersBeyondADoubleAreNotTaken() throws {
    let error = #"{"type":"error","reason":"TooManyRequests","message":"wait","retry-after":1e999}"#
    guard case .error(let frame) = try ServerFrame.read(Array(error.utf8)) else {
      Issue.record("it was read as another frame")
      return
    }
    #expect(frame.retryAfter == nil && frame.reason == "TooManyRequests")
    let message =
      #"{"type":"message","channel":"AAAA","epoch":"e","seq":1,"unique-id":"u","priority":10,"sent":1e999,"aps":\#(Request.aps())}"#
    #expect(throws: FrameError.self) { try ServerFrame.read(Array(message.utf8)) }
  }

  private static let unknownChannel = "dHN0LXNyY2gtY2hubA=="
  private static let requestID = "2288cf3f-70d8-46a6-97d7-dd5d00867127"

  /// Publishes at priority 10 and gives the message's unique id.
  @discardableResult
  private func publish(
    _ server: ServerFixture, _ channel: String, _ aps: String = Request.aps(), expiration: Int = 0
  ) throws -> String {
    let answer = try server.send(.broadcast(to: channel, aps, expiration: expiration))
    try #require(answer.status == 200, "\(answer.text) \(answer.headers)")
    return try #require(answer.headers["apns-unique-id"])
  }

  // MARK: One channel

  @Test(arguments: loopCounts) func anyWebSocketClientFollowsAChannelWithoutSayingAWord(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let output = try python(
        """
        import asyncio, http.client, json, websockets
        async def main():
          async with websockets.connect("ws://127.0.0.1:\(server.port)/v1/channels/final/events") as ws:
            first = json.loads(await ws.recv())
            print(ws.subprotocol, first["type"], first["alias"], first["seq"], first["message-storage-policy"])
            for home in (1, 2):
              c = http.client.HTTPConnection("127.0.0.1", \(server.port))
              body = '{"aps":{"timestamp":%d,"event":"update","content-state":{"home":%d}}}' % (\(Request.now), home)
              c.request("POST", "/4/broadcasts/apps/com.example.scores", body, {"apns-channel-id": first["channel"],
                "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0"})
              unique = c.getresponse().getheader("apns-unique-id")
              m = json.loads(await ws.recv())
              print(m["type"], m["channel"] == first["channel"], m["epoch"] == first["epoch"], m["seq"], m["priority"],
                m["unique-id"] == unique, m["aps"]["content-state"])
        asyncio.run(main())
        """)
      #expect(
        output == """
          None subscribed final 0 0
          message True True 1 10 True {'home': 1}
          message True True 2 10 True {'home': 2}

          """)
    }
  }

  @Test(arguments: [
    #"{ "timestamp" : 1700000000,"event":"update" ,"content-state":{"z":1.50,"a":-0.0,"m":1E+2}}"#,
    #"{"event":"update","content-state":{"b":"\u00e9\/\ud83d\ude00 é","a":"\\\"\t"},"timestamp":1700000000}"#,
    #"{"timestamp":1700000000,"event":"update","content-state":{"n":9007199254740993,"m":123456789012345678901234567890}}"#,
    "{\n  \"timestamp\": 1700000000,\r\n\t\"event\": \"update\",\n  \"content-state\": {}\n}",
    #"{"timestamp":1700000000,"event":"end","unknown":{"deep":[[[]],null,true]},"content-state":{"":""}}"#,
  ])
  func theApsBytesArriveAsTheyWerePublished(_ aps: String) throws {
    try withServer {
      $0.definitions = [try unlimited("final", policy: 1)]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      try publish(server, "final", aps, expiration: Request.now + 600)
      #expect(try subscriber.receiveText().hasSuffix(",\"aps\":\(aps)}"))
      // The same from storage, and when it was published in a frame.
      let late = try SubscriberSocket(server, streamOf: "final")
      _ = try late.receive("subscribed")
      #expect(try late.receiveText().hasSuffix(",\"aps\":\(aps)}"))
      late.send("{\"type\":\"publish\",\"channel\":\"final\", \"aps\": \(aps) }")
      #expect(try subscriber.receiveText().hasSuffix(",\"aps\":\(aps)}"))
    }
  }

  @Test(arguments: [
    ("/v1/channels/nothing/events", 404, "ChannelNotRegistered"),
    ("/v1/channels/dHN0LXNyY2gtY2hubA%3D%3D/events", 404, "ChannelNotRegistered"),
    ("/v1/channels/%2A%2A/events", 400, "BadChannelId"), ("/v1/elsewhere", 404, "BadPath"),
    ("/4/broadcasts/apps/com.example.scores", 404, "BadPath"),
    ("/v1/channels/final/events?epoch=a", 400, "BadRequestParams"),
    ("/v1/channels/final/events?seq=1", 400, "BadRequestParams"),
    ("/v1/channels/final/events?epoch=a&seq=-1", 400, "BadRequestParams"),
    ("/v1/channels/final/events?epoch=&seq=1", 400, "BadRequestParams"),
  ])
  func aHandshakeThatLeadsNowhereIsAnsweredInJSON(_ path: String, _ status: Int, _ reason: String) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let subscriber = try SubscriberSocket(server, path)
      #expect(subscriber.head.hasPrefix("HTTP/1.1 \(status) "))
      #expect(subscriber.head.contains("content-type: application/json\r\n"))
      struct Body: Decodable { let reason, message: String }
      let body = try JSONDecoder().decode(Body.self, from: Data(subscriber.socket.readAll().utf8))
      #expect(body.reason == reason && !body.message.isEmpty)
    }
  }

  @Test(arguments: loopCounts) func pythonSeesTheStatusOfARefusedHandshake(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let output = try python(
        """
        import asyncio, websockets
        async def main():
          try:
            await websockets.connect("ws://127.0.0.1:\(server.port)/v1/channels/nothing/events")
          except websockets.InvalidStatusCode as e:
            print(e.status_code)
        asyncio.run(main())
        """)
      #expect(output == "404\n")
    }
  }

  // MARK: Many channels

  @Test(arguments: loopCounts) func everyRequestOfASessionIsAnswered(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("one"), try definition("two")]
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      #expect(session.head.contains("Sec-WebSocket-Protocol: touchline.v1\r\n"))
      let one = try server.report("one")

      // Subscribed by alias and by id.
      let subscribed = try session.ask(#"{"type":"subscribe","channel":"one"}"#)
      #expect(subscribed.type == "subscribed" && subscribed.channel == one.id && subscribed.alias == "one")
      #expect(subscribed.epoch == one.epoch && subscribed.seq == 0 && subscribed.policy == 0)
      let two = try server.report("two").id
      #expect(try session.ask(#"{"type":"subscribe","channel":"\#(two)"}"#).alias == "two")

      // Its own publish comes back as a message and is answered.
      session.send(
        #"{"type":"publish","channel":"one","request-id":"\#(Self.requestID)","aps":\#(Request.aps())}"#)
      let frames = [try session.receive(), try session.receive()]
      let message = try #require(frames.first { $0.type == "message" })
      let published = try #require(frames.first { $0.type == "published" })
      #expect(message.channel == one.id && message.seq == 1 && message.epoch == one.epoch)
      #expect(message.priority == 10 && message.uniqueID == published.uniqueID)
      #expect(abs((message.sent ?? 0) - Date().timeIntervalSince1970) < 30)
      #expect(published.channel == one.id && published.requestID == Self.requestID)
      #expect(published.outcome == "delivered" && published.repeated == nil)
      #expect(published.budget?.priority10?.limit == 60 && published.budget?.priority10?.remaining == 59)
      #expect(published.budget?.publishRate?.remaining == 39)

      let acknowledged = try session.ask(#"{"type":"ack","channel":"one","seq":1}"#)
      #expect(acknowledged.type == "acknowledged" && acknowledged.channel == one.id && acknowledged.seq == 1)
      #expect(try server.report("one").counts.acknowledged == 1)

      // Only what is subscribed to arrives, and nothing after unsubscribing.
      let left = try session.ask(#"{"type":"unsubscribe","channel":"one"}"#)
      #expect(left.type == "unsubscribed" && left.channel == one.id && left.reason == "requested")
      try publish(server, "one")
      try publish(server, "two")
      #expect(try session.receive("message").channel == two)
    }
  }

  @Test("who subscribes anew hears what is on its way first, and then where the channel stands")
  func anew() throws {
    try withServer {
      $0.definitions = [try unlimited("one")]
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      _ = try session.ask(#"{"type":"subscribe","channel":"one"}"#)
      let publisher = try SubscriberSocket(sessionOn: server)
      // Its first frame has been dealt with: from now on both are read in the order of their sending.
      _ = try publisher.ask(#"{"type":"unsubscribe","channel":"one"}"#)
      server.holding {
        publisher.send(#"{"type":"publish","channel":"one","aps":\#(Request.aps())}"#)
        session.send(#"{"type":"subscribe","channel":"one"}"#)
      }
      #expect(try session.receive("message").seq == 1)
      #expect(try session.receive("subscribed").seq == 1)
    }
  }

  @Test(arguments: loopCounts) func pythonSpeaksTheWholeProtocol(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final", #"{"app":"com.example.scores","message-storage-policy":1}"#)]
    } _: { server in
      let output = try python(
        """
        import asyncio, json, time, websockets
        async def main():
          url = "ws://127.0.0.1:\(server.port)/v1/events"
          async with websockets.connect(url, subprotocols=["touchline.v1"]) as ws:
            async def ask(**frame):
              await ws.send(json.dumps(frame)); return json.loads(await ws.recv())
            now = int(time.time())
            aps = {"timestamp": now, "event": "update", "content-state": {"home": 1}}
            p = await ask(type="publish", channel="final", aps=aps, expiration=now + 60, priority=10)
            print(ws.subprotocol, p["type"], p["outcome"])
            s = await ask(type="subscribe", channel="final")
            m = json.loads(await ws.recv())
            print(s["type"], s["seq"], m["type"], m["seq"], m["unique-id"] == p["unique-id"], m["aps"] == aps)
            s = await ask(type="subscribe", channel="final", epoch=m["epoch"], seq=m["seq"])
            a = await ask(type="ack", channel="final", seq=1)
            print(s["type"], a["type"], a["seq"])
            e = await ask(type="ack", channel="final", seq=2)
            u = await ask(type="unsubscribe", channel=m["channel"])
            print(e["type"], e["reason"], u["type"], u["reason"])
        asyncio.run(main())
        """)
      #expect(
        output == """
          touchline.v1 published delivered
          subscribed 1 message 1 True True
          subscribed acknowledged 1
          error BadRequestParams unsubscribed requested

          """)
    }
  }

  @Test(arguments: loopCounts) func aRepeatedRequestIdIsPublishedOnceOverFramesToo(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      let frame =
        #"{"type":"publish","channel":"final","request-id":"\#(Self.requestID)","aps":\#(Request.aps())}"#
      let first = try session.ask(frame)
      let again = try session.ask(frame)
      #expect(first.repeated == nil && again.repeated == true)
      #expect(again.uniqueID == first.uniqueID && again.outcome == "delivered")
      #expect(try server.report("final").counts.accepted == 1)
      // Without an id every frame is a new message.
      let nameless = #"{"type":"publish","channel":"final","aps":\#(Request.aps())}"#
      let names = [try session.ask(nameless), try session.ask(nameless)].map(\.uniqueID)
      #expect(Set(names).count == 2)
      #expect(try server.report("final").counts.accepted == 3)
    }
  }

  /// Frames that are understood and wrong, with the reason that answers each.
  static let wrongFrames: [(frame: String, reason: String)] = [
    (#"{}"#, "MissingType"), (#"{"type":1}"#, "UnknownType"),
    (#"{"type":"subscirbe","channel":"final"}"#, "UnknownType"),
    (#"{"type":"subscribe"}"#, "MissingChannelId"),
    (#"{"type":"subscribe","channel":7}"#, "MissingChannelId"),
    (#"{"type":"subscribe","channel":"nothing"}"#, "ChannelNotRegistered"),
    (#"{"type":"subscribe","channel":"\#(unknownChannel)"}"#, "ChannelNotRegistered"),
    (#"{"type":"subscribe","channel":"*"}"#, "BadChannelId"),
    (#"{"type":"subscribe","channel":""}"#, "BadChannelId"),
    (#"{"type":"subscribe","channel":"final","since":3}"#, "BadRequestParams"),
    (#"{"type":"subscribe","channel":"final","seq":3}"#, "BadRequestParams"),
    (#"{"type":"subscribe","channel":"final","epoch":"a"}"#, "BadRequestParams"),
    (#"{"type":"subscribe","channel":"final","epoch":3,"seq":3}"#, "BadRequestParams"),
    (#"{"type":"subscribe","channel":"final","epoch":"a","seq":-1}"#, "BadRequestParams"),
    (#"{"type":"subscribe","channel":"final","request-id":"7"}"#, "BadMessageId"),
    (#"{"type":"unsubscribe","channel":"final"}"#, "NotSubscribed"),
    (#"{"type":"ack","channel":"final","seq":0}"#, "NotSubscribed"),
    (#"{"type":"ack","channel":"other","seq":1}"#, "BadRequestParams"),
    (#"{"type":"ack","channel":"other","seq":"0"}"#, "BadRequestParams"),
    (#"{"type":"ack","channel":"other"}"#, "BadRequestParams"),
    (#"{"type":"publish","channel":"final"}"#, "PayloadEmpty"),
    (#"{"type":"publish","channel":"nothing"}"#, "ChannelNotRegistered"),
    (#"{"type":"publish","channel":"final","priority":7}"#, "BadPriority"),
    (#"{"type":"publish","channel":"final","priority":"10"}"#, "BadPriority"),
    (#"{"type":"publish","channel":"final","expiration":"x"}"#, "BadExpirationDate"),
    (#"{"type":"publish","channel":"final","expiration":4000000000}"#, "BadExpirationDate"),
    (#"{"type":"publish","channel":"final","aps":[]}"#, "BadRequestPayload"),
    (#"{"type":"publish","channel":"final","aps":{"event":"start","timestamp":1}}"#, "BadRequestPayload"),
    (
      #"{"type":"publish","channel":"final","aps":{"pad":"\#(String(repeating: "x", count: 5_120))"}}"#,
      "PayloadTooLarge"
    ),
    (#"{"type":"publish","channel":"spent","aps":\#(Request.aps())}"#, "TooManyRequests"),
  ]

  @Test(arguments: loopCounts) func everyWrongFrameIsAnsweredWithItsReasonAndTheSessionGoesOn(_ loops: Int)
    throws
  {
    try withServer(loops: loops) {
      $0.definitions = [
        try definition("final"), try definition("other"),
        try definition(
          "spent",
          #"{"app":"com.example.scores","budget":{"capacity":1,"refill-per-hour":60,"over-budget":"reject"}}"#
        ),
      ]
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      _ = try session.ask(#"{"type":"subscribe","channel":"other"}"#)
      try publish(server, "spent")
      for (text, reason) in Self.wrongFrames {
        let frame = try session.ask(text)
        #expect(frame.type == "error" && frame.reason == reason, "\(text.prefix(200)) \(frame)")
        #expect(frame.message?.isEmpty == false)
        #expect((frame.retryAfter != nil) == (reason == "TooManyRequests"))
      }
      try publish(server, "other")
      #expect(try session.receive("message").seq == 1)
      #expect(try server.report("final").counts.accepted == 0)
    }
  }

  @Test(arguments: loopCounts) func anErrorNamesTheChannelAndTheRequest(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let session = try SubscriberSocket(sessionOn: server)
      let frame = try session.ask(
        #"{"type":"publish","channel":"fin\"al\u0001","request-id":"\#(Self.requestID)","aps":{}}"#)
      #expect(frame.reason == "BadChannelId" && frame.channel == "fin\"al\u{1}")
      #expect(frame.requestID == Self.requestID)
    }
  }

  @Test(arguments: loopCounts) func aSessionSubscribesToAtMost1024Channels(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = try (0...1_024).map { try definition("c\($0)") }
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      for number in 0..<1_024 {
        try #require(session.ask(#"{"type":"subscribe","channel":"c\#(number)"}"#).type == "subscribed")
      }
      #expect(try session.ask(#"{"type":"subscribe","channel":"c1024"}"#).reason == "TooManySubscriptions")
      #expect(try session.ask(#"{"type":"subscribe","channel":"c7"}"#).type == "subscribed")
      #expect(try session.ask(#"{"type":"unsubscribe","channel":"c7"}"#).type == "unsubscribed")
      #expect(try session.ask(#"{"type":"subscribe","channel":"c1024"}"#).type == "subscribed")
    }
  }

  // MARK: Closing

  @Test(arguments: [
    ("'{'", 1007), ("'[]'", 1007), ("'3'", 1007), ("''", 1007),
    ("'{\"type\":\"ack\",\"type\":\"ack\"}'", 1007),
    ("'{\"type\":\"ack\"} x'", 1007), ("b'{}'", 1003), ("'x' * 1048576", 1009),
  ])
  func whatCannotBeReadClosesTheSessionWithItsCode(_ message: String, _ code: Int) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let other = try SubscriberSocket(server, streamOf: "final")
      _ = try other.receive("subscribed")
      let output = try python(
        """
        import asyncio, json, websockets
        async def main():
          async with websockets.connect("ws://127.0.0.1:\(server.port)/v1/events", subprotocols=["touchline.v1"]) as ws:
            try:
              await ws.send(\(message))
              while True: print(json.loads(await ws.recv())["reason"])
            except websockets.ConnectionClosed as e:
              print(e.code)
        asyncio.run(main())
        """)
      #expect(output == (code == 1007 ? "BrokenFrame\n1007\n" : "\(code)\n"))
      // Nobody else notices.
      try publish(server, "final")
      #expect(try other.receive("message").seq == 1)
    }
  }

  @Test(arguments: ["/1/apps", "/v1/channels"])
  func aDeletedChannelEndsItsStreamWith4004AndASessionGoesOn(_ api: String) throws {
    try withServer {
      $0.definitions = [try definition("final"), try definition("other")]
    } _: { server in
      let id = try server.report("final").id
      let stream = try SubscriberSocket(server, streamOf: "final")
      let session = try SubscriberSocket(sessionOn: server)
      _ = try stream.receive("subscribed")
      for name in ["final", "other"] { _ = try session.ask(#"{"type":"subscribe","channel":"\#(name)"}"#) }

      let request =
        api == "/1/apps" ? Request.delete(id) : Request(method: "DELETE", path: "/v1/channels/final")
      #expect(try server.send(request).status == 204)
      for subscriber in [stream, session] {
        let frame = try subscriber.receive("unsubscribed")
        #expect(frame.channel == id && frame.reason == "deleted")
      }
      #expect(throws: SubscriberSocket.Closed(code: 4004, reason: "the channel was deleted")) {
        try stream.receive()
      }
      try publish(server, "other")
      #expect(try session.receive("message").seq == 1)
      #expect(try session.ask(#"{"type":"subscribe","channel":"final"}"#).reason == "ChannelNotRegistered")
      #expect(try session.ask(#"{"type":"ack","channel":"other","seq":1}"#).type == "acknowledged")
    }
  }

  @Test(arguments: loopCounts) func aSubscriberThatLeavesIsForgotten(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      var subscribers: [SubscriberSocket] = []
      for _ in 0..<5 {
        let subscriber = try SubscriberSocket(server, streamOf: "final")
        _ = try subscriber.receive("subscribed")
        subscribers.append(subscriber)
      }
      #expect(try server.report("final").subscribers == 5)
      #expect(try server.health().sessions == 5)
      subscribers.removeSubrange(1...3)
      try server.waitForSubscribers(2, of: "final")
      try publish(server, "final")
      for subscriber in subscribers { #expect(try subscriber.receive("message").seq == 1) }
    }
  }

  // MARK: Resuming

  /// Where a subscriber says it stood, and whether the newest stored message, seq 2, comes then.
  static let resumptions: [(epoch: String?, seq: Int, isNewer: Bool)] = [
    (nil, 0, true), ("same", 0, true), ("same", 1, true), ("same", 2, false), ("same", 3, false),
    ("other", 2, true), ("other", 9, true),
  ]

  @Test(arguments: resumptions.indices)
  func theNewestStoredMessageComesOnlyIfItIsNewer(_ index: Int) throws {
    let (epoch, seq, isNewer) = Self.resumptions[index]
    try withServer {
      $0.definitions = [try definition("final", #"{"app":"com.example.scores","message-storage-policy":1}"#)]
    } _: { server in
      try publish(server, "final", Request.aps(home: 1), expiration: Request.now + 600)
      let newest = try publish(server, "final", Request.aps(home: 2), expiration: Request.now + 600)
      let current = try server.report("final").epoch
      let since = epoch.map { $0 == "same" ? current : $0 }

      let stream = try SubscriberSocket(
        server, "/v1/channels/final/events" + (since.map { "?epoch=\($0)&seq=\(seq)" } ?? ""))
      let session = try SubscriberSocket(sessionOn: server)
      let place = since.map { #","epoch":"\#($0)","seq":\#(seq)"# } ?? ""
      session.send(#"{"type":"subscribe","channel":"final"\#(place)}"#)
      for subscriber in [stream, session] {
        let subscribed = try subscriber.receive("subscribed")
        #expect(subscribed.seq == 2 && subscribed.epoch == current && subscribed.policy == 1)
        if isNewer {
          let message = try subscriber.receive("message")
          #expect(message.seq == 2 && message.uniqueID == newest)
        }
      }
      // What comes next is live.
      try publish(server, "final")
      for subscriber in [stream, session] { #expect(try subscriber.receive("message").seq == 3) }
    }
  }

  @Test(arguments: [(0, 600, false), (1, 0, false), (1, -600, false), (1, 600, true)])
  func onlyAnUnexpiredMessageOfAStoringChannelWaits(policy: Int, seconds: Int, waits: Bool) throws {
    try withServer {
      $0.definitions = [try unlimited("final", policy: policy)]
    } _: { server in
      let expiration = policy == 0 || seconds == 0 ? 0 : Request.now + seconds
      try publish(server, "final", expiration: expiration)
      let late = try SubscriberSocket(server, streamOf: "final")
      #expect(try late.receive("subscribed").seq == 1)
      try publish(server, "final", expiration: expiration)
      #expect(try late.receive("message").seq == (waits ? 1 : 2))
    }
  }
}
