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
  /// Of the last messages those that reached nobody.
  private var conflated: Set<Int> = []
  /// Where subscriptions count what they acknowledge.
  private let counts: DeliveryCounts

  init(counts: DeliveryCounts = DeliveryCounts(total: DeliveryTotals())) { self.counts = counts }

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

  /// A message was replaced by a newer one before it was sent to anybody. Who acknowledges what comes after it received it not.
  mutating func conflated(_ sequence: Int) {
    bySequence[sequence] = nil
    conflated.insert(sequence)
    guard conflated.count > 2 * Limits.messageRecordsPerChannel else { return }
    conflated = conflated.filter { $0 > sequence - Limits.messageRecordsPerChannel }
  }

  /// A subscriber received everything of a span but what was conflated away for it.
  func acknowledge(_ sequences: ClosedRange<Int>, but skipped: SequenceRuns) {
    counts.acknowledged -= conflated.count { sequences.contains($0) && !skipped.contains($0) }
    let first = max(sequences.lowerBound, sequences.upperBound - Limits.messageRecordsPerChannel)
    for sequence in first...sequences.upperBound where !skipped.contains(sequence) {
      bySequence[sequence]?.acknowledged += 1
    }
  }

  /// A device displayed a message.
  func display(_ sequence: Int) { bySequence[sequence]?.displayed += 1 }
}
