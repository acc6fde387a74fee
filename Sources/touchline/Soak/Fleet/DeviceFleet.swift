import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import LiveActivities
import Soak
import SubscriberSwarm

/// Who hears what happens to the devices, in its order.
protocol FleetListener: AnyObject {
  func observed(_ observation: Observation, at now: Double)
  func delivered(_ delivery: PartDelivery, at now: Double)
  /// The devices can't go on.
  func failed(_ message: String)
}

/// Devices of a soak, all of them or the share of one process: their plans, their connections, their activities.
final class DeviceFleet {
  /// What is on the agenda. A device is named by its index in ``devices``.
  enum Task {
    /// The next thing that happens to a device by plan.
    case act(device: Int)
    /// A device's activity has a deadline.
    case wake(device: Int)
    /// A device tries to connect again.
    case reconnect(device: Int)
    /// A device acknowledges what it received.
    case acknowledge(device: Int)
    /// A device whose card is gone leaves its channel.
    case unsubscribe(device: Int)
    /// The devices acknowledge for the last time.
    case lastAcknowledgements
  }

  let settings: SoakSettings
  let start: Double
  var agenda = Agenda<Task>()
  /// When the devices' activities are looked after.
  var wakes: WakeTimes
  var devices: [SoakDevice]
  /// What the devices did so far.
  var totals = SoakTotals()
  var random: SeededGenerator
  /// What was made of the texts that came last, a channel each.
  var texts: [RecentTexts<SoakText>]
  /// Each channel's path as it stands in a URL, and its id.
  let channels: [(path: String, id: String)]
  weak var listener: (any FleetListener)?
  let swarm: Swarm
  private(set) var clock = SoakClock()
  private let access: ServerAccess
  private let loop: EventLoop
  private var watch: DescriptorWatch?

  /// Seconds after the last message at which the devices acknowledge for the last time.
  static let lastAcknowledgements = 3.0
  /// Seconds after the last message in which anything can still happen to an activity.
  private static let rest = 10.0

  /// Makes the devices of a part; they begin with the plan's start.
  init(_ plan: PartPlan, _ access: ServerAccess, loop: EventLoop) throws(CommandFailure) {
    settings = plan.settings
    start = plan.start
    self.access = access
    self.loop = loop
    random = SeededGenerator(seed: settings.seed, stream: 2_000_000 + UInt64(plan.part))
    wakes = WakeTimes(devices: plan.places.count, until: start + plan.last + Self.rest)
    texts = (0..<settings.channels).map { _ in RecentTexts() }
    channels = plan.channels.map { (ChannelID.pathSegment($0), $0) }
    devices = plan.places.map { SoakDevice(index: $0, settings: plan.settings) }
    do throws(Swarm.Failure) {
      swarm = try Swarm(access)
    } catch {
      throw CommandFailure("\(error)")
    }
    do {
      watch = try loop.watchReadable(swarm.descriptor) { [unowned swarm] in swarm.turn() }
    } catch {
      throw CommandFailure("\(error)")
    }
    swarm.handler = self
    for index in devices.indices { planNext(index) }
    agenda.add(.lastAcknowledgements, at: start + plan.last + Self.lastAcknowledgements)
  }

  /// Closes every connection and does nothing more.
  func stop() {
    watch?.cancel()
    watch = nil
    listener = nil
    swarm.handler = nil
  }

  var now: Double { Date().timeIntervalSince1970 }

  /// Does what is due.
  func tick(_ now: Double) {
    let late = clock.tick(at: now)
    if late > SoakClock.standstill { observe(.lagged(late), at: now) }
    while let (_, task) = agenda.next(by: now), listener != nil {
      tellStandstill(self.now)
      carryOut(task, at: now)
      // What arrives is taken in between, so that a long list of tasks delays nobody's messages.
      if agenda.nextTime.map({ $0 <= now }) ?? false { swarm.turn() }
    }
  }

  private func tellStandstill(_ now: Double) {
    if let late = clock.standstill(at: now) { observe(.lagged(late), at: now) }
  }

  private func carryOut(_ task: Task, at now: Double) {
    switch task {
    case .act(let device): act(device, at: now)
    case .wake(let device): if wakes.take(device, at: now) { wake(device, at: now) }
    case .reconnect(let device): connect(device, at: now)
    case .acknowledge(let device):
      acknowledge(device, at: now)
      devices[device].isGoingToAcknowledge = false
    case .unsubscribe(let device):
      // Another one may have the place by now.
      if devices[device].activity?.state == .dismissed { unsubscribe(device) }
    case .lastAcknowledgements: for device in devices.indices { acknowledge(device, at: now) }
    }
  }

  /// How the devices stand, and how late their clock was, at the latest since this was last asked for.
  func status() -> PartStatus {
    var status = PartStatus()
    status.lagP99 = clock.lags.percentile(99)
    status.lagMax = clock.lags.maximum
    status.lagNewest = clock.takeNewest()
    status.totals = totals
    for device in devices {
      if device.isSubscribed { status.subscribed += 1 }
      guard let activity = device.activity else { continue }
      if !device.isOffline, !device.isUnsubscribing { status.wanted += 1 }
      switch activity.state {
      case .pending, .active: status.fresh += 1
      case .stale: status.stale += 1
      case .ended, .dismissed: status.ended += 1
      }
    }
    return status
  }

  func observe(_ observation: Observation, at now: Double) { listener?.observed(observation, at: now) }

  func count(fault: String) { totals.faults[fault, default: 0] += 1 }

  // MARK: Connections

  func connect(_ index: Int, at now: Double) {
    let device = devices[index]
    guard device.connection == nil, device.activity != nil, !device.isOffline, !device.isDone else { return }
    observe(.wants(subscriber: device.plan.index), at: now)
    devices[index].wait.connects()
    var path = "/v1/channels/\(channels[device.plan.channel].path)/events"
    if let position = device.position { path += "?epoch=\(position.epoch)&seq=\(position.sequence)" }
    do throws(RequestFailure) {
      devices[index].connection = swarm.connect(
        path: path, tag: index, headers: try access.headers(), isNarrow: device.plan.isSlow)
    } catch {
      listener?.failed("\(error)")
      return
    }
    if devices[index].connection == nil { retry(index, at: now) }
  }

  private func retry(_ index: Int, at now: Double) {
    // Longer than a server that ends needs anybody to be away: the device obeys, but it is missed from now on.
    if devices[index].wait.isAskedTooMuch { observe(.wants(subscriber: devices[index].plan.index), at: now) }
    agenda.add(.reconnect(device: index), at: now + devices[index].wait.next(using: &random))
  }

  /// The device's side ends the connection.
  func disconnect(_ index: Int, at now: Double, reset: Bool = false) {
    guard let connection = devices[index].connection else { return }
    swarm.close(connection, reset: reset)
    connectionEnded(index, at: now)
  }

  private func connectionEnded(_ index: Int, at now: Double) {
    devices[index].connectionEnded()
    observe(.disconnected(subscriber: devices[index].plan.index), at: now)
  }
}

extension DeviceFleet: SwarmHandler {
  func opened(_ connection: Swarm.ID, tag: Int) {
    totals.connections += 1
    devices[tag].wait.succeeded()
  }

  func received(_ text: ArraySlice<UInt8>, _ connection: Swarm.ID, tag: Int) {
    let now = now
    tellStandstill(now)
    received(tag, text, at: now)
  }

  func closed(_ connection: Swarm.ID, tag: Int, code: UInt16?, problem: String?, wasOpen: Bool) {
    let subscriber = devices[tag].plan.index
    if wasOpen {
      totals.closeCodes[code.map { "\($0)" } ?? problem ?? "no code", default: 0] += 1
      if let problem, Swarm.isGarbled(problem) {
        observe(.garbled(subscriber: subscriber, problem: problem), at: now)
      } else {
        observe(.closed(subscriber: subscriber, code: code.map(Int.init), problem: problem), at: now)
      }
    } else {
      observe(.failed(subscriber: subscriber, problem: problem ?? "closed without a word"), at: now)
      if SoakRefusal.isMissing(problem) { observe(.missing(subscriber: subscriber), at: now) }
      if let refusal = SoakRefusal.message(problem) { listener?.failed(refusal) }
    }
    connectionEnded(tag, at: now)
    retry(tag, at: now)
  }
}

extension Swarm {
  /// A swarm for a server, which speaks TLS if the server does.
  convenience init(_ access: ServerAccess) throws(Failure) {
    var security: Security?
    if access.address.isSecure {
      let authority: String? = if case .file(let path) = access.tls.authority { path } else { nil }
      security = Security(authority: authority)
    }
    try self.init(host: access.address.host, port: access.address.port, security: security)
  }
}

/// An answer to a handshake that trying again doesn't mend.
enum SoakRefusal {
  /// Whether the server says that the channel doesn't exist.
  static func isMissing(_ problem: String?) -> Bool { problem == "answered 404" }

  static func message(_ problem: String?) -> String? {
    guard let problem else { return nil }
    if problem == "answered 401" || problem == "answered 403" {
      return
        "the server \(problem.replacing("answered", with: "answers")) to a handshake: it checks tokens, and what was shown isn't good for the soak's channels; --key FILE names a provider's key"
    }
    return problem.contains("certificate") ? problem : nil
  }
}
