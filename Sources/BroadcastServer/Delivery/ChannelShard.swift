import BroadcastChannels
import EventLoop

/// Who receives a channel on one loop: a connection, and what waits for it.
protocol Subscriber: AnyObject {
  /// What deliveries may be written to directly.
  var connection: Connection? { get }
  /// Takes a delivery, now or when the connection has room again.
  func deliver(_ broadcast: Broadcast)
  /// Takes what a pass has from a number on. The socket took the first `taken` bytes of it already.
  func deliver(_ pass: FanOutPass, from next: Int, taken: Int)
  /// Its place in the shard's table has changed.
  func moved(to place: Int, in shard: ChannelShard)
}

/// A channel's subscribers on one loop, and what goes out to them.
final class ChannelShard {
  let id: ChannelID
  /// The channel's other name.
  let alias: String?
  let ledger: any DeliveryLedger
  /// The newest sequence number that went to its subscribers, or was there when they came.
  private(set) var newest = 0

  private let fanOut: FanOut
  /// At the same places as in `audience`.
  private var subscribers: [any Subscriber] = []
  private var audience: Audience
  /// What goes out to the subscribers, and what waits behind it. Broadcasts are numbered from 0, whatever their epoch.
  private var pass: FanOutPass?
  private var queue: [Broadcast] = []
  private var nextNumber = 0

  init(_ id: ChannelID, alias: String?, ledger: any DeliveryLedger, fanOut: FanOut) {
    self.id = id
    self.alias = alias
    self.ledger = ledger
    self.fanOut = fanOut
    audience = fanOut.makeAudience()
  }

  // MARK: Subscribers

  var count: Int { subscribers.count }

  /// Adds a subscriber, which hears what is sent from now on.
  ///
  /// - Parameter sequence: the channel's newest message.
  /// - Returns: its place, which ``remove(at:)`` wants; the subscriber is told when it changes.
  func add(_ subscriber: any Subscriber, at sequence: Int) -> Int {
    newest = max(newest, sequence)
    subscribers.append(subscriber)
    audience.add(subscriber.connection, next: nextNumber)
    return subscribers.count - 1
  }

  func remove(at place: Int) {
    for move in audience.remove(at: place) {
      subscribers[move.to] = subscribers[move.from]
      subscribers[move.to].moved(to: move.to, in: self)
    }
    subscribers.removeLast()
  }

  /// Gives a subscriber what was sent before now and has not reached it yet.
  func catchUp(at place: Int) {
    let next = audience.catchUp(at: place, next: nextNumber)
    for broadcast in ((pass?.broadcasts ?? []) + queue).suffix(nextNumber - next) {
      subscribers[place].deliver(broadcast)
    }
  }

  // MARK: Sending

  /// Sends a message to everybody who is here, see ``FanOut``.
  func send(_ broadcast: Broadcast) {
    guard !subscribers.isEmpty else { return }
    newest = broadcast.frame.position.sequence
    let isWaiting = pass != nil || !queue.isEmpty
    queue.append(broadcast)
    nextNumber += 1
    if queue.count >= Limits.fanOutMessages {
      finishFanOut()
    } else if !isWaiting {
      fanOut.add(self)
    }
  }

  /// Sends everything that waits to everybody, at once.
  func finishFanOut() {
    guard pass != nil || !queue.isEmpty else { return }
    fanOut.remove(self)
    _ = serve(until: .infinity, clock: { 0 })
  }

  /// Serves the next slice of subscribers.
  ///
  /// - Returns: whether nothing waits any more.
  func serve(until deadline: Double, clock: () -> Double) -> Bool {
    repeat {
      guard let pass = pass ?? nextPass() else { return true }
      var direct = 0
      let exceptions = audience.serve(
        pass.message, numbers: pass.numbers, until: deadline, direct: &direct)
      for broadcast in pass.broadcasts { broadcast.countWritten(direct) }
      for exception in exceptions {
        subscribers[exception.place].deliver(pass, from: exception.next, taken: exception.taken)
      }
      if audience.isServed { self.pass = nil }
    } while clock() < deadline
    return pass == nil && queue.isEmpty
  }

  private func nextPass() -> FanOutPass? {
    guard let first = queue.first else { return nil }
    var bytes = first.frame.bytes.count
    let more = queue.dropFirst().prefix { broadcast in
      bytes += broadcast.frame.bytes.count
      return bytes <= Limits.fanOutBytes
    }
    let next = FanOutPass([first] + more, from: nextNumber - queue.count)
    queue.removeFirst(next.broadcasts.count)
    audience.begin()
    pass = next
    return next
  }
}
