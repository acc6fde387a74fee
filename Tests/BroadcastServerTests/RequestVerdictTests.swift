import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

/// A hub whose time stands still unless it is moved, with a channel and subscribers that keep nothing.
final class QuietHub {
  private final class Clock { var now = Date(timeIntervalSince1970: 1_796_043_600) }

  private final class Listener: Subscriber {
    var connection: Connection? { nil }
    func deliver(_ broadcast: Broadcast) { broadcast.countWritten() }
    func deliver(_ pass: FanOutPass, from next: Int, taken: Int) {
      for broadcast in pass.broadcasts { deliver(broadcast) }
    }
    func moved(to place: Int, in shard: ChannelShard) {}
  }

  let hub: Hub
  let room: ChannelRoom
  private let clock: Clock
  private var subscribers: [Listener] = []

  var now: Date { clock.now }
  var seconds: Int { Int(clock.now.timeIntervalSince1970) }

  init(_ json: String = #"{"app":"com.example.scores"}"#, subscribers count: Int = 0) throws {
    let clock = Clock()
    self.clock = clock
    let environment = HubEnvironment(now: { clock.now }, schedule: { _, _ in {} })
    hub = Hub(store: MemoryChannelStore(), environment: environment, log: .silent)
    room = try hub.created(try definition("final", json))
    subscribe(count)
  }

  func subscribe(_ count: Int) {
    for _ in 0..<count {
      let listener = Listener()
      subscribers.append(listener)
      _ = room.shard.add(listener, at: room.channel.position.sequence)
    }
  }

  /// Lets the channel's windows end.
  func wait(_ seconds: Double) {
    clock.now += seconds
    hub.advance(room)
  }

  /// Publishes an `aps` object of the hub's present.
  func publish(
    _ more: String = "", age: Int = 0, event: String = "update", priority: Priority = .immediate,
    expiration: Expiration = .once, requestID: RequestID? = nil
  ) throws -> Publication {
    let aps = Request.aps(event: event, more: more, timestamp: seconds - age)
    let payload = Result { () throws(PayloadError) in try Payload(body: Array("{\"aps\":\(aps)}".utf8)) }
    return try hub.published(
      payload.mapError { $0.refusal }, requestID: requestID, priority: priority, expiration: expiration,
      into: room)
  }

  /// The entry of the log for a publication.
  func entry(_ publication: Publication) -> RequestEntry {
    var facts = RequestFacts()
    facts.found(room)
    facts.publication = publication
    let request = LoggedRequest(HTTPRequest(method: "POST", path: "/4/x"), at: now, clock: 10)
    return RequestEntry(1, request, status: 200, facts, clock: 10.0015)
  }
}

@Suite("The verdict on an accepted request") struct RequestVerdictTests {
  private let patient = #"{"app":"com.example.scores","windows":{"5":2,"1":5}}"#

  @Test("a message that everybody displayed needs no verdict") func displayed() throws {
    let quiet = try QuietHub(subscribers: 2)
    let entry = quiet.entry(try quiet.publish())
    #expect(entry.verdict == nil && entry.outcome == "delivered" && entry.milliseconds > 1.4)
    quiet.room.messages.acknowledge(1...1, but: [])
    #expect(
      entry.verdict
        == "accepted, delivered to 2 and received by 1; no device has said that it displayed it")
    quiet.room.messages.display(1)
    #expect(entry.verdict == nil)
  }

  @Test("nobody is subscribed, unless somebody comes for the stored message") func nobody() throws {
    let quiet = try QuietHub()
    let plain = quiet.entry(try quiet.publish())
    #expect(plain.verdict == "accepted, but nobody was subscribed to the channel")

    let keeping = try QuietHub(#"{"app":"com.example.scores","message-storage-policy":1}"#)
    let stored = try keeping.publish(expiration: .at(Int64(keeping.seconds) + 60))
    #expect(
      keeping.entry(stored).verdict
        == "accepted, but nobody was subscribed to the channel; it is stored for who subscribes later")
    stored.record?.written += 1
    #expect(
      keeping.entry(stored).verdict
        == "accepted, but nobody was subscribed to the channel; 1 got it later as the stored message")
  }

  @Test("a message waits in its window, and is let out or replaced") func windows() throws {
    let quiet = try QuietHub(patient, subscribers: 1)
    let first = quiet.entry(try quiet.publish(priority: .passive))
    #expect(first.verdict == "accepted, waits in a delivery window of 5 s (priority 1)")
    let second = quiet.entry(try quiet.publish(priority: .passive))
    let late = quiet.entry(try quiet.publish(age: 40, priority: .passive))
    #expect(
      first.verdict
        == "accepted, but a newer message took its place in the delivery window, so nobody gets this one")
    #expect(
      late.verdict
        == "accepted, but a newer message waits in the delivery window already, so nobody gets this one")
    #expect(first.outcome == "superseded" && late.outcome == "superseded" && second.outcome == "windowed")
    quiet.wait(5)
    #expect(second.verdict == nil && second.outcome == "delivered")
  }

  @Test("over budget a message is demoted or dropped") func overBudget() throws {
    func spent(_ policy: String) throws -> QuietHub {
      try QuietHub(
        """
        {"app":"com.example.scores","budget":{"capacity":0,"refill-per-hour":0,"over-budget":"\(policy)"}}
        """, subscribers: 1)
    }
    let demoting = try spent("demote")
    let demoted = demoting.entry(try demoting.publish())
    #expect(
      demoted.verdict
        == "accepted, but over budget: demoted to priority 5, waits in a delivery window of 1 s")
    demoting.wait(1)
    #expect(demoted.verdict == "accepted, but over budget: demoted to priority 5")
    let dropping = try spent("drop")
    #expect(
      dropping.entry(try dropping.publish()).verdict
        == "accepted, but over budget: dropped, so nobody gets it")
  }

  @Test("devices ignore what is older than what they show") func older() throws {
    let quiet = try QuietHub(subscribers: 3)
    _ = try quiet.publish()
    let entry = quiet.entry(try quiet.publish(age: 40))
    let reason =
      "its timestamp is 40 s older than that of a message before it, and devices ignore what is older than what they show"
    #expect(entry.verdict == "accepted, delivered to 3, but \(reason)")
    quiet.room.messages.acknowledge(2...2, but: [])
    #expect(entry.verdict == "accepted, delivered to 3; no device displayed it: \(reason)")
    // Whoever came late shows it all the same.
    quiet.room.messages.display(2)
    #expect(entry.verdict == nil)
    // The same second is not older.
    #expect(quiet.entry(try quiet.publish()).verdict == nil)
  }

  @Test("an activity that has ended takes no more") func afterEnd() throws {
    let quiet = try QuietHub(subscribers: 1)
    #expect(quiet.entry(try quiet.publish(event: "end")).verdict == nil)
    #expect(
      quiet.entry(try quiet.publish()).verdict
        == "accepted, delivered to 1, but the channel was sent an end before, and an activity that has ended takes no more"
    )
  }

  @Test("a repetition published nothing") func repetition() throws {
    let quiet = try QuietHub(subscribers: 1)
    let id = try #require(RequestID("2288cf3f-70d8-46a6-97d7-dd5d00867127"))
    _ = try quiet.publish(requestID: id)
    let entry = quiet.entry(try quiet.publish(requestID: id))
    #expect(entry.outcome == "repeated")
    #expect(
      entry.verdict
        == "a repetition: this request id was accepted before, so nothing was published this time")
  }

  @Test("connections that are slow are told apart from devices that don't show it") func slow() throws {
    let quiet = try QuietHub(subscribers: 3)
    let publication = try quiet.publish()
    publication.record?.written = 1
    #expect(
      quiet.entry(publication).verdict
        == "accepted, delivered to 3, but 2 connections have not taken it yet")
  }

  @Test("what a device would make of the payload comes last, the errors first") func findings() throws {
    let quiet = try QuietHub(subscribers: 1)
    let misspelt = quiet.entry(try quiet.publish(#""state-date":1,"#))
    let silent =
      "aps.state-date is no key of aps; the system ignores it silently; did you mean \"stale-date\"?"
    #expect(misspelt.verdict == "accepted, but \(silent)")
    let both = quiet.entry(try quiet.publish(#""stale-date":1,"state-date":1,"#, age: 1))
    #expect(both.findings.map(\.kind).contains("unknown-key") && both.findings.count == 2)
    #expect(both.verdict?.hasSuffix("; \(silent) (and 1 more finding)") == true)
    #expect(both.verdict?.contains("1 s older") == true)

    let keys = (0..<20).map { #""k\#($0)":1,"# }.joined()
    let many = quiet.entry(try quiet.publish(keys))
    #expect(many.findings.count == Limits.requestLogFindings && many.furtherFindings == 12)
    #expect(many.verdict?.hasSuffix("(and 19 more findings)") == true)
  }
}
