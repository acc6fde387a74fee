import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import Soak
import SubscriberSwarm

/// A soak from its start to its verdict: channels, publishers, the server and the clock, on one loop; the devices beside them,
/// or in processes of their own.
final class SoakRun {
  /// What is on the agenda.
  enum Task {
    /// A channel's next message is due.
    case publish(channel: Int)
    /// A publisher tries to connect again.
    case reconnectPublisher(channel: Int)
    /// The server is restarted, gracefully or not.
    case restart(signal: Int32)
    /// One client floods.
    case flood
    /// A burst of alerts comes into every channel.
    case burst
    /// The server is asked what became of its messages.
    case ask
    /// The devices are told to stop, and the verdict follows.
    case end
  }

  let options: SoakOptions
  let settings: SoakSettings
  let loop: EventLoop
  var agenda = Agenda<Task>()
  var verifier: Verifier
  /// What publishers and the server did; the devices' own sums come on top.
  var totals = SoakTotals()
  var meter = SoakMeter()
  var publishers: [SoakPublisher] = []
  /// The connections of the publishers, and of the one that floods.
  var swarm: Swarm?
  /// The devices, unless ``parts`` have them.
  var fleet: DeviceFleet?
  var parts: [PartProcess] = []
  /// When the plan began, in Unix seconds.
  private(set) var start: Double = 0
  var random: SeededGenerator
  var stage = Stage.preparing
  /// What is to be judged once everything before it was heard.
  var waiting: [(at: Double, observation: Observation)] = []
  var lastStop: Double = -.infinity
  /// When each subscriber last tried to connect.
  var attempts: [Double]
  /// When the soak's server was stopped, and could be reached again.
  var stops: [ClosedRange<Double>] = []
  /// The signal that the server was stopped with, until it is gone.
  var stopSignal: Int32?
  /// How many messages the server was asked about, and how many answers came.
  var questions = 0
  var answers = 0
  /// When the parts were told to end.
  var stoppedAt: Double = 0
  var flood: Swarm.ID?
  /// Another machine's clock and this one's.
  var clocks = ClockComparison()
  /// Why the run could not go on; nil when it could.
  var brokenOff: String?
  var outcome: Result<Int32, CommandFailure> = .success(0)

  let own: OwnServer?
  let screen: SoakScreen
  var access: ServerAccess
  private var watch: DescriptorWatch?
  private var clock = SoakClock()

  /// How far a run is.
  enum Stage {
    case preparing
    case running
    /// The parts tell what they still have to tell.
    case stopping
    case ended
  }

  /// Seconds between two judgements.
  private static let judging = 0.1
  /// Seconds after the last message in which windows end, cards go, and the last acknowledgements are answered; and those at
  /// their end in which the server answers what it is asked.
  private static let settling = (least: 5.0, ask: 1.2)

  /// The last message may wait in a window, and has its time to come then.
  private var settling: Double {
    let windows = publishers.map { max($0.settings.windows.considerate, $0.settings.windows.passive) }
    return max(Self.settling.least, (windows.max() ?? 0) + verifier.tolerance.lastDelivery + 0.5)
  }
  /// Seconds in which the parts must have told everything.
  static let patience = 30.0
  /// The tag of the connection that is no publisher's; those have their channel's number.
  static let floodTag = Int.min

  init(_ options: SoakOptions) throws {
    self.options = options
    settings = options.settings
    screen = SoakScreen(seed: options.settings.seed)
    loop = try EventLoop()
    random = SeededGenerator(seed: options.settings.seed, stream: 3_000_000)
    own =
      options.server == nil
      ? try OwnServer(loop: loop, isDurable: options.settings.restarts > 0, usesTLS: options.usesTLS) : nil
    access = options.server ?? ServerAccess(.standard)
    verifier = Verifier(start: 0, channels: [], subscribers: [])
    attempts = [Double](repeating: -.infinity, count: settings.subscribers)
    for channel in 0..<settings.channels { publishers.append(SoakPublisher(channel, options)) }
  }

  var now: Double { Date().timeIntervalSince1970 }

  /// Seconds since the plan began.
  func elapsed(_ now: Double) -> Double { now - start }

  // MARK: Beginning

  func run() throws -> Int32 {
    for signal in [SIGINT, SIGTERM, SIGHUP] { loop.onSignal(signal) { [self] in endEarly() } }
    // The shell has written below what is shown.
    loop.onSignal(SIGCONT) { [self] in screen.isDisturbed() }
    defer {
      for part in parts { part.remove() }
      own?.remove()
    }
    Console.note("seed \(settings.seed): the same options with --seed \(settings.seed) make the same plan")
    if let own {
      try own.start { [self] in serve($0) }
    } else {
      serve(access)
    }
    loop.schedule(after: 0, every: 0.1) { [self] in watchServer() }
    loop.run()
    screen.end()
    return try outcome.get()
  }

  func serve(_ access: ServerAccess) {
    self.access = access
    guard case .preparing = stage else { return }
    do {
      let swarm = try Swarm(access)
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
    ChannelAdministration(loop: loop, server: access).create(publishers[channel].definition(named: name)) {
      [self] result in
      switch result {
      case .failure(let failure): fail("the channel \(name) can't be created: \(failure)")
      case .success(let information):
        publishers[channel].isRegistered(as: information)
        create(channel + 1)
      }
    }
  }

  private func begin() {
    guard case .preparing = stage else { return }
    stage = .running
    // Processes take a moment to start.
    start = now + (options.processes > 1 ? 1 : 0.2)
    let last = publishers.map(\.plan.duration).max() ?? settings.duration
    verifier = Verifier(
      start: start, channels: publishers.map(\.settings),
      subscribers: (0..<settings.subscribers).map { index in
        let plan = SubscriberPlan(index: index, settings: settings)
        return (plan.channel, plan.isWitness, plan.isSlow)
      }, tolerance: Verifier.Tolerance(subscribers: settings.subscribers))
    do throws(CommandFailure) {
      try beginDevices(last)
    } catch {
      return fail(error.message)
    }
    for channel in publishers.indices {
      connectPublisher(channel)
      planPublication(channel)
    }
    for restart in 0..<settings.restarts {
      let at = last * Double(restart + 1) / Double(settings.restarts + 1)
      agenda.add(.restart(signal: restart % 2 == 0 ? SIGTERM : SIGKILL), at: start + at)
    }
    if settings.faults { agenda.add(.flood, at: start + last * 0.3) }
    if let every = settings.burstEvery, options.script == nil { agenda.add(.burst, at: start + every) }
    agenda.add(.ask, at: start + last + settling - Self.settling.ask)
    agenda.add(.end, at: start + last + settling)
    var processes = [(name: parts.isEmpty ? "soak" : "judge", watch: ProcessWatch(pid: getpid()))]
    for (index, part) in parts.enumerated() {
      if let watch = part.watch { processes.append(("part \(index)", watch)) }
    }
    meter.begin(
      at: start, serverCPU: serverWatch?.cpuSeconds ?? 0, processes: processes)
    // The loop's timers round up by a millisecond.
    loop.schedule(after: 0, every: SoakClock.tick - 0.001) { [self] in tick() }
    screen.begin(title(last))
  }

  private func beginDevices(_ last: Double) throws(CommandFailure) {
    func plan(_ part: Int) -> PartPlan {
      PartPlan(
        settings: settings, part: part, parts: options.processes, start: start, last: last,
        channels: publishers.map(\.id))
    }
    guard options.processes > 1 else {
      fleet = try DeviceFleet(plan(0), access, loop: loop)
      fleet?.listener = self
      return
    }
    for part in 0..<options.processes {
      parts.append(
        try PartProcess(
          plan(part), access, credential: options.credential, loop: loop,
          onReport: { [weak self] in self?.take($0) }, onLost: { [weak self] in self?.breakOff($0) }))
    }
  }

  // MARK: Time

  private func tick() {
    guard case .running = stage else { return finishWhenHeard() }
    let now = now
    _ = clock.tick(at: now)
    fleet?.tick(now)
    while let (_, task) = agenda.next(by: now) {
      carryOut(task, at: now)
      guard case .running = stage else { return }
    }
    if now - meter.judgedAt >= Self.judging {
      meter.judgedAt = now
      judge(now)
    }
    if meter.isDue(now) { sample(now) }
  }

  private func carryOut(_ task: Task, at now: Double) {
    switch task {
    case .publish(let channel): publish(channel, at: now)
    case .reconnectPublisher(let channel): connectPublisher(channel)
    case .restart(let signal): restart(signal, at: now)
    case .flood: beginFlood(at: now)
    case .burst: markBurst(at: now)
    case .ask: ask(now)
    case .end: stop()
    }
  }

  /// Judges what everything was heard of.
  private func judge(_ now: Double) {
    let heard = parts.map(\.heard).min() ?? now
    if let first = parts.first, first.heard < .infinity {
      // What the parts say waits here while this process is busy.
      clock.note(max(0, now - heard - 2 * SoakPart.pace.reached), for: Self.judging)
    }
    let horizon = min(now, heard)
    verifier.advance(to: horizon)
    judgeWaiting(until: horizon)
  }

  /// How all devices stand, and how late the soak's clocks were.
  func status() -> PartStatus {
    var status = fleet?.status() ?? PartStatus()
    for part in parts { status.add(part.status) }
    status.lagP99 = max(status.lagP99, clock.lags.percentile(99))
    status.lagMax = max(status.lagMax, clock.lags.maximum)
    status.lagNewest = max(status.lagNewest, clock.takeNewest())
    return status
  }

  /// A second is over, or the run.
  func sample(_ now: Double, isLast: Bool = false) {
    let status = status()
    let sample = meter.endSecond(
      at: now, start: start, settings: settings, status: status, publishers: publishers,
      server: (own?.isListening ?? false) ? serverWatch : nil, violations: verifier.violationCount,
      isLast: isLast)
    var all = totals
    all.add(status.totals)
    screen.show(sample, all, verifier, meter.newestLatency)
  }

  /// The watch of the publishers' connections ends with the run.
  func closeConnections() {
    watch?.cancel()
    watch = nil
    swarm = nil
    fleet?.stop()
    fleet = nil
  }
}
