import BroadcastChannels
import Foundation

/// One Live Activity on a device, as far as its data goes: a state machine of messages and time.
///
/// `pending` → `active` ⇄ `stale` → `ended` → `dismissed`, by the rules of ActivityKit:
/// - the newest timestamp wins, ties go to the later arrival; anything older is ignored, and so is anything after the
///   end;
/// - the state goes stale at the very moment of its stale date, with no message arriving, and is fresh again with an
///   update that carries a later stale date or none;
/// - the system ends it after 8 hours; an ended card stays until its dismissal date, 4 hours at most;
/// - a person can dismiss the card at any time: that hides the view, it does not end the event.
///
/// It reads no clock. A stale date, an end of life and a dismissal are deadlines: ``nextDeadline`` tells the next, and
/// ``advance(to:)`` passes it. Messages must be given after time was advanced to their arrival, which
/// ``receive(_:at:)`` does itself.
public struct LiveActivity: Sendable {
  /// What the system says of the activity (`ActivityState`).
  public enum State: String, Sendable, Codable {
    /// Scheduled, not begun.
    case pending
    /// The event goes on and the state is current.
    case active
    /// The event goes on and the state is out of date.
    case stale
    /// The event is over; the final state stays on the Lock Screen.
    case ended
    /// The card is gone.
    case dismissed
  }

  /// Why something changed, or why a message changed nothing.
  public enum Cause: String, Sendable {
    /// A scheduled activity began, or a push started one.
    case start
    /// A newer state is shown.
    case update
    /// The stale date passed.
    case staleDate = "stale-date"
    /// The publisher ended the activity.
    case end
    /// The card left the Lock Screen.
    case dismissal
    /// The system ended the activity after 8 hours.
    case lifetime
    /// The person dismissed the card.
    case person
    /// The event was over while the device was away; the activity was ended at launch.
    case orphan
    /// A message with a timestamp older than the shown one.
    case ignoredOlder = "ignored-older"
    /// A message after the end.
    case ignoredAfterEnd = "ignored-after-end"
  }

  /// One change, as it is right after it.
  public struct Change: Sendable, Hashable {
    /// When.
    public let at: Date
    /// Why.
    public let cause: Cause
    /// The state then.
    public let state: State
    /// What is shown then.
    public let contentState: JSONText?
  }

  /// When the activity started, or is scheduled to.
  public let startedAt: Date
  /// Where it is in its life.
  public private(set) var state: State
  /// What it shows; nil until the first update.
  public private(set) var contentState: JSONText?
  /// The timestamp of what it shows, in Unix seconds.
  public private(set) var timestamp: Int64?
  /// When it goes stale, or went.
  public private(set) var staleDate: Date?
  /// When it ended.
  public private(set) var endedAt: Date?
  /// When an ended card leaves, or when the card left.
  public private(set) var dismissalDate: Date?
  /// Whether it was the person who dismissed the card. It must not come back by itself then.
  public private(set) var isDismissedByPerson = false
  /// Whether the system presents the card: one whose first state was stale already is not presented until a current
  /// one comes.
  public private(set) var isPresented = true
  /// Whether what it shows, or showed last, is out of date: a fact about the data, which outlives the card.
  public private(set) var isStale = false
  /// Its claim to the Dynamic Island.
  public private(set) var relevanceScore: Double?
  /// Messages that were ignored because they were older than the shown one.
  public private(set) var ignoredOlder = 0
  /// Messages that were ignored because they came after the end.
  public private(set) var ignoredAfterEnd = 0

  /// Starts an activity without content, as one does that waits for its channel's first message.
  public init(startedAt: Date) {
    self.startedAt = startedAt
    state = .active
  }

  /// Schedules an activity: it is pending until its start.
  public init(scheduledFor start: Date) {
    startedAt = start
    state = .pending
  }

  /// Starts an activity by a push, which brings its first state: stale from the start, and not presented, when the
  /// stale date is past already.
  ///
  /// - Returns: the activity, and its start as a change.
  static func started(by payload: Payload, at now: Date) -> (LiveActivity, Change) {
    var activity = LiveActivity(startedAt: now)
    activity.show(payload)
    _ = activity.updated(at: now, isFirst: true)
    return (activity, activity.change(.start, at: now))
  }

  /// Takes an activity up again as it was kept.
  init(_ kept: DeviceSnapshot.Activity.Data) {
    startedAt = kept.startedAt
    state = kept.state
    contentState = kept.contentState.map { JSONText(compacting: $0.utf8) }
    timestamp = kept.timestamp
    staleDate = kept.staleDate
    endedAt = kept.endedAt
    dismissalDate = kept.dismissalDate
    isDismissedByPerson = kept.isDismissedByPerson
    isPresented = kept.isPresented
    isStale = kept.isStale ?? (kept.state == .stale)
    relevanceScore = kept.relevanceScore
    ignoredOlder = kept.ignoredOlder
    ignoredAfterEnd = kept.ignoredAfterEnd
  }

  // MARK: Time

  /// When ``advance(to:)`` has something to do next; nil once the card is gone.
  public var nextDeadline: Date? {
    switch state {
    case .pending: startedAt
    case .active: min(staleDate ?? .distantFuture, endOfLife)
    case .stale: endOfLife
    case .ended: dismissalDate
    case .dismissed: nil
    }
  }

  /// Passes the deadlines up to a moment, each at its own time.
  public mutating func advance(to now: Date) -> [Change] {
    var changes: [Change] = []
    while let deadline = nextDeadline, deadline <= now { changes.append(pass(deadline)) }
    return changes
  }

  private mutating func pass(_ deadline: Date) -> Change {
    switch state {
    case .pending:
      isStale = staleDate.map { $0 <= deadline } ?? false
      state = isStale ? .stale : .active
      if isStale { isPresented = false }
      return change(.start, at: deadline)
    case .active where deadline < endOfLife:
      state = .stale
      isStale = true
      return change(.staleDate, at: deadline)
    case .active, .stale:
      end(at: deadline, dismissal: nil)
      return change(.lifetime, at: deadline)
    case .ended, .dismissed:
      state = .dismissed
      return change(.dismissal, at: deadline)
    }
  }

  private var endOfLife: Date { startedAt.addingTimeInterval(Limits.activityLifetimeSeconds) }

  // MARK: Messages

  /// Takes a message that arrived.
  ///
  /// - Returns: the changes of deadlines that passed before, then what the message did. A stale date that is past
  ///   already makes the update stale at once; a dismissal date that is past dismisses at once.
  public mutating func receive(_ payload: Payload, at now: Date) -> [Change] {
    var changes = advance(to: now)
    switch state {
    case .ended:
      ignoredAfterEnd += 1
      changes.append(change(.ignoredAfterEnd, at: now))
    case .dismissed:
      ignoredAfterEnd += 1
    case .pending, .active, .stale:
      if let timestamp, payload.timestamp < timestamp {
        ignoredOlder += 1
        changes.append(change(.ignoredOlder, at: now))
      } else {
        let isFirst = timestamp == nil
        show(payload)
        changes += payload.event == .end ? ended(by: payload, at: now) : updated(at: now, isFirst: isFirst)
      }
    }
    return changes
  }

  private mutating func show(_ payload: Payload) {
    timestamp = payload.timestamp
    if let state = payload.contentState { contentState = state }
    if let score = payload.relevanceScore { relevanceScore = score }
    staleDate = payload.staleDate.map { Date(timeIntervalSince1970: Double($0)) }
  }

  private mutating func updated(at now: Date, isFirst: Bool) -> [Change] {
    isStale = staleDate.map { $0 <= now } ?? false
    if isFirst || !isStale { isPresented = !isStale }
    if state != .pending { state = isStale ? .stale : .active }
    return [change(.update, at: now)]
  }

  private mutating func ended(by payload: Payload, at now: Date) -> [Change] {
    // The final state is shown, also by a card that had nothing current to show before.
    isPresented = true
    isStale = false
    end(at: now, dismissal: payload.dismissalDate.map { Date(timeIntervalSince1970: Double($0)) })
    let end = change(.end, at: now)
    return [end]
      + advance(to: now).map {
        Change(at: now, cause: $0.cause, state: $0.state, contentState: $0.contentState)
      }
  }

  private mutating func end(at now: Date, dismissal: Date?) {
    state = .ended
    endedAt = now
    let latest = now.addingTimeInterval(Limits.endedCardSeconds)
    dismissalDate = min(dismissal ?? latest, latest)
  }

  // MARK: The person

  /// The person dismisses the card: the view is gone for good, the event may go on.
  public mutating func dismiss(at now: Date) -> [Change] {
    var changes = advance(to: now)
    guard state != .dismissed else { return changes }
    state = .dismissed
    isDismissedByPerson = true
    dismissalDate = now
    changes.append(change(.person, at: now))
    return changes
  }

  /// Ends an activity whose event was found to be over when the device came back.
  public mutating func endOrphan(at now: Date) -> [Change] {
    var changes = advance(to: now)
    guard state != .ended, state != .dismissed else { return changes }
    end(at: now, dismissal: now)
    changes.append(change(.orphan, at: now))
    return changes + advance(to: now)
  }

  private func change(_ cause: Cause, at now: Date) -> Change {
    Change(at: now, cause: cause, state: state, contentState: contentState)
  }
}
