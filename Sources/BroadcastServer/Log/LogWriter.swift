import BroadcastChannels
import Foundation
import Locks

/// Writes lines to a descriptor from a thread of its own: a pipe whose reader has stopped must not stop the server.
///
/// What waits is bounded by ``Limits/logBytes``; beyond it lines are lost, and how many is said once there is room again.
public final class LogWriter: Sendable {
  private struct State {
    var waiting: [UInt8] = []
    var lost = 0
    var lostInAll = 0
    var hasEnded = false
  }

  private let descriptor: Int32
  private let state = Mutex(State())
  private let more = DispatchSemaphore(value: 0)
  private let isIdle = DispatchSemaphore(value: 0)
  private let lostLine: @Sendable (Int) -> String

  /// Begins a thread that lives until ``close(within:)``.
  ///
  /// - Parameters:
  ///   - descriptor: where to; it stays open, and blocking as it is.
  ///   - lostLine: the line that tells how many were lost.
  public init(descriptor: Int32, lostLine: @escaping @Sendable (Int) -> String) {
    self.descriptor = descriptor
    self.lostLine = lostLine
    let thread = Thread { [self] in run() }
    thread.name = "log"
    thread.start()
  }

  /// How many lines were lost so far.
  public var lostLines: Int { state.withLock { $0.lostInAll } }

  /// Writes a line soon, never waiting.
  public func write(_ line: String) {
    let isFirst = state.withLock { state in
      guard !state.hasEnded else { return false }
      let bytes = Array(line.utf8) + [UInt8(ascii: "\n")]
      guard state.waiting.count + bytes.count <= Limits.logBytes else {
        state.lost += 1
        state.lostInAll += 1
        return false
      }
      let wasEmpty = state.waiting.isEmpty
      // The place of the gap is where the lines are missing.
      if state.lost > 0, wasEmpty {
        state.waiting += Array(lostLine(state.lost).utf8) + [UInt8(ascii: "\n")]
        state.lost = 0
      }
      state.waiting += bytes
      return wasEmpty
    }
    if isFirst { more.signal() }
  }

  /// Waits until everything was written, and ends the thread; what can't be written in that time is lost.
  public func close(within seconds: Double = 1) {
    let wasOpen = state.withLock { state in
      defer { state.hasEnded = true }
      return !state.hasEnded
    }
    guard wasOpen else { return }
    more.signal()
    _ = isIdle.wait(timeout: .now() + seconds)
  }

  private func run() {
    while true {
      more.wait()
      while let bytes = takeWaiting() { writeAll(bytes) }
      if state.withLock({ $0.hasEnded && $0.waiting.isEmpty }) { break }
    }
    isIdle.signal()
  }

  private func takeWaiting() -> [UInt8]? {
    state.withLock { state in
      if state.waiting.isEmpty, state.lost > 0 {
        state.waiting = Array(lostLine(state.lost).utf8) + [UInt8(ascii: "\n")]
        state.lost = 0
      }
      guard !state.waiting.isEmpty else { return nil }
      let bytes = state.waiting
      state.waiting = []
      return bytes
    }
  }

  private func writeAll(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 {
        rest = rest.dropFirst(count)
      } else if errno == EAGAIN {
        // Somebody else who has the same open file made it non-blocking.
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&room, 1, 1_000)
      } else if errno != EINTR {
        // Nobody reads it any more.
        return
      }
    }
  }
}
