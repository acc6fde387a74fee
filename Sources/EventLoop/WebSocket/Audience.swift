// Why: fan-out is what this server is for, and a send(2) is nearly all that a delivery costs; so nothing else may happen for
// each of them. The loop below reads two small arrays and calls send(2): no object, no reference count, no allocation.
// Whoever can't be written to like that (TLS, an event stream, something pending, a short write) is named to the caller,
// who asks the connection itself.

import CLibwebsocketsShims

/// Who receives the same bytes: a compact table of connections, and how far each of them has been served.
///
/// What is sent has numbers, counted by the caller. A member hears what has a number from the one it came with on; the table
/// is gone through in slices, and members may come and go between two of them.
public struct Audience {
  /// A member that the slice could not serve directly.
  public struct Exception {
    /// Its place in the table.
    public let place: Int
    /// The first number it is owed.
    public let next: Int
    /// Bytes that its socket took all the same; they are to be followed up by ``Connection/finish(_:from:)``.
    public let taken: Int
  }

  private struct Member {
    var descriptor: Int32
    var ticket: UInt32
    var next: Int
  }

  /// Exceptions of one slice: they cost the caller more than a send(2) each, and the clock isn't looked at meanwhile.
  private static let exceptionsASlice = 16

  private let loop: EventLoop?
  private var members: [Member] = []
  /// Those in front of it have been served in this pass.
  private var cursor = 0

  /// - Parameter loop: the loop of the connections; without one every member is an exception.
  public init(loop: EventLoop?) { self.loop = loop }

  /// How many members there are.
  public var count: Int { members.count }

  /// Whether the pass has reached everybody.
  public var isServed: Bool { cursor == members.count }

  /// Adds a member at the end: at place ``count``.
  /// - Parameter next: the first number that it hears.
  public mutating func add(_ connection: Connection?, next: Int) {
    let path = connection?.directPath
    members.append(Member(descriptor: path?.descriptor ?? -1, ticket: path?.ticket ?? 0, next: next))
    // A pass that is over stays over; in one that goes on the newcomer is looked at and passed by.
    if cursor == members.count - 1 { cursor += 1 }
  }

  /// Takes a member out. Others move into the gap, so that those who wait for their turn in this pass still get it.
  /// - Returns: the moves that the caller makes in its own list, in this order, before it drops the last place.
  public mutating func remove(at place: Int) -> [(from: Int, to: Int)] {
    var moves: [(from: Int, to: Int)] = []
    var gap = place
    if gap < cursor {
      cursor -= 1
      if gap != cursor { moves.append((cursor, gap)) }
      gap = cursor
    }
    if gap != members.count - 1 { moves.append((members.count - 1, gap)) }
    for move in moves { members[move.to] = members[move.from] }
    members.removeLast()
    return moves
  }

  /// A member is served apart, up to `next`.
  /// - Returns: the first number that it was owed.
  public mutating func catchUp(at place: Int, next: Int) -> Int {
    defer { members[place].next = next }
    return members[place].next
  }

  /// Begins a pass: everybody's turn is to come.
  public mutating func begin() { cursor = 0 }

  /// Serves the next members, until `deadline` in ``EventLoop/now`` has passed, everybody was served, or the caller has
  /// some to serve itself.
  /// - Parameters:
  ///   - message: what has the numbers `numbers`, all of it.
  ///   - direct: is increased by one for each member that took all of it.
  /// - Returns: those whom the caller must serve, now.
  public mutating func serve(
    _ message: OutgoingBytes, numbers: Range<Int>, until deadline: Double, direct: inout Int
  ) -> [Exception] {
    guard let loop else {
      let all = (cursor..<members.count).map { Exception(place: $0, next: members[$0].next, taken: 0) }
      for place in cursor..<members.count {
        members[place].next = max(members[place].next, numbers.upperBound)
      }
      cursor = members.count
      return all.filter { $0.next < numbers.upperBound }
    }
    var exceptions: [Exception] = []
    var place = cursor
    var served = 0
    let bytes = message.bytes
    bytes.withUnsafeBytes { buffer in
      guard let start = buffer.baseAddress else { return }
      loop.directPaths.tickets.withUnsafeBufferPointer { tickets in
        members.withUnsafeMutableBufferPointer { members in
          while place < members.count {
            let member = members[place]
            // Who came, or was served apart, while more waited behind this pass is owed none of that.
            members[place].next = max(member.next, numbers.upperBound)
            if member.next == numbers.lowerBound, member.descriptor >= 0,
              tickets[Int(member.descriptor)] == member.ticket
            {
              let taken = shim_send_now(member.descriptor, start, buffer.count)
              if taken == buffer.count {
                served += 1
              } else {
                exceptions.append(Exception(place: place, next: member.next, taken: max(0, taken)))
              }
            } else if member.next < numbers.upperBound {
              exceptions.append(Exception(place: place, next: member.next, taken: 0))
            }
            place += 1
            if exceptions.count >= Self.exceptionsASlice { return }
            // The clock is looked at once in a while: reading it costs a hundredth of a send(2).
            if place & 15 == 0, loop.now >= deadline { return }
          }
        }
      }
    }
    direct += served
    cursor = place
    return exceptions
  }
}
