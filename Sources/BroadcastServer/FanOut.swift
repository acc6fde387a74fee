import BroadcastChannels
import EventLoop

/// What goes out to a channel's subscribers together, encoded once.
struct FanOutPass {
  let broadcasts: [Broadcast]
  /// Their numbers in the room's own counting.
  let numbers: Range<Int>
  /// All their frames.
  let message: OutgoingBytes

  init(_ broadcasts: [Broadcast], from first: Int) {
    self.broadcasts = broadcasts
    numbers = first..<first + broadcasts.count
    message =
      broadcasts.count == 1
      ? broadcasts[0].webSocketFrame : OutgoingBytes(broadcasts.map(\.webSocketFrame))
  }
}

/// Carries messages to the subscribers of all channels, a slice at a time.
///
/// It begins at the end of the loop's turn, so that messages which came together go out together. A channel with ten
/// thousand subscribers is served in slices with a turn of the loop between them, in which publishers are answered; channels
/// take turns. What a busy channel gets meanwhile goes out together in its next pass.
final class FanOut {
  private let loop: EventLoop?
  private var rooms: [ChannelRoom] = []
  private var isScheduled = false

  /// - Parameter loop: nil serves everybody at once, for tests without connections.
  init(loop: EventLoop?) { self.loop = loop }

  /// The loop's time in seconds.
  var now: Double { loop?.now ?? 0 }

  func makeAudience() -> Audience { Audience(loop: loop) }

  /// The room has something to send. It says so once, until it was served.
  func add(_ room: ChannelRoom) {
    guard let loop else { return _ = room.serve(until: .infinity, clock: { 0 }) }
    rooms.append(room)
    schedule(on: loop)
  }

  private func schedule(on loop: EventLoop) {
    guard !isScheduled, !rooms.isEmpty else { return }
    isScheduled = true
    loop.atEndOfTurn { [weak self] in self?.slice() }
  }

  /// The room has sent it by other means.
  func remove(_ room: ChannelRoom) { rooms.removeAll { $0 === room } }

  private func slice() {
    guard let loop else { return }
    isScheduled = false
    let deadline = loop.now + Limits.fanOutSliceSeconds
    while !rooms.isEmpty, loop.now < deadline {
      let room = rooms.removeFirst()
      if !room.serve(until: deadline, clock: { loop.now }) { rooms.append(room) }
    }
    schedule(on: loop)
  }
}
