import Foundation

/// How urgently a message is delivered, and whether it counts.
public enum Priority: Int, Sendable, CaseIterable {
  /// At once; takes a token of the channel's budget.
  case immediate = 10
  /// Grouped in a delivery window; doesn't count.
  case considerate = 5
  /// Grouped in a longer window; never wakes the device.
  case passive = 1
}

/// What `apns-expiration` asks for.
public enum Expiration: Sendable, Hashable {
  /// `0`: deliver once to whoever is connected, store nothing.
  case once
  /// Unix seconds: keep the message for those who are offline until then.
  case at(Int64)

  /// Reads the header's or frame's number.
  ///
  /// - Returns: nil when it is no time: negative, or beyond the year 9999.
  public init?(unixSeconds: Int64) {
    guard (0...Limits.latestUnixSeconds).contains(unixSeconds) else { return nil }
    self = unixSeconds == 0 ? .once : .at(unixSeconds)
  }
}

/// Whether a channel keeps its newest message.
public enum StoragePolicy: Int, Sendable, CaseIterable {
  /// No Message Stored: for whoever is connected; the larger publishing budget.
  case none = 0
  /// Most Recent Message Stored: waits for devices that are offline.
  case latest = 1
}

/// One message on its way into a channel.
public struct Message: Sendable {
  /// The server's name for it.
  public let uniqueID: UniqueID
  /// The client's name for the request, when it gave one: a repetition is answered as the first time.
  public let requestID: RequestID?
  /// How urgently it is delivered.
  public let priority: Priority
  /// Whether and until when it is stored.
  public let expiration: Expiration
  /// What it says.
  public let payload: Payload
  /// On a push to one device: the name under which it takes the place of an earlier one. It is passed on; of an
  /// activity's updates the newest counts anyway.
  public let collapseID: String?

  /// Makes a message.
  public init(
    uniqueID: UniqueID, requestID: RequestID?, priority: Priority, expiration: Expiration, payload: Payload,
    collapseID: String? = nil
  ) {
    self.collapseID = collapseID
    self.uniqueID = uniqueID
    self.requestID = requestID
    self.priority = priority
    self.expiration = expiration
    self.payload = payload
  }
}

/// A message that a channel lets out, with its place in the channel's order.
public struct Delivery: Sendable {
  /// The message.
  public let message: Message
  /// Its place.
  public let position: StreamPosition
  /// When the channel let it out.
  public let sent: Date

  /// Makes a delivery, as a store does when it loads one.
  public init(message: Message, position: StreamPosition, sent: Date) {
    self.message = message
    self.position = position
    self.sent = sent
  }
}

/// A place in a channel's order of deliveries: what a receiver needs to know that it missed something.
public struct StreamPosition: Sendable, Hashable {
  /// Which counting the sequence number belongs to. It changes when a server starts counting anew.
  public let epoch: String
  /// The number of the delivery, from 1; 0 before the first.
  public let sequence: Int

  /// Makes a position.
  public init(epoch: String, sequence: Int) {
    self.epoch = epoch
    self.sequence = sequence
  }

  /// Reads `EPOCH:SEQ`, as `Last-Event-ID` and `--since` carry it.
  public init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
      let sequence = Int(text[text.index(after: colon)...]), sequence >= 0
    else { return nil }
    self.init(epoch: String(text[..<colon]), sequence: sequence)
  }

  /// Makes a new epoch.
  public static func randomEpoch(using generator: inout some RandomNumberGenerator) -> String {
    String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 36)
  }
}

extension StreamPosition: CustomStringConvertible {
  /// `EPOCH:SEQ`.
  public var description: String { "\(epoch):\(sequence)" }
}
