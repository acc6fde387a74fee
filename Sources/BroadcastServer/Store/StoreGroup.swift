import BroadcastChannels
import ChannelStore

/// Changes that are written as one, and who waits for that.
final class StoreGroup {
  /// Somebody who waits.
  struct Waiter {
    /// Whether what it waits for counts only when it was written.
    let isPromised: Bool
    /// Takes back what happened in memory alone. Called newest first, when the store has failed.
    var undo: (() -> Void)?
    /// The changes are kept, or the store has failed.
    let finish: (StoreError?) -> Void
  }

  private(set) var batch = StoreBatch()
  private var waiters: [Waiter] = []
  /// How many of them wait for nothing that was promised.
  private var unpromised = 0
  /// Whether it was written, or has failed.
  private(set) var isOver = false

  /// Whether another may wait. The disk is too slow otherwise, and memory has a bound.
  var hasRoom: Bool { waiters.count < Limits.waitingForStore }

  /// Whether anybody waits for it.
  var isAwaited: Bool { !waiters.isEmpty }

  /// Adds a change.
  func add(_ change: StoreChange, isPromised: Bool) { batch.add(change, isPromised: isPromised) }

  /// Adds what another one has to keep although it couldn't be written.
  func takeUnpromised(of other: StoreGroup) { batch.takeUnpromised(of: other.batch) }

  /// Waits, behind the others.
  func wait(
    isPromised: Bool, undo: (() -> Void)? = nil, _ finish: @escaping (StoreError?) -> Void
  ) {
    waiters.append(Waiter(isPromised: isPromised, undo: undo, finish: finish))
    if !isPromised { unpromised += 1 }
  }

  /// Those who wait for nothing that was promised wait no longer.
  func letGoOfUnpromised() -> [Waiter] {
    guard unpromised > 0 else { return [] }
    unpromised = 0
    defer { waiters.removeAll { !$0.isPromised } }
    return waiters.filter { !$0.isPromised }
  }

  /// It was written, or has failed. Rooms hold on to their group, so it lets go of whoever waited.
  func end() -> [Waiter] {
    isOver = true
    defer { (waiters, batch) = ([], StoreBatch()) }
    return waiters
  }
}
