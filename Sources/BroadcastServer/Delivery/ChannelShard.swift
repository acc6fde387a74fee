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
  private var queuedBytes = 0
  private var nextNumber = 0
  /// When the pass began, on the loop's clock.
  private var passBegan: Double = 0
  /// Somebody was told of everything in front of this number, so that nothing there may be replaced.
  private var settledNumber = 0
  /// The sequence numbers of the last messages that reached nobody here.
  private var passedOver: Set<Int> = []

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
    settledNumber = nextNumber
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
  ///
  /// - Parameter isLeaving: it gets nothing more. To one that stays it can't be said any more that the last message was replaced.
  func catchUp(at place: Int, isLeaving: Bool = false) {
    let next = audience.catchUp(at: place, next: nextNumber)
    if !isLeaving { settledNumber = nextNumber }
    for broadcast in ((pass?.broadcasts ?? []) + queue).suffix(nextNumber - next) {
      subscribers[place].deliver(broadcast)
    }
  }

  /// Gives a publisher that hears its own channel its message before the answer. When the channel is flooded the answer comes first: a
  /// message that one subscriber has can't be replaced for the others.
  func catchUpPublisher(at place: Int) {
    if queuedBytes <= Limits.fanOutQueueBytes { catchUp(at: place) }
  }

  // MARK: Sending

  /// Sends a message to everybody who is here, see ``FanOut``.
  func send(_ broadcast: Broadcast) {
    guard !subscribers.isEmpty else { return }
    newest = broadcast.frame.position.sequence
    let isWaiting = pass != nil || !queue.isEmpty
    queuedBytes += broadcast.frame.bytes.count
    if queuedBytes > Limits.fanOutQueueBytes, conflate(with: broadcast) { return }
    queue.append(broadcast)
    nextNumber += 1
    if queuedBytes > Limits.fanOutQueueMostBytes {
      finishFanOut()
    } else if !isWaiting {
      fanOut.add(self)
    }
  }

  /// The publisher outruns the fan-out: a message takes the place of the plain update that waits last, as it does in the
  /// outbox of a subscriber that is behind. Here all of them are.
  private func conflate(with broadcast: Broadcast) -> Bool {
    guard let last = queue.last, !last.frame.isIrreplaceable, nextNumber > settledNumber else { return false }
    queue[queue.count - 1] = broadcast
    queuedBytes -= last.frame.bytes.count
    ledger.conflated(subscribers.count)
    passOver(last.frame.position.sequence)
    return true
  }

  private func passOver(_ sequence: Int) {
    passedOver.insert(sequence)
    guard passedOver.count > 2 * Limits.messageRecordsPerChannel else { return }
    passedOver = passedOver.filter { $0 > sequence - Limits.messageRecordsPerChannel }
  }

  /// A subscriber acknowledged something. Of what reached nobody it received nothing.
  func acknowledged(_ news: Receipts.News) {
    guard !passedOver.isEmpty else { return ledger.acknowledged(news) }
    var rest = news
    rest.leaveOut(passedOver)
    ledger.acknowledged(rest)
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
      if audience.isServed {
        self.pass = nil
        ledger.fannedOut(FannedOut(subscribers: subscribers.count, seconds: fanOut.now - passBegan))
      }
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
    queuedBytes -= next.message.count
    audience.begin()
    passBegan = fanOut.now
    pass = next
    return next
  }
}
