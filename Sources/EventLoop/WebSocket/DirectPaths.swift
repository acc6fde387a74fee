// Why: fan-out asks for each of thousands of sockets "may I write to it right now?" and must touch as little as possible for
// the answer. A number a descriptor, in one array, says it: no object, no reference count. Descriptors are given out again
// by the kernel, so what a table remembers is the descriptor and the ticket of the connection that had it then.

/// Where a connection's bytes may be written without asking the connection; see ``Audience``.
struct DirectPath {
  let descriptor: Int32
  let ticket: UInt32

  /// Whether TLS lies between, see ``SecureEnd``. It is in the ticket, which the fan-out has at hand.
  var isSecure: Bool { ticket & 1 == 1 }
}

/// What is written to instead of a descriptor when TLS lies between.
struct SecureEnd {
  /// OpenSSL's `SSL`, alive as long as the path isn't forgotten.
  let ssl: OpaquePointer
  /// Who takes over what a write left. Neither counted nor kept alive: it forgets its path before it goes.
  unowned(unsafe) let socket: ServerSocket
}

/// Which sockets of a loop are open and have nothing pending.
struct DirectPaths {
  /// By descriptor; 0 is "not now".
  private(set) var tickets: [UInt32] = []
  /// By descriptor; as long as the highest secure one asks for.
  private(set) var secureEnds: [SecureEnd?] = []
  private var last: UInt32 = 0

  mutating func make(_ descriptor: Int32, isSecure: Bool) -> DirectPath {
    last = last >= .max - 3 ? 2 : last + 2
    let count = Int(descriptor) + 1
    if tickets.count < count { tickets.append(contentsOf: repeatElement(0, count: count - tickets.count)) }
    if isSecure, secureEnds.count < count {
      secureEnds.append(contentsOf: repeatElement(nil, count: count - secureEnds.count))
    }
    return DirectPath(descriptor: descriptor, ticket: isSecure ? last + 1 : last)
  }

  /// Says what a secure path leads to, before it is opened.
  mutating func connect(_ path: DirectPath, to end: SecureEnd) { secureEnds[Int(path.descriptor)] = end }

  mutating func open(_ path: DirectPath) { tickets[Int(path.descriptor)] = path.ticket }

  mutating func block(_ path: DirectPath) {
    if tickets[Int(path.descriptor)] == path.ticket { tickets[Int(path.descriptor)] = 0 }
  }

  /// The connection goes: its descriptor and what it leads to are nobody's from now on.
  mutating func forget(_ path: DirectPath) {
    block(path)
    if path.isSecure { secureEnds[Int(path.descriptor)] = nil }
  }
}
