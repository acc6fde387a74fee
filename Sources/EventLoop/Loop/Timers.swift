// Why: libwebsockets keeps its timers in one sorted list that is walked from the head
// (lib/core-net/sorted-usec-list.c), libuv in a heap. Thousands of timers belong in the heap.

import CLibuv

/// A timer of an ``EventLoop``; it lives until it fired (or, if it repeats, until it is cancelled).
public final class LoopTimer: LoopResource {
  private unowned(unsafe) let loop: EventLoop
  private var handle: UnsafeMutablePointer<uv_timer_t>?
  private var body: (() -> Void)?
  private let repeats: Bool

  init(loop: EventLoop, after delay: Double, every interval: Double?, body: @escaping () -> Void) {
    self.loop = loop
    self.repeats = interval != nil
    guard loop.acceptsResources else { return }
    self.body = body
    let handle = UnsafeMutablePointer<uv_timer_t>.allocate(capacity: 1)
    uv_timer_init(loop.uv, handle)
    Handle.attach(handle, to: self)
    self.handle = handle
    loop.keep(self)
    // The loop's clock stands still between turns; without this a timer set late in a turn fires early.
    uv_update_time(loop.uv)
    let period = interval.map { max(1, milliseconds($0)) } ?? 0
    uv_timer_start(handle, { Handle.owner(of: $0, as: LoopTimer.self)?.fire() }, milliseconds(delay), period)
  }

  /// Ends the timer; its body is not called any more. Idempotent.
  public func cancel() {
    guard let handle else { return }
    self.handle = nil
    body = nil
    loop.release(self)
    Handle.close(handle)
  }

  func loopEnds() { cancel() }

  private func fire() {
    let body = self.body
    if !repeats { cancel() }
    body?()
  }
}

/// Rounded up, and one more because libuv's clock counts whole milliseconds: a timer may be late, never early.
private func milliseconds(_ seconds: Double) -> UInt64 {
  seconds > 0 ? UInt64(min(seconds, 1e9) * 1000 + 1.999) : 0
}

extension EventLoop {
  /// Calls `body` on the loop's thread after `delay` seconds, and then every `interval` seconds if given.
  @discardableResult
  public func schedule(
    after delay: Double, every interval: Double? = nil, _ body: @escaping () -> Void
  ) -> LoopTimer {
    LoopTimer(loop: self, after: delay, every: interval, body: body)
  }
}
