import BroadcastChannels

/// What happens to a simulated device.
public enum SubscriberAction: Sendable, Hashable {
  /// A new device comes, with a new activity, and subscribes.
  case arrive
  /// The device goes for good.
  case leave
  /// It loses its network: the connection is closed.
  case goOffline
  /// It has its network back and resumes.
  case comeBack
  /// It reads nothing from its connection.
  case stopReading
  /// It reads again.
  case readAgain
  /// Its connection is reset; it comes back at once and resumes.
  case cut
  /// Its clock jumps by so many seconds.
  case jumpClock(Double)
  /// A person dismisses the card: the device unsubscribes.
  case dismiss
}

/// The life of one place among the subscribers: a device after the other, by seed.
public struct SubscriberPlan: Sendable, IteratorProtocol {
  /// The place, from 0.
  public let index: Int
  /// The channel that its devices follow.
  public let channel: Int
  /// Whether nothing ever happens to it but that its activity is replaced before the system would end it. Each channel has one, so that somebody has seen all that was let out.
  public let isWitness: Bool
  /// Whether it stops reading now and then.
  public let isSlow: Bool
  /// Whether it goes offline now and then.
  public let isOftenOffline: Bool

  private var random: SeededGenerator
  private let quietAfter: Double
  private let arrival: Double
  private let churnMean: Double?
  /// Seconds on average between two stalls, and two absences.
  private let means: (stall: Double, offline: Double)
  private let hasFaults: Bool
  private var due: (leave: Double, offline: Double, stall: Double, cut: Double, jump: Double, dismiss: Double)
  /// What follows what was handed out last, which ends it.
  private var follows: [(at: Double, action: SubscriberAction)] = []

  /// Seconds after which a device gives way to another one at the latest: before the system ends its activity, after 8 hours
  /// (``Limits/activityLifetimeSeconds``), which would then rightly show nothing more.
  private static let life = 6 * 3_600.0
  /// Seconds on average between two cuts, clock jumps and dismissals of one device.
  private static let means = (cut: 120.0, jump: 90.0, dismiss: 300.0)

  /// Makes the plan of a place.
  public init(index: Int, settings: SoakSettings) {
    self.index = index
    channel = index % settings.channels
    isWitness = index < settings.channels
    random = SeededGenerator(seed: settings.seed, stream: UInt64(index))
    quietAfter = settings.duration - min(6, settings.duration * 0.25)
    let (slow, offline) = (random.chance(settings.slow), random.chance(settings.offline))
    isSlow = slow && index >= settings.channels
    isOftenOffline = offline && index >= settings.channels
    hasFaults = settings.faults
    // A short run has some of everything, too.
    means = (min(20, settings.duration / 3), min(25, settings.duration / 3))
    churnMean = settings.churn > 0 ? 6_000 / settings.churn : nil
    let share = Double(index) / Double(max(1, settings.subscribers))
    arrival = isWitness ? 0 : settings.ramp * share
    let never = Double.infinity
    due = (never, never, never, never, never, never)
    follows = [(arrival, .arrive)]
    if isWitness {
      follows += stride(from: Self.life, to: quietAfter, by: Self.life).map { ($0, .arrive) }
    } else {
      draw(from: arrival)
    }
  }

  /// The next action, in the order of their times; nil when nothing more happens.
  public mutating func next() -> (at: Double, action: SubscriberAction)? {
    if !follows.isEmpty { return follows.removeFirst() }
    let soonest = min(due.leave, due.offline, due.stall, due.cut, due.jump, due.dismiss)
    guard soonest < quietAfter else { return nil }
    if soonest == due.leave { return replace(at: soonest, .leave, after: random.between(0.05, 1)) }
    if soonest == due.dismiss {
      // The dismissed device stays connected for a while: nothing may reach it.
      let gone = min(quietAfter, soonest + random.between(1, 4))
      let arrival = min(quietAfter, gone + 0.05)
      follows = [(gone, .leave), (arrival, .arrive)]
      draw(from: arrival)
      return (soonest, .dismiss)
    }
    if soonest == due.offline {
      let back = min(quietAfter, soonest + random.between(1, 12))
      follows = [(back, .comeBack)]
      postpone(to: back)
      due.offline = back + random.wait(mean: means.offline)
      return (soonest, .goOffline)
    }
    if soonest == due.stall {
      let again = min(quietAfter, soonest + random.between(4, 20))
      follows = [(again, .readAgain)]
      postpone(to: again)
      due.stall = again + random.wait(mean: means.stall)
      return (soonest, .stopReading)
    }
    if soonest == due.cut {
      due.cut = soonest + random.wait(mean: Self.means.cut)
      return (soonest, .cut)
    }
    due.jump = soonest + random.wait(mean: Self.means.jump)
    let jump = random.between(2, 120)
    return (soonest, .jumpClock(random.chance(50) ? jump : -jump))
  }

  private mutating func replace(
    at time: Double, _ action: SubscriberAction, after gap: Double
  ) -> (at: Double, action: SubscriberAction) {
    let arrival = min(quietAfter, time + gap)
    follows = [(arrival, .arrive)]
    draw(from: arrival)
    return (time, action)
  }

  /// Draws when things will happen to a device that arrives.
  private mutating func draw(from arrival: Double) {
    func drawn(_ mean: Double?, _ happens: Bool = true, _ random: inout SeededGenerator) -> Double {
      let wait = random.wait(mean: mean ?? 1)
      return happens && mean != nil ? arrival + wait : .infinity
    }
    due.leave = min(drawn(churnMean, true, &random), arrival + Self.life)
    due.offline = drawn(means.offline, isOftenOffline, &random)
    due.stall = drawn(means.stall, isSlow, &random)
    due.cut = drawn(Self.means.cut, hasFaults, &random)
    due.jump = drawn(Self.means.jump, hasFaults, &random)
    due.dismiss = drawn(Self.means.dismiss, hasFaults, &random)
  }

  /// Nothing else happens to a device while it is away.
  private mutating func postpone(to time: Double) {
    due.leave = max(due.leave, time)
    due.offline = max(due.offline, time)
    due.stall = max(due.stall, time)
    due.cut = max(due.cut, time)
    due.jump = max(due.jump, time)
    due.dismiss = max(due.dismiss, time)
  }
}
