import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// Whose connection a ``Receiver`` is: the session itself on the main loop, its envoy on another one.
protocol ReceiverOwner: AnyObject {
  /// The connection is open.
  func opened(_ receiver: Receiver)
  /// The client said something that the receiver doesn't deal with by itself.
  func received(_ frame: Result<ClientFrame, FrameError>, bytes: Int)
  /// Whether an earlier frame still waits to be dealt with: later ones must not overtake it.
  var isBusy: Bool { get }
  /// What became of a push.
  func pushed(_ push: UniqueID, _ fate: PushFate)
  /// The connection is gone, with the code of the side that began to close.
  func closed(code: UInt16?)
}

/// What became of a push on its connection.
enum PushFate: Sendable {
  case written
  /// A newer one took its place.
  case superseded
}

/// What a client says that it received.
struct Acknowledgement: Sendable {
  let sequence: Int
  let displayed: [Int]
  let stale: Int?
  /// The channel as the client wrote it.
  let name: String
  let requestID: RequestID?
}

/// The receiving half of a session, on the loop of its connection: what goes out to the client, what waits while the connection
/// is full, and what the client acknowledged.
///
/// It knows no rule that needs more than that: everything else that the client says goes to its owner.
final class Receiver: StreamHandler, Subscriber, KeptAlive {
  /// Its part in one channel.
  struct Membership {
    let shard: ChannelShard
    /// Where the shard has it.
    var place: Int
    var receipts: Receipts
  }

  /// Bytes that wait, and the broadcast or the push they belong to.
  struct Waiting {
    let bytes: OutgoingBytes
    let broadcast: Broadcast?
    let push: OutgoingPush?
  }

  /// What a subscriber that keeps up with its one channel has no use for. Most are such, and thousands.
  final class More {
    var memberships: [ChannelID: Membership] = [:]
    var outbox = Outbox<Waiting>()
    var stalledSince: Double?
    /// How the connection is closed once everything that waits was sent.
    var farewell: (code: UInt16, reason: String)?

    var isNeeded: Bool { !memberships.isEmpty || !outbox.isEmpty || farewell != nil }
  }

  let sweep: KeepAliveSweep
  private(set) var owner: (any ReceiverOwner)?
  /// The first one. Further ones are in `more`.
  private var membership: Membership?
  private(set) var more: More?
  /// From `opened` to `closed`.
  private(set) var connection: Connection?

  var stalledSince: Double? { more?.stalledSince }
  var lastPing: Double = 0
  var sweepPlace: Int32?

  /// - Parameter sweep: the one of the connection's loop.
  init(sweep: KeepAliveSweep, owner: any ReceiverOwner) {
    self.sweep = sweep
    self.owner = owner
  }

  func makeMore() -> More {
    if let more { return more }
    let made = More()
    more = made
    return made
  }

  /// Lets go of what is not needed any more.
  private func tidy() {
    if let more, !more.isNeeded { self.more = nil }
  }

  // MARK: Memberships

  private func membership(in channel: ChannelID) -> Membership? {
    if let membership, membership.shard.id == channel { return membership }
    return more?.memberships[channel]
  }

  /// By the channel's id or, for the first one, its alias.
  private func membership(named name: String) -> Membership? {
    if let membership, membership.shard.id.base64 == name || membership.shard.alias == name {
      return membership
    }
    guard let more, !more.memberships.isEmpty else { return nil }
    return ChannelID(name).flatMap { more.memberships[$0] }
  }

  func change<Result>(_ channel: ChannelID, _ body: (inout Membership) -> Result) -> Result? {
    guard var changed = membership(in: channel) else { return nil }
    defer {
      if membership?.shard.id == channel {
        membership = changed
      } else {
        more?.memberships[channel] = changed
      }
    }
    return body(&changed)
  }

  func moved(to place: Int, in shard: ChannelShard) {
    if membership?.shard === shard {
      membership?.place = place
    } else {
      more?.memberships[shard.id]?.place = place
    }
  }

  /// Receives a channel from now on.
  /// - Parameter sequence: the channel's newest message.
  func join(_ shard: ChannelShard, at sequence: Int) {
    guard connection != nil, membership(in: shard.id) == nil else { return }
    let new = Membership(
      shard: shard, place: shard.add(self, at: sequence), receipts: Receipts(at: sequence))
    if membership == nil { membership = new } else { makeMore().memberships[shard.id] = new }
  }

  /// Receives a channel no longer. What was published before is still its own.
  /// - Parameter isForgotten: what waits of the channel's messages is taken back.
  func leave(_ channel: ChannelID, isForgotten: Bool) {
    guard let membership = membership(in: channel) else { return }
    membership.shard.catchUp(at: membership.place, isLeaving: true)
    if self.membership?.shard === membership.shard {
      self.membership = nil
    } else {
      more?.memberships[channel] = nil
    }
    membership.shard.remove(at: membership.place)
    if isForgotten { more?.outbox.forget(channel) }
    tidy()
  }

  /// Takes what was published in a channel before now and has not reached it yet.
  func catchUp(_ channel: ChannelID) {
    if let membership = membership(in: channel) { membership.shard.catchUp(at: membership.place) }
  }

  /// The same for a publisher that hears its own channel, before the answer; see ``ChannelShard/catchUpPublisher(at:)``.
  func catchUpPublisher(_ channel: ChannelID) {
    if let membership = membership(in: channel) { membership.shard.catchUpPublisher(at: membership.place) }
  }

  // MARK: Connection

  func opened(_ connection: Connection) {
    self.connection = connection
    lastPing = connection.lastHeard
    sweep.add(self)
    if connection.kind == .eventStream { enqueue(OutgoingBytes(raw: EventStreamText.retry)) }
    owner?.opened(self)
  }

  /// Lets go of the connection, for another loop to take. Its owner hears nothing more.
  /// - Returns: nil when something waits already, or the connection can't be moved; then nothing changes.
  func giveUp() -> DetachedSocket? {
    guard membership == nil, more == nil, let socket = connection?.detach() else { return nil }
    sweep.remove(self)
    connection = nil
    owner = nil
    return socket
  }

  func received(text: [UInt8], _ connection: Connection) {
    let frame = Result { () throws(FrameError) in try ClientFrame(text) }
    // What every subscriber says of every message is dealt with here.
    if case .success(let frame) = frame,
      case .channel(let name, .acknowledge(let sequence, let displayed, let stale)) = frame.subject,
      owner?.isBusy == false, let membership = membership(named: name)
    {
      return acknowledge(
        Acknowledgement(
          sequence: sequence, displayed: displayed, stale: stale, name: name, requestID: frame.requestID),
        of: membership)
    }
    owner?.received(frame, bytes: text.count)
  }

  func writable(_ connection: Connection) {
    guard let more else { return }
    while let next = more.outbox.first, connection.send(next.bytes) {
      more.stalledSince = sweep.now
      next.broadcast?.countWritten()
      // Before the owner hears of it, who may have the next one already.
      more.outbox.removeFirst()
      if let push = next.push { owner?.pushed(push.uniqueID, .written) }
    }
    if more.outbox.isEmpty { more.stalledSince = nil }
    sayFarewell()
    tidy()
  }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    for membership in [membership].compactMap(\.self) + (more?.memberships.values ?? [:].values) {
      membership.shard.remove(at: membership.place)
    }
    membership = nil
    more = nil
    self.connection = nil
    sweep.remove(self)
    owner?.closed(code: code)
    owner = nil
  }

  func close(code: UInt16, reason: String) { connection?.close(code: code, reason: reason) }

  /// Closes the connection once everything that waits was sent.
  func closeWhenSent(code: UInt16, reason: String) {
    guard connection != nil else { return }
    makeMore().farewell = (code, reason)
    sayFarewell()
  }

  private func sayFarewell() {
    guard let more, let farewell = more.farewell, more.outbox.isEmpty else { return }
    close(code: farewell.code, reason: farewell.reason)
  }

  /// Reads nothing more from the client, or goes on with it.
  func pause(_ isPaused: Bool) { connection?.pause(isPaused) }

  // MARK: Acknowledgements

  func acknowledge(_ acknowledgement: Acknowledgement, of channel: ChannelID) {
    guard let membership = membership(in: channel) else { return }
    acknowledge(acknowledgement, of: membership)
  }

  private func acknowledge(_ acknowledgement: Acknowledgement, of membership: Membership) {
    let shard = membership.shard
    let sequence = acknowledgement.sequence
    let requestID = acknowledgement.requestID?.text
    guard sequence <= shard.newest else {
      let error = AnswerError(
        status: 400, reason: "BadRequestParams",
        message: "seq \(sequence) was not delivered yet; the channel's newest is \(shard.newest)")
      return send(.error(error.frame(channel: acknowledgement.name, requestID: requestID)))
    }
    let news = change(shard.id) {
      $0.receipts.acknowledge(
        sequence, displayed: acknowledgement.displayed, stale: acknowledgement.stale)
    }
    if let news { shard.acknowledged(news) }
    send(.acknowledged(channel: shard.id.base64, sequence: sequence, requestID: requestID))
  }
}
