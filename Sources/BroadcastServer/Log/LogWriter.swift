import BroadcastChannels
import EventLoop
import Foundation
import Locks

/// Writes lines to a descriptor from a thread of its own: a pipe whose reader has stopped must not stop the server.
///
/// What waits is bounded by ``Limits/logBytes``; beyond it lines are lost, as are those that can't be written, such as on a full
/// disk. How many is said once there is room again.
public final class LogWriter: Sendable {
  private struct State {
    var waiting: [UInt8] = []
    /// Lines that found no room behind those that wait.
    var crowdedOut = 0
    /// Lines before those that wait, which could not be written.
    var unwritten = 0
    var lostInAll = 0
    var hasEnded = false
  }

  /// What is written at once: lines, or the one line that stands for some that were lost.
  private struct Part {
    let bytes: [UInt8]
    /// Nil for lines.
    let lost: Int?
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
        state.crowdedOut += 1
        state.lostInAll += 1
        return false
      }
      defer { state.waiting += bytes }
      return state.waiting.isEmpty
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
      while let parts = takeWaiting() { write(parts) }
      if state.withLock({ $0.hasEnded && $0.waiting.isEmpty }) { break }
    }
    isIdle.signal()
  }

  private func takeWaiting() -> [Part]? {
    state.withLock { state in
      guard !state.waiting.isEmpty || state.crowdedOut > 0 else { return nil }
      defer { (state.waiting, state.unwritten, state.crowdedOut) = ([], 0, 0) }
      // The place of a gap is where the lines are missing.
      return [part(of: state.unwritten), Part(bytes: state.waiting, lost: nil), part(of: state.crowdedOut)]
    }
  }

  private func part(of lost: Int) -> Part {
    Part(bytes: lost == 0 ? [] : Array(lostLine(lost).utf8) + [UInt8(ascii: "\n")], lost: lost)
  }

  /// What can't be written, as on a full disk or for a reader that has gone, is lost, and counted.
  private func write(_ parts: [Part]) {
    var (lines, lost) = (0, 0)
    for part in parts {
      // Behind a gap nothing is tried: it would look as if nothing were missing.
      let hasFailed = lines + lost > 0
      let rest = hasFailed ? part.bytes[...] : writeAll(part.bytes, to: descriptor)?.rest ?? []
      guard !rest.isEmpty else { continue }
      if let known = part.lost { lost += known } else { lines += rest.count { $0 == UInt8(ascii: "\n") } }
    }
    guard lines + lost > 0 else { return }
    state.withLock { [lines, lost] state in
      state.unwritten += lines + lost
      state.lostInAll += lines
    }
  }
}
