import BroadcastChannels
import ChannelStore
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

/// A disk that doesn't come back with an answer, and what comes while it has failed. The test decides about the time.
@Suite("A disk that stands still") struct StoreStallTests {
  private let held = HeldHub()
  private var disk: SlowDisk { held.disk }
  private var store: NotedStore { held.store }
  private var writer: StoreWriter { held.hub.writer }

  private func id() throws -> RequestID { try #require(RequestID(UUID().uuidString)) }

  private func rooms() throws -> (promising: ChannelRoom, other: ChannelRoom) {
    let limits = #","budget":{"capacity":9000,"refill-per-hour":0},"publish-rate":{"per-second":null}"#
    let rooms = (try held.room("stored", limits), try held.room("live", limits, policy: 0))
    held.forgetAnswers()
    return rooms
  }

  private var told: [String] { held.log.filter { $0.contains("disk") } }

  @Test("after some seconds it is told, promises are refused, and what was promised before goes on waiting")
  func standsStill() throws {
    let (room, _) = try rooms()
    try held.publish(to: room)
    disk.endTurn()
    disk.pass(4.9)
    #expect(writer.waitingSeconds > 4.8 && !writer.isStalled && told.isEmpty)
    disk.pass(0.2)
    #expect(writer.isStalled && held.answers.isEmpty)
    #expect(
      told == [
        "error the store's disk has not answered for 5 s; what has to be kept is refused with 503 until it does"
      ])
    try held.publish(to: room)
    held.create("semi")
    held.delete(room)
    #expect(held.answers == [String](repeating: "503 ServiceUnavailable", count: 3))
    held.forgetAnswers()
    disk.pass(100)
    try disk.finish()
    #expect(held.answers == ["delivered"] && !writer.isStalled && writer.waitingSeconds == 0)
    #expect(told.last == "info the store's disk has answered after 105.100 s" && told.count == 2)
    try held.publish(to: room)
    try disk.finish()
    #expect(held.answers == ["delivered", "delivered"])
  }

  @Test("a disk that is quick each time is never told") func quick() throws {
    let (room, _) = try rooms()
    for _ in 0..<20 {
      try held.publish(to: room)
      disk.endTurn()
      disk.pass(1)
      try disk.finish()
    }
    #expect(told.isEmpty && !writer.isStalled)
  }

  @Test("where nothing is promised nobody waits for it, and what was spent is kept when it goes on")
  func withoutPromises() throws {
    let (room, other) = try rooms()
    try held.publish(to: room)
    disk.endTurn()
    try held.publish(to: other, id: id())
    #expect(held.answers.isEmpty)
    disk.pass(5.1)
    #expect(held.answers == ["delivered"])
    let request = try id()
    try held.publish(to: other, id: request)
    try held.publish(to: other, id: request)
    #expect(held.answers == ["delivered", "delivered", "delivered again"])
    try disk.finish()
    try disk.finish()
    #expect(held.answers.count == 4)
    let saved = try store.lastSave()
    #expect(saved.budget?.tokens == 8_998 && saved.answers.count == 2)
  }

  @Test("a repetition of what waits for it is refused, as it would be the first time") func repetition()
    throws
  {
    let (room, _) = try rooms()
    let request = try id()
    try held.publish(to: room, id: request)
    disk.endTurn()
    disk.pass(5.1)
    try held.publish(to: room, id: request)
    #expect(held.answers == ["503 ServiceUnavailable"])
    try disk.finish()
    try held.publish(to: room, id: request)
    #expect(held.answers == ["503 ServiceUnavailable", "delivered", "delivered again"])
  }

  @Test("too many who wait for a promise hold up nobody who needs none") func tooMany() throws {
    let (room, other) = try rooms()
    try held.publish(to: room)
    disk.endTurn()
    try held.publish(to: other)
    for _ in 0..<Limits.waitingForStore - 1 { try held.publish(to: room) }
    #expect(held.answers.isEmpty)
    try held.publish(to: other)
    // The one who waited already isn't overtaken.
    #expect(held.answers == ["delivered", "delivered"])
    try held.publish(to: room)
    try held.publish(to: room)
    #expect(held.answers.suffix(1) == ["503 ServiceUnavailable"])
  }

  // MARK: Failing

  @Test("what comes without a promise while a store is tried again that works is written at once")
  func whileTryingAgain() throws {
    let (_, other) = try rooms()
    store.isBroken = true
    try held.publish(to: other)
    try disk.finish()
    store.isBroken = false
    disk.pass(1)
    #expect(disk.underWay != nil)
    try held.publish(to: other)
    #expect(held.answers == ["delivered", "delivered"])
    try disk.finish()
    #expect(try store.lastSave().budget?.tokens == 8_999)
    // Nobody waits for it, and nothing else comes.
    try disk.finish()
    #expect(try store.lastSave().budget?.tokens == 8_998)
  }

  @Test("a server that ends while its store fails tries once more", arguments: [true, false])
  func ending(_ works: Bool) throws {
    let (_, other) = try rooms()
    store.isBroken = true
    try held.publish(to: other)
    try disk.finish()
    store.isBroken = !works
    var hasEnded = false
    held.hub.shutDown { hasEnded = true }
    #expect(!hasEnded)
    try disk.finish()
    #expect(hasEnded && disk.underWay == nil)
    #expect(store.batches.last?.changes.count == 1)
    if works { #expect(try store.lastSave().budget?.tokens == 8_999) }
  }

  @Test("other rules for a channel hold although the store failed when they came", arguments: [true, false])
  func redefining(_ publishes: Bool) throws {
    let (room, _) = try rooms()
    for _ in 0..<3 { try held.publish(to: room) }
    try disk.finish()
    let json =
      #"{"app":"com.example.scores","message-storage-policy":1,"budget":{"capacity":4,"refill-per-hour":0},"publish-rate":{"per-second":50,"burst":50}}"#
    store.isBroken = true
    if publishes { try held.publish(to: room) }
    _ = try held.hub.install(try definition("stored", json)) { _ in }
    if publishes { try held.publish(to: room) }
    try disk.finish()
    // Three of nine thousand were used, so that one of four is left.
    let report = room.channel.budgetReport(at: disk.now)
    #expect(report.priority10?.limit == 4 && report.priority10?.remaining == 1)
    #expect(report.publishRate?.limit == 50 && report.publishRate?.remaining == 50)

    store.isBroken = false
    disk.pass(1)
    try disk.finish()
    let defined = store.batches.last?.changes.compactMap { change in
      if case .define(_, let definition, let levels) = change { (definition, levels) } else { nil }
    }
    let (definition, levels) = try #require(defined?.first)
    #expect(definition.settings.budget.capacity == 4)
    // What a refused message had taken is not given back by a restart alone.
    #expect(levels?.budget?.tokens == (publishes ? 0 : 1))
  }

  // MARK: Channels

  @Test("there is a bound on the channels of all apps together") func channels() throws {
    let disk = SlowDisk()
    let hub = Hub(store: NotedStore(), environment: disk.environment, log: .silent, mostChannels: 3)
    var answers: [String] = []
    func create(_ app: String) throws {
      hub.create(try definition(nil, #"{"app":"com.example.\#(app)"}"#)) { result in
        switch result {
        case .success: answers.append("created")
        case .failure(let error): answers.append("\(error.status) \(error.reason): \(error.message)")
        }
      }
    }
    // Those count that are being stored.
    for app in ["a", "b", "c", "d"] { try create(app) }
    let refusal =
      "400 CannotCreateChannelConfig: the server has 3 channels of all apps, the most that it can hold; delete one first"
    #expect(answers == [refusal])
    try disk.finish()
    try create("a")
    #expect(answers == [refusal, "created", "created", "created", refusal])
    hub.delete(try #require(hub.allRooms.first)) { _ in }
    try disk.finish()
    try create("d")
    try disk.finish()
    #expect(answers.last == "created" && hub.channelCount == 3)
  }
}

/// A store whose disk stands still as long as a test says.
private final class StuckStore: ChannelStore {
  let isStuck = Box(false)
  let isDurable = true
  let place = "a disk that stands still"

  func load() throws(StoreError) -> [StoredChannel] { [] }

  func write(_ batch: StoreBatch) throws(StoreError) {
    let deadline = Date(timeIntervalSinceNow: 60)
    while isStuck.value, Date() < deadline { usleep(1_000) }
  }

  func probe() throws(StoreError) {}
}

@Suite("A server whose disk stands still") struct StuckServerTests {
  @Test("says so at /readyz, in the metrics and in the log, and serves who needs no disk") func readiness()
    throws
  {
    struct Ready: Decodable {
      struct Reason: Decodable { let reason, message: String }
      let reasons: [Reason]
    }
    let store = StuckStore()
    try withServer {
      $0.store = { store }
      $0.definitions = [
        try definition("final", #"{"app":"com.example.scores","message-storage-policy":1}"#),
        try definition("live"),
      ]
    } _: { server in
      let subscriber = try SubscriberSocket(server, streamOf: "live")
      #expect(try subscriber.receive().type == "subscribed")
      store.isStuck.value = true
      defer { store.isStuck.value = false }
      let publisher = try ProviderConnection(server)
      publisher.socket.write(Request.broadcast(to: "final", expiration: Request.now + 600).bytes)
      try waitUntil("the disk to count as standing still") { try server.send(.get("/readyz")).status == 503 }
      let ready = try server.send(.get("/readyz")).json(Ready.self)
      #expect(ready.reasons.map(\.reason) == ["store"])
      #expect(ready.reasons.first?.message == "the store's disk doesn't answer")
      let seconds = try #require(try server.metric("touchline_store_waiting_seconds"))
      #expect(seconds >= Limits.storeStallSeconds)
      #expect(try server.metric("touchline_ready") == 0)
      #expect(server.log.value.count { $0.contains("the store's disk has not answered for 5 s") } == 1)
      #expect(try server.send(.broadcast(to: "final", expiration: Request.now + 600)).status == 503)
      #expect(try server.send(.broadcast(to: "live")).status == 200)
      #expect(try subscriber.receive().type == "message")
      store.isStuck.value = false
      #expect(try publisher.readAnswer().status == 200)
      try waitUntil("the server to be ready") { try server.send(.get("/readyz")).status == 200 }
      #expect(try server.metric("touchline_store_waiting_seconds") == 0)
      // With a sync: two channels, made in one turn or two, and a message. Without: what was spent on the other.
      #expect(try server.metric(#"touchline_store_commit_duration_seconds_count{synced="true"}"#) ?? 0 >= 2)
      #expect(try server.metric(#"touchline_store_commit_duration_seconds_count{synced="false"}"#) == 1)
    }
  }
}
