/// What one part of a soak tells those who judge: its devices' observations, and how it stands itself.
public enum PartReport: Sendable {
  /// Something happened to a device.
  case observed(Observation, at: Double)
  /// A message arrived at a device.
  case delivered(PartDelivery, at: Double)
  /// Everything that happened before this moment was told.
  case reached(Double)
  /// How the part stands.
  case status(PartStatus)
  /// The part can't go on, and why.
  case failed(String)
}

/// A delivery to one device.
public struct PartDelivery: Sendable, Hashable {
  /// The device's place in the plan.
  public var subscriber: Int
  /// What arrived.
  public var arrival: SoakArrival
  /// What the activity did with it.
  public var shown: Shown
  /// Whether its latency counts: it doesn't for a device that is catching up.
  public var countsLatency: Bool

  /// Notes a delivery.
  public init(subscriber: Int, arrival: SoakArrival, shown: Shown, countsLatency: Bool) {
    self.subscriber = subscriber
    self.arrival = arrival
    self.shown = shown
    self.countsLatency = countsLatency
  }
}

/// How a part of a soak stands: what its devices did so far, and how they are.
public struct PartStatus: Sendable, Codable, Hashable {
  /// What its devices did since the start.
  public var totals = SoakTotals()
  /// Subscriptions that stand.
  public var subscribed = 0
  /// Subscribers that should stand, by plan.
  public var wanted = 0
  /// Activities whose state is current.
  public var fresh = 0
  /// Activities whose state is stale.
  public var stale = 0
  /// Activities that ended, or whose card is gone.
  public var ended = 0
  /// How late the part's clock was at p99, in seconds, since the start.
  public var lagP99: Double = 0
  /// The most that it was late.
  public var lagMax: Double = 0
  /// The most since it last told.
  public var lagNewest: Double = 0

  /// Makes an empty one.
  public init() {}

  /// Adds what another part has.
  public mutating func add(_ other: PartStatus) {
    totals.add(other.totals)
    subscribed += other.subscribed
    wanted += other.wanted
    fresh += other.fresh
    stale += other.stale
    ended += other.ended
    lagP99 = max(lagP99, other.lagP99)
    lagMax = max(lagMax, other.lagMax)
    lagNewest = max(lagNewest, other.lagNewest)
  }
}

/// What a part is told when it starts: the plan, and its share of the devices.
public struct PartPlan: Sendable, Codable, Hashable {
  /// The settings of the whole soak.
  public var settings: SoakSettings
  /// Which part it is, from 0.
  public var part: Int
  /// How many parts there are: each has every so many-th place.
  public var parts: Int
  /// When the plan begins, in Unix seconds.
  public var start: Double
  /// Seconds from the start to the last message.
  public var last: Double
  /// The channels' ids.
  public var channels: [String]

  /// Makes a plan.
  public init(
    settings: SoakSettings, part: Int, parts: Int, start: Double, last: Double, channels: [String]
  ) {
    self.settings = settings
    self.part = part
    self.parts = parts
    self.start = start
    self.last = last
    self.channels = channels
  }

  /// The places of this part.
  public var places: [Int] { Array(stride(from: part, to: settings.subscribers, by: parts)) }
}
