import BroadcastChannels
import ChannelStore
import Foundation

/// Group commit: what comes in one turn of the loop, or while the disk is busy, is written in one transaction.
///
/// One group is under way at a time and the next one gathers, so that changes are kept in the order in which they came. When
/// the store fails, what gathers fails too, because it stands on what could not be kept. Then the writer tries again by
/// itself until the store works.
///
/// A disk can also stand still, which no call tells: `fsync` just doesn't return. After ``Limits/storeStallSeconds`` that counts
/// as a store that doesn't work: what is promised then is refused, and whoever waits for no promise waits no longer. What is
/// under way may still be written, so that those it was promised to go on waiting.
final class StoreWriter {
  private let store: any ChannelStore
  private let environment: HubEnvironment
  private let log: ServerLog
  private let metrics: ServerMetrics
  private var underWay: StoreGroup?
  private var gathering = StoreGroup()
  private var isStarting = false
  private var isTelling = false
  private var isTryingAgain = false
  private var isWatching = false
  private var whenIdle: [() -> Void] = []
  private var startedAt: Double = 0
  /// Since when the disk has stood still, if it does: when that write was begun.
  private var stalledSince: Double?
  private var failedAt: Double?
  /// What had to be kept and was taken back since the store last worked.
  private var takenBack = 0

  /// The store works again.
  var onRecovery: (() -> Void)?

  init(store: any ChannelStore, environment: HubEnvironment, log: ServerLog, metrics: ServerMetrics) {
    self.store = store
    self.environment = environment
    self.log = log
    self.metrics = metrics
  }

  /// Whether anything has to be written at all.
  var isDurable: Bool { store.isDurable }

  /// Whether the last thing that it was given could be kept.
  var isWorking: Bool { failedAt == nil }

  /// Whether the disk takes so long that it counts as standing still.
  var isStalled: Bool { stalledSince != nil }

  /// Seconds that the write under way has taken so far; 0 when there is none.
  var waitingSeconds: Double { underWay == nil ? 0 : max(0, environment.clock() - startedAt) }

  /// Whether another change that counts only when it is written may wait.
  var takesPromises: Bool { !isStalled && gathering.hasRoom }

  // MARK: Writing

  /// Keeps a change.
  ///
  /// - Parameters:
  ///   - isPromised: whether it counts only when it was written. Otherwise it is kept as soon as the store can.
  ///   - undo: takes it back in memory, when it was promised and the store has failed.
  ///   - finish: called once, in the order of the calls; at once when nothing has to be written.
  /// - Returns: what it is written with; nil when `finish` was called already.
  @discardableResult
  func write(
    _ change: StoreChange, isPromised: Bool, undo: (() -> Void)? = nil,
    _ finish: @escaping (StoreError?) -> Void
  ) -> StoreGroup? {
    guard store.isDurable else {
      finish(nil)
      return nil
    }
    let group = gathering
    group.add(change, isPromised: isPromised)
    if !isPromised, !isWorking || isStalled || !group.hasRoom {
      // It goes with the next try. Nobody waits for a store that may not work for long, and nobody is overtaken.
      letGoOfUnpromised()
      finish(nil)
      return nil
    }
    group.wait(isPromised: isPromised, undo: undo, finish)
    startSoon()
    return group
  }

  /// Waits for something that is being written, behind the others, or for nothing when the disk stands still.
  ///
  /// - Parameters:
  ///   - isPromised: whether what waits counts only when that was written.
  ///   - finish: gets an error when that failed, or when it can't wait.
  func wait(for group: StoreGroup, isPromised: Bool, _ finish: @escaping (StoreError?) -> Void) {
    guard group.hasRoom, !isStalled else {
      guard isPromised else {
        letGoOfUnpromised()
        return finish(nil)
      }
      return finish(.failed(operation: "keep up", problem: "too much waits for the disk"))
    }
    group.wait(isPromised: isPromised, finish)
  }

  /// Calls back when nothing is under way or waits to be; what waits for a store that has failed is tried once more.
  func whenIdle(_ body: @escaping () -> Void) {
    if !gathering.batch.isEmpty { startSoon() }
    guard underWay != nil || isStarting || isTelling else { return body() }
    whenIdle.append(body)
  }

  private func startSoon() {
    guard underWay == nil, !isStarting, !isTelling else { return }
    isStarting = true
    environment.atEndOfTurn { [weak self] in
      self?.isStarting = false
      self?.start()
    }
  }

  private func start() {
    guard underWay == nil else { return }
    let group = gathering
    gathering = StoreGroup()
    underWay = group
    startedAt = environment.clock()
    watch()
    let (store, batch) = (store, group.batch)
    environment.perform {
      do throws(StoreError) {
        if batch.isEmpty { try store.probe() } else { try store.write(batch) }
        return nil
      } catch {
        return error
      }
    } _: { [weak self] error in
      self?.ended(group, error)
    }
  }

  private func ended(_ group: StoreGroup, _ error: StoreError?) {
    underWay = nil
    let isSynced = group.batch.isEmpty || group.batch.isPromised
    let seconds = max(0, environment.clock() - startedAt)
    if let stalledSince { tellMoving(after: environment.clock() - stalledSince) }
    stalledSince = nil
    // Who is told may write at once; that has to wait until all were told, or it would overtake them.
    isTelling = true
    if let error {
      failed(group, error)
    } else {
      metrics.storeCommit(seconds: seconds, isSynced: isSynced)
      kept(group)
    }
    isTelling = false
    // What nobody waits for came while a store was tried again that works now.
    if gathering.isAwaited || (isWorking && !gathering.batch.isEmpty) { start() }
    guard underWay == nil else { return }
    let idle = whenIdle
    whenIdle = []
    for body in idle { body() }
  }

  private func kept(_ group: StoreGroup) {
    let failedAt = failedAt
    self.failedAt = nil
    if let failedAt { tellRecovery(after: environment.clock() - failedAt) }
    for waiter in group.end() { waiter.finish(nil) }
    if failedAt != nil { onRecovery?() }
  }

  // MARK: Standing still

  /// Looks whether the write under way ends in time. One timer at a time, however many writes there are.
  private func watch() {
    guard !isWatching else { return }
    isWatching = true
    let left = Limits.storeStallSeconds - waitingSeconds
    _ = environment.schedule(max(0, left)) { [weak self] in
      guard let self else { return }
      isWatching = false
      guard underWay != nil, !isStalled else { return }
      if waitingSeconds < Limits.storeStallSeconds { watch() } else { stalled() }
    }
  }

  private func stalled() {
    stalledSince = startedAt
    log(
      .error, .store,
      "the store's disk has not answered for \(JSONWriter.seconds(Limits.storeStallSeconds)) s; what has to be kept is refused with 503 until it does",
      key: "stalled")
    letGoOfUnpromised()
  }

  private func letGoOfUnpromised() {
    let waiters = [underWay, gathering].compactMap(\.self).flatMap { $0.letGoOfUnpromised() }
    for waiter in waiters { waiter.finish(nil) }
  }

  private func tellMoving(after seconds: Double) {
    log(
      .info, .store, "the store's disk has answered after \(JSONWriter.seconds(seconds)) s", key: "answers")
  }

  // MARK: Failing

  private func failed(_ group: StoreGroup, _ error: StoreError) {
    let groups = [group, gathering]
    gathering = StoreGroup()
    metrics.storeFailed()
    if failedAt == nil {
      failedAt = environment.clock()
      log(
        .error, .store, "\(error); what has to be kept is refused with 503 until the store works again",
        key: "failed")
    }
    // What nobody waits for has happened: it is kept when the store works again.
    for group in groups { gathering.takeUnpromised(of: group) }
    let waiters = groups.flatMap { $0.end() }
    for waiter in waiters.reversed() { waiter.undo?() }
    takenBack += waiters.count { $0.undo != nil }
    for waiter in waiters { waiter.finish(error) }
    tryAgain()
  }

  private func tryAgain() {
    guard !isTryingAgain else { return }
    isTryingAgain = true
    _ = environment.schedule(Limits.storeRetrySeconds) { [weak self] in
      guard let self else { return }
      isTryingAgain = false
      guard !isWorking else { return }
      if underWay == nil, !isStarting { start() } else { tryAgain() }
    }
  }

  private func tellRecovery(after seconds: Double) {
    log(
      .info, .store,
      "the store works again after \(JSONWriter.seconds(seconds)) s; \(takenBack) changes were taken back meanwhile",
      key: "works again")
    takenBack = 0
  }
}
