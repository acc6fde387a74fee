// Why: a loop and everything on it belong to one thread. This is the only door for other threads, and
// the only Sendable object of the module's run-time half. libuv allows exactly one call from outside,
// uv_async_send(); the lock makes sure that it is never made on a handle that is being freed.

import CLibuv
import Locks

/// Hands work from any thread to the thread of an ``EventLoop``.
public final class LoopRemote: Sendable {
  /// `@unchecked` is safe: it lives inside the lock, and the handle is used for uv_async_send() alone, which libuv allows
  /// from any thread.
  private struct State: @unchecked Sendable {
    var jobs: [@Sendable () -> Void] = []
    var wake: UnsafeMutablePointer<uv_async_t>?
  }

  private let state = Mutex(State())

  init() {}

  /// Runs `job` on the loop's thread, after the jobs posted before it. Does nothing once the loop ended.
  public func post(_ job: @escaping @Sendable () -> Void) {
    state.withLock { state in
      guard let wake = state.wake else { return }
      state.jobs.append(job)
      uv_async_send(wake)
    }
  }

  /// Lets the loop look into its mailboxes soon.
  func wake() {
    state.withLock { state in
      guard let wake = state.wake else { return }
      uv_async_send(wake)
    }
  }

  func connect(_ wake: UnsafeMutablePointer<uv_async_t>) {
    let state = State(jobs: [], wake: wake)
    self.state.withLock { $0 = state }
  }

  /// After this returns no thread touches the handle any more; jobs that were not run are dropped.
  func disconnect() {
    state.withLock { $0 = State() }
  }

  func takeJobs() -> [@Sendable () -> Void] {
    state.withLock { state in
      let jobs = state.jobs
      state.jobs = []
      return jobs
    }
  }
}
