import BroadcastChannels

/// Where it is counted what becomes of a channel's deliveries.
///
/// On the main loop that is the channel's own ledger. Another loop adds up what one of its turns brings, and the sums go into
/// the channel's ledger together: one event a turn and channel, not one a subscriber.
protocol DeliveryLedger: AnyObject {
  /// Sockets took a message.
  func written(_ broadcast: Broadcast, by sockets: Int)
  /// A newer message took a message's place before so many sockets could take it.
  func conflated(_ sockets: Int)
  /// A subscriber received and displayed something.
  func acknowledged(_ news: Receipts.News)
  /// Messages went out together, and everybody on the loop was served.
  func fannedOut(_ pass: FannedOut)
}

/// A channel's deliveries, counted one a subscriber and message.
struct DeliveryCounts: Sendable, Equatable {
  /// Messages that sockets took.
  var written = 0
  /// Bytes of these messages' texts.
  var bytes = 0
  /// Messages that a newer one replaced before a slow socket could take them.
  var conflated = 0
  /// Messages that subscribers said that they received.
  var acknowledged = 0
  /// Messages that devices said that they displayed.
  var displayed = 0
  /// Displayed messages that devices said to have become stale.
  var stale = 0

  mutating func written(_ broadcast: Broadcast, by sockets: Int) {
    written += sockets
    bytes += sockets * broadcast.frame.bytes.text.count
  }

  mutating func acknowledged(_ news: Receipts.News) {
    acknowledged += news.count
    displayed += news.displayed.count
    if news.isStale { stale += 1 }
  }

  mutating func add(_ other: DeliveryCounts) {
    written += other.written
    bytes += other.bytes
    conflated += other.conflated
    acknowledged += other.acknowledged
    displayed += other.displayed
    stale += other.stale
  }
}

/// Messages that went out together on one loop, and how long that took.
struct FannedOut: Sendable, Equatable {
  let subscribers: Int
  let seconds: Double
}

/// A channel's own ledger.
final class RoomLedger: DeliveryLedger {
  private(set) var counts = DeliveryCounts()
  /// What became of the last messages.
  var messages = MessageLog()
  private let metrics: ServerMetrics

  /// - Parameter metrics: where all channels are counted together.
  init(metrics: ServerMetrics) { self.metrics = metrics }

  func written(_ broadcast: Broadcast, by sockets: Int) {
    broadcast.record?.written += sockets
    counts.written(broadcast, by: sockets)
    metrics.deliveries.written(broadcast, by: sockets)
  }

  func conflated(_ sockets: Int) {
    counts.conflated += sockets
    metrics.deliveries.conflated += sockets
  }

  func fannedOut(_ pass: FannedOut) { metrics.fannedOut(pass) }

  func acknowledged(_ news: Receipts.News) {
    counts.acknowledged(news)
    metrics.deliveries.acknowledged(news)
    for span in news.received { messages.acknowledge(span, but: news.skipped) }
    for number in news.displayed { messages.display(number) }
  }

  /// Adds what another loop has counted.
  func add(_ sums: DeliverySums) {
    counts.add(sums.counts)
    metrics.deliveries.add(sums.counts)
    for pass in sums.passes { metrics.fannedOut(pass) }
    for (sequence, message) in sums.messages { messages.add(message, at: sequence) }
  }
}

/// What a loop has counted for one channel, since it last told.
struct DeliverySums: Sendable, Equatable {
  /// One message's part.
  struct Message: Sendable, Equatable {
    var written = 0
    var acknowledged = 0
    var displayed = 0
  }

  var counts = DeliveryCounts()
  var passes: [FannedOut] = []
  /// By sequence number.
  var messages: [Int: Message] = [:]
}

/// The ledger of one channel on a loop that isn't the main one.
final class SumsLedger: DeliveryLedger {
  let channel: ChannelID
  private var sums = DeliverySums()
  private var isTold = false
  private let hasNews: (SumsLedger) -> Void

  /// - Parameter hasNews: told of the first change after each ``take()``.
  init(_ channel: ChannelID, hasNews: @escaping (SumsLedger) -> Void) {
    self.channel = channel
    self.hasNews = hasNews
  }

  func written(_ broadcast: Broadcast, by sockets: Int) {
    change { sums in
      sums.counts.written(broadcast, by: sockets)
      sums.messages[broadcast.frame.position.sequence, default: .init()].written += sockets
    }
  }

  func conflated(_ sockets: Int) { change { $0.counts.conflated += sockets } }

  func acknowledged(_ news: Receipts.News) {
    guard news.count > 0 || !news.displayed.isEmpty || news.isStale else { return }
    change { sums in
      sums.counts.acknowledged(news)
      for span in news.received {
        for number in MessageLog.remembered(span) where !news.skipped.contains(number) {
          sums.messages[number, default: .init()].acknowledged += 1
        }
      }
      for number in news.displayed { sums.messages[number, default: .init()].displayed += 1 }
    }
  }

  func fannedOut(_ pass: FannedOut) { change { $0.passes.append(pass) } }

  private func change(_ body: (inout DeliverySums) -> Void) {
    body(&sums)
    guard !isTold else { return }
    isTold = true
    hasNews(self)
  }

  /// What was counted since the last time.
  func take() -> DeliverySums {
    defer {
      sums = DeliverySums()
      isTold = false
    }
    return sums
  }
}
