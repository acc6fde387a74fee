/// What the server cost.
public struct ServerCost: Sendable, Codable, Hashable {
  /// Seconds of CPU.
  public var cpuSeconds: Double
  /// Microseconds of CPU a delivery; nil without deliveries.
  public var cpuMicrosPerDelivery: Double?
  /// The most resident memory, in bytes, over all restarts: the kernel's own mark, not the largest sample.
  public var maxResidentBytes: Int
  /// Resident memory before the first subscriber, in bytes.
  public var firstResidentBytes: Int
  /// How resident memory grew towards the end, in bytes an hour, see ``Swift/Array/residentSlope``; nil when the run was too
  /// short to say.
  public var residentSlopePerHour: Double?
  /// The seconds that the slope was taken over.
  public var residentSlopeSeconds: Double?

  /// Makes a cost.
  public init(
    cpuSeconds: Double, cpuMicrosPerDelivery: Double?, maxResidentBytes: Int, firstResidentBytes: Int,
    residentSlopePerHour: Double?, residentSlopeSeconds: Double?
  ) {
    self.cpuSeconds = cpuSeconds
    self.cpuMicrosPerDelivery = cpuMicrosPerDelivery
    self.maxResidentBytes = maxResidentBytes
    self.firstResidentBytes = firstResidentBytes
    self.residentSlopePerHour = residentSlopePerHour
    self.residentSlopeSeconds = residentSlopeSeconds
  }
}

/// What one of the soak's own processes cost.
public struct ProcessCost: Sendable, Codable, Hashable {
  /// `soak`; with several, `judge` and `part 0` and so on.
  public var name: String
  /// Seconds of CPU.
  public var cpuSeconds: Double
  /// The share of one core that it used: 1 is all of it.
  public var share: Double
  /// The same over its busiest ten seconds.
  public var busiestShare: Double
  /// The most resident memory, in bytes.
  public var maxResidentBytes: Int

  /// Makes a cost.
  ///
  /// - Parameter busiestShare: what ``BusiestSpan`` found; a run that is shorter than its span has the mean alone.
  public init(
    name: String, cpuSeconds: Double, share: Double, busiestShare: Double, maxResidentBytes: Int
  ) {
    self.name = name
    self.cpuSeconds = cpuSeconds
    self.share = share
    self.busiestShare = max(share, busiestShare)
    self.maxResidentBytes = maxResidentBytes
  }
}

/// What the soak itself cost.
public struct SoakCost: Sendable, Codable, Hashable {
  /// Seconds of CPU, of all its processes.
  public var cpuSeconds: Double
  /// Microseconds of CPU a delivery, everything included; nil without deliveries.
  public var cpuMicrosPerDelivery: Double?
  /// The most resident memory, in bytes, of all its processes.
  public var maxResidentBytes: Int
  /// How late the clocks' ticks were, in seconds: at p99 and at most, of the latest process. Ticks that a standstill
  /// swallowed count as late, too.
  public var lagP99: Double
  /// The most that a tick was late, in seconds.
  public var lagMax: Double
  /// Each process.
  public var processes: [ProcessCost]
  /// What it says when it, and not the server, limits what was measured; nil otherwise.
  public var bottleneck: String?

  /// The share of a core, over a process' busiest ten seconds, beyond which it is a bottleneck.
  public static let busyShare = 0.85
  /// Seconds by which its clock may be late at p99.
  public static let mostLag = 0.05

  /// Makes a cost.
  ///
  /// - Parameter latencyP99: what was measured, in seconds.
  public init(
    processes: [ProcessCost], deliveries: Int, lagP99: Double, lagMax: Double, latencyP99: Double
  ) {
    self.processes = processes
    cpuSeconds = processes.reduce(0) { $0 + $1.cpuSeconds }
    cpuMicrosPerDelivery = deliveries > 0 ? cpuSeconds / Double(deliveries) * 1e6 : nil
    maxResidentBytes = processes.reduce(0) { $0 + $1.maxResidentBytes }
    self.lagP99 = lagP99
    self.lagMax = lagMax
    let busiest = processes.max { $0.busiestShare < $1.busiestShare }
    if let busiest, busiest.busiestShare > Self.busyShare {
      let remedy = busiest.name == "soak" ? "take --processes 2, fewer subscribers" : "take fewer subscribers"
      bottleneck =
        "the soak's process \"\(busiest.name)\" used \(Decimals.text(busiest.busiestShare * 100, 0)) % of a core in its busiest 10 s: latencies are its own, too; \(remedy) or a lower rate"
    } else if lagP99 > Self.mostLag, lagP99 > latencyP99 / 4 {
      // A tick that is late delays a publish, and then the delivery: half of such a latency, or more, is the soak's own.
      bottleneck =
        "the soak's own clock was late by \(Decimals.milliseconds(lagP99)) at p99: latencies are its own, too"
    } else {
      bottleneck = nil
    }
  }
}

extension [SoakSample] {
  /// How the server's memory grew, in bytes an hour, by least squares, and the seconds that this was taken over: the second
  /// half of the run, or what was left of it a minute after the server was last restarted. nil for less than a minute, or ten
  /// samples.
  public var residentSlope: (perHour: Double, seconds: Double)? {
    guard let last = self.last else { return nil }
    let restarted = self.last { $0.restartsServer }?.at ?? -.infinity
    let from = Swift.max(last.at / 2, restarted + 60)
    let points = filter { $0.at >= from }.compactMap { sample in
      sample.serverResident.map { (x: sample.at, y: Double($0)) }
    }
    guard points.count >= 10, let first = points.first, last.at - first.x >= 60 else { return nil }
    let x = points.reduce(0) { $0 + $1.x } / Double(points.count)
    let y = points.reduce(0) { $0 + $1.y } / Double(points.count)
    let spread = points.reduce(0) { $0 + ($1.x - x) * ($1.x - x) }
    guard spread > 0 else { return nil }
    return (points.reduce(0) { $0 + ($1.x - x) * ($1.y - y) } / spread * 3_600, last.at - first.x)
  }
}
