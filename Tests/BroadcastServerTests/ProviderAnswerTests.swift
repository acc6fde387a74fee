import BroadcastChannels
import Foundation
import TestSupport
import Testing

@Suite struct ProviderAnswerTests {
  private static let lower = "2288cf3f-70d8-46a6-97d7-dd5d00867127"

  // MARK: Channels

  @Test(arguments: [0, 1])
  func aCreatedChannelIsReadListedAndDeleted(policy: Int) throws {
    try withServer { server in
      let connection = try ProviderConnection(server)
      let created = try connection.send(.create(policy: policy))
      let channel = try #require(created.headers["apns-channel-id"])
      #expect(created.status == 201 && created.body.isEmpty)
      #expect(try #require(Data(base64Encoded: channel)).count == 16)
      let read = try connection.send(.read(channel))
      #expect(read.status == 200)
      #expect(read.text == #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#)
      struct List: Decodable { let channels: [String] }
      #expect(try connection.send(.list()).json(List.self).channels == [channel])
      let deleted = try connection.send(.delete(channel))
      #expect(deleted.status == 204 && deleted.body.isEmpty)
      #expect(deleted.headers["content-length"] == nil)
      #expect(try connection.send(.list()).json(List.self).channels == [])
    }
  }

  @Test func idsAreNeverTheSameAndListedInTheOrderOfTheirCreation() throws {
    try withServer { server in
      let connection = try ProviderConnection(server)
      let ids = try (0..<50).map { _ in try #require(connection.send(.create()).headers["apns-channel-id"]) }
      #expect(Set(ids).count == 50)
      struct List: Decodable { let channels: [String] }
      #expect(try connection.send(.list()).json(List.self).channels == ids)
    }
  }

  @Test func anIdWorksPercentEncodedInAPathWhateverItsCharacters() throws {
    try withServer { server in
      let connection = try ProviderConnection(server)
      // Random ids have + and / often enough: each is tried until both were seen inside one.
      var seen: Set<Character> = []
      for _ in 0..<1_000 where !seen.isSuperset(of: ["+", "/"]) {
        let id = try #require(connection.send(.create()).headers["apns-channel-id"])
        seen.formUnion(id)
        let answer = try connection.send(.get("/v1/channels/\(pathSegment(id))"))
        #expect(answer.status == 200)
        #expect(try answer.json(ServerFixture.ChannelReport.self).id == id)
        let stream = try SubscriberSocket(server, streamOf: id)
        #expect(try stream.receive("subscribed").channel == id)
      }
      #expect(seen.isSuperset(of: ["+", "/", "="]))
    }
  }

  // MARK: Request ids

  @Test(arguments: [lower, lower.uppercased()])
  func aRequestIdIsEchoedAsItCame(_ id: String) throws {
    try withServer { server in
      let channel = try server.createChannel()
      let requests: [Request] = [
        .create(), .read(channel), .list(), .broadcast(to: channel), .delete(channel),
        // Refused ones too.
        .get("/1/none"), .read(channel), .broadcast(to: channel), Request.create().body("{"),
        Request(method: "PUT", path: "/1/apps/com.example.scores/channels"),
      ]
      for request in requests {
        let answer = try server.send(request.header("apns-request-id", id))
        #expect(answer.headers["apns-request-id"] == id, "\(request.method) \(request.path)")
      }
    }
  }

  @Test func withoutARequestIdTheServerMakesOneInLowerCase() throws {
    try withServer { server in
      let ids = try (0..<20).map { _ in
        try #require(server.send(.list()).headers["apns-request-id"])
      }
      #expect(Set(ids).count == 20)
      #expect(ids.allSatisfy { UUID(uuidString: $0) != nil && $0 == $0.lowercased() })
    }
  }

  @Test func aRepeatedRequestIdIsPublishedOnceAndAnsweredAsBefore() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let subscriber = try SubscriberSocket(server, streamOf: channel)
      _ = try subscriber.receive("subscribed")
      let request = Request.broadcast(to: channel).header("apns-request-id", Self.lower)
      let first = try server.send(request)
      #expect(first.headers["touchline-repeated"] == nil)
      for _ in 0..<2 {
        let again = try server.send(request)
        #expect(again.status == 200 && again.headers["touchline-repeated"] == "true")
        #expect(again.headers["apns-unique-id"] == first.headers["apns-unique-id"])
        #expect(again.headers["touchline-outcome"] == "delivered")
        #expect(again.headers["ratelimit"]?.contains("\"priority-10\";r=59") == true)
      }
      let other = try server.send(.broadcast(to: channel))
      #expect(other.headers["apns-unique-id"] != first.headers["apns-unique-id"])
      #expect(try subscriber.receive("message").uniqueID == first.headers["apns-unique-id"])
      #expect(try subscriber.receive("message").uniqueID == other.headers["apns-unique-id"])
      let counts = try server.report(channel).counts
      #expect(counts.accepted == 2 && counts.delivered == 2 && counts.repeated == 2)
    }
  }

  @Test func aRefusedRequestMayBeRepeatedUnderItsId() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let request = Request.broadcast(to: channel).header("apns-request-id", Self.lower)
      #expect(try server.send(request.body("{")).status == 400)
      let answer = try server.send(request)
      #expect(answer.status == 200 && answer.headers["touchline-repeated"] == nil)
    }
  }

  // MARK: Broadcasts

  @Test func aBroadcastIsAnsweredWithItsNameAndAnEmptyBody() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let answer = try server.send(.broadcast(to: channel))
      #expect(answer.status == 200 && answer.body.isEmpty && answer.headers["content-length"] == "0")
      let name = try #require(answer.headers["apns-unique-id"])
      #expect(UUID(uuidString: name) != nil && name == name.lowercased())
    }
  }

  @Test(arguments: ["liveactivity", "LiveActivity"])
  func thePushTypeMayBeSpeltBothWays(_ type: String) throws {
    try withServer { server in
      let channel = try server.createChannel()
      #expect(try server.send(Request.broadcast(to: channel).header("apns-push-type", type)).status == 200)
      let body = #"{"message-storage-policy":0,"push-type":"\#(type)"}"#
      #expect(try server.send(Request.create().body(body)).status == 201)
    }
  }

  @Test func headerNamesMayComeInAnyCase() throws {
    try withServer { server in
      let channel = try server.createChannel()
      for change in [{ $0.uppercased() }, { $0.capitalized }, { $0.lowercased() }] as [(String) -> String] {
        var request = Request.broadcast(to: channel)
        request.headers = Dictionary(
          uniqueKeysWithValues: request.headers.map { (change($0.key), $0.value) })
        #expect(try server.send(request).status == 200)
      }
    }
  }

  @Test func withoutPriorityAndExpirationABroadcastGoesOutAtOnceAndTheLogSaysSoOnce() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let request = Request.broadcast(to: channel).header("apns-priority", nil).header("apns-expiration", nil)
      for _ in 0..<3 { #expect(try server.send(request).headers["touchline-outcome"] == "delivered") }
      for name in ["apns-priority", "apns-expiration"] {
        #expect(server.log.value.count { $0.contains("without \(name), which Apple requires") } == 1)
      }
    }
  }

  @Test func theLargestPayloadIs5120Bytes() throws {
    try withServer { server in
      let channel = try server.createChannel()
      for (bytes, status) in [(5_120, 200), (5_121, 413)] {
        var request = Request.broadcast(to: channel)
        request.body = Request.body(bytes: bytes)
        #expect(try server.send(request).status == status)
      }
    }
  }

  @Test func aChunkedBodyIsTheSameAsAWholeOne() throws {
    try withServer { server in
      let channel = try server.createChannel()
      let subscriber = try SubscriberSocket(server, streamOf: channel)
      _ = try subscriber.receive("subscribed")
      let url = "http://127.0.0.1:\(server.port)/4/broadcasts/apps/com.example.scores"
      let aps = Request.aps(home: 3)
      let output = try run(
        "/usr/bin/curl",
        [
          "-s", "-w", "%{http_code}", "-H", "Transfer-Encoding: chunked", "-H", "apns-channel-id: \(channel)",
          "-H", "apns-push-type: liveactivity", "-H", "apns-priority: 10", "-H", "apns-expiration: 0",
          "-d", "{\"aps\":\(aps)}", url,
        ])
      #expect(output == "200")
      #expect(try subscriber.receiveText().hasSuffix("\"aps\":\(aps)}"))
    }
  }

  @Test func pythonsOwnHTTPClientDrivesTheWholeAPI() throws {
    try withServer { server in
      let output = try python(
        """
        import http.client, json, time
        c = http.client.HTTPConnection("127.0.0.1", \(server.port))
        def send(method, path, headers={}, body=None):
          c.request(method, path, body, headers); r = c.getresponse(); data = r.read()
          print(r.status, data.decode()); return r
        base = "/1/apps/com.example.scores/"
        r = send("POST", base + "channels", {}, json.dumps({"message-storage-policy": 1, "push-type": "LiveActivity"}))
        channel = {"apns-channel-id": r.getheader("apns-channel-id")}
        send("GET", base + "channels", channel)
        now = int(time.time())
        send("POST", "/4/broadcasts/apps/com.example.scores",
          {**channel, "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": str(now + 60)},
          json.dumps({"aps": {"timestamp": now, "event": "update", "content-state": {"home": 1}}}))
        send("DELETE", base + "channels", channel)
        send("GET", base + "channels", channel)
        send("GET", base + "all-channels")
        """)
      #expect(
        output == """
          201 \n\
          200 {"message-storage-policy":1,"push-type":"LiveActivity"}
          200 \n\
          204 \n\
          400 {"reason":"ChannelNotRegistered"}
          200 {"channels":[]}

          """)
    }
  }

  // MARK: Outcomes and budgets

  private func small(_ overBudget: String) throws -> ChannelDefinition {
    try definition(
      "small",
      #"""
      {"app":"com.example.scores","windows":{"5":60,"1":60},
       "budget":{"capacity":1,"refill-per-hour":60,"over-budget":"\#(overBudget)"}}
      """#)
  }

  private func outcomes(_ server: ServerFixture, _ requests: [Request]) throws -> [String] {
    try requests.map { try server.send($0).headers["touchline-outcome"] ?? "none" }
  }

  @Test func theOutcomeSaysWhatWasDone() throws {
    try withServer {
      $0.definitions = [try small("demote")]
    } _: { server in
      let now = Request.now
      let requests: [Request] = [
        .broadcast(to: "small", Request.aps(timestamp: now)),
        .broadcast(to: "small", Request.aps(timestamp: now + 2), priority: 5),
        .broadcast(to: "small", Request.aps(timestamp: now + 1), priority: 1),
        .broadcast(to: "small", Request.aps(timestamp: now + 3)),
      ]
      #expect(try outcomes(server, requests) == ["delivered", "windowed", "superseded", "demoted"])
      let counts = try server.report("small").counts
      #expect(counts.delivered == 1 && counts.demoted == 1 && counts.superseded == 2)
    }
  }

  @Test func overBudgetADroppingChannelCountsAndDeliversNothing() throws {
    try withServer {
      $0.definitions = [try small("drop")]
    } _: { server in
      let requests = [Request](repeating: .broadcast(to: "small"), count: 2)
      #expect(try outcomes(server, requests) == ["delivered", "dropped"])
      let counts = try server.report("small").counts
      #expect(counts.accepted == 2 && counts.delivered == 1 && counts.dropped == 1)
    }
  }

  @Test func overBudgetARejectingChannelAnswers429WithTheSecondsToWait() throws {
    try withServer {
      $0.definitions = [try small("reject")]
    } _: { server in
      #expect(try server.send(.broadcast(to: "small")).status == 200)
      let refused = try server.send(.broadcast(to: "small"))
      #expect(refused.status == 429 && refused.reason == "TooManyRequests")
      // 60 an hour: the next comes within a minute.
      let seconds = try #require(refused.headers["retry-after"].flatMap { Int($0) })
      #expect((55...60).contains(seconds))
      #expect(try server.send(.broadcast(to: "small", priority: 5)).status == 200)
    }
  }

  @Test func beyondThePublishRateEveryPriorityIsRefused() throws {
    try withServer {
      $0.definitions = [
        try definition("slow", #"{"app":"com.example.scores","publish-rate":{"per-second":0.1,"burst":2}}"#)
      ]
    } _: { server in
      let answers = try [10, 5, 10, 5, 1].map { try server.send(.broadcast(to: "slow", priority: $0)) }
      #expect(answers.map(\.status) == [200, 200, 429, 429, 429])
      for refused in answers.dropFirst(2) {
        #expect(refused.reason == "TooManyRequests")
        let seconds = try #require(refused.headers["retry-after"].flatMap { Int($0) })
        #expect((5...10).contains(seconds))
      }
      #expect(try server.report("slow").counts.rejected == 3)
    }
  }

  /// Reads a field such as `"priority-10";r=59;t=15, "publish-rate";r=39;t=1`.
  private func items(_ field: String?) throws -> [String: [String: Int]] {
    var items: [String: [String: Int]] = [:]
    for item in try #require(field).components(separatedBy: ", ") {
      let parts = item.split(separator: ";")
      let name = try #require(parts.first)
      try #require(name.hasPrefix("\"") && name.hasSuffix("\""))
      for parameter in parts.dropFirst() {
        let sides = parameter.split(separator: "=")
        try #require(sides.count == 2)
        items[String(name.dropFirst().dropLast()), default: [:]][String(sides[0])] = Int(sides[1])
      }
    }
    return items
  }

  @Test func everyAnswerTellsTheBudgetAndItCountsDown() throws {
    try withServer {
      $0.definitions = [
        try definition(
          "final",
          #"""
          {"app":"com.example.scores","budget":{"capacity":3,"refill-per-hour":1},
           "publish-rate":{"per-second":0.01,"burst":5}}
          """#)
      ]
    } _: { server in
      for (priority, left, rate) in [(10, 2, 4), (5, 2, 3), (10, 1, 2), (10, 0, 1)] {
        let answer = try server.send(.broadcast(to: "final", priority: priority))
        // Three tokens at one an hour: three hours; five at one in 100 seconds: 500 seconds.
        #expect(
          try items(answer.headers["ratelimit-policy"])
            == ["priority-10": ["q": 3, "w": 10_800], "publish-rate": ["q": 5, "w": 500]])
        let remaining = try items(answer.headers["ratelimit"])
        #expect(remaining["priority-10"]?["r"] == left && remaining["publish-rate"]?["r"] == rate)
        #expect((3_590...3_600).contains(remaining["priority-10"]?["t"] ?? 0))
        #expect((90...100).contains(remaining["publish-rate"]?["t"] ?? 0))
      }
    }
  }

  @Test func aChannelWithoutLimitsHasNoBudgetFields() throws {
    try withServer {
      $0.definitions = [try unlimited("free")]
    } _: { server in
      let answer = try server.send(.broadcast(to: "free"))
      #expect(answer.status == 200)
      #expect(answer.headers["ratelimit"] == nil && answer.headers["ratelimit-policy"] == nil)
    }
  }
}
