// Why: every end is polite: the write side is shut first and the peer's rest is read for a moment, because close() with
// unread input makes the kernel send RST, which can take the last answer away from the peer (RFC 9112 section 9.6).

/// A connection on which nothing more is said; what still comes is thrown away.
final class Farewell: ServedConnection, WireUser {
  private let wire: Wire
  private unowned(unsafe) let host: ConnectionHost
  private let deadline: Double
  private static let seconds = 2.0

  init(_ wire: Wire, host: ConnectionHost) {
    self.wire = wire
    self.host = host
    deadline = host.loop.now + Self.seconds
    wire.shutWriting()
    wire.user = self
    wire.want(.readable)
  }

  func isReady(_ wire: Wire, _ events: Wire.Events) {
    let goesOn = host.scratch.withUnsafeMutableBytes { wire.discard(into: $0) }
    if !goesOn || events.contains(.failed) { abort() }
  }

  func check(_ now: Double) {
    if deadline < now { abort() }
  }

  func drain() {}

  func abort() {
    wire.close()
    host.forget(self)
  }
}
