// Why: lws gets a descriptor and reads and writes it itself, and ServerSocket writes around lws with send(2). Neither knows our
// TLS, and lws' own would need the handshake to begin in lws. So a secure WebSocket gets one end of a socket pair, and what
// goes through the other end is carried through TLS here. Each way holds one piece and reads no further while it cannot pass
// it on: a slow peer fills the pair, and lws and ServerSocket feel it as they would feel a full socket.

import CLibwebsocketsShims
import Glibc

/// Carries bytes between a TLS connection and a socket pair, both ways, until one of them ends.
final class TLSRelay: ServedConnection, WireUser {
  /// What was read at one side and is not yet written at the other.
  private struct Way {
    var rest: [UInt8] = []
    var written = 0
    /// Nothing more comes from where it is read.
    var hasEnded = false
    var isEmpty: Bool { written >= rest.count }
  }

  /// One TLS record.
  private static let pieceBytes = 16_384
  /// Pieces of one side in a turn of the loop.
  private static let piecesATurn = 8

  private let outer: Wire
  private let inner: Wire
  private unowned(unsafe) let server: HTTPServer
  private var outward = Way()
  private var inward = Way()
  private var innerWasTold = false
  private var isOver = false
  private var deadline = Double.infinity

  /// A relay, and the descriptor of the end that it serves in the clear; nil when the system gives no pair.
  static func make(_ outer: Wire, server: HTTPServer) -> (TLSRelay, Int32)? {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
    guard Statics.withProcessLock({ socketpair(AF_UNIX, kind, 0, &ends) }) == 0 else { return nil }
    // What the pair holds counts like what a socket's own buffer holds.
    if var size = server.options.sendBufferBytes {
      for end in ends { setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size)) }
    }
    guard let inner = Wire(loop: server.loop, descriptor: ends[0]) else {
      for end in ends { Glibc.close(end) }
      return nil
    }
    return (TLSRelay(outer, inner, server), ends[1])
  }

  private init(_ outer: Wire, _ inner: Wire, _ server: HTTPServer) {
    self.outer = outer
    self.inner = inner
    self.server = server
    outer.user = self
    inner.user = self
    updateEvents()
  }

  func isReady(_ wire: Wire, _ events: Wire.Events) {
    if wire === outer, events.contains(.failed) { return abort() }
    // A broken pair means that lws is gone; what it said before is read until its end is seen.
    carry(\.outward, from: inner, to: outer)
    carry(\.inward, from: outer, to: inner)
    settle()
  }

  private func carry(_ way: ReferenceWritableKeyPath<TLSRelay, Way>, from: Wire, to: Wire) {
    for _ in 0..<Self.piecesATurn {
      guard !isOver, flush(way, to: to), !self[keyPath: way].hasEnded else { return }
      let moved = server.scratch.withUnsafeMutableBytes { buffer in
        from.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(Self.pieceBytes)))
      }
      switch moved {
      case .blocked: return
      case .bytes(let count): self[keyPath: way].rest = Array(server.scratch.prefix(count))
      case .ended: self[keyPath: way].hasEnded = true
      case .failed:
        if from === outer { return abort() }
        self[keyPath: way].hasEnded = true
      }
    }
    _ = flush(way, to: to)
  }

  /// `true` when nothing is left.
  private func flush(_ way: ReferenceWritableKeyPath<TLSRelay, Way>, to: Wire) -> Bool {
    while !self[keyPath: way].isEmpty {
      let written = self[keyPath: way].written
      let moved = self[keyPath: way].rest.withUnsafeBytes { buffer in
        buffer.baseAddress.map { to.write($0 + written, buffer.count - written) } ?? .blocked
      }
      switch moved {
      case .bytes(let count): self[keyPath: way].written += count
      case .blocked: return false
      case .ended, .failed:
        if to === outer {
          abort()
          return false
        }
        // lws closed its end: what the peer still says is for nobody.
        self[keyPath: way].written = self[keyPath: way].rest.count
        inward.hasEnded = true
      }
    }
    self[keyPath: way].rest = []
    self[keyPath: way].written = 0
    return true
  }

  private func settle() {
    guard !isOver else { return }
    if outward.hasEnded {
      guard outward.isEmpty else {
        deadline = min(deadline, server.loop.now + 5)
        return updateEvents()
      }
      isOver = true
      inner.close()
      return server.replace(self, with: Farewell(outer, server: server))
    }
    if inward.hasEnded, inward.isEmpty, !innerWasTold {
      innerWasTold = true
      inner.shutWriting()
      // lws closes when it reads the end.
      deadline = server.loop.now + 5
    }
    updateEvents()
  }

  private func updateEvents() {
    outer.want(wanted(reading: inward, writing: outward))
    inner.want(wanted(reading: outward, writing: inward))
  }

  private func wanted(reading: Way, writing: Way) -> Wire.Events {
    var events: Wire.Events = []
    if !reading.hasEnded, reading.isEmpty { events.insert(.readable) }
    if !writing.isEmpty { events.insert(.writable) }
    return events
  }

  func check(_ now: Double) {
    if deadline < now { abort() }
  }

  func drain() {}

  func abort() {
    guard !isOver else { return }
    isOver = true
    outer.close()
    inner.close()
    server.forget(self)
  }
}
