import BroadcastChannels
import BroadcastClient
import BroadcastServer
import EventLoop
import Foundation
import LiveActivities
import Soak
import SubscriberSwarm

/// A soak from its start to its verdict: channels, publishers, devices, faults and the clock, on one loop.
final class SoakRun {
  /// What is on the agenda.
  enum Task {
    /// The next thing that happens to a device by plan.
    case act(device: Int)
    /// A device's activity has a deadline.
    case wake(device: Int)
    /// A device tries to connect again.
    case reconnect(device: Int)
    /// A device acknowledges what it received.
    case acknowledge(device: Int)
    /// A channel's next message is due.
    case publish(channel: Int)
    /// A publisher tries to connect again.
    case reconnectPublisher(channel: Int)
    /// The server is restarted, gracefully or not.
    case restart(signal: Int32)
    /// One client floods.
    case flood
    /// The devices acknowledge for the last time.
    case lastAcknowledgements
    /// The server is asked what became of its messages.
    case ask
    /// The verdict.
    case end
  }

  let options: SoakOptions
  let settings: SoakSettings
  let loop: EventLoop
  var agenda = Agenda<Task>()
  var verifier: Verifier
  var totals = SoakTotals()
  var meter = SoakMeter()
  var devices: [SoakDevice] = []
  var publishers: [SoakPublisher] = []
  var swarm: Swarm?
  /// What was made of the texts that came last, a channel each.
  var texts: [RecentTexts<SoakText>]
  /// When the plan began, in Unix seconds.
  private(set) var start: Double = 0
  var random: SeededGenerator
  private(set) var isEnding = false

  private let own: OwnServer?
  private var address = ServerAddress.standard
  private let screen = SoakScreen()
  private var outcome: Result<Int32, CommandFailure> = .success(0)
  private var watch: DescriptorWatch?
  private var lastTick: Double = 0
  private var lastSample: Double = 0
  private var lastStop: Double = -.infinity
  private var isStopping = false
  private var restartsStopped = 0
  private var hasBegun = false
  private var flood: Swarm.ID?

  /// Seconds between two ticks of the agenda: what is due waits for half of them on average, and that counts as latency.
  private static let tick = 0.002
  /// Seconds after the last message in which windows end, cards go, and the last acknowledgements are answered.
  private static let settling = (acknowledge: 3.0, ask: 3.8, end: 5.0)
  /// Messages a channel that the server is asked about.
  private static let asked = 25
  /// Tags of connections that are no device's.
  static let floodTag = Int.min
  static func publisherTag(_ channel: Int) -> Int { -1 - channel }

  init(_ options: SoakOptions) throws {
    self.options = options
    settings = options.settings
    loop = try EventLoop()
    random = SeededGenerator(seed: options.settings.seed, stream: 2_000_000)
    own = options.server == nil ? try OwnServer(loop: loop, isDurable: options.settings.restarts > 0) : nil
    texts = (0..<options.settings.channels).map { _ in RecentTexts() }
    verifier = Verifier(start: 0, channels: [], subscribers: [])
    for index in 0..<settings.subscribers { devices.append(SoakDevice(index: index, settings: settings)) }
    for channel in 0..<settings.channels { publishers.append(SoakPublisher(channel, options)) }
  }

  var now: Double { Date().timeIntervalSince1970 }

  /// Seconds since the plan began.
  func elapsed(_ now: Double) -> Double { now - start }

  // MARK: Beginning

  func run() throws -> Int32 {
    for signal in [SIGINT, SIGTERM, SIGHUP] { loop.onSignal(signal) { [self] in endEarly() } }
    defer { own?.remove() }
    Console.note("seed \(settings.seed): the same options with --seed \(settings.seed) make the same plan")
    if let own {
      try own.start { [self] port in serve(ServerAddress("127.0.0.1:\(port)") ?? .standard) }
    } else if let server = options.server {
      serve(server)
    }
    loop.schedule(after: 0, every: 0.1) { [self] in watchServer() }
    loop.run()
    screen.end()
    return try outcome.get()
  }

  private func serve(_ address: ServerAddress) {
    self.address = address
    if hasBegun { return }
    do {
      let swarm = try Swarm(host: address.host, port: address.port)
      swarm.handler = self
      watch = try loop.watchReadable(swarm.descriptor) { [unowned swarm] in swarm.turn() }
      self.swarm = swarm
    } catch {
      return fail("\(error)")
    }
    meter.serverBefore = own?.pid.flatMap { ProcessWatch(pid: $0).residentBytes }
    create(0)
  }

  /// Creates the channels, one after the other, then begins.
  private func create(_ channel: Int) {
    guard channel < settings.channels else { return begin() }
    let name = "soak-\(ProcessInfo.processInfo.processIdentifier)-\(channel)"
    ChannelAdministration(loop: loop, server: ServerAccess(address)).create(
      publishers[channel].definition(named: name)
    ) { [self] result in
      switch result {
      case .failure(let failure): fail("the channel \(name) can't be created: \(failure)")
      case .success(let information):
        publishers[channel].isRegistered(as: information)
        create(channel + 1)
      }
    }
  }

  private func begin() {
    hasBegun = true
    start = now + 0.2
    lastTick = now
    lastSample = start
    verifier = Verifier(
      start: start, channels: publishers.map(\.settings),
      subscribers: devices.map { ($0.plan.channel, $0.plan.isWitness) })
    for index in devices.indices { planNext(index) }
    for channel in publishers.indices { connectPublisher(channel) }
    let last = publishers.map(\.plan.duration).max() ?? settings.duration
    // The witnesses are there a moment later.
    for channel in publishers.indices { planPublication(channel) }
    for restart in 0..<settings.restarts {
      let at = last * Double(restart + 1) / Double(settings.restarts + 1)
      agenda.add(.restart(signal: restart % 2 == 0 ? SIGTERM : SIGKILL), at: start + at)
    }
    if settings.faults { agenda.add(.flood, at: start + last * 0.3) }
    agenda.add(.lastAcknowledgements, at: start + last + Self.settling.acknowledge)
    agenda.add(.ask, at: start + last + Self.settling.ask)
    agenda.add(.end, at: start + last + Self.settling.end)
    meter.begin(serverCPU: own?.pid.flatMap { ProcessWatch(pid: $0).cpuSeconds } ?? 0)
    // The loop's timers round up by a millisecond.
    loop.schedule(after: 0, every: Self.tick - 0.001) { [self] in tick() }
    screen.begin(title(last))
  }

  private func title(_ last: Double) -> String {
    "\(Decimals.count(settings.subscribers)) activities on \(settings.channels) channels for \(Decimals.text(last, 0)) s, \(own == nil ? "\(address)" : "a server of its own"), seed \(settings.seed)"
  }

  // MARK: Time

  private func tick() {
    let now = now
    let late = max(0, now - lastTick - Self.tick)
    lastTick = now
    meter.lag(late)
    if late > 0.05 { verifier.observe(.lagged(late), at: now) }
    while let (_, task) = agenda.next(by: now) {
      carryOut(task, at: now)
      if isEnding { return }
      // What arrives is taken in between, so that a long list of tasks delays nobody's messages.
      if agenda.nextTime.map({ $0 <= now }) ?? false { swarm?.turn() }
    }
    if now - meter.judgedAt >= 0.1 {
      meter.judgedAt = now
      verifier.advance(to: now)
    }
    if now - lastSample >= meter.interval(settings) { sample(now) }
  }

  private func carryOut(_ task: Task, at now: Double) {
    switch task {
    case .act(let device): act(device, at: now)
    case .wake(let device): wake(device, at: now)
    case .reconnect(let device): connect(device, at: now)
    case .acknowledge(let device):
      acknowledge(device, at: now)
      devices[device].isGoingToAcknowledge = false
    case .publish(let channel): publish(channel, at: now)
    case .reconnectPublisher(let channel): connectPublisher(channel)
    case .restart(let signal): restart(signal, at: now)
    case .flood: beginFlood(at: now)
    case .lastAcknowledgements: for device in devices.indices { acknowledge(device, at: now) }
    case .ask: ask(now)
    case .end: finish(at: now)
    }
  }

  private func sample(_ now: Double) {
    let passed = now - lastSample
    lastSample = now
    let sample = meter.sample(
      at: elapsed(now), passed: passed, devices: devices, publishers: publishers,
      server: (own?.isListening ?? false) ? own?.pid.map { ProcessWatch(pid: $0) } : nil,
      violations: verifier.violationCount)
    screen.show(sample, totals, verifier, meter)
  }

  // MARK: The server

  private func watchServer() {
    guard let own else { return }
    if isStopping {
      guard !own.isRunning else { return }
      isStopping = false
      guard !isEnding else { return }
      do throws(CommandFailure) {
        try own.start { [self] port in
          lastStop = now
          verifier.observe(.serverStopped, at: now)
          serve(ServerAddress("127.0.0.1:\(port)") ?? address)
        }
      } catch {
        fail(error.message)
      }
    } else if own.pid != nil, !own.isRunning, !isEnding {
      let words = own.lastWords
      fail("the server ended by itself\(words.isEmpty ? "" : "; its last words:\n\(words)")")
    }
  }

  private func restart(_ signal: Int32, at now: Double) {
    guard let own, own.isRunning else { return }
    count(fault: signal == SIGKILL ? "server killed" : "server restarted")
    meter.event = signal == SIGKILL ? "server killed" : "server restarted"
    verifier.observe(.serverStopped, at: now)
    lastStop = now
    meter.serverStops(own.pid.flatMap { ProcessWatch(pid: $0).cpuSeconds } ?? 0)
    restartsStopped += 1
    isStopping = true
    own.end(signal)
  }

  // MARK: Faults

  func count(fault: String) { totals.faults[fault, default: 0] += 1 }

  /// One client sends as fast as it can and reads nothing: it may lose its connection, and nobody else may notice.
  private func beginFlood(at now: Double) {
    count(fault: "flood of one client")
    meter.event = "flood"
    flood = swarm?.connect(path: "/v1/events", tag: Self.floodTag, isNarrow: true)
  }

  func sendFlood(_ connection: Swarm.ID) {
    swarm?.setPaused(true, connection)
    let frame = Array("{\"type\":\"unsubscribe\",\"channel\":\"nobody\"}".utf8)
    for _ in 0..<5_000 { swarm?.send(frame, on: connection) }
    loop.schedule(after: 2) { [weak self] in self?.swarm?.close(connection, reset: true) }
  }

  // MARK: Ending

  /// Asks the server about the newest messages of each channel.
  private func ask(_ now: Double) {
    let client = HTTPClient(loop: loop)
    for (channel, publisher) in publishers.enumerated() {
      for question in verifier.questions(channel: channel, atMost: Self.asked, after: lastStop + 1) {
        let path = "/v1/channels/\(ChannelID.pathSegment(publisher.id))/messages/\(question.uniqueID)"
        client.send(url: address.http(path)) { [self] result in
          guard case .success(let response) = result, response.status == 200, !isEnding,
            let root = (try? JSONDocument(response.body))?.root,
            let written = root["written"]?.number?.int, let acknowledged = root["acknowledged"]?.number?.int,
            let displayed = root["displayed"]?.number?.int
          else { return }
          verifier.observe(
            .record(
              channel: channel, number: question.number, written: Int(written),
              acknowledged: Int(acknowledged), displayed: Int(displayed)), at: self.now)
        }
      }
    }
  }

  private func endEarly() {
    guard hasBegun, !meter.endedEarly else {
      fail("ended before it began")
      return
    }
    meter.endedEarly = true
    finish(at: now)
  }

  private func finish(at now: Double) {
    guard !isEnding else { return }
    sample(now)
    isEnding = true
    if meter.endedEarly { verifier.advance(to: now) } else { verifier.finish(at: now) }
    let report = makeReport(at: now)
    screen.end()
    SoakOutput.print(report)
    do {
      if let folder = options.report { try SoakOutput.write(report, to: folder) }
      outcome = .success(report.verdict.passed ? 0 : 1)
    } catch {
      outcome = .failure(CommandFailure("the report can't be written: \(error.localizedDescription)"))
    }
    leave()
  }

  /// On somebody else's server nothing is left behind.
  private func leave() {
    watch?.cancel()
    swarm = nil
    guard own == nil else { return loop.stop() }
    let administration = ChannelAdministration(loop: loop, server: ServerAccess(address))
    var left = publishers.count { !$0.id.isEmpty }
    if left == 0 { loop.stop() }
    for publisher in publishers where !publisher.id.isEmpty {
      administration.delete(publisher.id) { [loop] _ in
        left -= 1
        if left == 0 { loop.stop() }
      }
    }
  }

  func fail(_ message: String) {
    guard !isEnding else { return }
    isEnding = true
    outcome = .failure(CommandFailure(message))
    leave()
  }

  private func makeReport(at now: Double) -> SoakReport {
    totals.conflated = verifier.conflated
    let latency = meter.latency.summary
    let cpu = own?.pid.flatMap { ProcessWatch(pid: $0).cpuSeconds } ?? meter.lastServerCPU
    let server = own.map { _ in
      meter.serverCost(cpu: cpu, deliveries: totals.deliveries, restarts: restartsStopped)
    }
    let soak = meter.soakCost(deliveries: totals.deliveries, latencyP99: latency.p99)
    let failures = options.conditions.compactMap { $0.failure(latency, totals, server, soak) }
    return SoakReport(
      program: "touchline \(TouchlineVersion.current)", started: start, seconds: elapsed(now),
      settings: settings, profile: options.profile?.rawValue, script: options.script?.name,
      endedEarly: meter.endedEarly, server: own == nil ? "\(address)" : "a server of its own, \(address)",
      verdict: SoakVerdict(verifier, failedConditions: failures), totals: totals, latency: latency,
      latencyFromSending: meter.fromSending.summary, windowLatency: meter.fromWindow.summary,
      publishLatency: meter.publishing.summary, serverCost: server, soakCost: soak, samples: meter.samples)
  }
}

extension SoakRun: SwarmHandler {
  func opened(_ connection: Swarm.ID, tag: Int) {
    if tag >= 0 {
      deviceOpened(tag, connection)
    } else if tag == Self.floodTag {
      sendFlood(connection)
    } else {
      publisherOpened(-1 - tag, connection)
    }
  }

  func received(_ text: ArraySlice<UInt8>, _ connection: Swarm.ID, tag: Int) {
    guard !isEnding else { return }
    if tag >= 0 {
      deviceReceived(tag, text, at: now)
    } else if tag != Self.floodTag {
      publisherReceived(-1 - tag, Array(text), at: now)
    }
  }

  func closed(_ connection: Swarm.ID, tag: Int, code: UInt16?, problem: String?, wasOpen: Bool) {
    guard !isEnding, tag != Self.floodTag else { return }
    if let code { totals.closeCodes["\(code)", default: 0] += 1 }
    if tag >= 0 {
      deviceClosed(tag, wasOpen: wasOpen, at: now)
    } else {
      publisherClosed(-1 - tag, at: now)
    }
  }
}
