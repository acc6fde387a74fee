import Foundation

/// What a push token leads to, as a state machine: messages and time go in, and come out for the one device behind it.
///
/// It runs by a channel's rules: a repeated id is answered as the first time, priority 10 takes a token of the frequency
/// budget or is delivered like priority 5, and priority 5 waits in a delivery window. What is different is that one
/// device is there or is not. While it is away the newest message waits for it, until its expiration:
/// - the newest by timestamp, then arrival: the state counts, and an alert of an hour ago alerts to nothing;
/// - an `end` stays, whatever comes after it, because the activity has ended with it;
/// - with expiration 0 a message is tried once.
///
/// A message also waits until the device has acknowledged it, so that one which was on its way when the connection broke
/// is sent again.
public struct PushInbox: Sendable {
  /// Whether it starts activities or updates one.
  public let kind: PushToken.Kind
  /// The app that the device registered it for.
  public let app: BundleID
  /// The last message that was accepted under an id, to answer a repetition when the token is no more.
  public private(set) var lastAnswer: LastAnswer?

  private var channel: Channel
  private var waiting: Delivery?

  /// Makes the inbox of a new token.
  ///
  /// - Parameters:
  ///   - id: what its messages are conflated by; no channel that can be named.
  ///   - frequentUpdates: whether the app declares frequent updates, which raises the budget.
  public init(kind: PushToken.Kind, app: BundleID, id: ChannelID, frequentUpdates: Bool, now: Date) {
    self.kind = kind
    self.app = app
    let settings = ChannelSettings(
      app: app, storagePolicy: .latest, frequentUpdates: frequentUpdates,
      budget: .standard(storagePolicy: .none, frequentUpdates: frequentUpdates))
    channel = Channel(
      id: id, alias: nil, settings: settings, position: StreamPosition(epoch: "push", sequence: 0), now: now)
  }

  /// What its messages are conflated by.
  public var id: ChannelID { channel.id }

  /// How much of the budget and the rate is left.
  public func budgetReport(at now: Date) -> BudgetReport { channel.budgetReport(at: now) }

  // MARK: Messages

  /// Refuses what the other kind of token is for.
  ///
  /// - Throws: ``RefusalReason/badDeviceToken``.
  public func check(_ payload: Payload) throws(Refusal) {
    switch (kind, payload.event) {
    case (.update, .start):
      throw Refusal(
        .badDeviceToken,
        "this is the update token of an activity that has started; a start needs the device's push-to-start token"
      )
    case (.start, .update), (.start, .end):
      throw Refusal(
        .badDeviceToken,
        "this is a push-to-start token, which can only start; an \(payload.event) needs the activity's update token"
      )
    case (.start, .start), (.update, .update), (.update, .end): break
    }
  }

  /// Takes a message in.
  ///
  /// - Parameter isConnected: whether the device is there.
  /// - Throws: ``RefusalReason/badDeviceToken`` for the other kind's event, ``RefusalReason/tooManyRequests`` beyond the
  ///   rate. Nothing has changed then.
  public mutating func accept(_ message: Message, isConnected: Bool, at now: Date) throws(Refusal)
    -> PushAnswer
  {
    try check(message.payload)
    let result: PublishResult
    do throws(Refusal) {
      result = try channel.publish(message, at: now)
    } catch {
      guard error.reason == .tooManyRequests else { throw error }
      throw Refusal(
        .tooManyRequests, "too many pushes to this token in a row; try again after retry-after",
        retryAfter: error.retryAfter)
    }
    let steps = settle(result.effects, isConnected: isConnected, at: now)
    let answer = PushAnswer(
      uniqueID: result.uniqueID,
      outcome: steps.last { $0.uniqueID == result.uniqueID }?.outcome ?? PushOutcome(result.outcome),
      isRepetition: result.isRepetition, steps: steps)
    if let id = message.requestID, !result.isRepetition {
      lastAnswer = LastAnswer(id: id, answer: answer, at: now)
    }
    return answer
  }

  // MARK: Time and the device

  /// When ``advance(to:isConnected:)`` has something to do next; nil while no window is open.
  public var nextDeadline: Date? { channel.nextDeadline }

  /// Works off what has come due.
  public mutating func advance(to now: Date, isConnected: Bool) -> [PushStep] {
    let effects = channel.advance(to: now)
    return settle(effects, isConnected: isConnected, at: now)
  }

  /// Lets out what waits in the window, because the server ends.
  public mutating func finish(isConnected: Bool, at now: Date) -> [PushStep] {
    let effects = channel.finish(at: now)
    return settle(effects, isConnected: isConnected, at: now)
  }

  /// The device came back: what waits for it, unless that has expired.
  public mutating func returned(at now: Date) -> PushStep? {
    guard let waiting else { return nil }
    guard Channel.expiry(of: waiting) > now else {
      self.waiting = nil
      return nil
    }
    return PushStep(uniqueID: waiting.message.uniqueID, outcome: .delivered, delivery: waiting)
  }

  /// The device has the message: it no longer waits.
  public mutating func acknowledge(_ id: UniqueID) {
    if waiting?.message.uniqueID == id { waiting = nil }
  }

  private mutating func settle(
    _ effects: [ChannelEffect], isConnected: Bool, at now: Date
  ) -> [PushStep] {
    effects.flatMap { effect -> [PushStep] in
      switch effect {
      case .supersede(let message): return [PushStep(uniqueID: message.uniqueID, outcome: .superseded)]
      case .deliver(let delivery):
        let replaced = waiting
        let isKept = keep(delivery, at: now)
        var steps: [PushStep] = []
        // What was handed over already and is not acknowledged yet stays delivered.
        if isKept, let replaced, !isConnected {
          steps.append(PushStep(uniqueID: replaced.message.uniqueID, outcome: .superseded))
        }
        let outcome: PushOutcome = isConnected ? .delivered : isKept ? .stored : .undeliverable
        steps.append(
          PushStep(
            uniqueID: delivery.message.uniqueID, outcome: outcome, delivery: isConnected ? delivery : nil))
        return steps
      }
    }
  }

  /// Lets a message wait, if it is the one that the device needs most.
  private mutating func keep(_ delivery: Delivery, at now: Date) -> Bool {
    guard Channel.expiry(of: delivery) > now else { return false }
    if let waiting, Channel.expiry(of: waiting) > now {
      let old = waiting.message.payload
      let new = delivery.message.payload
      if old.timestamp > new.timestamp || (old.event == .end && new.event != .end) { return false }
    }
    waiting = delivery
    return true
  }
}

/// The last push that a token took under an id. A sender that heard no answer to an activity's end sends it again, and by
/// then the token is gone with the activity: it is still answered as the first time.
public struct LastAnswer: Sendable {
  private let id: RequestID
  private let answer: PushAnswer
  private let at: Date

  init(id: RequestID, answer: PushAnswer, at: Date) {
    self.id = id
    self.answer = answer.repeating(answer.outcome)
    self.at = at
  }

  /// The answer to a request, if it repeats this one.
  public func answer(to id: RequestID?, at now: Date) -> PushAnswer? {
    id == self.id && now.timeIntervalSince(at) < Limits.requestIDSeconds ? answer : nil
  }
}

/// What was done with an accepted push.
public enum PushOutcome: String, Sendable, CaseIterable {
  /// Handed to the device's connection.
  case delivered
  /// The device is away; the message waits for it until its expiration.
  case stored
  /// The device is away, and the message may not wait or something newer waits already.
  case undeliverable
  /// Waits in a delivery window.
  case windowed
  /// Over budget: waits like priority 5.
  case demoted
  /// Not delivered: something newer took its place.
  case superseded

  init(_ outcome: Outcome) {
    switch outcome {
    case .delivered: self = .delivered
    case .windowed: self = .windowed
    case .demoted: self = .demoted
    case .superseded: self = .superseded
    case .dropped: self = .undeliverable
    }
  }
}

/// What became of a message that was accepted earlier or now.
public struct PushStep: Sendable {
  /// The message.
  public let uniqueID: UniqueID
  /// What became of it.
  public let outcome: PushOutcome
  /// The message itself, when it goes to the device now.
  public var delivery: Delivery?
}

/// What a push is answered, and what follows from it.
public struct PushAnswer: Sendable {
  /// The server's name for the message; for a repeated id, that of the first.
  public let uniqueID: UniqueID
  /// What was done with it.
  public let outcome: PushOutcome
  /// Whether the id was known, so that nothing was sent this time.
  public let isRepetition: Bool
  /// What happens now, in order.
  public let steps: [PushStep]

  /// The answer to a repetition, with what the first request was answered.
  public func repeating(_ first: PushOutcome) -> PushAnswer {
    PushAnswer(uniqueID: uniqueID, outcome: first, isRepetition: true, steps: [])
  }
}
