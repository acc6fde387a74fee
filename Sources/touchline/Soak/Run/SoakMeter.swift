import BroadcastChannels
import Foundation
import LiveActivities
import Soak

/// What is measured while a soak runs: latencies, rates, and what server and soak use.
struct SoakMeter {
  /// From when a message was due, of those that were delivered at once.
  private(set) var latency = LatencyHistogram()
  private(set) var fromSending = LatencyHistogram()
  private(set) var fromWindow = LatencyHistogram()
  var publishing = LatencyHistogram()
  private(set) var samples: [SoakSample] = []
  var delivered = 0
  var published = 0
  var refused = 0
  private var windowed = 0
  private var dropped = 0
  var event: String?
  var endedEarly = false
  var judgedAt: Double = 0
  var serverBefore: Int?

  private var current = LatencyHistogram()
  private var beganAt: Double = 0
  private var processes: [SoakProcess] = []
  private var serverCPU: Double?
  /// What earlier processes of the server used, before each was stopped.
  private var serverCPUBefore: Double = 0
  private var serverCPUAtStart: Double = 0
  private var serverMost = 0
  private(set) var lastServerCPU: Double = 0

  /// Samples of a report at most.
  private static let mostSamples: Double = 600

  /// - Parameter processes: the soak's own, with their names.
  mutating func begin(serverCPU: Double, processes: [(name: String, watch: ProcessWatch)]) {
    beganAt = Date().timeIntervalSince1970
    self.processes = processes.map { SoakProcess(name: $0.name, watch: $0.watch) }
    serverCPUAtStart = serverCPU
    self.serverCPU = serverCPU
  }

  /// Seconds between two samples.
  func interval(_ settings: SoakSettings) -> Double { max(1, (settings.duration + 6) / Self.mostSamples) }

  /// The newest sample that has latencies.
  var newestLatency: LatencySummary? { samples.last { $0.latency != nil }?.latency }

  /// A message arrived. One that waited in a window counts from when that let it out.
  mutating func arrived(
    _ published: SoakPublisher.Published, _ outcome: Outcome, letOut: Double, at now: Double
  ) {
    guard outcome == .delivered else { return fromWindow.record(now - letOut) }
    latency.record(now - published.due)
    current.record(now - published.due)
    fromSending.record(now - published.sentAt)
  }

  mutating func answered(_ outcome: Outcome) {
    switch outcome {
    case .windowed, .demoted, .superseded: windowed += 1
    case .dropped: dropped += 1
    case .delivered: break
    }
  }

  mutating func serverStops(_ cpu: Double) {
    serverCPUBefore += cpu
    serverCPU = nil
    lastServerCPU = 0
  }

  mutating func sample(
    at elapsed: Double, passed: Double, status: PartStatus, publishers: [SoakPublisher],
    server: ProcessWatch?, violations: Int
  ) -> SoakSample {
    var sample = SoakSample()
    let passed = max(passed, 0.001)
    sample.at = elapsed
    sample.published = Double(published) / passed
    sample.delivered = Double(delivered) / passed
    sample.windowed = Double(windowed) / passed
    sample.overBudget = Double(refused + dropped) / passed
    let budgets = publishers.compactMap(\.budgetLeft)
    if !budgets.isEmpty { sample.budgetLeft = budgets.reduce(0, +) / Double(budgets.count) }
    sample.latency = current.count > 0 ? current.summary : nil
    sample.subscribed = status.subscribed
    sample.wanted = status.wanted
    sample.fresh = status.fresh
    sample.stale = status.stale
    sample.ended = status.ended
    measure(server, passed, &sample)
    sample.soakLag = status.lagNewest
    sample.violations = violations
    sample.event = event
    samples.append(sample)
    (published, delivered, windowed, refused, dropped) = (0, 0, 0, 0, 0)
    current = LatencyHistogram()
    event = nil
    return sample
  }

  private mutating func measure(_ server: ProcessWatch?, _ passed: Double, _ sample: inout SoakSample) {
    for index in processes.indices { sample.soakCPU += processes[index].measure() / passed * 100 }
    guard let server, let resident = server.residentBytes, let used = server.cpuSeconds else { return }
    sample.serverResident = resident
    serverMost = max(serverMost, resident)
    sample.serverCPU = max(0, used - (serverCPU ?? used)) / passed * 100
    serverCPU = used
    lastServerCPU = used
  }

  // MARK: Costs

  func serverCost(cpu: Double, deliveries: Int) -> ServerCost {
    let used = max(0, serverCPUBefore + cpu - serverCPUAtStart)
    let slope = samples.residentSlope
    return ServerCost(
      cpuSeconds: used, cpuMicrosPerDelivery: deliveries > 0 ? used / Double(deliveries) * 1e6 : nil,
      maxResidentBytes: serverMost, firstResidentBytes: serverBefore ?? 0,
      residentSlopePerHour: slope?.perHour, residentSlopeSeconds: slope?.seconds)
  }

  mutating func soakCost(deliveries: Int, lagP99: Double, lagMax: Double) -> SoakCost {
    for index in processes.indices { _ = processes[index].measure() }
    let wall = max(0.001, Date().timeIntervalSince1970 - beganAt)
    return SoakCost(
      processes: processes.map { process in
        ProcessCost(
          name: process.name, cpuSeconds: process.used, share: process.used / wall,
          maxResidentBytes: process.mostResident)
      },
      deliveries: deliveries, lagP99: lagP99, lagMax: lagMax, latencyP99: latency.percentile(99))
  }
}

/// One of the soak's own processes, and what it used since the start.
private struct SoakProcess {
  let name: String
  let watch: ProcessWatch
  private let atStart: Double
  private var last: Double
  private(set) var mostResident = 0

  init(name: String, watch: ProcessWatch) {
    self.name = name
    self.watch = watch
    atStart = watch.cpuSeconds ?? 0
    last = atStart
  }

  /// Seconds of CPU since the start.
  var used: Double { last - atStart }

  /// Seconds of CPU since it was last measured. One that has ended uses nothing more.
  mutating func measure() -> Double {
    guard let cpu = watch.cpuSeconds else { return 0 }
    defer { last = cpu }
    mostResident = max(mostResident, watch.residentBytes ?? 0)
    return cpu - last
  }
}
