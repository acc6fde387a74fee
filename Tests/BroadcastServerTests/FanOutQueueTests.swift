import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

/// What waits while a channel's fan-out goes on, on a loop that doesn't turn.
@Suite struct FanOutQueueTests {
  /// Writes down the numbers of what it gets, as one whose socket takes everything.
  private final class Listener: Subscriber {
    let connection: Connection? = nil
    var heard: [Int] = []

    func deliver(_ broadcast: Broadcast) { heard.append(broadcast.frame.position.sequence) }
    func deliver(_ pass: FanOutPass, from next: Int, taken: Int) {
      heard += pass.broadcasts.dropFirst(next - pass.numbers.lowerBound).map(\.frame.position.sequence)
    }
    func moved(to place: Int, in shard: ChannelShard) {}
  }

  private let hub: Hub
  private let room: ChannelRoom

  init() throws {
    let environment = HubEnvironment(
      now: { Date(timeIntervalSince1970: 1_700_000_000) }, schedule: { _, _ in {} })
    hub = Hub(store: MemoryChannelStore(), environment: environment, log: .silent, loop: try EventLoop())
    room = try hub.created(try unlimited("final"))
  }

  /// Publishes a message of some 4,900 bytes, of which 1 MB is some 200 and 4 MB some 800.
  private func publish(isAlert: Bool = false) throws {
    let more = isAlert ? Request.alert : ""
    let pad = String(repeating: "x", count: 4_700)
    let body = #"{"aps":{"timestamp":1700000000,"event":"update",\#(more)"content-state":{"pad":"\#(pad)"}}}"#
    let payload = try Payload(body: Array(body.utf8))
    try hub.published(.success(payload), into: room)
  }

  private func serve() { while !room.shard.serve(until: 0, clock: { 1 }) {} }

  private func add(_ listener: Listener) -> Int {
    room.shard.add(listener, at: room.channel.position.sequence)
  }

  @Test("up to a bound everything waits; beyond it the newest plain update takes the last one's place")
  func plain() throws {
    let listener = Listener()
    _ = add(listener)
    for _ in 0..<1_000 { try publish() }
    serve()
    #expect(listener.heard.count > 190 && listener.heard.count < 230)
    // Whole up to the bound, and then the newest.
    #expect(Array(listener.heard.dropLast()) == Array(1..<listener.heard.count))
    #expect(listener.heard.last == 1_000)
    #expect(room.counts.conflated == 1_000 - listener.heard.count)
    // Nothing of it lasts.
    try publish()
    serve()
    #expect(listener.heard.last == 1_001)
  }

  @Test("alerts wait beyond the bound, in order, and replace the plain updates before them")
  func alerts() throws {
    let listener = Listener()
    _ = add(listener)
    for _ in 0..<300 { try publish() }
    for number in 301...400 { try publish(isAlert: number.isMultiple(of: 10)) }
    serve()
    let alerts = (31...40).map { $0 * 10 }
    #expect(Set(listener.heard).isSuperset(of: alerts))
    #expect(listener.heard == listener.heard.sorted())
    #expect(listener.heard.last == 400)
    #expect(Array(listener.heard.suffix(10)) == alerts)
  }

  @Test("what nothing replaces is bounded too: then the fan-out is finished at once")
  func bound() throws {
    let listener = Listener()
    _ = add(listener)
    for _ in 0..<1_000 { try publish(isAlert: true) }
    // The loop hasn't turned, and 4 MB are out already.
    #expect(listener.heard.count > 800 && listener.heard == Array(1...listener.heard.count))
    serve()
    #expect(listener.heard == Array(1...1_000))
  }

  @Test(
    "a publisher that hears its own channel, and subscribers that leave, keep nothing from being replaced")
  func ownPublisher() throws {
    let listener = Listener()
    _ = add(listener)
    let publisher = Listener()
    let place = add(publisher)
    for _ in 0..<1_000 { _ = add(Listener()) }
    for _ in 0..<1_000 {
      try publish()
      room.shard.catchUpPublisher(at: place)
      let last = room.shard.count - 1
      room.shard.catchUp(at: last, isLeaving: true)
      room.shard.remove(at: last)
    }
    // Nothing went out at once, which 4 MB would.
    #expect(listener.heard.isEmpty)
    serve()
    #expect(listener.heard.count > 190 && listener.heard.count < 230 && listener.heard.last == 1_000)
    #expect(publisher.heard == publisher.heard.sorted() && publisher.heard.last == 1_000)
  }

  @Test("who comes when much waits hears what comes later; what reached nobody isn't acknowledged")
  func comers() throws {
    let early = Listener()
    _ = add(early)
    for _ in 0..<300 { try publish() }
    let late = Listener()
    let place = add(late)
    try publish()
    #expect(room.counts.conflated < 300)
    room.shard.catchUp(at: place)
    #expect(late.heard == [301])
    try publish()
    try publish()
    serve()
    #expect(late.heard == [301, 303])
    #expect(Array(early.heard.suffix(2)) == [301, 303])
    // 302 reached nobody, so that nobody received it.
    var receipts = Receipts(at: 0)
    room.shard.acknowledged(receipts.acknowledge(303, displayed: [302, 303]))
    #expect(room.counts.acknowledged == early.heard.count)
  }
}
