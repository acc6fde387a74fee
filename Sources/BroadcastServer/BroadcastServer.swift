import BroadcastChannels
import ChannelStore
import Credentials
import EventLoop
import Foundation

/// The server: a main port for everything, and one for providers with HTTP/2 and TLS, on a loop that its owner runs.
public final class BroadcastServer {
  private let loop: EventLoop
  private let configuration: ServerConfiguration
  private let hub: Hub
  private let access: AccessControl
  private let pushes: PushRegistry
  private let registry: SessionRegistry
  private let main: HTTPServer
  private let provider: HTTPServer?
  private let log: ServerLog
  private var isStopping = false

  /// Opens the store, takes over the definitions, and listens.
  ///
  /// - Parameters:
  ///   - loop: the loop that carries the connections; everything happens on its thread.
  ///   - definitions: channels that must exist; one that is missing is created.
  /// - Throws: ``EventLoopError`` when it can't listen or a certificate can't be used, ``StoreError`` when the store can't
  ///   be read, `KeyRing.Broken` when the keys can't, ``DefinitionConflict`` when a definition can't be taken over,
  ///   ``OpenToAll`` when others could reach it and nothing is checked.
  public init(
    loop: EventLoop, configuration: ServerConfiguration, store: any ChannelStore,
    definitions: [ChannelDefinition] = [], log: ServerLog
  ) throws {
    self.loop = loop
    self.configuration = configuration
    self.log = log
    let environment = HubEnvironment(
      now: { Date() },
      schedule: { seconds, body in
        let timer = loop.schedule(after: seconds, body)
        return { timer.cancel() }
      })
    let keys = try configuration.keys.map { try KeyRing(folder: $0) }
    let visitors = Visitors(configuration.limits.visitors)
    access = AccessControl(configuration, keys: keys, visitors: visitors, now: environment.now)
    guard !access.isOpen || !configuration.isReachable || configuration.isOpenToAll else {
      throw OpenToAll(configuration)
    }
    hub = Hub(store: store, environment: environment, log: log, loop: loop)
    pushes = PushRegistry(environment: environment)
    try hub.load()
    for definition in definitions {
      do throws(AnswerError) {
        try access.checkDefinition(definition)
        try hub.install(definition)
      } catch {
        throw DefinitionConflict(alias: definition.alias?.name ?? "", problem: error.message)
      }
    }
    registry = SessionRegistry(
      loop: loop, keepAlive: configuration.keepAlive, messageSeconds: configuration.handshakeSeconds)
    var random = environment.random
    let requests = RequestLog(epoch: StreamPosition.randomEpoch(using: &random), log: log)
    let service = Service(
      loop: loop, requests: requests, visitors: visitors, log: log,
      provider: ProviderAPI(hub: hub, access: access, strictness: configuration.strictness),
      device: DeviceAPI(hub: hub, pushes: pushes, access: access, log: log),
      local: LocalAPI(
        services: SessionServices(
          hub: hub, pushes: pushes, registry: registry, access: access, requests: requests),
        origins: Origins(allowed: configuration.origins), startedAt: Date()),
      troubles: TroubleLog(loop: loop, log: log))
    let gate = configuration.limits.gate(openFiles: EventLoop.descriptorLimit)
    main = try HTTPServer(
      loop: loop,
      options: Self.options(
        configuration, configuration.listen, configuration.usesTLS ? try configuration.identity(log) : nil),
      gate: gate, service: service)
    provider = try Self.providerServer(loop, configuration, gate, service, log)
    self.service = service
    warn()
    for note in keys?.notes ?? [] { log(.warning, note) }
    if access.isOpen {
      log(
        configuration.isReachable ? .warning : .info,
        "no tokens are checked: whoever reaches this server may publish, read and delete (--keys changes that)"
      )
    }
  }

  /// Tells what is odd about the settings, though it works.
  private func warn() {
    for server in [main, provider].compactMap(\.self) {
      guard let expiry = server.certificateExpiry.map({ Date(timeIntervalSince1970: Double($0)) }),
        expiry < Date(timeIntervalSinceNow: 14 * 86_400)
      else { continue }
      let address = ListenAddress(host: server.host, port: server.port)
      log(
        .warning,
        "the certificate on \(address) \(expiry < Date() ? "expired" : "expires") on \(expiry.formatted(.iso8601)); clients refuse an expired one"
      )
    }
    guard !configuration.usesTLS, provider == nil else { return }
    if configuration.clientAuthority != nil {
      log(
        .warning,
        "client certificates are asked for on ports with TLS, and there is none; see --provider-listen and --tls"
      )
    }
    if configuration.certificate != nil {
      log(.warning, "the certificate isn't used, because no port speaks TLS; see --provider-listen and --tls")
    }
  }

  /// The server's own reference: the listeners hold the service as long as they live, and so do we.
  private let service: Service

  /// What the main port is reached by, such as `http://127.0.0.1:8080`, with the port that it really has.
  public var url: String { Self.url(of: main, isSecure: configuration.usesTLS) }

  /// What the provider port is reached by; nil without one.
  public var providerURL: String? { provider.map { Self.url(of: $0, isSecure: true) } }

  /// The port that it really listens on.
  public var port: UInt16 { main.port }

  /// The port for providers that it really listens on; nil without one.
  public var providerPort: UInt16? { provider?.port }

  private static func url(of server: HTTPServer, isSecure: Bool) -> String {
    "\(isSecure ? "https" : "http")://\(ListenAddress(host: server.host, port: server.port))"
  }

  private static func options(
    _ configuration: ServerConfiguration, _ address: ListenAddress, _ identity: TLSIdentity?
  ) -> ServerOptions {
    var options = ServerOptions(host: address.host, port: address.port)
    options.tls = identity
    options.maxHeaderBytes = Limits.requestHeaderBytes
    options.maxBodyBytes = Limits.requestBodyBytes
    options.maxMessageBytes = Limits.inboundFrameBytes
    options.handshakeTimeout = configuration.handshakeSeconds
    options.subprotocols = ["touchline.v1"]
    options.inbound = configuration.limits.inbound
    return options
  }

  private static func providerServer(
    _ loop: EventLoop, _ configuration: ServerConfiguration, _ gate: ConnectionGate, _ service: Service,
    _ log: ServerLog
  ) throws -> HTTPServer? {
    guard let address = configuration.providerListen else { return nil }
    do {
      return try HTTPServer(
        loop: loop, options: options(configuration, address, try configuration.identity(log)),
        gate: gate, service: service)
    } catch  where !configuration.insistsOnProviderListen && !configuration.namesCertificates {
      log(
        .warning,
        "the provider API with HTTP/2 and TLS is off: \(error); give it a place with --provider-listen, or turn it off there"
      )
      return nil
    }
  }

  /// Reads keys and certificates again. What is broken leaves the old ones in use; sessions whose key is gone are closed
  /// with 4003.
  public func reload() {
    do {
      if let folder = configuration.keys {
        let keys = try KeyRing(folder: folder)
        for note in keys.notes { log(.warning, note) }
        access.use(keys)
        registry.recheckAccess()
        log(.info, "the keys were read again: \(keys.teams.count) teams")
      }
    } catch {
      log(.error, "the keys stay as they were: \("\(error)".replacing("\n", with: "; "))")
    }
    let secure = [configuration.usesTLS ? main : nil, provider].compactMap(\.self)
    guard !secure.isEmpty else { return }
    do {
      let identity = try configuration.identity(log)
      for server in secure { try server.reload(tls: identity) }
      log(.info, "the certificates were read again")
    } catch {
      log(.error, "the certificates stay as they were: \(error)")
    }
  }

  /// Lets out what waits in the windows, parts with every session (see ``Goodbyes``), waits until they are gone, at most
  /// ``Limits/shutdownSeconds``, and stops the loop. A second call stops at once.
  public func shutDown() {
    guard !isStopping else {
      loop.stop()
      return
    }
    isStopping = true
    log(.info, "shutting down; \(registry.count) sessions are told")
    hub.shutDown()
    pushes.shutDown()
    main.stopAccepting()
    provider?.stopAccepting()
    registry.stop()
    registry.sayGoodbye()
    let deadline = loop.now + Limits.shutdownSeconds
    loop.schedule(after: 0, every: 0.01) { [self] in
      let isDrained = registry.count == 0 && (provider?.connectionCount ?? 0) == 0
      if isDrained || loop.now >= deadline { loop.stop() }
    }
  }
}

/// A definition that can't be taken over.
public struct DefinitionConflict: Error, CustomStringConvertible {
  /// The channel's alias.
  public let alias: String
  /// What was wrong and what to do.
  public let problem: String

  /// Alias and problem.
  public var description: String { "channel \"\(alias)\": \(problem)" }
}

/// A server that others could reach, and that would let everybody in.
public struct OpenToAll: Error, CustomStringConvertible {
  /// What was wrong and what to do.
  public let description: String

  init(_ configuration: ServerConfiguration) {
    let address = configuration.listen.isLoopback ? configuration.providerListen : configuration.listen
    description =
      "\(address?.description ?? "the server") can be reached from other machines, and without keys everybody there may publish, read and delete; check tokens with --keys DIR ('touchline token new-key --dir DIR' makes one) or --client-ca FILE, or say --insecure-open"
  }
}

/// Sends each request to the part of the interface that it belongs to.
private final class Service: HTTPService {
  private let loop: EventLoop
  private let requests: RequestLog
  private let visitors: Visitors
  private let log: ServerLog
  private let provider: ProviderAPI
  private let device: DeviceAPI
  private let local: LocalAPI
  private let troubles: TroubleLog

  init(
    loop: EventLoop, requests: RequestLog, visitors: Visitors, log: ServerLog, provider: ProviderAPI,
    device: DeviceAPI, local: LocalAPI, troubles: TroubleLog
  ) {
    self.visitors = visitors
    self.log = log
    self.loop = loop
    self.requests = requests
    self.provider = provider
    self.device = device
    self.local = local
    self.troubles = troubles
  }

  func noticed(_ trouble: ConnectionTrouble, from remoteAddress: String) {
    troubles.add(trouble, from: remoteAddress)
  }

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    let segments = Self.segments(request)
    if let refusal = refusal(of: request) {
      exchange.answer(
        ProviderAPI.owns(segments) ? refusal.providerResponse : LocalAPI.response(refusal))
    } else if ProviderAPI.owns(segments) {
      let logged = LoggedRequest(request, at: provider.hub.now, clock: loop.now)
      var answer =
        DeviceAPI.owns(segments)
        ? device.answer(request, segments: segments) : provider.answer(request, segments: segments)
      // Refused before anybody asked who it is: whose request it was decides who finds it in the log.
      if answer.facts.provider == nil, answer.facts.refusal != nil {
        answer.facts.provider = provider.access.providerName(of: request)
      }
      let answered = loop.now
      exchange.answer(answer.response)
      requests.add(logged, status: answer.response.status, answer.facts, clock: answered)
    } else {
      local.answer(request, segments: segments, exchange)
    }
  }

  /// Who asks too often is answered before anything is looked at, and isn't in the request log: it would be full of that.
  private func refusal(of request: HTTPRequest) -> AnswerError? {
    do throws(Visitors.Refusal) {
      try visitors.asked(from: request.peer.address, at: provider.hub.now)
      return nil
    } catch {
      if error.isNews {
        log(.warning, "\(request.peer.remoteAddress) asks too often, and is answered 429 for a while")
      }
      return AnswerError(Refusal(error, "too many requests come"))
    }
  }

  func upgrade(_ request: HTTPRequest) -> UpgradeDecision {
    if let refusal = refusal(of: request) { return .refuse(LocalAPI.response(refusal)) }
    return local.upgrade(request, segments: Self.segments(request))
  }

  /// The path's segments before percent-decoding, so that an encoded slash stays inside its segment.
  private static func segments(_ request: HTTPRequest) -> [Substring] {
    request.rawPath.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
  }
}
