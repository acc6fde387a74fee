import ChannelStore
import Dispatch
import EventLoop

/// Where the store waits for the disk: a thread beside the loop's, so that a slow disk holds up nobody who needs none.
///
/// The two changes of threads cost a message nothing that can be measured beside its sync (BENCHMARKS.md).
///
/// Until the server has started there is nobody to hold up, and what it then writes is done at once.
final class StorageThread {
  private let queue = DispatchQueue(label: "touchline.store")
  private let loop: EventLoop
  private var hasStarted = false
  private var early: [() -> Void] = []

  /// - Parameter loop: whose thread uses this.
  init(_ loop: EventLoop) { self.loop = loop }

  /// Does what was put off until now, and from now on everything beside the loop.
  func start() {
    while !early.isEmpty { early.removeFirst()() }
    hasStarted = true
  }

  /// Calls back at the end of the loop's turn; before the start, at the start.
  func atEndOfTurn(_ body: @escaping () -> Void) {
    if hasStarted { loop.atEndOfTurn(body) } else { early.append(body) }
  }

  /// Does some work, one after the other, and comes back with what came of it. After the loop has ended nobody is told.
  func perform(_ work: @escaping @Sendable () -> StoreError?, _ done: @escaping (StoreError?) -> Void) {
    guard hasStarted else { return done(work()) }
    let carried = Carried(value: done)
    let remote = loop.remote
    queue.async {
      let error = work()
      remote.post { carried.value(error) }
    }
  }

  /// `@unchecked` is safe: it is made and called on the loop's thread, and only passed through on the other.
  private struct Carried: @unchecked Sendable {
    let value: (StoreError?) -> Void
  }
}
