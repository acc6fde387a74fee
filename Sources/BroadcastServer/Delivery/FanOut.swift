import BroadcastChannels
import EventLoop

/// What goes out to a channel's subscribers together, encoded once.
struct FanOutPass {
  let broadcasts: [Broadcast]
  /// Their numbers in the shard's own counting.
  let numbers: Range<Int>
  /// All their frames.
  let message: OutgoingBytes

  init(_ broadcasts: [Broadcast], from first: Int) {
    self.broadcasts = broadcasts
    numbers = first..<first + broadcasts.count
    message =
      broadcasts.count == 1
      ? broadcasts[0].frame.bytes : OutgoingBytes(broadcasts.map(\.frame.bytes))
  }
}

/// Carries messages to the subscribers on one loop, of all channels, a slice at a time.
///
/// It begins at the end of the loop's turn, so that messages which came together go out together. A channel with ten
/// thousand subscribers is served in slices with a turn of the loop between them, in which publishers are answered; channels
/// take turns. What a busy channel gets meanwhile goes out together in its next pass.
final class FanOut {
  private let loop: EventLoop?
  private var shards: [ChannelShard] = []
  private var isScheduled = false

  /// - Parameter loop: nil serves everybody at once, for tests without connections.
  init(loop: EventLoop?) { self.loop = loop }

  /// The loop's time in seconds.
  var now: Double { loop?.now ?? 0 }

  func makeAudience() -> Audience { Audience(loop: loop) }

  /// A shard has something to send. It says so once, until it was served.
  func add(_ shard: ChannelShard) {
    guard let loop else { return _ = shard.serve(until: .infinity, clock: { 0 }) }
    shards.append(shard)
    schedule(on: loop)
  }

  private func schedule(on loop: EventLoop) {
    guard !isScheduled, !shards.isEmpty else { return }
    isScheduled = true
    loop.atEndOfTurn { [weak self] in self?.slice() }
  }

  /// A shard has sent it by other means.
  func remove(_ shard: ChannelShard) { shards.removeAll { $0 === shard } }

  private func slice() {
    guard let loop else { return }
    isScheduled = false
    let deadline = loop.now + Limits.fanOutSliceSeconds
    while !shards.isEmpty, loop.now < deadline {
      let shard = shards.removeFirst()
      if !shard.serve(until: deadline, clock: { loop.now }) { shards.append(shard) }
    }
    schedule(on: loop)
  }
}
