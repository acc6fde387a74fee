import Foundation

/// What was done with an accepted message.
public enum Outcome: String, Sendable, CaseIterable {
  /// Let out to the subscribers.
  case delivered
  /// Waits in a delivery window.
  case windowed
  /// Over budget: waits like priority 5.
  case demoted
  /// Not delivered: something newer waits already.
  case superseded
  /// Over budget: counted, not delivered.
  case dropped
}

/// What a channel does as time passes and messages come.
public enum ChannelEffect: Sendable {
  /// A message goes out to every subscriber, in this order.
  case deliver(Delivery)
  /// A waiting message was replaced by a newer one and will not be delivered.
  case supersede(Message)
}

/// What a channel answers to a publisher, and what follows from the message.
public struct PublishResult: Sendable {
  /// The server's name for the message; for a repeated request, that of the first.
  public let uniqueID: UniqueID
  /// What was done with it.
  public let outcome: Outcome
  /// Whether the request id was known, so that nothing was published this time.
  public let isRepetition: Bool
  /// What happens now, in order.
  public let effects: [ChannelEffect]

  /// The same for a record that outlives the payloads which the effects hold.
  public var withoutEffects: PublishResult {
    PublishResult(uniqueID: uniqueID, outcome: outcome, isRepetition: isRepetition, effects: [])
  }
}

/// How much of a channel's budget and rate is left.
public struct BudgetReport: Sendable, Hashable {
  /// One limit of the two.
  public struct Quota: Sendable, Hashable {
    /// What fits at once.
    public let limit: Int
    /// What is left of it.
    public let remaining: Int
    /// Seconds in which an empty quota fills; nil when it never does.
    public let windowSeconds: Double?
    /// Seconds until more is available; nil when the quota is full or nothing comes back.
    public let resetSeconds: Double?

    init(_ bucket: TokenBucket, at now: Date) {
      limit = Int(bucket.capacity)
      remaining = bucket.remaining(at: now)
      windowSeconds = bucket.secondsToFill
      resetSeconds = bucket.secondsToNext(at: now)
    }
  }

  /// The budget of priority 10; nil when the channel has no limit.
  public let priority10: Quota?
  /// The publish rate; nil when the channel has no limit.
  public let publishRate: Quota?
}

extension BudgetReport {
  /// The quotas under the names that the `RateLimit` fields give them.
  private var named: [(name: String, quota: Quota)] {
    [("priority-10", priority10), ("publish-rate", publishRate)].compactMap { name, quota in
      quota.map { (name, $0) }
    }
  }

  /// The `RateLimit-Policy` field: quota and window in seconds (draft-ietf-httpapi-ratelimit-headers); nil without limits.
  public var policyField: String? {
    let items = named.map { name, quota in
      "\"\(name)\";q=\(quota.limit)" + (quota.windowSeconds.map { ";w=\(Int($0.rounded(.up)))" } ?? "")
    }
    return items.isEmpty ? nil : items.joined(separator: ", ")
  }

  /// The `RateLimit` field: what remains, and seconds until more is available; nil without limits.
  public var remainingField: String? {
    let items = named.map { name, quota in
      "\"\(name)\";r=\(quota.remaining)" + (quota.resetSeconds.map { ";t=\(Int($0.rounded(.up)))" } ?? "")
    }
    return items.isEmpty ? nil : items.joined(separator: ", ")
  }

  /// The report as the `budget` object of the subscriber protocol.
  public var json: String {
    func quota(_ quota: Quota?) -> String {
      guard let quota else { return "null" }
      return JSONWriter.object([
        "limit": String(quota.limit), "remaining": String(quota.remaining),
        "window": quota.windowSeconds.map(JSONWriter.seconds),
        "reset": quota.resetSeconds.map(JSONWriter.seconds),
      ])
    }
    return JSONWriter.object(["priority-10": quota(priority10), "publish-rate": quota(publishRate)])
  }
}

/// How many messages took which way since the channel was loaded.
public struct ChannelCounts: Sendable, Hashable {
  /// Publishes that were accepted, repetitions not counted.
  public internal(set) var accepted = 0
  /// Messages that were let out to subscribers.
  public internal(set) var delivered = 0
  /// Messages that went into a delivery window, demoted ones included.
  public internal(set) var windowed = 0
  /// Messages at priority 10 over budget that were delivered like priority 5.
  public internal(set) var demoted = 0
  /// Messages that a newer one replaced before they were delivered.
  public internal(set) var superseded = 0
  /// Messages over budget that were not delivered.
  public internal(set) var dropped = 0
  /// Publishes that were refused for budget or rate.
  public internal(set) var rejected = 0
  /// Publishes that repeated a request id.
  public internal(set) var repeated = 0
}
