import BroadcastChannels
import EventLoop
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

/// Subscribers on several loops. What they share with those on one is tested with the suites of each rule, see ``loopCounts``.
@Suite struct LoopsTests {
  private func publish(_ number: Int) -> String {
    #"{"type":"publish","channel":"final","priority":10,"expiration":0,"#
      + #""aps":{"timestamp":\#(number),"event":"update","content-state":{"home":\#(number)}}}"#
  }

  @Test(
    "a session goes to the loop with the fewest; the main one has the rules as well and is last among equals")
  func fewest() {
    #expect(DeliveryLoops.fewest([0, 0], here: 0) == 0)
    #expect(DeliveryLoops.fewest([1, 0], here: 0) == 1)
    #expect(DeliveryLoops.fewest([1, 1], here: 0) == nil)
    #expect(DeliveryLoops.fewest([1, 1], here: 1) == 0)
    #expect(DeliveryLoops.fewest([5, 4, 4], here: 9) == 1)
  }

  @Test("who stays hears every message once and in order, and so do those who come and go meanwhile")
  func order() throws {
    try withServer(loops: 3) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let last = 2_000
      let steady = try (0..<9).map { _ in try SubscriberSocket(server, streamOf: "final") }
      for subscriber in steady { _ = try subscriber.receive("subscribed") }
      let heard = Box([Int](repeating: 0, count: steady.count))
      let faults = Box<[String]>([])
      let running = Box(0)
      func start(_ body: @escaping @Sendable () throws -> Void) {
        running.change { $0 += 1 }
        let thread = Thread {
          do { try body() } catch { faults.change { $0.append("\(error)") } }
          running.change { $0 -= 1 }
        }
        thread.stackSize = 4 << 20
        thread.start()
      }
      for (index, subscriber) in steady.enumerated() {
        let subscriber = Unchecked(subscriber)
        start {
          for number in 1...last {
            let seq = try subscriber.value.receive("message").seq
            guard seq == number else { return faults.change { $0.append("\(seq ?? 0) after \(number - 1)") } }
            heard.change { $0[index] = number }
          }
        }
      }
      for _ in 0..<3 {
        start {
          while heard.value[0] < last - 100, faults.value.isEmpty {
            let guest = try SubscriberSocket(server, streamOf: "final")
            var newest = try guest.receive("subscribed").seq ?? 0
            for _ in 0..<Int.random(in: 0...20) {
              let seq = try guest.receive("message").seq
              guard seq == newest + 1 else {
                return faults.change { $0.append("a guest heard \(seq ?? 0) after \(newest)") }
              }
              newest += 1
            }
          }
        }
      }
      let publisher = try SubscriberSocket(sessionOn: server)
      for number in 1...last {
        publisher.send(publish(number))
        _ = try publisher.receive("published")
        // Nobody is so far behind that anything is conflated.
        if number.isMultiple(of: 25) {
          try heard.wait("everybody") { $0.allSatisfy { $0 >= number - 25 } || !faults.value.isEmpty }
        }
      }
      try running.wait("the subscribers") { $0 == 0 }
      #expect(faults.value == [])
      #expect(try server.report("final").counts.written >= steady.count * last)
    }
  }

  @Test("a client that floods its session is answered in order, each once, and doesn't fill the memory")
  func flood() throws {
    try withServer(loops: 3) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let client = try SubscriberSocket(server, streamOf: "final")
      _ = try client.receive("subscribed")
      let flooding = Unchecked(client)
      let ids = (0..<1_000).map { String(format: "00000000-0000-4000-8000-%012d", $0) }
      let sender = Thread {
        // Refused by the session, and dealt with where the connection is, by turns.
        for (index, id) in ids.enumerated() {
          let (channel, sequence) = index.isMultiple(of: 3) ? ("nothing", 1) : ("final", 0)
          flooding.value.send(
            #"{"type":"ack","channel":"\#(channel)","seq":\#(sequence),"request-id":"\#(id)"}"#)
        }
      }
      sender.start()
      for (index, id) in ids.enumerated() {
        let answer = try client.receive()
        #expect(answer.requestID == id)
        #expect(answer.type == (index.isMultiple(of: 3) ? "error" : "acknowledged"))
      }
    }
  }

  @Test("what became of the last message of a deleted channel is still counted")
  func deletedChannel() throws {
    try withServer(loops: 3) {
      $0.definitions = [try unlimited("final")]
    } _: { server in
      let subscribers = try (0..<6).map { _ in try SubscriberSocket(server, streamOf: "final") }
      for subscriber in subscribers { _ = try subscriber.receive("subscribed") }
      let provider = try ProviderConnection(server)
      let channel = try server.report("final").id
      #expect(try provider.send(.broadcast(to: "final", Request.aps(event: "end"))).status == 200)
      #expect(try provider.send(.delete(channel)).status == 204)
      for subscriber in subscribers {
        #expect(try subscriber.receive("message").seq == 1)
        #expect(try subscriber.receive("unsubscribed").reason == "deleted")
        #expect(try subscriber.closeCode() == 4_004)
      }
      let answer = try provider.send(.get("/v1/requests"))
      #expect(answer.text.contains(#""subscribers":6,"written":6,"acknowledged":0"#), "\(answer.text)")
    }
  }

  @Test("a server with several loops that can't listen leaves no thread behind")
  func fails() throws {
    try withServer { server in
      let error = #expect(throws: EventLoopError.self) {
        _ = try ServerFixture(loops: 3) { $0.port = server.port }
      }
      #expect(error == .portInUse(address: "127.0.0.1:\(server.port)"))
    }
  }
}

@Suite struct DeliverySumsTests {
  private let channel: ChannelID

  init() throws { channel = try #require(ChannelID("YQ==")) }

  private func delivery(_ sequence: Int) throws -> Delivery {
    let body = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{}}}"#
    let message = Message(
      uniqueID: UniqueID(text: "message-\(sequence)"), requestID: nil, priority: .immediate,
      expiration: .once, payload: try Payload(body: Array(body.utf8)))
    return Delivery(
      message: message, position: StreamPosition(epoch: "e", sequence: sequence),
      sent: Date(timeIntervalSince1970: 1_700_000_000))
  }

  /// A room's ledger with the records of messages 1 to `last`.
  private func ledger(_ last: Int) throws -> RoomLedger {
    let ledger = RoomLedger(metrics: ServerMetrics())
    for sequence in 1...last {
      let delivery = try delivery(sequence)
      ledger.messages.accepted(
        delivery.message.uniqueID, priority: .immediate, outcome: .delivered, at: delivery.sent)
      _ = ledger.messages.delivered(delivery, subscribers: 4)
    }
    return ledger
  }

  private func counts(_ ledger: RoomLedger, _ last: Int) -> [[Int]] {
    (1...last).map { sequence in
      let record = ledger.messages["message-\(sequence)"]
      return record.map { [$0.written, $0.acknowledged, $0.displayed] } ?? []
    }
  }

  @Test("counted in parts on two loops, it is what one loop counts")
  func parts() throws {
    let whole = try ledger(3)
    var told = 0
    let parts = (0..<2).map { _ in SumsLedger(channel) { _ in told += 1 } }
    let split = try ledger(3)
    let bytes = try BroadcastFrame(delivery(3), channel: channel).bytes.text.count
    for (index, conflated) in [nil, 2, nil, nil].enumerated() {
      var receipts = Receipts(at: 0)
      if let conflated { receipts.conflated(conflated) }
      let news = [receipts.acknowledge(2, displayed: [1]), receipts.acknowledge(3, displayed: [3])]
      let frame = try BroadcastFrame(delivery(3), channel: channel)
      let part = parts[index % 2]
      for ledger in [whole, part] as [any DeliveryLedger] {
        let record = ledger === whole ? whole.messages["message-3"] : nil
        Broadcast(frame, ledger: ledger, record: record).countWritten()
        if conflated != nil { ledger.conflated(1) }
        for news in news { ledger.acknowledged(news) }
      }
    }
    // Each says once that it has something.
    #expect(told == 2)
    for part in parts {
      split.add(part.take())
      split.add(part.take())
    }
    #expect(counts(split, 3) == counts(whole, 3) && split.counts == whole.counts)
    #expect(counts(split, 3) == [[0, 4, 4], [0, 3, 0], [4, 4, 4]])
    #expect(
      split.counts
        == DeliveryCounts(
          written: 4, bytes: 4 * bytes, conflated: 1, acknowledged: 11, displayed: 8))
    parts[0].conflated(1)
    #expect(told == 3)
  }

  @Test("a span far longer than what is remembered costs what is remembered")
  func longSpan() throws {
    let part = SumsLedger(channel) { _ in }
    var receipts = Receipts(at: 0)
    part.acknowledged(receipts.acknowledge(1_000_000, displayed: []))
    let sums = part.take()
    #expect(sums.counts.acknowledged == 1_000_000)
    #expect(sums.messages.count == Limits.messageRecordsPerChannel + 1)
  }
}
