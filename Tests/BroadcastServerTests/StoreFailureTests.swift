import BroadcastChannels
import ChannelStore
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

/// A store whose disk is full as often as a test says.
///
/// `@unchecked` is safe: the box orders what the test and the server do with the number.
private final class FullStore: ChannelStore, @unchecked Sendable {
  /// How many writes fail from now on.
  let failures = Box(0)
  private(set) var saved = Box<[Int]>([])

  let isDurable = true
  let place = "a disk that is full at times"

  func load() throws(StoreError) -> [StoredChannel] { [] }

  func write(_ batch: StoreBatch) throws(StoreError) {
    for case .save(_, let change) in batch.changes {
      var fails = false
      failures.change {
        fails = $0 > 0
        $0 -= fails ? 1 : 0
      }
      if fails { throw .failed(operation: "save a message", problem: "disk full") }
      saved.change { $0.append(change.position.sequence) }
    }
  }

  func probe() throws(StoreError) {}
}

@Suite struct StoreFailureTests {
  private static let json = #"""
    {"app":"com.example.scores","message-storage-policy":1,"windows":{"5":60,"1":60},
     "budget":{"capacity":2,"refill-per-hour":0,"over-budget":"reject"},
     "publish-rate":{"per-second":0.001,"burst":9}}
    """#

  private func withFullStore(_ body: (ServerFixture, FullStore) throws -> Void) throws {
    let store = FullStore()
    try withServer {
      $0.store = { store }
      $0.definitions = [try definition("final", Self.json)]
    } _: {
      try body($0, store)
    }
  }

  @Test func whatCannotBeStoredHasNotHappenedAndCanBeTriedAgain() throws {
    try withFullStore { server, store in
      let subscriber = try SubscriberSocket(server, streamOf: "final")
      let epoch = try subscriber.receive("subscribed").epoch
      let request = Request.broadcast(to: "final", expiration: Request.now + 600)
        .header("apns-request-id", UUID().uuidString)
      store.failures.value = 3
      for _ in 0..<3 {
        let refused = try server.send(request)
        #expect(refused.status == 503 && refused.reason == "ServiceUnavailable")
        #expect(refused.headers["retry-after"] == "1" && refused.headers["apns-unique-id"] == nil)
      }
      let report = try server.report("final")
      #expect(report.seq == 0 && report.epoch == epoch)
      #expect(report.counts.accepted == 0 && report.counts.delivered == 0 && report.counts.written == 0)

      let answer = try server.send(request)
      #expect(answer.status == 200 && answer.headers["touchline-repeated"] == nil)
      // Three refusals took nothing of the two messages that the budget has, nor of the rate.
      #expect(answer.headers["ratelimit"]?.hasPrefix(#""priority-10";r=1, "publish-rate";r=8"#) == true)
      let again = try server.send(request)
      #expect(again.headers["touchline-repeated"] == "true")
      #expect(again.headers["apns-unique-id"] == answer.headers["apns-unique-id"])
      #expect(try subscriber.receive("message").uniqueID == answer.headers["apns-unique-id"])
      #expect(try server.report("final").counts.accepted == 1 && store.saved.value == [1])
      // It came once: what is next is the next one.
      try server.publish(expiration: Request.now + 600)
      #expect(try subscriber.receive("message").seq == 2)
    }
  }

  @Test func whatWaitsGoesOnWaitingAndTheStoredMessageStays() throws {
    try withFullStore { server, store in
      let expiration = Request.now + 600
      let first = try server.publish(Request.aps(home: 1), expiration: expiration)
      let waiting = try server.publish(
        Request.aps(home: 2, more: Request.alert), priority: 5, expiration: expiration)
      let plain = try server.publish(Request.aps(home: 3), priority: 5, expiration: expiration)
      store.failures.value = 1
      let request = Request.broadcast(to: "final", Request.aps(home: 4), expiration: expiration)
      #expect(try server.send(request).status == 503)
      #expect(try server.message(waiting.id).outcome == "windowed")
      #expect(try server.message(plain.id).outcome == "windowed")
      let late = try SubscriberSocket(server, streamOf: "final")
      #expect(try late.receive("subscribed").seq == 1)
      #expect(try late.receive("message").uniqueID == first.id)

      let unique = try server.send(request).headers["apns-unique-id"]
      #expect(try late.receive("message").uniqueID == waiting.id)
      let message = try late.receive("message")
      #expect(message.uniqueID == unique && message.seq == 3)
      #expect(try server.message(plain.id).outcome == "superseded")
    }
  }

  @Test func overFramesItIsAnErrorThatSaysWhenToTryAgain() throws {
    try withFullStore { server, store in
      store.failures.value = 1
      let session = try SubscriberSocket(sessionOn: server)
      let frame = #"""
        {"type":"publish","channel":"final","request-id":"\#(UUID())","aps":\#(Request.aps()),
         "expiration":\#(Request.now + 600)}
        """#
      let error = try session.ask(frame)
      #expect(error.reason == "ServiceUnavailable" && error.retryAfter == 1)
      let published = try session.ask(frame)
      #expect(published.outcome == "delivered" && published.repeated == nil)
      #expect(try session.ask(frame).repeated == true)
    }
  }
}
