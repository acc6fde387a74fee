import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// A delivery in the form in which it goes out, encoded once, for every loop.
struct BroadcastFrame: Sendable {
  let channel: ChannelID
  let position: StreamPosition
  /// Alerts and ends are never conflated away.
  let isIrreplaceable: Bool
  /// The WebSocket frame.
  let bytes: OutgoingBytes

  init(_ delivery: Delivery, channel: ChannelID) {
    self.channel = channel
    position = delivery.position
    isIrreplaceable = delivery.message.payload.isIrreplaceable
    bytes = OutgoingBytes(webSocketText: ServerFrame.message(delivery, channel: channel).text)
  }
}

/// One delivery on its way to everybody on one loop.
final class Broadcast {
  let frame: BroadcastFrame
  /// Where connections count that they took it. Held, not the room: what waits in an outbox may outlive its channel, and a
  /// weak reference would cost each subscriber an atomic step.
  let ledger: any DeliveryLedger
  /// What the main loop's ledger counts in; nil once the message is forgotten, and on other loops.
  let record: MessageRecord?
  /// The same as an event of a `text/event-stream`.
  private(set) lazy var event = OutgoingBytes(
    raw: EventStreamText.event("message", id: frame.position.description, data: Array(frame.bytes.text)))

  init(_ frame: BroadcastFrame, ledger: any DeliveryLedger, record: MessageRecord? = nil) {
    self.frame = frame
    self.ledger = ledger
    self.record = record
  }

  /// Sockets took it: only now it counts as written.
  func countWritten(_ sockets: Int = 1) {
    if sockets > 0 { ledger.written(self, by: sockets) }
  }
}
