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
  private var lags = LatencyHistogram()
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
  private var currentLag: Double = 0
  private var beganAt: Double = 0
  private let own = ProcessWatch(pid: getpid())
  private var ownCPU: Double = 0
  private var ownCPUAtStart: Double = 0
  private var ownMost = 0
  private var serverCPU: Double?
  /// What earlier processes of the server used, before each was stopped.
  private var serverCPUBefore: Double = 0
  private var serverCPUAtStart: Double = 0
  private var serverMost = 0
  private(set) var lastServerCPU: Double = 0

  /// Samples of a report at most.
  private static let mostSamples: Double = 600

  mutating func begin(serverCPU: Double) {
    beganAt = Date().timeIntervalSince1970
    ownCPUAtStart = own.cpuSeconds ?? 0
    ownCPU = ownCPUAtStart
    serverCPUAtStart = serverCPU
    self.serverCPU = serverCPU
  }

  /// Seconds between two samples.
  func interval(_ settings: SoakSettings) -> Double { max(1, (settings.duration + 6) / Self.mostSamples) }

  /// The newest sample that has latencies.
  var newestLatency: LatencySummary? { samples.last { $0.latency != nil }?.latency }

  mutating func lag(_ seconds: Double) {
    lags.record(seconds)
    currentLag = max(currentLag, seconds)
  }

  mutating func arrived(due: Double?, sentAt: Double, letOut: Double, at now: Double) {
    guard let due else { return fromWindow.record(now - letOut) }
    latency.record(now - due)
    current.record(now - due)
    fromSending.record(now - sentAt)
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
    at elapsed: Double, passed: Double, devices: [SoakDevice], publishers: [SoakPublisher],
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
    count(devices, &sample)
    measure(server, passed, &sample)
    sample.soakLag = currentLag
    sample.violations = violations
    sample.event = event
    samples.append(sample)
    (published, delivered, windowed, refused, dropped) = (0, 0, 0, 0, 0)
    current = LatencyHistogram()
    currentLag = 0
    event = nil
    return sample
  }

  private func count(_ devices: [SoakDevice], _ sample: inout SoakSample) {
    for device in devices {
      if device.isSubscribed { sample.subscribed += 1 }
      guard let activity = device.activity else { continue }
      if !device.isOffline, !device.isUnsubscribing { sample.wanted += 1 }
      switch activity.state {
      case .pending, .active: sample.fresh += 1
      case .stale: sample.stale += 1
      case .ended, .dismissed: sample.ended += 1
      }
    }
  }

  private mutating func measure(_ server: ProcessWatch?, _ passed: Double, _ sample: inout SoakSample) {
    let cpu = own.cpuSeconds ?? ownCPU
    sample.soakCPU = (cpu - ownCPU) / passed * 100
    ownCPU = cpu
    ownMost = max(ownMost, own.residentBytes ?? 0)
    guard let server, let resident = server.residentBytes, let used = server.cpuSeconds else { return }
    sample.serverResident = resident
    serverMost = max(serverMost, resident)
    sample.serverCPU = max(0, used - (serverCPU ?? used)) / passed * 100
    serverCPU = used
    lastServerCPU = used
  }

  // MARK: Costs

  func serverCost(cpu: Double, deliveries: Int, restarts: Int) -> ServerCost {
    let used = max(0, serverCPUBefore + cpu - serverCPUAtStart)
    return ServerCost(
      cpuSeconds: used, cpuMicrosPerDelivery: deliveries > 0 ? used / Double(deliveries) * 1e6 : nil,
      maxResidentBytes: serverMost, firstResidentBytes: serverBefore ?? 0,
      residentSlopePerHour: restarts == 0 ? samples.residentSlopePerHour : nil)
  }

  func soakCost(deliveries: Int, latencyP99: Double) -> SoakCost {
    let used = max(0, (own.cpuSeconds ?? ownCPU) - ownCPUAtStart)
    return SoakCost(
      cpuSeconds: used, cpuMicrosPerDelivery: deliveries > 0 ? used / Double(deliveries) * 1e6 : nil,
      maxResidentBytes: ownMost, lagP99: lags.percentile(99), lagMax: lags.maximum,
      wallSeconds: Date().timeIntervalSince1970 - beganAt, latencyP99: latencyP99)
  }
}
