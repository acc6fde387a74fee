import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// What a device is told about its push tokens.
public enum PushEvent: Sendable {
  /// A token stands: the first one, the same one again after a lost connection, or another one.
  case registered(RegisteredFrame, isNew: Bool)
  /// A push came, each once.
  case push(PushFrame)
  /// A registration was refused.
  case refused(PushRegistration, RequestFailure)
  /// Another connection has taken a token up: it is no longer this device's.
  case taken(PushRegistration)
  /// The connection is gone and will be made again.
  case disconnected(problem: String, retryIn: Double)
  /// The server can't be reached or understood at all.
  case failed(RequestFailure)
}

/// Registers a device's push tokens and receives what is sent to them.
///
/// It reconnects by itself and takes its tokens up again with their secrets; a server that no longer knows one gives
/// another. A push that was on its way when a connection broke comes again, and is reported once.
public final class PushReceiver {
  private let handler: (PushEvent) -> Void
  private var session: KeptSession?
  /// What is registered, or to be, with the token once there is one.
  private var registrations: [PushRegistration]
  /// Which registration a request is about.
  private var requests: [String: PushRegistration.Name] = [:]
  /// The unique ids of the last pushes: the server sends again what it has no acknowledgement of.
  private var received: [String] = []
  private var random = SystemRandomNumberGenerator()

  /// Makes a receiver and connects.
  ///
  /// - Parameters:
  ///   - registrations: what to register, with the tokens that were kept.
  ///   - waits: whether a server that isn't there yet is waited for.
  public init(
    loop: EventLoop, server: ServerAccess, registrations: [PushRegistration], waits: Bool = false,
    handler: @escaping (PushEvent) -> Void
  ) {
    self.handler = handler
    self.registrations = registrations
    session = KeptSession(loop: loop, server: server, waits: waits) { [weak self] in self?.take($0) }
  }

  /// What is registered, with the tokens as they are now: what a device keeps.
  public var kept: [PushRegistration] { registrations }

  /// Closes the connection. The tokens wait for their device at the server.
  public func close() {
    session?.close()
    session = nil
  }

  // MARK: Tokens

  /// Asks for a token. One that is registered under the same name stays.
  public func register(_ registration: PushRegistration) {
    guard !registrations.contains(where: { $0.name == registration.name }) else { return }
    registrations.append(registration)
    send(registration)
  }

  /// Gives a token up.
  public func unregister(_ name: PushRegistration.Name, reason: UnregisterReason) {
    guard let index = registrations.firstIndex(where: { $0.name == name }) else { return }
    if let kept = registrations[index].kept {
      session?.send(ClientFrame.unregister(kept.token, reason: reason))
    }
    registrations.remove(at: index)
  }

  /// Asks for another token in the place of each of these.
  public func rotate(where isMeant: (PushRegistration) -> Bool = { _ in true }) {
    for registration in registrations where isMeant(registration) {
      guard let kept = registration.kept else { continue }
      session?.send(ClientFrame.rotate(kept.token, requestID: newRequest(registration.name)))
    }
  }

  /// Says that a push was displayed.
  public func displayed(_ push: PushFrame) {
    session?.send(ClientFrame.acknowledge(push.token, uniqueID: push.uniqueID, isDisplayed: true))
  }

  /// The registration that a token belongs to.
  public func registration(of token: PushToken) -> PushRegistration? {
    registrations.first { $0.kept?.token == token }
  }

  private func send(_ registration: PushRegistration) {
    session?.send(ClientFrame.register(registration, requestID: newRequest(registration.name)))
  }

  private func newRequest(_ name: PushRegistration.Name) -> RequestID {
    let id = RequestID.random(using: &random)
    requests[id.text] = name
    return id
  }

  // MARK: Connection

  private func take(_ event: KeptSession.Event) {
    switch event {
    case .opened:
      requests = [:]
      for registration in registrations { send(registration) }
    case .frame(let frame): take(frame)
    case .lost(let problem, let wait): handler(.disconnected(problem: problem, retryIn: wait))
    case .failed(let failure): handler(.failed(failure))
    }
  }

  private func take(_ frame: ServerFrame) {
    switch frame {
    case .registered(let frame): registered(frame)
    case .push(let frame): push(frame)
    case .error(let error): refused(error)
    case .unregistered(let token, .elsewhere, _):
      guard let registration = registration(of: token) else { return }
      registrations.removeAll { $0.name == registration.name }
      handler(.taken(registration))
    default: break
    }
  }

  private func registered(_ frame: RegisteredFrame) {
    guard let name = frame.requestID.flatMap({ requests.removeValue(forKey: $0) }) else { return }
    guard let index = registrations.firstIndex(where: { $0.name == name }) else {
      // Given up before it was there.
      session?.send(ClientFrame.unregister(frame.kept.token, reason: .ended))
      return
    }
    let isNew = registrations[index].kept?.token != frame.kept.token
    registrations[index].kept = frame.kept
    handler(.registered(frame, isNew: isNew))
  }

  private func push(_ frame: PushFrame) {
    session?.send(ClientFrame.acknowledge(frame.token, uniqueID: frame.uniqueID, isDisplayed: false))
    guard !received.contains(frame.uniqueID) else { return }
    received.append(frame.uniqueID)
    if received.count > Limits.pushTokensPerSession { received.removeFirst() }
    handler(.push(frame))
  }

  private func refused(_ error: ErrorFrame) {
    guard let name = error.requestID.flatMap({ requests.removeValue(forKey: $0) }),
      let index = registrations.firstIndex(where: { $0.name == name })
    else { return }
    let registration = registrations.remove(at: index)
    handler(.refused(registration, RequestFailure(reason: error.reason, "\(error.reason): \(error.message)")))
  }
}

extension PushRegistration {
  /// What a device knows a registration by.
  public struct Name: Sendable, Hashable {
    let kind: PushToken.Kind
    let app: BundleID
    let activity: String?
    let attributesType: String?
  }

  /// The activity, or for a start the app and its type of attributes.
  public var name: Name {
    Name(
      kind: kind, app: app, activity: activity, attributesType: kind == .start ? attributesType : nil)
  }

  /// What it is for, in words: the activity, or the app and its type of attributes.
  public var label: String {
    activity ?? ([app.identifier] + [attributesType].compactMap { $0 }).joined(separator: "/")
  }
}
