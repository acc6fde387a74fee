import Foundation

/// Remembers what was answered to a request id, so that a repeated request is answered as the first time and
/// published once.
///
/// Only accepted requests are remembered: one that was refused for its rate must be able to succeed later. Costs one
/// dictionary look-up a publish; bounded in time and number.
struct RequestHistory: Sendable {
  struct Answer: Sendable {
    let uniqueID: UniqueID
    let outcome: Outcome
  }

  private var answers: [RequestID: Answer] = [:]
  /// A ring in the order of arrival: entries before `oldest` are forgotten.
  private var order: [(id: RequestID, at: Date)] = []
  private var oldest = 0

  func answer(to id: RequestID) -> Answer? { answers[id] }

  mutating func remember(_ id: RequestID, _ answer: Answer, at now: Date) {
    guard answers.updateValue(answer, forKey: id) == nil else { return }
    order.append((id, now))
  }

  /// Forgets an answer that doesn't hold, the newest one, so that the request counts as new: also its time, or the
  /// answer to the next try would be forgotten with the first one's.
  mutating func forget(_ id: RequestID) {
    answers[id] = nil
    if order.last?.id == id { order.removeLast() }
  }

  mutating func forget(before now: Date) {
    while oldest < order.count,
      now.timeIntervalSince(order[oldest].at) >= Limits.requestIDSeconds
        || order.count - oldest > Limits.requestIDsPerChannel
    {
      answers[order[oldest].id] = nil
      oldest += 1
    }
    if oldest > 1_024, oldest * 2 > order.count {
      order.removeFirst(oldest)
      oldest = 0
    }
  }
}
