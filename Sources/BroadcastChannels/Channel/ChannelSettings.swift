import Foundation

/// The rules that one channel runs by. Apple keeps most of these numbers secret; here each is a setting.
public struct ChannelSettings: Sendable, Hashable {
  /// The app that the channel belongs to.
  public var app: BundleID
  /// Whether the newest message is kept. It can't change later (Apple).
  public var storagePolicy: StoragePolicy
  /// Whether the app declares frequent updates, which raises the default budget.
  public var frequentUpdates: Bool
  /// The budget of priority 10.
  public var budget: FrequencyBudget
  /// The delivery windows of priorities 5 and 1.
  public var windows: DeliveryWindows
  /// The rate limit of publishing, at any priority.
  public var publishRate: PublishRate

  /// Makes settings; what isn't given has the default for the storage policy and frequent updates.
  public init(
    app: BundleID, storagePolicy: StoragePolicy = .none, frequentUpdates: Bool = false,
    budget: FrequencyBudget? = nil, windows: DeliveryWindows = DeliveryWindows(),
    publishRate: PublishRate = PublishRate()
  ) {
    self.app = app
    self.storagePolicy = storagePolicy
    self.frequentUpdates = frequentUpdates
    self.budget = budget ?? .standard(storagePolicy: storagePolicy, frequentUpdates: frequentUpdates)
    self.windows = windows
    self.publishRate = publishRate
  }
}

/// The frequency budget of priority 10: a token bucket that refills by the hour.
public struct FrequencyBudget: Sendable, Hashable {
  /// What happens to a message at priority 10 when no token is left.
  public enum OverBudget: String, Sendable, CaseIterable {
    /// Accepted, and delivered like priority 5.
    case demote
    /// Accepted and counted, not delivered.
    case drop
    /// Refused with 429 and `retry-after`; nothing changes.
    case reject
  }

  /// Tokens in a full bucket: the burst that is allowed; nil means no limit.
  public var capacity: Int?
  /// Tokens that come back in an hour.
  public var refillPerHour: Double
  /// What happens beyond the budget.
  public var overBudget: OverBudget

  /// Makes a budget.
  public init(capacity: Int?, refillPerHour: Double, overBudget: OverBudget = .demote) {
    self.capacity = capacity
    self.refillPerHour = refillPerHour
    self.overBudget = overBudget
  }

  /// A full bucket; nil without a limit.
  func bucket(at now: Date) -> TokenBucket? {
    capacity.map { TokenBucket(capacity: Double($0), refillPerSecond: refillPerHour / 3_600, now: now) }
  }

  /// The default: a channel that stores nothing gets the larger budget (Apple documents that it does, not how
  /// large), and frequent updates double it again.
  public static func standard(storagePolicy: StoragePolicy, frequentUpdates: Bool) -> FrequencyBudget {
    switch (storagePolicy, frequentUpdates) {
    case (.none, true): FrequencyBudget(capacity: 120, refillPerHour: 480)
    case (.none, false), (.latest, true): FrequencyBudget(capacity: 60, refillPerHour: 240)
    case (.latest, false): FrequencyBudget(capacity: 30, refillPerHour: 120)
    }
  }
}

/// How long messages of the lower priorities are collected before the newest is delivered.
public struct DeliveryWindows: Sendable, Hashable {
  /// Seconds at priority 5; 0 delivers at once.
  public var considerate: Double
  /// Seconds at priority 1; 0 delivers at once.
  public var passive: Double

  /// Makes windows.
  public init(considerate: Double = 1, passive: Double = 5) {
    self.considerate = considerate
    self.passive = passive
  }
}

/// How fast a channel may be published to: APNs' own 429, with its numbers in the open.
public struct PublishRate: Sendable, Hashable {
  /// Requests a second in the long run; nil means no limit.
  public var perSecond: Double?
  /// Requests that may come at once; nil takes `perSecond`, at least 1.
  public var burst: Int?

  /// Makes a rate.
  public init(perSecond: Double? = 20, burst: Int? = 40) {
    self.perSecond = perSecond
    self.burst = burst
  }

  /// A full bucket; nil without a limit.
  func bucket(at now: Date) -> TokenBucket? {
    perSecond.map {
      TokenBucket(
        capacity: max(1, burst.map(Double.init) ?? $0.rounded(.up)), refillPerSecond: $0, now: now)
    }
  }
}
