// Why: who is turned away shall know it at once and cost next to nothing: no object, no poll handle, no TLS handshake (which costs
// a hundred times what a refusal does; a TLS client just sees the connection end). The answer is sent before the request is read. A
// close with unread input makes the kernel send RST, which can take the answer away from the peer (RFC 9112 section 9.6), so some are
// kept open for a moment.

import CLinux
import Glibc

/// Connections that were accepted only to be told that there are too many.
struct TurnedAway {
  /// How many are kept open for a moment; beyond that the oldest is closed at once.
  private static let most = 32
  private static let seconds = 1.0
  private var waiting: [(descriptor: Int32, until: Double)] = []

  /// Owns the descriptor.
  /// - Parameters:
  ///   - answer: what is said; nothing on a secure port.
  ///   - lingers: whether there are descriptors to keep this one open.
  mutating func add(_ descriptor: Int32, _ answer: [UInt8], lingers: Bool, now: Double) {
    if !answer.isEmpty { _ = shim_send_now(descriptor, answer, answer.count) }
    shutdown(descriptor, Int32(SHUT_WR))
    guard lingers, !answer.isEmpty else { return Self.close(descriptor) }
    if waiting.count >= Self.most { Self.close(waiting.removeFirst().descriptor) }
    waiting.append((descriptor, now + Self.seconds))
  }

  mutating func closeThose(before now: Double) {
    while let first = waiting.first, first.until < now {
      Self.close(first.descriptor)
      waiting.removeFirst()
    }
  }

  /// A moment's worth of what it said is read; whoever says more is cut off.
  private static func close(_ descriptor: Int32) {
    withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { buffer in
      _ = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
    }
    Glibc.close(descriptor)
  }
}

/// A descriptor that is kept for when there are none left: given up, it lets one connection be accepted and told so.
struct SpareDescriptor {
  private var descriptor: Int32 = -1

  init() { refill() }

  /// Gets one, if there is one.
  mutating func refill() {
    if descriptor < 0 { descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC) }
  }

  /// Makes room for one descriptor. `false` when there was none to give up.
  mutating func giveUp() -> Bool {
    guard descriptor >= 0 else { return false }
    Glibc.close(descriptor)
    descriptor = -1
    return true
  }
}
