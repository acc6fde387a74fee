// Why: libuv calls uv_check_t handles right after it has polled and told of every event (uv_run in src/unix/core.c), which is the
// end of a turn. A timer's turn is before the poll, so an idle handle is started as well: with one, the poll doesn't block.

import CLibuv

/// Jobs for the end of the current turn of a loop.
final class TurnEnd {
  private let check: UnsafeMutablePointer<uv_check_t>
  private let idle: UnsafeMutablePointer<uv_idle_t>
  private var jobs: [() -> Void] = []

  init(_ loop: UnsafeMutablePointer<uv_loop_t>) {
    check = .allocate(capacity: 1)
    idle = .allocate(capacity: 1)
    uv_check_init(loop, check)
    uv_idle_init(loop, idle)
    Handle.attach(check, to: self)
    Handle.attach(idle, to: self)
  }

  func add(_ job: @escaping () -> Void) {
    jobs.append(job)
    guard jobs.count == 1 else { return }
    uv_check_start(check) { Handle.owner(of: $0, as: TurnEnd.self)?.run() }
    uv_idle_start(idle) { _ in }
  }

  private func run() {
    uv_check_stop(check)
    uv_idle_stop(idle)
    let jobs = self.jobs
    self.jobs = []
    for job in jobs { job() }
  }

  /// No job runs any more.
  func close() {
    jobs = []
    Handle.close(check)
    Handle.close(idle)
  }
}
