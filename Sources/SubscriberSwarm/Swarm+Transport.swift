import CLinux
import Glibc

/// What goes to the kernel and comes from it.
extension Swarm {
  static let readable = UInt32(EPOLLIN.rawValue)
  static let writable = UInt32(EPOLLOUT.rawValue)
  private static let brokenFrame = "broken frame: "
  private static let broken = UInt32(EPOLLERR.rawValue | EPOLLHUP.rawValue)

  /// Whether the problem that ended an open connection is that what came is no frame, or no TLS: not that it just ended.
  public static func isGarbled(_ problem: String) -> Bool {
    problem.hasPrefix(brokenFrame) || problem.hasPrefix("TLS")
  }

  /// - Returns: whether the kernel did it: it has a bound on what it watches for a user (epoll(7)).
  @discardableResult
  func control(_ operation: Int32, _ id: ID) -> Bool {
    guard let link = self[id] else { return false }
    var event = epoll_event()
    event.events = link.interest
    event.data.u64 = UInt64(UInt32(id.slot)) | UInt64(UInt32(truncatingIfNeeded: id.generation)) << 32
    return epoll_ctl(descriptor, operation, link.descriptor, &event) == 0
  }

  func updateInterest(_ id: ID) {
    guard let link = self[id] else { return }
    setInterest(
      (link.isPaused || !link.isConnected ? 0 : Self.readable)
        | (link.pending.isEmpty ? 0 : Self.writable), id)
  }

  private func setInterest(_ interest: UInt32, _ id: ID) {
    guard interest != self[id]?.interest else { return }
    links[id.slot]?.interest = interest
    control(EPOLL_CTL_MOD, id)
  }

  /// Takes what the kernel has. Bounded, so that timers of the loop get their turn.
  public func turn() {
    let most = Int32(events.count)
    let count = Int(epoll_wait(descriptor, &events, most, 0))
    guard count > 0 else { return }
    for index in 0..<count {
      let event = events[index]
      let slot = Int(event.data.u64 & 0xFFFF_FFFF)
      guard slot < links.count, let link = links[slot],
        UInt32(truncatingIfNeeded: link.generation) == UInt32(event.data.u64 >> 32)
      else { continue }
      let id = ID(slot: slot, generation: link.generation)
      if event.events & Self.writable != 0 || !link.isReady { flush(id) }
      if event.events & Self.readable != 0, self[id]?.isReady == true {
        read(id)
      } else if event.events & Self.broken != 0 {
        fail(id, link.isConnected ? "connection reset" : "connection refused")
      }
    }
  }

  // MARK: Writing

  func write(_ bytes: [UInt8], on id: ID) {
    guard let link = self[id] else { return }
    guard link.pending.isEmpty else {
      links[id.slot]?.pending += bytes
      return
    }
    let sent: Int
    if let secure = link.secure {
      switch secure.write(bytes) {
      case .done(let count): sent = count
      case .wantsRead, .wantsWrite: sent = 0
      // It shows up on reading, too.
      case .closed, .failed: return
      }
    } else {
      sent = bytes.withUnsafeBytes {
        Glibc.send(link.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard sent >= 0 || errno == EAGAIN else { return }
    }
    guard sent < bytes.count else { return }
    links[id.slot]?.pending = Array(bytes[max(0, sent)...])
    updateInterest(id)
  }

  private func flush(_ id: ID) {
    guard let link = self[id] else { return }
    if !link.isConnected {
      var problem: Int32 = 0
      var size = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(link.descriptor, SOL_SOCKET, SO_ERROR, &problem, &size)
      guard problem == 0 else { return fail(id, String(cString: strerror(problem))) }
      links[id.slot]?.isConnected = true
    }
    if !link.isReady {
      guard secure(id) else { return }
      links[id.slot]?.isReady = true
    }
    let bytes = link.pending
    links[id.slot]?.pending = []
    if !bytes.isEmpty { write(bytes, on: id) }
    updateInterest(id)
  }

  /// Goes on with TLS' handshake, where there is one.
  ///
  /// - Returns: whether it is done.
  private func secure(_ id: ID) -> Bool {
    guard let secure = self[id]?.secure else { return true }
    switch secure.handshake() {
    case .done: return true
    case .wantsRead: setInterest(Self.readable, id)
    case .wantsWrite: setInterest(Self.writable, id)
    case .closed: fail(id, "connection closed")
    case .failed(let problem): fail(id, problem)
    }
    return false
  }

  // MARK: Reading

  private func read(_ id: ID) {
    guard let link = self[id], !link.isPaused else { return }
    let kept = link.partial.count
    guard kept < FrameReader.largest + FrameReader.longestHead else {
      return fail(id, "an answer that never ends")
    }
    if kept > 0 {
      room.replaceSubrange(0..<kept, with: link.partial)
      links[id.slot]?.partial = []
    }
    switch receive(link, behind: kept) {
    case .done(let count): take(kept + count, id)
    case .wantsRead, .wantsWrite: links[id.slot]?.partial = Array(room[..<kept])
    case .closed: fail(id, "connection closed")
    case .failed(let problem): fail(id, problem)
    }
  }

  private func receive(_ link: Link, behind kept: Int) -> SwarmTLSSession.Step {
    room.withUnsafeMutableBytes { buffer in
      let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[kept...])
      if let secure = link.secure { return secure.read(into: rest) }
      let count = recv(link.descriptor, rest.baseAddress, rest.count, 0)
      if count > 0 { return .done(count) }
      if count == 0 { return .closed }
      return errno == EAGAIN || errno == EINTR ? .wantsRead : .failed(Self.lastError)
    }
  }

  /// Takes apart what stands at the beginning of the room.
  private func take(_ end: Int, _ id: ID) {
    var start = 0
    if self[id]?.isOpen == false {
      guard let answer = Handshake.read(room[..<end]) else {
        guard end <= Handshake.largest else { return fail(id, "no WebSocket handshake was answered") }
        links[id.slot]?.partial = Array(room[..<end])
        return
      }
      guard answer.isOpen, let tag = self[id]?.tag else { return fail(id, "answered \(answer.status)") }
      links[id.slot]?.isOpen = true
      start = answer.end
      handler?.opened(id, tag: tag)
    }
    do throws(BrokenFrame) {
      while let link = self[id], let frame = try FrameReader.read(room, from: start, to: end) {
        start = frame.end
        switch frame.message {
        case .text(let data): handler?.received(room[data], id, tag: link.tag)
        case .ping(let data): write(FrameReader.frame(opcode: 10, room[data], mask: nextMask()), on: id)
        case .pong: break
        case .close(let code):
          write(FrameReader.frame(opcode: 8, [], mask: nextMask()), on: id)
          return fail(id, code: code)
        }
      }
    } catch {
      return fail(id, "\(Self.brokenFrame)\(error.problem)")
    }
    if start < end, self[id] != nil { links[id.slot]?.partial = Array(room[start..<end]) }
  }
}
