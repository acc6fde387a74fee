import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

/// A disk that takes as long as a test wants, and the time too.
final class SlowDisk {
  private(set) var now = Date(timeIntervalSince1970: 1_700_000_000)
  /// What was handed over and is not done.
  private(set) var underWay: (work: @Sendable () -> StoreError?, done: (StoreError?) -> Void)?
  private var timers: [(number: Int, at: Date, body: () -> Void)] = []
  private var made = 0
  private var turn: [() -> Void] = []

  var environment: HubEnvironment {
    HubEnvironment(
      now: { [unowned self] in now },
      schedule: { [unowned self] seconds, body in
        made += 1
        let number = made
        timers.append((number, now.addingTimeInterval(seconds), body))
        return { [unowned self] in timers.removeAll { $0.number == number } }
      },
      perform: { [unowned self] in
        #expect(underWay == nil, "one batch at a time")
        underWay = ($0, $1)
      },
      atEndOfTurn: { [unowned self] in turn.append($0) })
  }

  /// The loop's turn ends.
  func endTurn() {
    while !turn.isEmpty { turn.removeFirst()() }
  }

  /// What is under way is written, or fails as the store does, and the server hears of it.
  func finish() throws {
    endTurn()
    let batch = try #require(underWay, "nothing is under way")
    underWay = nil
    batch.done(batch.work())
    endTurn()
  }

  func pass(_ seconds: Double) {
    let end = now.addingTimeInterval(seconds)
    while let next = timers.indices.min(by: { timers[$0].at < timers[$1].at }), timers[next].at <= end {
      let timer = timers.remove(at: next)
      now = max(now, timer.at)
      timer.body()
    }
    now = end
    endTurn()
  }
}

/// A store that remembers what it was given, and fails when it is told to.
///
/// `@unchecked` is safe: the tests that use it have one thread.
final class NotedStore: ChannelStore, @unchecked Sendable {
  let isDurable = true
  let place = "a note"
  var isBroken = false
  private(set) var batches: [StoreBatch] = []
  private(set) var probes = 0

  /// What an earlier process left.
  var left: [StoredChannel] = []

  func load() -> [StoredChannel] { left }

  func write(_ batch: StoreBatch) throws(StoreError) {
    try attempt()
    batches.append(batch)
  }

  func probe() throws(StoreError) {
    probes += 1
    try attempt()
  }

  private func attempt() throws(StoreError) {
    if isBroken { throw .failed(operation: "write a change", problem: "disk full") }
  }

  /// What was saved last of a channel.
  func lastSave() throws -> ChannelChange {
    let saves = batches.flatMap(\.changes).compactMap {
      if case .save(_, let change) = $0 { change } else { nil }
    }
    return try #require(saves.last)
  }
}

/// A hub on a slow disk, and what it answered and delivered.
final class HeldHub {
  final class Listener: Subscriber {
    let connection: Connection? = nil
    private(set) var heard: [Int] = []
    func deliver(_ broadcast: Broadcast) { heard.append(broadcast.frame.position.sequence) }
    func deliver(_ pass: FanOutPass, from next: Int, taken: Int) { pass.broadcasts.forEach(deliver) }
    func moved(to place: Int, in shard: ChannelShard) {}
  }

  let disk = SlowDisk()
  let store = NotedStore()
  let hub: Hub
  /// Each answer's status, or its outcome, with "again" for a repetition.
  private(set) var answers: [String] = []
  var log: [String] { lines.value }
  private let lines: Lines

  /// `@unchecked` is safe: the tests have one thread.
  private final class Lines: @unchecked Sendable {
    var value: [String] = []
  }

  init() {
    let lines = Lines()
    self.lines = lines
    hub = Hub(
      store: store, environment: disk.environment,
      log: ServerLog(lowest: .info) { entry in lines.value.append("\(entry.level) \(entry.message)") })
    hub.forgetAnswersLater()
  }

  /// A channel that is stored.
  func room(_ alias: String, _ more: String = "", policy: Int = 1) throws -> ChannelRoom {
    var created: ChannelRoom?
    create(alias, more, policy: policy) { created = $0 }
    try disk.finish()
    return try #require(created)
  }

  func create(
    _ alias: String, _ more: String = "", policy: Int = 1,
    _ done: @escaping (ChannelRoom?) -> Void = { _ in }
  ) {
    let json = #"{"app":"com.example.scores","message-storage-policy":\#(policy)\#(more)}"#
    guard let definition = try? definition(alias, json) else { return done(nil) }
    hub.create(definition) { [unowned self] result in
      switch result {
      case .success(let room):
        answers.append("created")
        done(room)
      case .failure(let error):
        answers.append("\(error.status) \(error.reason)")
        done(nil)
      }
    }
  }

  func publish(
    to room: ChannelRoom, priority: Priority = .immediate, id: RequestID? = nil, more: String = ""
  ) throws {
    let aps = Request.aps(more: more, timestamp: Int(disk.now.timeIntervalSince1970))
    let payload = try Payload(body: Array("{\"aps\":\(aps)}".utf8))
    let expiration =
      room.channel.settings.storagePolicy == .latest
      ? Expiration.at(Int64(disk.now.timeIntervalSince1970) + 3_600) : .once
    hub.publish(.success(payload), requestID: id, priority: priority, expiration: expiration, into: room) {
      [unowned self] result in
      switch result {
      case .success(let publication):
        answers.append(
          publication.result.outcome.rawValue + (publication.result.isRepetition ? " again" : ""))
      case .failure(let error): answers.append("\(error.status) \(error.reason)")
      }
    }
  }

  func delete(_ room: ChannelRoom) {
    hub.delete(room) { [unowned self] error in
      answers.append(error.map { "\($0.status) \($0.reason)" } ?? "deleted")
    }
  }

  func subscribe(to room: ChannelRoom) -> Listener {
    let listener = Listener()
    _ = room.shard.add(listener, at: room.seen.position.sequence)
    return listener
  }

  func forgetAnswers() { answers = [] }
}
