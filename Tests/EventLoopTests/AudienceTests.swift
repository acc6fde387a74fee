import Testing

@testable import EventLoop

/// Members without a socket: each is an exception, and what the table says that it is owed is what it gets.
@Suite struct AudienceTests {
  /// A table with a list beside it, as a channel's room has one.
  private struct Room {
    var audience: Audience
    var members: [Member] = []
    var next = 0

    mutating func join() {
      audience.add(nil, next: next)
      members.append(Member(start: next))
    }

    mutating func leave(_ place: Int) {
      for move in audience.remove(at: place) { members[move.to] = members[move.from] }
      members.removeLast()
    }

    /// One slice: sixteen members at most, because the deadline has passed.
    mutating func serve(_ numbers: Range<Int>) {
      var direct = 0
      let message = OutgoingBytes(raw: [1])
      for exception in audience.serve(message, numbers: numbers, until: 0, direct: &direct) {
        members[exception.place].heard += exception.next..<numbers.upperBound
      }
    }
  }

  private final class Member {
    let start: Int
    var heard: [Int] = []
    init(start: Int) { self.start = start }
  }

  @Test("who comes and goes between slices: every member hears everything since it came, once and in order")
  func comingsAndGoings() throws {
    let loop = try EventLoop()
    var random = SystemRandomNumberGenerator()
    for _ in 0..<200 {
      var room = Room(audience: Audience(loop: loop))
      for _ in 0..<Int.random(in: 0...80, using: &random) { room.join() }
      for _ in 0..<20 {
        let numbers = room.next..<room.next + Int.random(in: 1...3, using: &random)
        room.next = numbers.upperBound
        room.audience.begin()
        while !room.audience.isServed {
          room.serve(numbers)
          // More is published meanwhile, which is another pass's; who comes now hears only what comes later.
          if Bool.random(using: &random) { room.join() }
          if !room.members.isEmpty, Bool.random(using: &random) {
            room.leave(Int.random(in: room.members.indices, using: &random))
          }
        }
        for member in room.members { #expect(member.heard == Array(member.start..<room.next)) }
      }
    }
  }

  @Test("who comes while more waits behind the pass hears none of it, and who is served apart not again")
  func publishedMeanwhile() throws {
    let loop = try EventLoop()
    var room = Room(audience: Audience(loop: loop))
    for _ in 0..<20 { room.join() }
    room.audience.begin()
    room.serve(0..<1)
    // Number 1 is published while the pass with number 0 goes on.
    room.next = 2
    room.join()
    #expect(room.audience.catchUp(at: 19, next: 2) == 0)
    while !room.audience.isServed { room.serve(0..<1) }
    room.audience.begin()
    while !room.audience.isServed { room.serve(1..<2) }
    #expect(room.members[0].heard == [0, 1])
    #expect(room.members[19].heard == [] && room.members[20].heard == [])
  }

  @Test("exceptions end a slice before its time is over")
  func exceptions() throws {
    let loop = try EventLoop()
    var room = Room(audience: Audience(loop: loop))
    for _ in 0..<100 { room.join() }
    room.audience.begin()
    var direct = 0
    let some = room.audience.serve(
      OutgoingBytes(raw: [1]), numbers: 0..<1, until: .infinity, direct: &direct)
    #expect(some.map(\.place) == Array(0..<16))
    #expect(!room.audience.isServed)
  }

  @Test("who is served apart is not served again")
  func catchUp() throws {
    let loop = try EventLoop()
    var room = Room(audience: Audience(loop: loop))
    for _ in 0..<3 { room.join() }
    room.next = 2
    #expect(room.audience.catchUp(at: 1, next: 2) == 0)
    room.audience.begin()
    room.serve(0..<2)
    #expect(room.members.map(\.heard) == [[0, 1], [], [0, 1]])
  }

  @Test("who comes, or is served apart, while several passes wait hears nothing of them")
  func behindSeveralPasses() throws {
    let loop = try EventLoop()
    var room = Room(audience: Audience(loop: loop))
    for _ in 0..<2 { room.join() }
    room.next = 6
    #expect(room.audience.catchUp(at: 1, next: 6) == 0)
    room.join()
    for numbers in [0..<2, 2..<4, 4..<6, 6..<7] {
      room.audience.begin()
      while !room.audience.isServed { room.serve(numbers) }
    }
    #expect(room.members.map(\.heard) == [[0, 1, 2, 3, 4, 5, 6], [6], [6]])
  }
}
