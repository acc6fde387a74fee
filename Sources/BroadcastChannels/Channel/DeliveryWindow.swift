import Foundation

/// Where messages of priorities 5 and 1 wait until the channel delivers the newest of them.
///
/// The first message in an idle channel opens the window; its end delivers what waits, in the order of the
/// timestamps. One window serves both priorities: a message at 5 that joins one opened at 1 brings the end forward,
/// so two windows can never deliver out of order.
///
/// A plain update is replaced by any message that is at least as new. An alert and an end are never replaced; when
/// ``Limits/windowKeeps`` of them wait, the window ends early instead of growing.
///
/// A window whose end is further away than it was ever long ends too: the clock was set back, and nothing is held for as long
/// as that step.
struct DeliveryWindow: Sendable {
  /// What became of a message that joined.
  enum Joined {
    case waiting(superseding: [Message])
    /// Something newer waits already: the message is not delivered.
    case superseded
  }

  private(set) var deadline: Date?
  /// Seconds that the window was to last.
  private var length: Double = 0
  /// In the order of delivery: by timestamp, then arrival.
  private(set) var waiting: [Message] = []

  /// An idle window.
  init() {}

  /// A window that goes on after a restart.
  ///
  /// - Parameter waiting: in the order of delivery.
  init(waiting: [Message], until deadline: Date?, now: Date) {
    self.waiting = waiting
    let latest = now.addingTimeInterval(Limits.windowSeconds)
    self.deadline = waiting.isEmpty ? nil : deadline.map { $0 > latest ? .distantPast : $0 } ?? .distantPast
    length = Limits.windowSeconds
  }

  /// Whether the same messages wait until the same time.
  func isLike(_ other: DeliveryWindow) -> Bool { deadline == other.deadline && holdsTheSame(as: other) }

  /// Whether the same messages wait.
  func holdsTheSame(as other: DeliveryWindow) -> Bool {
    waiting.elementsEqual(other.waiting) { $0.uniqueID == $1.uniqueID }
  }

  mutating func join(_ message: Message, for seconds: Double, at now: Date) -> Joined {
    let end = now.addingTimeInterval(seconds)
    if deadline == nil { length = seconds }
    deadline = min(deadline ?? end, end)
    let newerWaits = waiting.contains { $0.payload.timestamp > message.payload.timestamp }
    if newerWaits && !message.payload.isIrreplaceable { return .superseded }
    let superseded = removeSuperseded(by: message)
    let index = waiting.firstIndex { $0.payload.timestamp > message.payload.timestamp } ?? waiting.endIndex
    waiting.insert(message, at: index)
    if waiting.count(where: { $0.payload.isIrreplaceable }) > Limits.windowKeeps { deadline = .distantPast }
    return .waiting(superseding: superseded)
  }

  /// Makes way for a message that is delivered now: plain updates that are not newer are superseded, alerts and ends
  /// that are not newer go out before it, and what is newer goes on waiting.
  mutating func makeWay(for message: Message) -> (first: [Message], superseded: [Message]) {
    let superseded = removeSuperseded(by: message)
    let first = waiting.filter { $0.payload.timestamp <= message.payload.timestamp }
    waiting.removeAll { $0.payload.timestamp <= message.payload.timestamp }
    if waiting.isEmpty { deadline = nil }
    return (first, superseded)
  }

  /// Ends the window if its time has come.
  mutating func end(at now: Date) -> [Message] {
    guard let deadline, deadline <= now || deadline > now.addingTimeInterval(length) else { return [] }
    return end()
  }

  /// Ends the window, whatever its time.
  mutating func end() -> [Message] {
    deadline = nil
    defer { waiting = [] }
    return waiting
  }

  private mutating func removeSuperseded(by message: Message) -> [Message] {
    let replaced = { (old: Message) in
      !old.payload.isIrreplaceable && old.payload.timestamp <= message.payload.timestamp
    }
    defer { waiting.removeAll(where: replaced) }
    return waiting.filter(replaced)
  }
}
