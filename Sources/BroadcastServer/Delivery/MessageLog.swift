import BroadcastChannels
import Foundation

/// What became of one message: accepted, let out, written, acknowledged and displayed are five different things, and a
/// publisher can ask for each.
final class MessageRecord {
  let uniqueID: UniqueID
  let priority: Priority
  let acceptedAt: Date
  /// What was done with it; a message that waited becomes `delivered` or `superseded` later.
  fileprivate(set) var outcome: Outcome
  /// Its place, once it was let out, and when that was.
  fileprivate(set) var position: StreamPosition?
  fileprivate(set) var sentAt: Date?
  /// Subscribers when it was let out.
  fileprivate(set) var subscribers = 0
  /// Connections whose socket took it.
  var written = 0
  /// Subscribers that said that they received it.
  fileprivate(set) var acknowledged = 0
  /// Devices that said that they showed it.
  fileprivate(set) var displayed = 0

  init(uniqueID: UniqueID, priority: Priority, outcome: Outcome, acceptedAt: Date) {
    self.uniqueID = uniqueID
    self.priority = priority
    self.outcome = outcome
    self.acceptedAt = acceptedAt
  }

  /// The record as `GET /v1/channels/<id>/messages/<unique-id>` answers it.
  func json(channel: ChannelID) -> String {
    JSONWriter.object([
      "unique-id": JSONWriter.quoted(uniqueID.text), "channel": JSONWriter.quoted(channel.base64),
      "priority": String(priority.rawValue), "outcome": JSONWriter.quoted(outcome.rawValue),
      "accepted": JSONWriter.seconds(acceptedAt.timeIntervalSince1970),
      "epoch": position.map { JSONWriter.quoted($0.epoch) }, "seq": position.map { String($0.sequence) },
      "sent": sentAt.map { JSONWriter.seconds($0.timeIntervalSince1970) },
      "subscribers": String(subscribers), "written": String(written), "acknowledged": String(acknowledged),
      "displayed": String(displayed),
    ])
  }
}

/// The records of a channel's last messages: the newest ``Limits/messageRecordsPerChannel``.
struct MessageLog {
  private var records: [UniqueID: MessageRecord] = [:]
  /// In the order of acceptance; what stands before `oldest` is forgotten.
  private var order: [UniqueID] = []
  private var oldest = 0
  private var bySequence: [Int: MessageRecord] = [:]

  subscript(id: String) -> MessageRecord? { records[UniqueID(text: id)] }

  mutating func accepted(_ id: UniqueID, priority: Priority, outcome: Outcome, at now: Date) {
    let record = MessageRecord(uniqueID: id, priority: priority, outcome: outcome, acceptedAt: now)
    records[id] = record
    order.append(id)
    guard order.count - oldest > Limits.messageRecordsPerChannel else { return }
    if let gone = records.removeValue(forKey: order[oldest]), let position = gone.position {
      bySequence[position.sequence] = nil
    }
    oldest += 1
    if oldest > Limits.messageRecordsPerChannel {
      order.removeFirst(oldest)
      oldest = 0
    }
  }

  /// A message was let out.
  ///
  /// - Returns: its record, for the connections to count in.
  mutating func delivered(_ delivery: Delivery, subscribers: Int) -> MessageRecord? {
    guard let record = records[delivery.message.uniqueID] else { return nil }
    if record.outcome == .windowed { record.outcome = .delivered }
    record.position = delivery.position
    record.sentAt = delivery.sent
    record.subscribers = subscribers
    bySequence[delivery.position.sequence] = record
    return record
  }

  mutating func superseded(_ id: UniqueID) { records[id]?.outcome = .superseded }

  /// A subscriber received everything of a span but what was conflated away for it.
  func acknowledge(_ sequences: ClosedRange<Int>, but skipped: SequenceRuns) {
    for sequence in Self.remembered(sequences) where !skipped.contains(sequence) {
      bySequence[sequence]?.acknowledged += 1
    }
  }

  /// The part of a span whose records may still be here.
  static func remembered(_ sequences: ClosedRange<Int>) -> ClosedRange<Int> {
    max(sequences.lowerBound, sequences.upperBound - Limits.messageRecordsPerChannel)...sequences.upperBound
  }

  /// Adds what another loop has counted.
  func add(_ sums: DeliverySums.Message, at sequence: Int) {
    guard let record = bySequence[sequence] else { return }
    record.written += sums.written
    record.acknowledged += sums.acknowledged
    record.displayed += sums.displayed
  }

  /// A device displayed a message.
  func display(_ sequence: Int) { bySequence[sequence]?.displayed += 1 }
}
