import Foundation

/// What of a channel outlives its process, beside its name and its rules.
public struct ChannelState: Sendable {
  /// The place of the newest delivery. With policy 0 nothing is stored that it could lead to: a new process counts anew.
  public var position: StreamPosition
  /// With policy 1, the newest message that is stored.
  public var newest: Delivery?
  /// How full the budget of priority 10 was; nil for full.
  public var budget: TokenBucket.Level?
  /// How full the publish rate was; nil for full.
  public var rate: TokenBucket.Level?
  /// With policy 1, what waits in the delivery window, in the order of delivery.
  public var waiting: [Message]
  /// When that window ends.
  public var deadline: Date?
  /// What was answered to request ids, in the order of the numbers.
  public var answers: [AnsweredRequest]

  /// The state of a new channel, or of one of which nothing but this is known.
  public init(position: StreamPosition, newest: Delivery? = nil) {
    self.position = position
    self.newest = newest
    waiting = []
    answers = []
  }

  /// Takes over a change.
  public mutating func apply(_ change: ChannelChange) {
    position = change.position
    budget = change.budget
    rate = change.rate
    deadline = change.deadline
    newest = change.newest ?? newest
    waiting = change.waiting ?? waiting
    if change.forgetsAnswers { answers.removeAll { $0.number < change.firstAnswer } }
    answers += change.answers
  }
}

/// How full a channel's budget and publish rate are; nil for full.
public struct ChannelLevels: Sendable {
  /// The budget of priority 10.
  public let budget: TokenBucket.Level?
  /// The publish rate.
  public let rate: TokenBucket.Level?

  /// Makes levels.
  public init(budget: TokenBucket.Level?, rate: TokenBucket.Level?) {
    self.budget = budget
    self.rate = rate
  }
}

/// What changed of a ``ChannelState``, for a store to write.
public struct ChannelChange: Sendable {
  /// The place of the newest delivery.
  public private(set) var position: StreamPosition
  /// How full the budget is.
  public private(set) var budget: TokenBucket.Level?
  /// How full the publish rate is.
  public private(set) var rate: TokenBucket.Level?
  /// When the delivery window ends.
  public private(set) var deadline: Date?
  /// The newest stored message; nil when it is the one from before.
  public private(set) var newest: Delivery?
  /// What waits in the delivery window; nil when that is as before.
  public private(set) var waiting: [Message]?
  /// What was answered since.
  public private(set) var answers: [AnsweredRequest]
  /// Answers with a lower number are forgotten.
  public private(set) var firstAnswer: Int
  /// Whether there are such.
  public private(set) var forgetsAnswers: Bool

  /// Makes a change. A channel tells its own, see ``Channel/change(since:)``.
  public init(
    position: StreamPosition, budget: TokenBucket.Level? = nil, rate: TokenBucket.Level? = nil,
    deadline: Date? = nil, newest: Delivery? = nil, waiting: [Message]? = nil,
    answers: [AnsweredRequest] = [], firstAnswer: Int = 0, forgetsAnswers: Bool = false
  ) {
    self.position = position
    self.budget = budget
    self.rate = rate
    self.deadline = deadline
    self.newest = newest
    self.waiting = waiting
    self.answers = answers
    self.firstAnswer = firstAnswer
    self.forgetsAnswers = forgetsAnswers
  }

  /// Takes over what changed after this, so that both are written as one.
  public mutating func merge(_ later: ChannelChange) {
    position = later.position
    budget = later.budget
    rate = later.rate
    deadline = later.deadline
    newest = later.newest ?? newest
    waiting = later.waiting ?? waiting
    firstAnswer = later.firstAnswer
    forgetsAnswers = forgetsAnswers || later.forgetsAnswers
    if later.forgetsAnswers { answers.removeAll { $0.number < later.firstAnswer } }
    answers += later.answers
  }
}

extension Channel {
  /// How full its budget and its publish rate were when they were last used.
  public var levels: ChannelLevels {
    ChannelLevels(budget: checkpoint.budget?.lastLevel, rate: checkpoint.rate?.lastLevel)
  }

  /// What has to be written so that a store follows the channel; nil when nothing that it keeps has changed.
  ///
  /// A channel that stores no messages keeps its budget, its rate and the answered requests. What waits in its window is
  /// for whoever is connected, and when the process ends nobody is.
  public func change(since before: Checkpoint) -> ChannelChange? {
    let stores = settings.storagePolicy == .latest
    let now = checkpoint
    let isSame =
      now.budget == before.budget && now.rate == before.rate && now.nextAnswer == before.nextAnswer
      && now.firstAnswer == before.firstAnswer
      && !(stores && (now.position != before.position || !now.window.isLike(before.window)))
    guard !isSame else { return nil }
    let hasNewest = stores && now.stored?.position != before.stored?.position
    return ChannelChange(
      position: position, budget: now.budget?.lastLevel, rate: now.rate?.lastLevel,
      deadline: stores ? now.window.deadline : nil, newest: hasNewest ? now.stored : nil,
      waiting: stores && !now.window.holdsTheSame(as: before.window) ? now.window.waiting : nil,
      answers: answers(from: before.nextAnswer), firstAnswer: now.firstAnswer,
      forgetsAnswers: now.firstAnswer != before.firstAnswer)
  }
}
