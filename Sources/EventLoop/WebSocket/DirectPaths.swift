// Why: fan-out asks for each of thousands of sockets "may I write to it right now?" and must touch as little as possible for
// the answer. A number a descriptor, in one array, says it: no object, no reference count. Descriptors are given out again
// by the kernel, so what a table remembers is the descriptor and the ticket of the connection that had it then.

/// Where a connection's bytes may be written without asking the connection; see ``Audience``.
struct DirectPath {
  let descriptor: Int32
  let ticket: UInt32
}

/// Which sockets of a loop are in the clear, open, and have nothing pending.
struct DirectPaths {
  /// By descriptor; 0 is "not now".
  private(set) var tickets: [UInt32] = []
  private var last: UInt32 = 0

  mutating func make(_ descriptor: Int32) -> DirectPath {
    last = last == .max ? 1 : last + 1
    let count = Int(descriptor) + 1
    if tickets.count < count { tickets.append(contentsOf: repeatElement(0, count: count - tickets.count)) }
    return DirectPath(descriptor: descriptor, ticket: last)
  }

  mutating func open(_ path: DirectPath) { tickets[Int(path.descriptor)] = path.ticket }

  mutating func block(_ path: DirectPath) {
    if tickets[Int(path.descriptor)] == path.ticket { tickets[Int(path.descriptor)] = 0 }
  }
}
