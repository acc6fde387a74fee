// Why: fan-out is what this server is for, and a send(2) is nearly all that a delivery costs; so nothing else may happen for
// each of them. The loop below reads two small arrays and calls send(2), or SSL_write(3) with TLS: no object of ours, no
// reference count, no allocation. Whoever can't be written to like that (an event stream, something pending, a short write) is
// named to the caller, who asks the connection itself.

import CLinux
import COpenSSL
import COpenSSLShims

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
    /// Bytes that its socket, or with TLS its connection, took all the same; they are to be followed up by
    /// ``Connection/finish(_:from:)``.
    public let taken: Int
  }

  private struct Member {
    var descriptor: Int32
    var ticket: UInt32
    var next: Int

    /// See ``DirectPath/isSecure``.
    var isSecure: Bool { ticket & 1 == 1 }
  }

  /// Something that OpenSSL has begun and the connection must go on with.
  private struct Cut {
    /// Bytes in one TLS record at most (RFC 8446 section 5.1): what a begun one may hold.
    private static let recordBytes = 16_384

    let place: Int
    let next: Int
    let end: SecureEnd
    /// Bytes that are written; nil when the connection is broken.
    let taken: Int?

    /// Gives the begun record to the connection, which must repeat it before anything else.
    /// - Returns: what is left to the caller; nil when that is nothing.
    func handOver(_ bytes: [UInt8]) -> Exception? {
      guard let taken else {
        end.socket.writingFailed()
        return Exception(place: place, next: next, taken: 0)
      }
      let begun = min(bytes.count, taken + Self.recordBytes)
      end.socket.finish(Array(bytes[..<begun]), from: taken)
      return begun == bytes.count ? nil : Exception(place: place, next: next, taken: begun)
    }
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
    var cuts: [Cut] = []
    var place = cursor
    var served = 0
    // What an earlier call left would be taken for this one's error (SSL_get_error(3)); a whole write leaves none.
    if !loop.directPaths.secureEnds.isEmpty { ERR_clear_error() }
    message.bytes.withUnsafeBytes { buffer in
      loop.directPaths.tickets.withUnsafeBufferPointer { tickets in
        loop.directPaths.secureEnds.withUnsafeBufferPointer { ends in
          members.withUnsafeMutableBufferPointer { members in
            while place < members.count {
              let member = members[place]
              // Who came, or was served apart, behind this pass owes it nothing.
              if member.next < numbers.upperBound {
                members[place].next = numbers.upperBound
                if member.next != numbers.lowerBound || member.descriptor < 0
                  || tickets[Int(member.descriptor)] != member.ticket
                {
                  exceptions.append(Exception(place: place, next: member.next, taken: 0))
                } else if !member.isSecure {
                  let taken = Self.write(buffer, to: member.descriptor)
                  if taken == buffer.count {
                    served += 1
                  } else {
                    exceptions.append(Exception(place: place, next: member.next, taken: taken))
                  }
                } else if let end = ends[Int(member.descriptor)] {
                  let (taken, isBroken) = Self.write(buffer, to: end)
                  if taken == buffer.count {
                    served += 1
                  } else {
                    cuts.append(
                      Cut(place: place, next: member.next, end: end, taken: isBroken ? nil : taken))
                  }
                } else {
                  exceptions.append(Exception(place: place, next: member.next, taken: 0))
                }
              }
              place += 1
              if exceptions.count + cuts.count >= Self.exceptionsASlice { return }
              // The clock is looked at once in a while: reading it costs a hundredth of a send(2).
              if place & 15 == 0, loop.now >= deadline { return }
            }
          }
        }
      }
    }
    cursor = place
    // Outside of the loop: the connections change what it reads.
    for cut in cuts {
      if let exception = cut.handOver(message.bytes) { exceptions.append(exception) } else { served += 1 }
    }
    direct += served
    return exceptions
  }

  /// How many bytes the socket took.
  @inline(__always)
  private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
    guard let start = bytes.baseAddress else { return 0 }
    return max(0, shim_send_now(descriptor, start, bytes.count))
  }

  /// How many bytes OpenSSL took for good. With fewer than all and nothing broken it has begun a record of the next ones.
  @inline(__always)
  private static func write(
    _ bytes: UnsafeRawBufferPointer, to end: SecureEnd
  ) -> (taken: Int, isBroken: Bool) {
    guard let start = bytes.baseAddress else { return (0, false) }
    var isBroken: Int32 = 0
    let taken = shim_ssl_write_now(end.ssl, start, bytes.count, &isBroken)
    return (taken, isBroken != 0)
  }
}
