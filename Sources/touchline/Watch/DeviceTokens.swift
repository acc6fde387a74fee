import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import LiveActivities
import SubscriberProtocol

/// A device's push tokens, which its network ends and begins again.
final class DeviceTokens {
  /// What a watch is asked for.
  struct Plan {
    /// Whether each activity gets an update token.
    var updates = false
    /// The app, and its type of attributes, that a push can start an activity of.
    var start: PushRegistration?
    /// Seconds after which each token is replaced by another one.
    var rotation: Double?
  }

  let plan: Plan
  private let loop: EventLoop
  private let server: ServerAccess
  private let waits: Bool
  private let handler: (PushEvent) -> Void
  private var receiver: PushReceiver?
  /// What is registered once there is a connection, with the tokens that were kept.
  private var registrations: [PushRegistration]
  /// Start tokens of earlier runs that this one isn't asked for.
  private let idle: [PushRegistration]
  private var rotating: LoopTimer?
  private var isOn = false

  init(
    _ plan: Plan, kept: [PushRegistration], loop: EventLoop, server: ServerAccess, waits: Bool,
    handler: @escaping (PushEvent) -> Void
  ) {
    self.plan = plan
    self.loop = loop
    self.server = server
    self.waits = waits
    self.handler = handler
    let isMeant = { (kept: PushRegistration) in kept.kind == .update || kept.name == plan.start?.name }
    registrations = kept.filter(isMeant)
    idle = kept.filter { !isMeant($0) }
    if let start = plan.start, !registrations.contains(where: { $0.name == start.name }) {
      registrations.append(start)
    }
  }

  /// What a device keeps between its runs.
  var kept: [PushRegistration] { ((receiver?.kept ?? registrations) + idle).filter { $0.kept != nil } }

  /// Connects, if there is anything to register.
  func open(isReturn: Bool = false) {
    isOn = true
    guard receiver == nil, !registrations.isEmpty else { return }
    receiver = PushReceiver(
      loop: loop, server: server, registrations: registrations, waits: waits || isReturn, handler: handler)
    if let seconds = plan.rotation, rotating == nil {
      rotating = loop.schedule(after: seconds, every: seconds) { [weak self] in self?.receiver?.rotate() }
    }
  }

  /// Closes the connection; the tokens stay.
  func close() {
    isOn = false
    registrations = receiver?.kept ?? registrations
    receiver?.close()
    receiver = nil
  }

  /// The device is no more: its tokens reach nobody.
  func end() {
    for registration in receiver?.kept ?? [] { receiver?.unregister(registration.name, reason: .switchedOff) }
    rotating?.cancel()
    close()
  }

  /// Asks for the update token of an activity.
  func register(_ activity: DeviceActivity) {
    let registration = Self.registration(activity)
    guard !(receiver?.kept ?? registrations).contains(where: { $0.name == registration.name }) else { return }
    guard let receiver else {
      registrations.append(registration)
      if isOn { open() }
      return
    }
    receiver.register(registration)
  }

  /// The activity has ended: senders to its token are told.
  func unregister(_ activity: DeviceActivity) {
    let name = Self.registration(activity).name
    guard let receiver else { return registrations.removeAll { $0.name == name } }
    receiver.unregister(name, reason: .ended)
  }

  /// Asks for another token in the place of an activity's.
  func rotate(_ activity: String) { receiver?.rotate { $0.activity == activity } }

  /// Says that a push was displayed.
  func displayed(_ push: PushFrame) { receiver?.displayed(push) }

  /// What a token was registered for.
  func registration(of token: PushToken) -> PushRegistration? { receiver?.registration(of: token) }

  private static func registration(_ activity: DeviceActivity) -> PushRegistration {
    PushRegistration(
      kind: .update, app: activity.definition.settings.app, activity: activity.name,
      attributesType: activity.definition.attributesType,
      frequentUpdates: activity.definition.settings.frequentUpdates)
  }
}

/// A token that the device has from now on, as it is told.
struct TokenNotice {
  let frame: RegisteredFrame
  let registration: PushRegistration
  let at: Date

  /// What a push to it reaches: the activity, or the app and its type of attributes.
  var name: String { registration.label }

  private var cause: String { frame.kind == .update ? "push-token" : "push-to-start-token" }

  var plain: String { "\(cause) \(name.printable) \(frame.kept.token.hex)" }

  var json: String {
    JSONWriter.object([
      "at": JSONWriter.seconds(at.timeIntervalSince1970), "cause": JSONWriter.quoted(cause),
      "name": frame.activity.map(JSONWriter.quoted), "app": JSONWriter.quoted(frame.app.identifier),
      "attributes-type": registration.attributesType.map(JSONWriter.quoted),
      "token": JSONWriter.quoted(frame.kept.token.hex),
      "replaces": frame.replaces.map { JSONWriter.quoted($0.hex) },
    ])
  }
}
