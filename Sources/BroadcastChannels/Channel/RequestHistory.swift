import Foundation

/// What was answered to a request id, and when: enough to answer its repetition.
public struct AnsweredRequest: Sendable {
  /// Its place among the channel's answered requests, rising.
  public let number: Int
  /// The client's name for the request.
  public let requestID: RequestID
  /// The server's name for the message.
  public let uniqueID: UniqueID
  /// What was done with the message.
  public let outcome: Outcome
  /// When it was answered.
  public let at: Date

  /// Makes a record, as a store does when it loads one.
  public init(number: Int, requestID: RequestID, uniqueID: UniqueID, outcome: Outcome, at: Date) {
    self.number = number
    self.requestID = requestID
    self.uniqueID = uniqueID
    self.outcome = outcome
    self.at = at
  }
}

/// Remembers what was answered to a request id, so that a repeated request is answered as the first time and
/// published once.
///
/// Only accepted requests are remembered: one that was refused for its rate must be able to succeed later. Costs one
/// dictionary look-up a publish; bounded in time and number.
struct RequestHistory: Sendable {
  private var answers: [RequestID: AnsweredRequest] = [:]
  /// A ring in the order of arrival: entries before `oldest` are forgotten.
  private var order: [(number: Int, id: RequestID, at: Date)] = []
  private var oldest = 0
  /// The number that the next answer gets.
  private(set) var next = 0

  /// An empty history.
  init() {}

  /// What a store kept, in the order of the numbers.
  ///
  /// A store may be slow to forget: it can have an answer whose time has passed beside the newer one to the same request id. The
  /// newer one counts, with its own time.
  init(_ kept: [AnsweredRequest]) {
    for answer in kept.reversed() where answers[answer.requestID] == nil {
      answers[answer.requestID] = answer
      order.append((answer.number, answer.requestID, answer.at))
    }
    order.reverse()
    next = (order.last?.number ?? -1) + 1
  }

  /// The number of the oldest answer that is remembered; ``next`` when there is none.
  var first: Int { oldest < order.count ? order[oldest].number : next }

  func answer(to id: RequestID) -> AnsweredRequest? { answers[id] }

  /// The answers from a number on.
  func answers(from number: Int) -> [AnsweredRequest] {
    order[oldest...].reversed().prefix { $0.number >= number }.reversed().compactMap { answers[$0.id] }
  }

  mutating func remember(_ id: RequestID, _ uniqueID: UniqueID, _ outcome: Outcome, at now: Date) {
    let answer = AnsweredRequest(number: next, requestID: id, uniqueID: uniqueID, outcome: outcome, at: now)
    guard answers.updateValue(answer, forKey: id) == nil else { return }
    order.append((next, id, now))
    next += 1
  }

  /// Forgets an answer that doesn't hold, the newest one, so that the request counts as new: also its time, or the
  /// answer to the next try would be forgotten with the first one's.
  mutating func forget(_ id: RequestID) {
    answers[id] = nil
    if let last = order.last, last.id == id {
      order.removeLast()
      next = last.number
      // It may have been outdated by the time that its request was undone.
      oldest = min(oldest, order.count)
    }
  }

  /// Whether there is an answer that is no longer needed.
  func isOutdated(at now: Date) -> Bool {
    oldest < order.count
      && (now.timeIntervalSince(order[oldest].at) >= Limits.requestIDSeconds
        || order.count - oldest > Limits.requestIDsPerChannel)
  }

  mutating func forget(before now: Date) {
    while isOutdated(at: now) {
      answers[order[oldest].id] = nil
      oldest += 1
    }
    if oldest > 1_024, oldest * 2 > order.count {
      order.removeFirst(oldest)
      oldest = 0
    }
  }
}
