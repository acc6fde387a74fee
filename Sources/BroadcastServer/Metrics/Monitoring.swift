import BroadcastChannels
import EventLoop
import Foundation

/// What an operator's tools ask for: the metrics, and whether the server is ready.
final class Monitoring {
  let metrics: ServerMetrics
  var access: MetricsAccess
  var readiness = Readiness()
  /// The ports by their names. The listeners hold whoever answers, and that is who holds this.
  var ports: [(name: String, server: () -> HTTPServer?)] = []
  private let hub: Hub
  private let registry: SessionRegistry
  private let log: ServerLog
  private let startedAt: Date

  /// Seconds between two looks at the loop, and what the loop's timers add: they count whole milliseconds, and are never
  /// early.
  private static let lagInterval = 0.25
  private static let lagRounding = 0.001

  init(
    metrics: ServerMetrics, access: MetricsAccess, hub: Hub, registry: SessionRegistry, log: ServerLog,
    startedAt: Date
  ) {
    self.metrics = metrics
    self.access = access
    self.hub = hub
    self.registry = registry
    self.log = log
    self.startedAt = startedAt
    readiness.add {
      hub.isShuttingDown
        ? Readiness.Obstacle(reason: "draining", message: "the server is shutting down") : nil
    }
    readiness.add {
      hub.isStoreWorking
        ? nil : Readiness.Obstacle(reason: "store", message: "the store has failed; the log tells why")
    }
    readiness.add {
      hub.isStoreWorking && hub.writer.isStalled
        ? Readiness.Obstacle(reason: "store", message: "the store's disk doesn't answer") : nil
    }
  }

  /// Looks from now on, until the loop ends, how late it is.
  func watch(_ loop: EventLoop) {
    var expected = loop.now + Self.lagInterval + Self.lagRounding
    loop.schedule(after: Self.lagInterval, every: Self.lagInterval) { [metrics] in
      let now = loop.now
      metrics.late(seconds: now - expected)
      expected = now + Self.lagInterval + Self.lagRounding
    }
  }

  /// The metrics as Prometheus' text.
  func exposition() -> String {
    var text = Exposition()
    text.add(.build, [([TouchlineVersion.current], 1)])
    text.add(.ready, readiness.obstacles.isEmpty ? 1 : 0)
    text.add(.uptime, hub.now.timeIntervalSince(startedAt))
    addConnections(to: &text)
    addRequests(to: &text)
    addBudgets(to: &text)
    addDeliveries(to: &text)
    addServer(to: &text)
    addProcess(to: &text)
    return text.text
  }

  private func addConnections(to text: inout Exposition) {
    let servers = ports.compactMap { port in port.server().map { (port.name, $0) } }
    text.add(
      .connections,
      servers.flatMap { name, server in
        server.connectionCounts.map { ([name, $0.kind.rawValue], Double($0.count)) }
      }
        // Whatever port they came by.
        + (hub.loops.map { [(["loops", ConnectionKind.webSocket.rawValue], Double($0.sessionCount))] } ?? []))
    text.add(.accepted, servers.map { ([$0.0], Double($0.1.acceptedCount)) })
    text.add(.sessions, registry.count)
    text.add(.closings, metrics.closings)
    text.add(.subscriptions, hub.allRooms.reduce(0) { $0 + $1.subscriberCount })
    let policies = Dictionary(grouping: hub.allRooms, by: { $0.channel.settings.storagePolicy.rawValue })
    text.add(.channels, [0, 1].map { ([String($0)], Double(policies[$0]?.count ?? 0)) })
  }

  private func addRequests(to text: inout Exposition) {
    let limits = Dictionary(uniqueKeysWithValues: ClientLimit.allCases.map { ($0.rawValue, 0) })
    text.add(.refusedClients, limits.merging(metrics.refusedClients) { $1 })
    text.add(
      .answers, metrics.answers.sorted { $0.key < $1.key }.map { ([String($0.key)], Double($0.value)) })
    text.add(.answering, metrics.answering)
    let outcomes = Dictionary(
      uniqueKeysWithValues: (Outcome.allCases.map(\.rawValue) + ["repeated"]).map { ($0, 0) })
    text.add(.publishes, outcomes.merging(metrics.publishes) { $1 })
    text.add(.refusedPublishes, metrics.refusedPublishes)
    text.add(.pushes, metrics.pushes)
    text.add(.refusedPushes, metrics.refusedPushes)
  }

  private func addBudgets(to text: inout Exposition) {
    let now = hub.now
    let limited = hub.allRooms.compactMap { room in
      room.channel.budgetReport(at: now).priority10.map { (room.channel, $0) }
    }
    let shown = limited.prefix(Limits.metricsChannels).map { channel, quota in
      ([channel.id.base64, channel.alias?.name ?? ""], quota)
    }
    text.add(.budgetLeft, shown.map { ($0.0, Double($0.1.remaining)) })
    text.add(.budgetLimit, shown.map { ($0.0, Double($0.1.limit)) })
    text.add(.limited, limited.count)
    text.add(.exhausted, limited.count { $0.1.remaining == 0 })
    text.add(.windowWaits, metrics.windowWaits)
  }

  private func addDeliveries(to text: inout Exposition) {
    text.add(.fanOutSeconds, metrics.fanOutSeconds)
    text.add(.fanOutSizes, metrics.fanOutSizes)
    text.add(.deliveries, metrics.deliveries.written)
    text.add(.deliveredBytes, metrics.deliveries.bytes)
    text.add(.conflations, metrics.deliveries.conflated)
    text.add(.acknowledgements, metrics.deliveries.acknowledged)
    text.add(.displays, metrics.deliveries.displayed)
    text.add(.stale, metrics.deliveries.stale)
  }

  private func addServer(to text: inout Exposition) {
    text.add(.storeCommits, [(["true"], metrics.syncedCommits), (["false"], metrics.otherCommits)])
    text.add(.storeFailures, metrics.storeFailures)
    text.add(.storeWaiting, hub.writer.waitingSeconds)
    text.add(.loopLag, metrics.loopLag)
    text.add(.lostLogLines, log.lostLines)
    text.add(.logLines, log.written.map { ([$0.level.rawValue], Double($0.count)) })
  }

  private func addProcess(to text: inout Exposition) {
    let figures = ProcessFigures()
    text.add(.cpu, figures.cpuSeconds)
    text.add(.resident, figures.residentBytes)
    text.add(.virtual, figures.virtualBytes)
    text.add(.openFiles, figures.openFiles)
    text.add(.mostFiles, figures.mostFiles.map(Double.init) ?? .infinity)
    if let start = figures.startTime { text.add(.startTime, start) }
  }
}
