import BroadcastChannels

/// What waits for one connection that can't take more at the moment.
///
/// State wins over history: of a channel's plain updates only the newest waits, an alert and an end are never
/// conflated away. The receiver sees by the sequence numbers that it missed something. Beyond the hard bounds
/// (``Limits/pendingBytesPerConnection``, ``Limits/pendingKeepsPerConnection``) the connection has to go.
struct Outbox<Bytes> {
  /// What a waiting entry may be replaced by.
  enum Kind: Equatable {
    /// An answer to a request, an alert or an end: always kept.
    case keep
    /// A channel's plain update: replaced by the channel's next message.
    case conflatable(ChannelID)
  }

  private var entries: [(kind: Kind, channel: ChannelID?, bytes: Bytes, size: Int)] = []
  private var head = 0
  private(set) var pendingBytes = 0
  private var keeps = 0

  var isEmpty: Bool { head == entries.count }

  /// Adds an entry behind what waits.
  ///
  /// - Returns: the entry that it replaced, and whether everything still fits: false when a hard bound is passed.
  mutating func append(
    _ bytes: Bytes, size: Int, channel: ChannelID?, isIrreplaceable: Bool
  ) -> (replaced: Bytes?, fits: Bool) {
    let replaced = channel.flatMap { conflate($0) }
    let kind: Kind = if let channel, !isIrreplaceable { .conflatable(channel) } else { .keep }
    if kind == .keep { keeps += 1 }
    entries.append((kind, channel, bytes, size))
    pendingBytes += size
    return (
      replaced,
      pendingBytes <= Limits.pendingBytesPerConnection && keeps <= Limits.pendingKeepsPerConnection
    )
  }

  /// The entry that goes next.
  var first: Bytes? { isEmpty ? nil : entries[head].bytes }

  /// Takes the first entry away once it was sent.
  mutating func removeFirst() {
    guard !isEmpty else { return }
    if entries[head].kind == .keep { keeps -= 1 }
    pendingBytes -= entries[head].size
    head += 1
    if head == entries.count {
      entries.removeAll(keepingCapacity: false)
      head = 0
    } else if head >= 32, head * 2 >= entries.count {
      // A connection that is never quite done would keep everything that it ever sent.
      entries.removeFirst(head)
      head = 0
    }
  }

  /// Takes away what waits of a channel's plain updates; the channel's next message is newer.
  private mutating func conflate(_ channel: ChannelID) -> Bytes? {
    guard
      let index = entries[head...].firstIndex(where: { $0.kind == .conflatable(channel) })
    else { return nil }
    pendingBytes -= entries[index].size
    return entries.remove(at: index).bytes
  }

  /// Forgets what waits of a channel that is no longer subscribed to.
  mutating func forget(_ channel: ChannelID) {
    let gone = entries[head...].filter { $0.channel == channel }
    pendingBytes -= gone.reduce(0) { $0 + $1.size }
    keeps -= gone.count { $0.kind == .keep }
    entries = entries[head...].filter { $0.channel != channel }
    head = 0
  }
}
