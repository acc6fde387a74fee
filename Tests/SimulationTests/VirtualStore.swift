import BroadcastChannels
import Foundation

/// A store that has what it was given after a while, and what of a run waits for that.
struct VirtualStore {
  /// Something that happened and is not stored.
  struct Held {
    /// The channel and its judge before it.
    let checkpoint: Channel.Checkpoint
    let judge: ChannelJudge
    let requestID: RequestID?
    let change: ChannelChange
    /// What nobody has heard of yet.
    let effects: [ChannelEffect]
  }

  /// What is there after a crash.
  private(set) var state: ChannelState
  /// Whether it takes its time; otherwise it has everything at once.
  let isSlow: Bool
  var held: [Held] = []
  var crashes = 0

  init(_ position: StreamPosition, isSlow: Bool) {
    state = ChannelState(position: position)
    self.isSlow = isSlow
  }

  /// Stores the first of what is held, in one write.
  mutating func store(_ count: Int) -> [ChannelEffect] {
    let written = held.prefix(count)
    guard var change = written.first?.change else { return [] }
    for later in written.dropFirst() { change.merge(later.change) }
    state.apply(change)
    held.removeFirst(count)
    return written.flatMap(\.effects)
  }
}

extension Simulation {
  /// The channel as subscribers may see it.
  var seen: Channel.Checkpoint {
    let stores = channel.settings.storagePolicy == .latest
    return stores ? store.held.first?.checkpoint ?? channel.checkpoint : channel.checkpoint
  }

  /// Something happened: subscribers hear of it when it is stored, or at once when the channel stores nothing.
  mutating func hold(
    _ effects: [ChannelEffect], since before: Channel.Checkpoint, _ judge: ChannelJudge, _ id: RequestID?
  ) {
    let waits = channel.settings.storagePolicy == .latest
    if !waits { fanOut(effects) }
    guard let change = channel.change(since: before) else {
      if waits { fanOut(effects) }
      return
    }
    store.held.append(
      VirtualStore.Held(
        checkpoint: before, judge: judge, requestID: id, change: change, effects: waits ? effects : []))
    if !store.isSlow { storeAll() }
  }

  mutating func storeAll() { fanOut(store.store(store.held.count)) }

  mutating func storeSome() {
    guard !store.held.isEmpty else { return }
    let count = 1 + random.below(store.held.count)
    note("the store has \(count) of \(store.held.count)")
    fanOut(store.store(count))
  }

  /// The server is killed, and comes back some seconds later with what was stored. Its subscribers come back too.
  mutating func crash() throws(Violation) {
    store.crashes += 1
    note("the server crashes, \(store.held.count) writes are lost")
    if let first = store.held.first { judge = first.judge }
    store.held = []
    now += random.seconds(upTo: 5)
    for index in subscribers.indices { try subscribers[index].advance(to: now) }
    var state = store.state
    let epoch = "epoch-\(store.crashes)"
    if channel.settings.storagePolicy == .none {
      try Violation.unless(
        state.waiting.isEmpty && state.newest == nil, "a channel that stores nothing stored a message")
      state.position = StreamPosition(epoch: epoch, sequence: 0)
    }
    channel = Channel(id: channel.id, alias: nil, settings: channel.settings, state: state, now: now)
    judge.restarted(epoch: epoch, at: now)
    for index in subscribers.indices where subscribers[index].isConnected {
      try subscribers[index].reconnect(to: seen, at: now, using: &random)
    }
  }

  /// The disk is full: with policy 1 what it doesn't have has not happened. With policy 0 it gets it later.
  mutating func fillDisk() throws(Violation) {
    guard channel.settings.storagePolicy == .latest, let first = store.held.first else { return }
    note("the disk is full, \(store.held.count) writes fail")
    for held in store.held.reversed() { channel.restore(held.checkpoint, forgetting: held.requestID) }
    store.held = []
    judge = first.judge
    judge.excuseDelay(at: now)
    let stored = Channel(id: channel.id, alias: nil, settings: channel.settings, state: store.state, now: now)
    try Violation.unless(
      stored.position == channel.position && stored.nextDeadline == channel.nextDeadline
        && stored.budgetReport(at: now) == channel.budgetReport(at: now)
        && stored.newest(after: nil, at: now)?.position == channel.newest(after: nil, at: now)?.position,
      "what failed left something behind")
  }
}
