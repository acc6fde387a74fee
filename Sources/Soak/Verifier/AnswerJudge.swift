import BroadcastChannels

/// Judges what publishers of a channel are answered, in the order of their messages: is there a reason for a refusal, and for
/// `demoted`, `dropped` and `superseded`?
///
/// What can be spent of a bucket at most is known: a token for each message that was accepted, taken no later than its answer
/// came. Who is told that a bucket is empty while it must hold tokens was told wrongly. A server that answers late may have taken
/// tokens late, so that the judge is milder with it, and never wrong.
struct AnswerJudge {
  /// A message, and what was answered.
  struct Answered {
    let sent: Sent
    let sentAt: Double
    /// When the answer came, or was given up.
    let answeredAt: Double
    let answer: Answer
    /// Whether the soak stopped the server around the answer.
    let isNearStop: Bool
    /// Whether something newer may have waited in the window.
    let newerMayWait: Bool
  }

  enum Answer {
    case accepted(Outcome)
    case refused(String)
    /// There is none: it may have been accepted.
    case missing
  }

  /// A bucket, and what of it can be spent at most.
  private struct Bucket {
    let capacity: Double
    let perSecond: Double
    private var spent: Double = 0
    private var at: Double = 0
    /// Until when those tokens may be taken that are not in `spent` yet.
    private var late: [Double] = []

    init(capacity: Double, perSecond: Double) {
      self.capacity = capacity
      self.perSecond = perSecond
    }

    mutating func spend(by moment: Double) { late.append(moment) }

    /// Comes to a moment, for ``mayBeEmpty``.
    mutating func advance(to moment: Double) {
      for taken in late.filter({ $0 <= moment }).sorted() {
        drain(to: taken)
        spent = min(capacity, spent + 1)
      }
      late.removeAll { $0 <= moment }
      drain(to: moment)
    }

    private mutating func drain(to moment: Double) {
      guard moment > at else { return }
      spent = max(0, spent - (moment - at) * perSecond)
      at = moment
    }

    /// Whether there may be no whole token. One more is forgiven: of a message that was sent again after it had been refused.
    var mayBeEmpty: Bool { capacity - spent - Double(late.count) < 2 }
  }

  private let settings: ChannelSettings
  private var budget: Bucket?
  private var rate: Bucket?

  init(_ settings: ChannelSettings) {
    self.settings = settings
    budget = settings.budget.capacity.map {
      Bucket(capacity: Double($0), perSecond: settings.budget.refillPerHour / 3_600)
    }
    let publishRate = settings.publishRate
    rate = publishRate.perSecond.map {
      Bucket(capacity: max(1, publishRate.burst.map(Double.init) ?? $0.rounded(.up)), perSecond: $0)
    }
  }

  /// What is wrong with an answer, in words; nil when the rules allow it.
  mutating func judge(_ message: Answered) -> String? {
    rate?.advance(to: message.sentAt)
    budget?.advance(to: message.sentAt)
    let isImmediate = message.sent.priority == .immediate
    let mayBeOver = isImmediate && budget?.mayBeEmpty ?? false
    switch message.answer {
    case .missing:
      spend(message, isImmediate)
      return nil
    case .refused(let reason):
      return isAllowed(reason, message, mayBeOver) ? nil : "was refused with \(reason)"
    case .accepted(let outcome):
      spend(message, isImmediate && outcome == .delivered)
      return isAllowed(outcome, message, isImmediate, mayBeOver)
        ? nil : "was answered \"\(outcome.rawValue)\""
    }
  }

  private mutating func spend(_ message: Answered, _ isOfBudget: Bool) {
    rate?.spend(by: message.answeredAt)
    if isOfBudget { budget?.spend(by: message.answeredAt) }
  }

  private func isAllowed(_ reason: String, _ message: Answered, _ mayBeOver: Bool) -> Bool {
    switch RefusalReason(rawValue: reason) {
    case .tooManyRequests:
      rate?.mayBeEmpty ?? false || mayBeOver && settings.budget.overBudget == .reject
    case .serviceUnavailable, .shutdown: message.isNearStop
    default: false
    }
  }

  private func isAllowed(
    _ outcome: Outcome, _ message: Answered, _ isImmediate: Bool, _ mayBeOver: Bool
  ) -> Bool {
    let mayBeDemoted = mayBeOver && settings.budget.overBudget == .demote
    switch outcome {
    case .delivered: return isImmediate || window(of: message.sent.priority) <= 0
    case .windowed: return !isImmediate
    case .demoted: return mayBeDemoted
    case .dropped: return mayBeOver && settings.budget.overBudget == .drop
    case .superseded:
      return !message.sent.isIrreplaceable && message.newerMayWait && (!isImmediate || mayBeDemoted)
    }
  }

  private func window(of priority: Priority) -> Double {
    priority == .passive ? settings.windows.passive : settings.windows.considerate
  }
}
