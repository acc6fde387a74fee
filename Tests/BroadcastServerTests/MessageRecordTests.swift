import BroadcastChannels
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

extension ServerFixture {
  /// What became of a message.
  struct MessageReport: Decodable {
    let uniqueID, channel, outcome: String
    let priority: Int
    let accepted: Double
    let epoch: String?
    let seq: Int?
    let sent: Double?
    let subscribers, written, acknowledged, displayed: Int

    /// Subscribers, written, acknowledged and displayed.
    var counts: [Int] { [subscribers, written, acknowledged, displayed] }

    enum CodingKeys: String, CodingKey {
      case uniqueID = "unique-id"
      case channel, outcome, priority, accepted, epoch, seq, sent, subscribers, written, acknowledged
      case displayed
    }
  }

  func message(_ id: String, of channel: String = "final") throws -> MessageReport {
    let answer = try send(.get("/v1/channels/\(pathSegment(channel))/messages/\(id)"))
    try #require(answer.status == 200, "\(answer.text)")
    return try answer.json(MessageReport.self)
  }

  /// Publishes into `final`, and gives the message's id and outcome.
  @discardableResult
  func publish(
    _ aps: String = Request.aps(), priority: Int = 10, expiration: Int = 0
  ) throws -> (id: String, outcome: String) {
    let answer = try send(.broadcast(to: "final", aps, priority: priority, expiration: expiration))
    try #require(answer.status == 200, "\(answer.text)")
    return (
      try #require(answer.headers["apns-unique-id"]), try #require(answer.headers["touchline-outcome"])
    )
  }
}

extension SubscriberSocket {
  /// Acknowledges messages of `final`, and waits for the answer.
  func acknowledge(_ sequence: Int, displayed: [Int]? = nil) throws {
    let list = displayed.map { ",\"displayed\":\($0)" } ?? ""
    try #require(ask(#"{"type":"ack","channel":"final","seq":\#(sequence)\#(list)}"#).type == "acknowledged")
  }
}

@Suite struct MessageRecordTests {
  private static let patient = #"{"app":"com.example.scores","windows":{"5":60,"1":60}}"#

  // MARK: Outcomes

  @Test(arguments: loopCounts) func aMessageThatWaitsIsDeliveredOrSupersededLater(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final", Self.patient)]
    } _: { server in
      let before = Date().timeIntervalSince1970
      let alert = try server.publish(Request.aps(more: Request.alert), priority: 5)
      let plain = try server.publish(priority: 5)
      let late = try server.publish(Request.aps(timestamp: 1), priority: 1)
      #expect([alert, plain, late].map(\.outcome) == ["windowed", "windowed", "superseded"])
      let waiting = try server.message(alert.id)
      #expect(waiting.outcome == "windowed" && waiting.priority == 5 && waiting.uniqueID == alert.id)
      #expect(waiting.epoch == nil && waiting.seq == nil && waiting.sent == nil)
      #expect(waiting.counts == [0, 0, 0, 0])
      #expect(abs(waiting.accepted - before) < 30)

      // What comes at 10 lets the alert out first and replaces the plain one.
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let now = try server.publish()
      let channel = try server.report("final")
      let records = try [alert, plain, late, now].map { try server.message($0.id) }
      #expect(records.map(\.outcome) == ["delivered", "superseded", "superseded", "delivered"])
      #expect(records.map(\.seq) == [1, nil, nil, 2])
      #expect(records.map(\.epoch) == [channel.epoch, nil, nil, channel.epoch])
      #expect(records.map(\.counts) == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]])
      #expect(records.allSatisfy { $0.channel == channel.id })
      #expect(try #require(records[0].sent) >= waiting.accepted)
    }
  }

  @Test(arguments: loopCounts) func theEndOfTheWindowDelivers(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final", #"{"app":"com.example.scores","windows":{"5":0.1,"1":0.1}}"#)]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let (id, outcome) = try server.publish(priority: 1)
      #expect(outcome == "windowed")
      #expect(try subscriber.receive("message").uniqueID == id)
      let record = try server.message(id)
      #expect(record.outcome == "delivered" && record.seq == 1 && record.counts == [1, 1, 0, 0])
      #expect(try #require(record.sent) - record.accepted >= 0.09)
    }
  }

  @Test(arguments: [("drop", "dropped"), ("demote", "demoted")])
  func aMessageOverBudgetKeepsItsOutcome(_ policy: String, _ outcome: String) throws {
    try withServer {
      $0.definitions = [
        try definition(
          "final",
          #"""
          {"app":"com.example.scores","windows":{"5":60},
           "budget":{"capacity":0,"refill-per-hour":0,"over-budget":"\#(policy)"}}
          """#)
      ]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let message = try server.publish(Request.aps(more: Request.alert))
      #expect(message.outcome == outcome)
      let record = try server.message(message.id)
      #expect(record.outcome == outcome && record.seq == nil && record.counts == [0, 0, 0, 0])
    }
  }

  @Test(arguments: loopCounts) func aRepetitionHasTheRecordOfTheFirst(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let request = Request.broadcast(to: "final").header("apns-request-id", UUID().uuidString)
      let ids = try [request, request].map { try server.send($0).headers["apns-unique-id"] }
      #expect(ids[0] == ids[1])
      #expect(try server.message(#require(ids[0])).seq == 1)
      #expect(try server.report("final").counts.accepted == 1)
    }
  }

  // MARK: Counting

  @Test(arguments: loopCounts) func writtenAcknowledgedAndDisplayedAreThreeThings(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let (silent, other) = (
        try SubscriberSocket(server, streamOf: "final"), try SubscriberSocket(server, streamOf: "final")
      )
      for subscriber in [silent, other] { _ = try subscriber.receive("subscribed") }
      let id = try server.publish().id
      for subscriber in [silent, other] { _ = try subscriber.receive("message") }
      #expect(try server.message(id).counts == [2, 2, 0, 0])
      try other.acknowledge(1)
      #expect(try server.message(id).counts == [2, 2, 1, 0])
      try other.acknowledge(1, displayed: [1])
      #expect(try server.message(id).counts == [2, 2, 1, 1])
      // One that comes later has nothing to do with it, and can't say so.
      let late = try SubscriberSocket(server, streamOf: "final")
      _ = try late.receive("subscribed")
      try late.acknowledge(1, displayed: [1])
      #expect(try server.message(id).counts == [2, 2, 1, 1])
    }
  }

  @Test(arguments: loopCounts) func anAcknowledgementIsCumulativeAndCountsEachMessageOnce(_ loops: Int) throws
  {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let ids = try (1...3).map { _ in try server.publish().id }
      for _ in ids { _ = try subscriber.receive("message") }
      for (sequence, expected) in [(2, [1, 1, 0]), (1, [1, 1, 0]), (3, [1, 1, 1]), (3, [1, 1, 1])] {
        try subscriber.acknowledge(sequence)
        #expect(try ids.map { try server.message($0).acknowledged } == expected)
        #expect(try server.report("final").counts.acknowledged == expected.reduce(0, +))
      }
    }
  }

  @Test(arguments: loopCounts) func displayedCountsOnceAndNeverBeyondTheAcknowledgement(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let (one, two) = (
        try SubscriberSocket(server, streamOf: "final"), try SubscriberSocket(server, streamOf: "final")
      )
      for subscriber in [one, two] { _ = try subscriber.receive("subscribed") }
      let ids = try (1...3).map { _ in try server.publish().id }
      for subscriber in [one, two] { for _ in ids { _ = try subscriber.receive("message") } }
      func displayed() throws -> [Int] { try ids.map { try server.message($0).displayed } }
      try one.acknowledge(1, displayed: [2, 1, 1, -1, 99])
      #expect(try displayed() == [1, 0, 0])
      try one.acknowledge(3, displayed: [1, 3])
      #expect(try displayed() == [1, 0, 1])
      // Who says 3 has passed 2 over.
      try one.acknowledge(3, displayed: [2, 3])
      #expect(try displayed() == [1, 0, 1])
      try two.acknowledge(3, displayed: [3])
      #expect(try displayed() == [1, 0, 2])
    }
  }

  @Test(arguments: ["7", "[1.5]", #"["1"]"#, "{}", "null", "\(Array(repeating: 1, count: 257))"])
  func aListThatIsNoneIsRefusedAndNothingIsCounted(_ list: String) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      _ = try subscriber.receive("subscribed")
      let id = try server.publish().id
      _ = try subscriber.receive("message")
      let error = try subscriber.ask(#"{"type":"ack","channel":"final","seq":1,"displayed":\#(list)}"#)
      #expect(error.reason == "BadRequestParams" && error.message?.contains("displayed") == true)
      #expect(try server.message(id).counts == [1, 1, 0, 0])
    }
  }

  @Test(arguments: loopCounts) func theStoredMessageThatComesWithASubscriptionIsCountedOnce(_ loops: Int)
    throws
  {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final", policy: 1)]
    } _: { server in
      let id = try server.publish(expiration: Request.now + 600).id
      #expect(try server.message(id).counts == [0, 0, 0, 0])
      let late = try SubscriberSocket(sessionOn: server)
      _ = try late.ask(#"{"type":"subscribe","channel":"final"}"#)
      #expect(try late.receive("message").uniqueID == id)
      #expect(try server.message(id).counts == [0, 1, 0, 0])
      try late.acknowledge(1)
      #expect(try server.message(id).counts == [0, 1, 1, 0])
      // Shown only now.
      try late.acknowledge(1, displayed: [1])
      try late.acknowledge(1, displayed: [1])
      #expect(try server.message(id).counts == [0, 1, 1, 1])
      #expect(try server.report("final").counts.acknowledged == 1)

      // Subscribing anew sends it again; for this session it is not a second message.
      _ = try late.ask(#"{"type":"subscribe","channel":"final"}"#)
      _ = try late.receive("message")
      try late.acknowledge(1, displayed: [1])
      #expect(try server.message(id).counts == [0, 2, 1, 1])

      // What came before subscribing anew can still be acknowledged.
      let live = try server.publish().id
      _ = try late.receive("message")
      _ = try late.ask(#"{"type":"subscribe","channel":"final"}"#)
      _ = try late.receive("message")
      try late.acknowledge(2, displayed: [2])
      #expect(try server.message(live).counts == [1, 1, 1, 1])
      #expect(try server.message(id).counts == [0, 3, 1, 1])
    }
  }

  @Test(arguments: loopCounts) func whatWasConflatedAwayIsNeitherWrittenNorAcknowledged(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let slow = try SubscriberSocket(server, streamOf: "final", receiveBuffer: 4_096)
      _ = try slow.receive("subscribed")
      let provider = try ProviderConnection(server)
      let pad = String(repeating: "x", count: 4_800)
      let last = 1_500
      var ids: [String] = []
      for _ in 1...last {
        let request = Request.broadcast(to: "final", Request.aps(more: #""pad":"\#(pad)","#))
        ids.append(try #require(provider.send(request).headers["apns-unique-id"]))
      }
      var received: Set<Int> = []
      while !received.contains(last) { received.insert(try #require(slow.receive("message").seq)) }
      try #require(received.count < last - 100, "the kernel swallowed everything: publish more")
      try slow.acknowledge(last, displayed: [last - 1, last])
      #expect(try server.report("final").counts.acknowledged == received.count)
      for number in (last - Limits.messageRecordsPerChannel + 1)...last {
        let path = "/v1/channels/final/messages/\(ids[number - 1])"
        let record = try provider.send(.get(path)).json(ServerFixture.MessageReport.self)
        let count = received.contains(number) ? 1 : 0
        // The last but one was received as well when the reader was faster than the loop.
        let displayed = number >= last - 1 ? count : 0
        #expect(record.seq == number && record.counts == [1, count, count, displayed])
      }
    }
  }

  @Test(arguments: loopCounts) func anEventStreamTakesMessagesAndAcknowledgesNothing(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let socket = try RawSocket(port: server.port)
      socket.write("GET /v1/channels/final/events HTTP/1.1\r\nhost: x\r\n\r\n")
      _ = socket.read(until: "event: subscribed")
      let id = try server.publish().id
      _ = socket.read(until: id)
      #expect(try server.message(id).counts == [1, 1, 0, 0])
    }
  }

  // MARK: Asking

  @Test(arguments: loopCounts) func onlyTheNewest1024AreRemembered(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let provider = try ProviderConnection(server)
      let ids = try (0...Limits.messageRecordsPerChannel).map { _ in
        try #require(provider.send(.broadcast(to: "final")).headers["apns-unique-id"])
      }
      let forgotten = try server.send(.get("/v1/channels/final/messages/\(ids[0])"))
      #expect(forgotten.status == 404 && forgotten.reason == "MessageNotKnown")
      #expect(try server.message(ids[1]).seq == 2)
      #expect(try server.message(ids[Limits.messageRecordsPerChannel]).seq == ids.count)
    }
  }

  @Test(arguments: loopCounts) func whatIsNotKnownIsAnswered404(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final"), try definition("other")]
    } _: { server in
      let id = try server.publish().id
      #expect(try server.message(id.uppercased()).uniqueID == id)
      #expect(try server.message(id, of: server.report("final").id).uniqueID == id)
      for (path, reason) in [
        ("final/messages/\(UUID())", "MessageNotKnown"), ("other/messages/\(id)", "MessageNotKnown"),
        ("final/messages/", "MessageNotKnown"), ("final/messages/%ff", "MessageNotKnown"),
        ("nothing/messages/\(id)", "ChannelNotRegistered"), ("final/messages", "BadPath"),
        ("final/messages/\(id)/x", "BadPath"), ("%ff/messages/\(id)", "BadPath"),
      ] {
        let answer = try server.send(.get("/v1/channels/\(path)"))
        #expect(answer.status == 404 && answer.reason == reason, "\(path) \(answer.text)")
      }
      let path = "/v1/channels/final/messages/\(id)"
      #expect(try server.send(Request(method: "HEAD", path: path)).status == 200)
      #expect(try server.send(Request(method: "DELETE", path: path)).headers["allow"] == "GET, HEAD")
    }
  }
}

@Suite struct MessageLogTests {
  private func message(_ number: Int) throws -> Message {
    let body = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{}}}"#
    return Message(
      uniqueID: UniqueID(text: "message-\(number)"), requestID: nil, priority: .immediate, expiration: .once,
      payload: try Payload(body: Array(body.utf8)))
  }

  @Test func theLogStaysBoundedHoweverManyMessagesCome() throws {
    var log = MessageLog()
    let now = Date(timeIntervalSince1970: 1_700_000_000)
    let last = 5_000
    for number in 1...last {
      let message = try message(number)
      log.accepted(message.uniqueID, priority: .immediate, outcome: .delivered, at: now)
      let position = StreamPosition(epoch: "e", sequence: number)
      _ = log.delivered(Delivery(message: message, position: position, sent: now), subscribers: 1)
    }
    let oldest = last - Limits.messageRecordsPerChannel + 1
    #expect(log["message-\(oldest - 1)"] == nil)
    #expect(log["message-\(oldest)"]?.position?.sequence == oldest)
    log.acknowledge(1...last, but: [oldest + 1])
    #expect([oldest, oldest + 1, last].map { log["message-\($0)"]?.acknowledged } == [1, 0, 1])
    log.display(1)
    log.display(last)
    #expect(log["message-\(last)"]?.displayed == 1)
  }

  @Test func aMessageThatOutlivesItsRecordInTheWindowIsLetOutWithoutOne() throws {
    var log = MessageLog()
    let now = Date(timeIntervalSince1970: 1_700_000_000)
    let first = try message(0)
    log.accepted(first.uniqueID, priority: .passive, outcome: .windowed, at: now)
    for number in 1...Limits.messageRecordsPerChannel {
      log.accepted(try message(number).uniqueID, priority: .passive, outcome: .dropped, at: now)
    }
    let position = StreamPosition(epoch: "e", sequence: 1)
    #expect(log.delivered(Delivery(message: first, position: position, sent: now), subscribers: 1) == nil)
    log.superseded(first.uniqueID)
    log.acknowledge(1...1, but: [])
  }
}

@Suite struct ReceiptsTests {
  @Test func aStoredMessageThatWasConflatedAwayIsNotAcknowledged() {
    var receipts = Receipts(at: 5)
    receipts.sent(stored: 4)
    receipts.conflated(4)
    let news = receipts.acknowledge(6, displayed: [4, 6])
    #expect(news.count == 1 && news.received == [6...6] && news.displayed == [6])
  }

  @Test func aStoredMessageIsOneOfBeforeTheSubscription() {
    var receipts = Receipts(at: 5)
    let first = receipts.acknowledge(7, displayed: [7])
    #expect(first.count == 2)
    receipts.sent(stored: 7)
    let news = receipts.acknowledge(7, displayed: [7])
    #expect(news.count == 0 && news.displayed.isEmpty)
  }

  @Test func whatWasConflatedAwayIsNeverDisplayed() {
    var receipts = Receipts(at: 0)
    receipts.conflated(2)
    let first = receipts.acknowledge(3, displayed: [])
    let second = receipts.acknowledge(3, displayed: [1, 2])
    #expect(first.count == 2 && second.displayed == [1])
  }

  @Test func whoNeverAcknowledgesGathersNothing() {
    var receipts = Receipts(at: 0)
    let last = 100_000
    for number in 1...last { receipts.conflated(number) }
    let news = receipts.acknowledge(last + 1, displayed: [1, last, last + 1])
    #expect(news.skipped.count <= 2 * Limits.messageRecordsPerChannel)
    // Of what it passed over, nothing is counted as received.
    #expect(news.count == 1 && news.displayed == [last + 1])
  }
}
