/// What a soak run is made of. With the same settings and seed, the plan is the same.
public struct SoakSettings: Sendable, Codable, Hashable {
  /// Where all choices come from.
  public var seed: UInt64 = 1
  /// Channels, each with a publisher.
  public var channels = 4
  /// Simulated activities, spread evenly over the channels.
  public var subscribers = 200
  /// Messages a second into each channel, before bursts.
  public var rate: Double = 2
  /// Seconds from the start to the end of each channel's event.
  public var duration: Double = 60
  /// Seconds over which the subscribers arrive.
  public var ramp: Double = 5
  /// How often each priority is chosen.
  public var mix = PriorityMix()
  /// Percent of the subscribers that leave in a minute; another device comes in the place of each.
  public var churn: Double = 10
  /// Percent of the subscribers that stop reading now and then.
  public var slow: Double = 2
  /// Percent of the subscribers that go offline now and then, and come back.
  public var offline: Double = 5
  /// Seconds from a message to its stale date; some get a shorter one, so that states do go stale.
  public var staleIn: Double = 30
  /// Times that the server is restarted, evenly over the run.
  public var restarts = 0
  /// Whether connections are cut, clocks jump, publishers send twice, and one client floods.
  public var faults = true
  /// Seconds between bursts of alerts in every channel at once; nil for none.
  public var burstEvery: Double?
  /// Messages of one burst.
  public var burstSize = 8
  /// How many times faster than real a script is played.
  public var speed: Double = 1

  /// Makes the default settings.
  public init() {}

  /// What is wrong with the settings, in words for a person; nil when they can be run.
  public var problem: String? {
    if !(1...256).contains(channels) { return "channels is \(channels); 1 to 256 were expected" }
    if subscribers < channels || subscribers > 200_000 {
      return
        "subscribers is \(subscribers); at least one a channel (\(channels)) and at most 200000 were expected"
    }
    if !(0.01...1_000).contains(rate) {
      return "rate is \(rate); 0.01 to 1000 messages a second were expected"
    }
    if !(2...604_800).contains(duration) {
      return "duration is \(duration) s; 2 seconds to 7 days were expected"
    }
    if !(0...duration).contains(ramp) { return "ramp is \(ramp) s; it must not be longer than the run" }
    for (name, share) in [("slow", slow), ("offline", offline)] where !(0...100).contains(share) {
      return "\(name) is \(share); percent, from 0 to 100, were expected"
    }
    if !(0...1_000).contains(churn) {
      return "churn is \(churn); percent a minute, from 0 to 1000, were expected"
    }
    if staleIn < 0 { return "stale-in is below 0" }
    if !(0.1...10_000).contains(speed) { return "speed is \(speed); 0.1 to 10000 was expected" }
    return nil
  }
}

/// How often each priority is chosen.
public struct PriorityMix: Sendable, Codable, Hashable {
  /// Weight of priority 10.
  public var immediate: Int
  /// Weight of priority 5.
  public var considerate: Int
  /// Weight of priority 1.
  public var passive: Int

  /// Makes a mix of weights.
  public init(immediate: Int = 6, considerate: Int = 3, passive: Int = 1) {
    self.immediate = immediate
    self.considerate = considerate
    self.passive = passive
  }

  /// Reads `10=6,5=3,1=1`; a priority that isn't named has the weight 0.
  public init?(_ text: String) {
    self.init(immediate: 0, considerate: 0, passive: 0)
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let pair = part.split(separator: "=", omittingEmptySubsequences: false)
      guard pair.count == 2, let weight = Int(pair[1]), (0...1_000).contains(weight) else { return nil }
      switch pair[0] {
      case "10": immediate = weight
      case "5": considerate = weight
      case "1": passive = weight
      default: return nil
      }
    }
    guard total > 0 else { return nil }
  }

  /// The sum of the weights.
  public var total: Int { immediate + considerate + passive }
}

/// Settings that are ready-made.
public enum SoakProfile: String, Sendable, CaseIterable {
  /// Twenty seconds with a bit of everything, for CI.
  case smoke
  /// A real script at speed, one card after the other.
  case match
  /// Everyone arrives within 30 seconds.
  case kickOff = "kick-off"
  /// Bursts of alerts into every channel at once.
  case goal
  /// Eight hours, with everything that can go wrong.
  case overnight

  /// The profile's settings.
  public var settings: SoakSettings {
    var settings = SoakSettings()
    switch self {
    case .smoke:
      settings.duration = 12
      settings.ramp = 2
      settings.rate = 10
      settings.churn = 60
      settings.slow = 15
      settings.offline = 8
      settings.staleIn = 4
      settings.restarts = 1
    case .match:
      settings.channels = 2
      settings.subscribers = 500
      settings.speed = 120
      settings.staleIn = 0
    case .kickOff:
      settings.channels = 8
      settings.subscribers = 5_000
      settings.ramp = 30
      settings.duration = 90
      settings.rate = 1
    case .goal:
      settings.channels = 8
      settings.subscribers = 2_000
      settings.rate = 0.5
      settings.duration = 120
      settings.ramp = 10
      settings.burstEvery = 15
    case .overnight:
      settings.channels = 8
      settings.subscribers = 1_000
      settings.rate = 0.5
      settings.duration = 8 * 3_600
      settings.ramp = 60
      settings.restarts = 4
      settings.staleIn = 60
      settings.burstEvery = 600
    }
    return settings
  }
}
