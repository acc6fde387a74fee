import BroadcastChannels
import SubscriberProtocol

/// A delivery, as far as the verifier looks at it. Read once a message, whatever the number of subscribers.
public struct SoakArrival: Sendable, Hashable {
  /// Its place in the channel's order.
  public var position: StreamPosition
  /// The number that the publisher put into it; nil when no soak has sent it.
  public var number: Int?
  /// A digest of the `aps` bytes.
  public var digest: UInt64
  /// The server's name for it.
  public var uniqueID: String
  /// The priority that it was published with.
  public var priority: Priority
  /// When the channel let it out, in Unix seconds.
  public var sent: Double
  /// The state's timestamp.
  public var timestamp: Int64
  /// Whether it has an alert or ends the activity.
  public var isIrreplaceable: Bool
  /// Whether it ends the activity.
  public var isEnd: Bool
  /// When the state goes stale, in Unix seconds.
  public var staleDate: Double?

  /// Notes a delivery.
  public init(
    position: StreamPosition, number: Int?, digest: UInt64, uniqueID: String, priority: Priority,
    sent: Double, timestamp: Int64, isIrreplaceable: Bool, isEnd: Bool, staleDate: Double? = nil
  ) {
    self.staleDate = staleDate
    self.position = position
    self.number = number
    self.digest = digest
    self.uniqueID = uniqueID
    self.priority = priority
    self.sent = sent
    self.timestamp = timestamp
    self.isIrreplaceable = isIrreplaceable
    self.isEnd = isEnd
  }

  /// Reads a message frame.
  public init(_ frame: MessageFrame) {
    position = frame.position
    number = Publication.number(in: frame.payload.aps)
    digest = Self.digest(frame.payload.aps)
    uniqueID = frame.uniqueID
    priority = frame.priority
    sent = frame.sent
    timestamp = frame.payload.timestamp
    isIrreplaceable = frame.payload.isIrreplaceable
    isEnd = frame.payload.event == .end
    staleDate = frame.payload.staleDate.map(Double.init)
  }

  /// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/): no adversary is about, a changed byte shows.
  public static func digest(_ bytes: [UInt8]) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
  }
}

/// What a publisher sent.
public struct Sent: Sendable, Hashable {
  /// The number in the payload.
  public var number: Int
  /// When it was due, in Unix seconds.
  public var due: Double
  /// A digest of the `aps` bytes.
  public var digest: UInt64
  /// How urgent it is.
  public var priority: Priority
  /// The state's timestamp.
  public var timestamp: Int64
  /// Whether it has an alert or ends the activity.
  public var isIrreplaceable: Bool
  /// Whether it ends the activity.
  public var isEnd: Bool
  /// Until when a channel of policy 1 stores it, in Unix seconds; nil when it doesn't.
  public var storedUntil: Double?

  /// Notes what is sent.
  public init(
    number: Int, due: Double, digest: UInt64, priority: Priority, timestamp: Int64, isIrreplaceable: Bool,
    isEnd: Bool, storedUntil: Double?
  ) {
    self.number = number
    self.due = due
    self.digest = digest
    self.priority = priority
    self.timestamp = timestamp
    self.isIrreplaceable = isIrreplaceable
    self.isEnd = isEnd
    self.storedUntil = storedUntil
  }
}

/// What an activity did with a delivery.
public enum Shown: Sendable, Hashable {
  /// It shows it, or showed it.
  case displayed
  /// It is older than what the activity shows.
  case ignoredOlder
  /// The activity has ended.
  case ignoredAfterEnd
  /// The activity said nothing of it.
  case nothing
}

/// What happened in a run, as the verifier hears it. Everything a subscriber does names its place in the plan.
public enum Observation: Sendable {
  /// A publisher sent a message into a channel.
  case sent(channel: Int, Sent)
  /// The server accepted it; `again` answers the second of two.
  case accepted(
    channel: Int, number: Int, uniqueID: String, outcome: Outcome, isRepetition: Bool, again: Bool)
  /// The server refused it, for a reason of the API.
  case refused(channel: Int, number: Int, reason: String)
  /// A channel's publisher tries to get a connection.
  case publisherWants(channel: Int)
  /// It has one, and sends again what was not answered on the one before.
  case publisherConnected(channel: Int)
  /// The server ended the publisher's connection, with a close code or without one.
  case publisherClosed(channel: Int, code: Int?, problem: String?)
  /// A device with a new activity takes a place.
  case arrived(subscriber: Int)
  /// A subscription stands.
  case subscribed(subscriber: Int, position: StreamPosition, resumed: StreamPosition?)
  /// A device without a connection tries to get one, and subscribes with it.
  case wants(subscriber: Int)
  /// The device is gone, or has no network, by plan: it wants no subscription until it tries again.
  case away(subscriber: Int)
  /// The server says that the device's channel doesn't exist.
  case missing(subscriber: Int)
  /// A try to get a connection came to nothing.
  case failed(subscriber: Int, problem: String)
  /// What came is no frame of the protocol, or no TLS.
  case garbled(subscriber: Int, problem: String)
  /// The server ended the connection, with a close code or without one. ``disconnected(subscriber:)`` follows.
  case closed(subscriber: Int, code: Int?, problem: String?)
  /// The server ended the subscription, and the device has not asked for that.
  case unsubscribed(subscriber: Int)
  /// The connection ended, or the device left.
  case disconnected(subscriber: Int)
  /// It reads nothing from now on.
  case stalled(subscriber: Int)
  /// It reads again.
  case readAgain(subscriber: Int)
  /// A message arrived and was given to the activity.
  case received(subscriber: Int, SoakArrival, Shown)
  /// The activity went stale; the date that passed, and the device's clock.
  case wentStale(subscriber: Int, staleDate: Double, clock: Double)
  /// The device's clock jumped to a time.
  case clockJumped(subscriber: Int, to: Double)
  /// The card is gone, and the device is about to unsubscribe: what arrives until that is confirmed is taken in silence.
  case leaving(subscriber: Int)
  /// The server confirmed that the device, which has dismissed its card, is subscribed no more.
  case dismissed(subscriber: Int)
  /// The device acknowledged what it received since it last did.
  case acknowledged(subscriber: Int, numbers: [Int], displayed: [Int])
  /// The server counted an acknowledgement.
  case confirmed(subscriber: Int, numbers: [Int], displayed: [Int])
  /// What the server's record of a message says.
  case record(channel: Int, number: Int, written: Int, acknowledged: Int, displayed: Int)
  /// The server has no record of a message that it let out, or gave none.
  case unrecorded(channel: Int, number: Int, problem: String)
  /// The server stops; accepted messages that wait may be let out early or, if it is killed, be lost.
  case serverStopped
  /// The server, which was stopped, can be reached again.
  case serverStarted
  /// The soak itself, or the machine, stood still for so many seconds.
  case lagged(Double)
}
