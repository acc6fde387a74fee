import BroadcastChannels
import Foundation

/// Judges a channel's deliveries in the order of their numbers: the budget of priority 10 and the delivery windows.
///
/// It is a second implementation on purpose, from the rule's own words: in any span of `t` seconds at most `capacity +
/// refill × t` messages at priority 10 are let out. That holds for every span exactly if a leaky bucket, which drains at
/// the refill's rate, never rises above the capacity.
struct BudgetJudge {
  /// What is judged of a delivery.
  struct Delivered {
    let sequence: Int
    let number: Int
    let sent: Double
    let priority: Priority
    let outcome: Outcome
    let isIrreplaceable: Bool
    /// What was let out together with it.
    var group = Group()
  }

  /// What is let out at one moment: at the end of a window, or with a message that waits for nothing.
  struct Group {
    /// Whether a message that was delivered at once is among it, or may be: alerts that waited go out before it.
    var makesWay = false
    /// How many alerts and ends there are.
    var irreplaceable = 0
  }

  private let settings: ChannelSettings
  private var used: Double = 0
  private var usedAt: Double = -.infinity
  private var lastWindow: Double = -.infinity

  init(_ settings: ChannelSettings) { self.settings = settings }

  /// Another server may have full buckets, and has no window.
  mutating func reset() { self = BudgetJudge(settings) }

  /// The server was started again on its store, which refills nothing. A window may have ended with it. What it let out in its last
  /// moments may not have reached the store of a channel that promises none: a few messages are forgiven.
  mutating func restarted() {
    used = max(0, used - Self.forgiven)
    lastWindow = -.infinity
  }

  /// Messages that a killed server may have let out and not written down.
  private static let forgiven: Double = 3

  /// What is wrong with a delivery; nil when it keeps the rules.
  mutating func judge(_ delivery: Delivered) -> (rule: SoakRule, detail: String)? {
    switch delivery.outcome {
    case .dropped:
      return (.unexpected, "message \(delivery.number) was answered \"dropped\", and was delivered")
    case .superseded:
      return (.unexpected, "message \(delivery.number) was answered \"superseded\", and was delivered")
    case .delivered: return delivery.priority == .immediate ? spend(delivery) : nil
    case .windowed, .demoted: return collect(delivery)
    }
  }

  private mutating func spend(_ delivery: Delivered) -> (rule: SoakRule, detail: String)? {
    guard let capacity = settings.budget.capacity else { return nil }
    let passed = max(0, delivery.sent - usedAt)
    used = max(0, used - passed * settings.budget.refillPerHour / 3_600) + 1
    usedAt = delivery.sent
    // A hair for the six digits of `sent`.
    guard used > Double(capacity) + 0.01 else { return nil }
    used = Double(capacity)
    return (
      .budget,
      "message \(delivery.number) at priority 10 goes beyond a budget of \(capacity) and \(Decimals.text(settings.budget.refillPerHour, 0)) an hour"
    )
  }

  /// What waited is let out together at the end of a window, and the next window's end is at least a shortest window away. Only
  /// a window full of alerts ends early; and alerts, which nothing replaces, go out before something newer that doesn't wait.
  private mutating func collect(_ delivery: Delivered) -> (rule: SoakRule, detail: String)? {
    let shortest = min(settings.windows.considerate, settings.windows.passive)
    if delivery.isIrreplaceable, delivery.group.makesWay { return nil }
    defer { lastWindow = delivery.sent }
    let gap = delivery.sent - lastWindow
    guard gap > 0.000_01, gap < shortest - 0.005, delivery.group.irreplaceable <= Limits.windowKeeps else {
      return nil
    }
    return (
      .window,
      "message \(delivery.number), which was answered \"\(delivery.outcome.rawValue)\", follows a window's end after \(Decimals.text(gap, 3)) s; a window lasts at least \(Decimals.text(shortest, 1)) s"
    )
  }
}
