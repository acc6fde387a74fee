import BroadcastChannels
import ChannelStore
import Foundation

/// Changes that are written as one, and who waits for that.
final class StoreGroup {
  /// Somebody who waits.
  struct Waiter {
    /// Takes back what happened in memory alone. Called newest first, when the store has failed.
    var undo: (() -> Void)?
    /// The changes are kept, or the store has failed.
    let finish: (StoreError?) -> Void
  }

  fileprivate(set) var batch = StoreBatch()
  fileprivate var waiters: [Waiter] = []
  /// Whether it was written, or has failed.
  fileprivate(set) var isOver = false

  /// Whether another may wait. The disk is too slow otherwise, and memory has a bound.
  var hasRoom: Bool { waiters.count < Limits.waitingForStore }

  /// Waits too, behind the others.
  func wait(_ finish: @escaping (StoreError?) -> Void) { waiters.append(Waiter(finish: finish)) }

  /// It was written, or has failed. Rooms hold on to their group, so it lets go of whoever waited.
  fileprivate func end() -> [Waiter] {
    isOver = true
    defer { (waiters, batch) = ([], StoreBatch()) }
    return waiters
  }
}

/// Group commit: what comes in one turn of the loop, or while the disk is busy, is written in one transaction.
///
/// One group is under way at a time and the next one gathers, so that changes are kept in the order in which they came. When
/// the store fails, what gathers fails too, because it stands on what could not be kept. Then the writer tries again by
/// itself until the store works.
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
  private var whenIdle: [() -> Void] = []
  private var startedAt = Date.distantPast
  private var failedAt: Date?
  /// Somebody who waited was told that the store has failed: how often since it last worked.
  private var failures = 0

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

  /// Whether another change may wait.
  var hasRoom: Bool { gathering.hasRoom }

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
    group.batch.add(change, isPromised: isPromised)
    if !isPromised, !isWorking {
      // It goes with the next try. Nobody waits for a store that may not work for long.
      finish(nil)
      return nil
    }
    group.waiters.append(StoreGroup.Waiter(undo: undo, finish: finish))
    startSoon()
    return group
  }

  /// Calls back when nothing is under way or waits to be.
  func whenIdle(_ body: @escaping () -> Void) {
    guard underWay != nil || !gathering.waiters.isEmpty else { return body() }
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
    startedAt = environment.now()
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
    // Who is told may write at once; that has to wait until all were told, or it would overtake them.
    isTelling = true
    if let error { failed(group, error) } else { kept(group) }
    isTelling = false
    if !gathering.waiters.isEmpty { start() }
    guard underWay == nil else { return }
    let idle = whenIdle
    whenIdle = []
    for body in idle { body() }
  }

  private func kept(_ group: StoreGroup) {
    metrics.storeCommit(seconds: max(0, environment.now().timeIntervalSince(startedAt)))
    let failedAt = failedAt
    self.failedAt = nil
    if let failedAt { tellRecovery(since: failedAt) }
    for waiter in group.end() { waiter.finish(nil) }
    if failedAt != nil { onRecovery?() }
  }

  // MARK: Failing

  private func failed(_ group: StoreGroup, _ error: StoreError) {
    let groups = [group, gathering]
    gathering = StoreGroup()
    metrics.storeFailed()
    if failedAt == nil {
      failedAt = environment.now()
      log(
        .error, .store, "\(error); what has to be kept is refused with 503 until the store works again",
        key: "failed")
    }
    // What nobody waits for has happened: it is kept when the store works again.
    for group in groups { gathering.batch.takeUnpromised(of: group.batch) }
    let waiters = groups.flatMap { $0.end() }
    for waiter in waiters.reversed() { waiter.undo?() }
    failures += waiters.count
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

  private func tellRecovery(since failedAt: Date) {
    let seconds = JSONWriter.seconds(environment.now().timeIntervalSince(failedAt))
    log(
      .info, .store, "the store works again after \(seconds) s; \(failures) writes had failed",
      key: "works again")
    failures = 0
  }
}
