// Why: signals and foreign descriptors (standard input, a pipe of a child) join the same loop, so that
// their callbacks may touch everything else on it.

import CLibuv
import Glibc

/// A watched signal; see ``EventLoop/onSignal(_:_:)``.
public final class SignalWatch: LoopResource {
  private unowned(unsafe) let loop: EventLoop
  private var handle: UnsafeMutablePointer<uv_signal_t>?
  private var body: (() -> Void)?

  init(loop: EventLoop, number: Int32, body: @escaping () -> Void) {
    self.loop = loop
    guard loop.acceptsResources else { return }
    let handle = UnsafeMutablePointer<uv_signal_t>.allocate(capacity: 1)
    guard uv_signal_init(loop.uv, handle) == 0 else {
      handle.deallocate()
      return
    }
    self.body = body
    self.handle = handle
    Handle.attach(handle, to: self)
    loop.keep(self)
    let started = uv_signal_start(
      handle, { handle, _ in Handle.owner(of: handle, as: SignalWatch.self)?.body?() }, number)
    if started != 0 { cancel() }
  }

  /// Whether the signal is really watched: false after ``cancel()`` and for signals that cannot be caught.
  public var isActive: Bool { handle != nil }

  /// Ends the watch; the signal gets its former effect back. Idempotent.
  public func cancel() {
    guard let handle else { return }
    self.handle = nil
    body = nil
    loop.release(self)
    Handle.close(handle)
  }

  func loopEnds() { cancel() }
}

/// A watched descriptor; see ``EventLoop/watchReadable(_:_:)``.
public final class DescriptorWatch: LoopResource {
  private unowned(unsafe) let loop: EventLoop
  private var handle: UnsafeMutablePointer<uv_poll_t>?
  private var fallback: LoopTimer?
  private var body: (() -> Void)?

  init(loop: EventLoop, descriptor: Int32, body: @escaping () -> Void) throws {
    self.loop = loop
    guard loop.acceptsResources else {
      throw EventLoopError.cannotWatch(descriptor: descriptor, reason: "the loop has ended")
    }
    let handle = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    let made = uv_poll_init(loop.uv, handle, descriptor)
    guard made == 0 else {
      handle.deallocate()
      // epoll(7) refuses regular files and /dev/null with EPERM: they are always "readable".
      guard made == UV_EPERM.rawValue else {
        throw EventLoopError.cannotWatch(descriptor: descriptor, reason: describe(uvError: made))
      }
      fallback = loop.schedule(after: 0, every: 0.001, body)
      return
    }
    self.body = body
    self.handle = handle
    Handle.attach(handle, to: self)
    loop.keep(self)
    uv_poll_start(handle, Int32(UV_READABLE.rawValue)) { handle, _, _ in
      // An error also ends here: the body's read() reports it.
      Handle.owner(of: handle, as: DescriptorWatch.self)?.body?()
    }
  }

  /// Ends the watch; the descriptor stays open. Idempotent.
  public func cancel() {
    fallback?.cancel()
    fallback = nil
    guard let handle else { return }
    self.handle = nil
    body = nil
    loop.release(self)
    Handle.close(handle)
  }

  func loopEnds() { cancel() }
}

extension EventLoop {
  /// Calls `body` on the loop's thread each time the process gets the signal.
  @discardableResult
  public func onSignal(_ number: Int32, _ body: @escaping () -> Void) -> SignalWatch {
    SignalWatch(loop: self, number: number, body: body)
  }

  /// Calls `body` whenever `descriptor` has something to read, or reached its end. The descriptor becomes
  /// non-blocking. For a regular file or `/dev/null` the body is called every millisecond until it cancels.
  /// - Throws: ``EventLoopError/cannotWatch(descriptor:reason:)`` for a closed or twice watched descriptor.
  public func watchReadable(_ descriptor: Int32, _ body: @escaping () -> Void) throws -> DescriptorWatch {
    try DescriptorWatch(loop: self, descriptor: descriptor, body: body)
  }
}
