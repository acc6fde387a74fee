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
  /// What happens in this second.
  private var second = SoakPeriod()
  /// What happened since the last sample of the report, whole seconds.
  private var recorded = SoakPeriod()
  /// When the second, and what is recorded, began.
  private var beginnings: (second: Double, recorded: Double) = (0, 0)
  var endedEarly = false
  var judgedAt: Double = 0
  var serverBefore: Int?

  /// The newest second in which something was delivered at once.
  private(set) var newestLatency: LatencySummary?
  private var beganAt: Double = 0
  private var processes: [SoakProcess] = []
  private var serverCPU: Double?
  /// What earlier processes of the server used, before each was stopped.
  private var serverCPUBefore: Double = 0
  private var serverCPUAtStart: Double = 0
  private var serverMost = 0
  private(set) var lastServerCPU: Double = 0

  /// Samples of a report at most, but for those that rounding adds.
  private static let mostSamples: Double = 600
  /// Seconds after which a person sees how it stands.
  private static let pace = 1.0

  /// - Parameters:
  ///   - start: when the plan begins.
  ///   - processes: the soak's own, with their names.
  mutating func begin(
    at start: Double, serverCPU: Double, processes: [(name: String, watch: ProcessWatch)]
  ) {
    beginnings = (start, start)
    beganAt = Date().timeIntervalSince1970
    self.processes = processes.map { SoakProcess(name: $0.name, watch: $0.watch) }
    serverCPUAtStart = serverCPU
    self.serverCPU = serverCPU
  }

  /// Seconds between two samples of the report.
  private static func interval(_ settings: SoakSettings) -> Double {
    max(pace, (settings.duration + 6) / mostSamples)
  }

  /// Whether a second has passed.
  func isDue(_ now: Double) -> Bool { now - beginnings.second >= Self.pace }

  /// Something happened that a plot marks.
  mutating func mark(_ event: String) { second.events.append(event) }

  /// A publisher sent a message.
  mutating func sent() { second.published += 1 }

  /// The server refused one.
  mutating func isRefused() { second.refused += 1 }

  /// A device received one.
  mutating func isDelivered() { second.delivered += 1 }

  /// A message arrived. One that waited in a window counts from when that let it out.
  mutating func arrived(
    _ published: SoakPublisher.Published, _ outcome: Outcome, letOut: Double, at now: Double
  ) {
    guard outcome == .delivered else { return fromWindow.record(now - letOut) }
    latency.record(now - published.due)
    second.latency.record(now - published.due)
    fromSending.record(now - published.sentAt)
  }

  mutating func answered(_ outcome: Outcome) {
    switch outcome {
    case .windowed, .demoted, .superseded: second.windowed += 1
    case .dropped: second.dropped += 1
    case .delivered: break
    }
  }

  /// The server is about to be stopped, and what it used is known for the last time.
  mutating func serverStops(_ server: ProcessWatch?) {
    serverCPUBefore += server?.cpuSeconds ?? 0
    serverMost = max(serverMost, server?.mostResidentBytes ?? 0)
    serverCPU = nil
    lastServerCPU = 0
  }

  /// How the soak stands at the end of a second. The report takes in every so many-th, for the time since the one before.
  ///
  /// - Parameter isLast: whether the run is over, and what is left of it is recorded.
  mutating func endSecond(
    at now: Double, start: Double, settings: SoakSettings, status: PartStatus, publishers: [SoakPublisher],
    server: ProcessWatch?, violations: Int, isLast: Bool
  ) -> SoakSample {
    var state = SoakSample()
    state.at = now - start
    let budgets = publishers.compactMap(\.budgetLeft)
    if !budgets.isEmpty { state.budgetLeft = budgets.reduce(0, +) / Double(budgets.count) }
    state.subscribed = status.subscribed
    state.wanted = status.wanted
    state.fresh = status.fresh
    state.stale = status.stale
    state.ended = status.ended
    state.violations = violations
    measure(server, &state, at: now)
    second.lag = status.lagNewest
    let shown = second.sample(state, over: now - beginnings.second)
    newestLatency = shown.latency ?? newestLatency
    recorded.add(second)
    second = SoakPeriod()
    beginnings.second = now
    // A second begins a moment after the one before has ended: half of one is nobody's interval.
    if isLast || now - beginnings.recorded >= Self.interval(settings) - Self.pace / 2 {
      samples.append(recorded.sample(state, over: now - beginnings.recorded))
      recorded = SoakPeriod()
      beginnings.recorded = now
    }
    return shown
  }

  private mutating func measure(_ server: ProcessWatch?, _ state: inout SoakSample, at now: Double) {
    for index in processes.indices { second.soakCPU += processes[index].measure(at: now) }
    guard let server, let resident = server.residentBytes, let used = server.cpuSeconds else { return }
    state.serverResident = resident
    serverMost = max(serverMost, server.mostResidentBytes ?? resident)
    second.serverCPU = max(0, used - (serverCPU ?? used))
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
    let now = Date().timeIntervalSince1970
    for index in processes.indices { _ = processes[index].measure(at: now) }
    let wall = max(0.001, now - beganAt)
    return SoakCost(
      processes: processes.map { process in
        ProcessCost(
          name: process.name, cpuSeconds: process.used, share: process.used / wall,
          busiestShare: process.busiest.share, maxResidentBytes: process.mostResident)
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
  private(set) var busiest = BusiestSpan()
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
  mutating func measure(at now: Double) -> Double {
    guard let cpu = watch.cpuSeconds else { return 0 }
    defer { last = cpu }
    busiest.note(cpu: cpu, at: now)
    mostResident = max(mostResident, watch.mostResidentBytes ?? 0)
    return cpu - last
  }
}
