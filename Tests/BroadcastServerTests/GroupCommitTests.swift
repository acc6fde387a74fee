import BroadcastChannels
import ChannelStore
import Foundation
import Testing

@testable import BroadcastServer

/// What waits for the store, and what becomes of it. The test decides when the disk is done.
@Suite("Group commit") struct GroupCommitTests {
  private let held = HeldHub()
  private var disk: SlowDisk { held.disk }
  private var store: NotedStore { held.store }

  private static let freely =
    #","budget":{"capacity":9,"refill-per-hour":0},"publish-rate":{"per-second":null}"#

  private func room(_ alias: String = "final", _ more: String = freely) throws -> ChannelRoom {
    defer { held.forgetAnswers() }
    return try held.room(alias, more)
  }

  private func policy0(_ alias: String = "live") throws -> ChannelRoom {
    let json =
      #"{"app":"com.example.scores","budget":{"capacity":9,"refill-per-hour":0},"publish-rate":{"per-second":null}}"#
    var created: ChannelRoom?
    held.hub.create(try definition(alias, json)) { created = try? $0.get() }
    try disk.finish()
    return try #require(created)
  }

  private func id() throws -> RequestID { try #require(RequestID(UUID().uuidString)) }

  // MARK: Working

  @Test("messages of one turn are one write; nobody hears of them before it is done")
  func oneTurn() throws {
    let room = try room()
    let listener = held.subscribe(to: room)
    for _ in 0..<3 { try held.publish(to: room) }
    disk.endTurn()
    #expect(held.answers.isEmpty && listener.heard.isEmpty)
    #expect(room.channel.position.sequence == 3 && room.seen.position.sequence == 0)
    try disk.finish()
    #expect(held.answers == ["delivered", "delivered", "delivered"] && listener.heard == [1, 2, 3])
    #expect(store.batches.last?.changes.count == 1 && store.batches.last?.isPromised == true)
    let saved = try store.lastSave()
    #expect(saved.position.sequence == 3 && saved.budget?.tokens == 6 && saved.newest?.position.sequence == 3)
    #expect(room.seen.position.sequence == 3)
  }

  @Test("what comes while the disk is busy is the next write, in its order")
  func nextWrite() throws {
    let (first, second) = (try room("a"), try room("b"))
    try held.publish(to: first)
    disk.endTurn()
    try held.publish(to: second)
    try held.publish(to: first, priority: .considerate)
    disk.endTurn()
    try disk.finish()
    #expect(held.answers == ["delivered"])
    #expect(first.seen.position.sequence == 1)
    try disk.finish()
    #expect(held.answers == ["delivered", "delivered", "windowed"])
    #expect(disk.underWay == nil && store.batches.count == 4)
  }

  @Test("who subscribes meanwhile sees what the store has, and then the message")
  func subscribing() throws {
    let room = try room()
    try held.publish(to: room)
    try disk.finish()
    try held.publish(to: room)
    disk.endTurn()
    #expect(room.seen.newest(after: nil, at: disk.now)?.position.sequence == 1)
    let listener = held.subscribe(to: room)
    try disk.finish()
    #expect(listener.heard == [2])
    #expect(room.seen.newest(after: nil, at: disk.now)?.position.sequence == 2)
  }

  @Test("a refusal doesn't overtake the answers before it")
  func inOrder() throws {
    let room = try room("final", #","budget":{"capacity":1,"refill-per-hour":0,"over-budget":"reject"}"#)
    try held.publish(to: room)
    try held.publish(to: room)
    disk.endTurn()
    #expect(held.answers.isEmpty)
    try disk.finish()
    #expect(held.answers == ["delivered", "429 TooManyRequests"])
  }

  @Test("a window's end is stored before anybody hears of it")
  func windowEnd() throws {
    let room = try room("final", #","windows":{"5":2,"1":5}"#)
    let listener = held.subscribe(to: room)
    try held.publish(to: room, priority: .considerate)
    try disk.finish()
    #expect(held.answers == ["windowed"])
    #expect(try store.lastSave().waiting?.count == 1 && store.lastSave().deadline == disk.now + 2)
    disk.pass(2)
    #expect(listener.heard.isEmpty)
    try disk.finish()
    #expect(listener.heard == [1])
    #expect(try store.lastSave().waiting?.isEmpty == true && store.lastSave().deadline == nil)
  }

  // MARK: Policy 0

  @Test("without storage messages go out at once; the answer waits for what was spent, and for no sync")
  func withoutStorage() throws {
    let room = try policy0()
    let listener = held.subscribe(to: room)
    try held.publish(to: room, id: id())
    #expect(listener.heard == [1] && held.answers.isEmpty)
    try disk.finish()
    #expect(held.answers == ["delivered"] && store.batches.last?.isPromised == false)
    let saved = try store.lastSave()
    #expect(saved.budget?.tokens == 8 && saved.answers.count == 1 && saved.newest == nil)
  }

  @Test("a store that fails refuses nobody there, and gets what was spent when it works again")
  func withoutStorageFailing() throws {
    let room = try policy0()
    store.isBroken = true
    try held.publish(to: room)
    try disk.finish()
    #expect(held.answers == ["delivered"] && !held.hub.isStoreWorking)
    // Nobody waits for a store that may not work for long.
    try held.publish(to: room, id: id())
    #expect(held.answers == ["delivered", "delivered"] && disk.underWay == nil)
    store.isBroken = false
    disk.pass(1)
    try disk.finish()
    #expect(held.hub.isStoreWorking)
    #expect(try store.lastSave().budget?.tokens == 7 && store.lastSave().answers.count == 1)
  }

  // MARK: Failing

  @Test("a failed write has not happened, nor has anything that stands on it")
  func failing() throws {
    let room = try room()
    let listener = held.subscribe(to: room)
    try held.publish(to: room)
    try disk.finish()
    let before = room.channel.budgetReport(at: disk.now)
    let (first, second) = (try id(), try id())
    store.isBroken = true
    try held.publish(to: room, id: first)
    disk.endTurn()
    try held.publish(to: room, id: second)
    try held.publish(to: room, priority: .considerate)
    try disk.finish()
    #expect(
      held.answers.dropFirst() == [
        "503 ServiceUnavailable", "503 ServiceUnavailable", "503 ServiceUnavailable",
      ])
    #expect(room.channel.position.sequence == 1 && room.seen.position.sequence == 1)
    #expect(room.channel.budgetReport(at: disk.now) == before && room.channel.nextDeadline == nil)
    #expect(room.channel.counts.accepted == 1 && listener.heard == [1])

    store.isBroken = false
    held.forgetAnswers()
    try held.publish(to: room, id: first)
    try held.publish(to: room, id: second)
    try disk.finish()
    #expect(held.answers == ["delivered", "delivered"] && listener.heard == [1, 2, 3])
  }

  @Test("a repetition waits for the first, and shares its fate")
  func repetition() throws {
    let room = try room()
    let request = try id()
    store.isBroken = true
    for _ in 0..<2 { try held.publish(to: room, id: request) }
    #expect(held.answers.isEmpty)
    try disk.finish()
    #expect(held.answers == ["503 ServiceUnavailable", "503 ServiceUnavailable"])
    store.isBroken = false
    for _ in 0..<2 { try held.publish(to: room, id: request) }
    try disk.finish()
    #expect(held.answers.suffix(2) == ["delivered", "delivered again"])
    try held.publish(to: room, id: request)
    #expect(held.answers.last == "delivered again" && disk.underWay == nil)
  }

  @Test("a window whose time comes while the store fails goes on when it works again")
  func windowWhileFailing() throws {
    let room = try room("final", #","windows":{"5":2,"1":5}"#)
    let listener = held.subscribe(to: room)
    try held.publish(to: room, priority: .considerate)
    try disk.finish()
    store.isBroken = true
    disk.pass(2)
    try disk.finish()
    #expect(listener.heard.isEmpty && room.channel.nextDeadline != nil)
    disk.pass(1)
    try disk.finish()
    #expect(store.probes == 1 && listener.heard.isEmpty)
    store.isBroken = false
    disk.pass(1)
    try disk.finish()
    disk.pass(0)
    try disk.finish()
    #expect(listener.heard == [1] && room.channel.nextDeadline == nil)
  }

  @Test("the log tells of a failure once, and of its end")
  func log() throws {
    let room = try room()
    store.isBroken = true
    for _ in 0..<5 {
      try held.publish(to: room)
      try disk.finish()
    }
    let told = { held.log.filter { $0.contains("the store") } }
    #expect(
      told() == [
        "error the store failed to write a change: disk full; what has to be kept is refused with 503 until the store works again"
      ])
    store.isBroken = false
    disk.pass(1)
    try disk.finish()
    #expect(
      told().last == "info the store works again after 1 s; 5 changes were taken back meanwhile"
        && told().count == 2)
  }

  @Test("more than a bound wait for no disk that stands still") func bound() throws {
    let room = try room("final", #","budget":{"capacity":null},"publish-rate":{"per-second":null}"#)
    try held.publish(to: room)
    disk.endTurn()
    for _ in 0..<Limits.waitingForStore { try held.publish(to: room) }
    #expect(held.answers.isEmpty)
    try held.publish(to: room)
    #expect(held.answers == ["503 ServiceUnavailable"])
    try disk.finish()
    try disk.finish()
    #expect(held.answers.count == Limits.waitingForStore + 2)
    #expect(held.answers.dropFirst().allSatisfy { $0 == "delivered" })
  }

  @Test(
    "what waited in a window when the process was killed comes out when the window ends, with nobody publishing",
    arguments: [1.0, -1.0])
  func windowGoesOn(_ seconds: Double) throws {
    let before = HeldHub()
    let room = try before.room("final", #","windows":{"5":1,"1":2}"#)
    try before.publish(to: room, priority: .considerate)
    try before.disk.finish()
    let change = try before.store.lastSave()
    var state = ChannelState(position: room.channel.position)
    state.apply(change)
    #expect(state.waiting.count == 1)
    // The end was a second from now, or has passed already.
    state.deadline = disk.now.addingTimeInterval(seconds)
    store.left = [StoredChannel(id: room.id, definition: room.definition, state: state)]
    try held.hub.load()
    let loaded = try #require(held.hub.knownRoom("final"))
    let listener = held.subscribe(to: loaded)
    disk.pass(0.5)
    if seconds > 0 {
      #expect(disk.underWay == nil)
      disk.pass(0.6)
    }
    try disk.finish()
    #expect(listener.heard == [1] && loaded.seen.newest(after: nil, at: disk.now)?.position.sequence == 1)
  }

  // MARK: Channels

  @Test("a channel is there when it is stored; until then its alias is taken") func creating() throws {
    held.create("final")
    held.create("final")
    #expect(held.answers == ["409 AliasTaken"] && held.hub.knownRoom("final") == nil)
    try disk.finish()
    #expect(held.answers == ["409 AliasTaken", "created"] && held.hub.knownRoom("final") != nil)

    store.isBroken = true
    held.create("semi")
    try disk.finish()
    #expect(held.answers.last == "503 ServiceUnavailable" && held.hub.knownRoom("semi") == nil)
    store.isBroken = false
    held.create("semi")
    try disk.finish()
    #expect(held.answers.last == "created")
  }

  @Test("a channel that is being deleted takes nothing, and goes on when the store fails") func deleting()
    throws
  {
    let room = try room()
    try held.publish(to: room)
    held.delete(room)
    try held.publish(to: room)
    held.delete(room)
    store.isBroken = true
    try disk.finish()
    #expect(held.answers == [String](repeating: "503 ServiceUnavailable", count: 4))
    store.isBroken = false
    held.forgetAnswers()
    try held.publish(to: room)
    held.delete(room)
    try disk.finish()
    #expect(held.answers == ["delivered", "deleted"] && held.hub.knownRoom("final") == nil)
  }

  @Test("other rules for a channel refill nothing and forget nothing") func redefining() throws {
    let room = try room()
    let request = try id()
    try held.publish(to: room, id: request)
    try held.publish(to: room, priority: .passive)
    try disk.finish()
    let json =
      #"{"app":"com.example.scores","message-storage-policy":1,"budget":{"capacity":4,"refill-per-hour":0}}"#
    _ = try held.hub.install(try definition("final", json)) { _ in }
    #expect(room.channel.budgetReport(at: disk.now).priority10?.remaining == 3)
    #expect(room.channel.nextDeadline != nil)
    try held.publish(to: room, id: request)
    try disk.finish()
    #expect(held.answers.last == "delivered again")
    #expect(store.batches.last?.changes.count == 2)
  }

  @Test("answers whose time has passed are forgotten in the store too") func forgetting() throws {
    let room = try room()
    try held.publish(to: room, id: id())
    try disk.finish()
    disk.pass(Limits.requestIDSeconds + Limits.forgetAnswersSeconds)
    try disk.finish()
    let saved = try store.lastSave()
    #expect(saved.forgetsAnswers && saved.firstAnswer == 1 && saved.answers.isEmpty)
  }

  @Test("the server ends when what waited in windows is stored") func ending() throws {
    let room = try room()
    let listener = held.subscribe(to: room)
    try held.publish(to: room, priority: .passive)
    try disk.finish()
    var hasEnded = false
    held.hub.shutDown { hasEnded = true }
    try held.publish(to: room)
    #expect(!hasEnded && listener.heard.isEmpty)
    try disk.finish()
    #expect(hasEnded && listener.heard == [1] && held.answers.last == "503 Shutdown")
  }
}
