import BroadcastChannels
import Foundation

/// One activity on a device: its data, its budget, and what the person does with it.
///
/// Four facts are kept apart and can hold at once: the event goes on, the data is stale, the card is hidden, an action is
/// not confirmed yet.
public struct DeviceActivity: Sendable {
  /// What it is called: the channel that it is subscribed to, by the name that the person used.
  public let name: String
  /// Whether its updates come from the channel of its name. One that a push started without a channel has pushes alone.
  public internal(set) var isOnChannel = true
  /// What its app declares.
  public let definition: ChannelDefinition
  /// Its data.
  public internal(set) var activity: LiveActivity
  /// Its place in the order of starts.
  public let number: Int
  /// The place of the newest message that came.
  public internal(set) var position: StreamPosition?
  /// When the shown state came.
  public internal(set) var updatedAt: Date?
  /// The alert that lights the screen, and until when.
  public internal(set) var alert: (alert: Alert, until: Date)?
  /// The action that was pressed and is not confirmed yet, and the id of its intent.
  public internal(set) var unconfirmed: (action: ActivityAction, intent: String)?
  /// Updates that were merged into a newer one because the device's budget was spent.
  public internal(set) var mergedCount = 0

  var budget: TokenBucket
  /// The newest update that waits for the budget, or for the end of its group.
  var waiting: (payload: Payload, due: Date, isOverBudget: Bool)?
  /// The newest alert of what waits or was merged: it lights the screen with the next update that is shown.
  var heldAlert: Alert?

  init(
    name: String, definition: ChannelDefinition, activity: LiveActivity, number: Int, hourlyBudget: Int,
    now: Date
  ) {
    self.init(
      name: name, definition: definition, activity: activity, number: number,
      budget: Self.bucket(hourlyBudget, now))
  }

  init(
    name: String, definition: ChannelDefinition, activity: LiveActivity, number: Int, budget: TokenBucket
  ) {
    self.name = name
    self.definition = definition
    self.activity = activity
    self.number = number
    self.budget = budget
  }

  /// Updates at priority 10 that the device still shows at once.
  public func budgetLeft(at now: Date) -> Int { budget.remaining(at: now) }
  /// Updates at priority 10 an hour that the device shows at once.
  public var hourlyBudget: Int { Int(budget.capacity) }

  static func bucket(_ hourly: Int, _ now: Date) -> TokenBucket {
    TokenBucket(capacity: Double(hourly), refillPerSecond: Double(hourly) / 3_600, now: now)
  }

  // MARK: The four facts

  /// Whether the event goes on, as far as the device knows. A card that the person dismissed hides the view, not the
  /// event.
  public var isEventOngoing: Bool { activity.endedAt == nil }
  /// Whether the data is out of date. It is so, too, when the card was dismissed meanwhile.
  public var isStale: Bool { activity.isStale }
  /// Whether the person sees no card.
  public var isHidden: Bool { activity.state == .dismissed || !activity.isPresented }
  /// Whether a pressed action waits for its confirmation.
  public var isActionUnconfirmed: Bool { unconfirmed != nil }
  /// Whether an update waits because the device's budget is spent.
  public var isOverBudget: Bool { waiting?.isOverBudget ?? false }

  /// Whether the activity counts towards the limits.
  public var isAlive: Bool { activity.state != .dismissed }
  /// Whether it may be in the Dynamic Island: it left at once when it ended.
  public var isInIsland: Bool { !isHidden && (activity.state == .active || activity.state == .stale) }

  var nextDeadline: Date? {
    [activity.nextDeadline, waiting?.due, alert?.until].compactMap { $0 }.min()
  }
}
