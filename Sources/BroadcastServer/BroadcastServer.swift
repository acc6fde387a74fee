import BroadcastChannels
import ChannelStore
import Credentials
import EventLoop
import Foundation

/// The server: a main port for everything, and one for providers with HTTP/2 and TLS, on a loop that its owner runs.
public final class BroadcastServer {
  /// The settings in use. A reload changes them, but for those that need a restart.
  public internal(set) var configuration: ServerConfiguration
  let log: ServerLog
  let hub: Hub
  let access: AccessControl
  let registry: SessionRegistry
  let main: HTTPServer
  let provider: HTTPServer?
  private let loop: EventLoop
  private let pushes: PushRegistry
  let sweep: KeepAliveSweep
  private(set) var isStopping = false
  /// The keys in use; nil when none are checked.
  var keys: KeyRing?
  /// The names of the channels that definition files describe.
  var definedAliases: Set<ChannelAlias>

  /// Listens, reads the store, and takes over the definitions.
  ///
  /// - Parameters:
  ///   - loop: the loop that carries the connections; everything happens on its thread.
  ///   - definitions: channels that must exist; one that is missing is created.
  /// - Throws: ``EventLoopError`` when it can't listen or a certificate can't be used, ``StoreError`` when the store can't
  ///   be read, `KeyRing.Broken` when the keys can't, `BrokenToken` when the token for the metrics can't,
  ///   ``DefinitionConflict`` when a definition can't be taken over, ``OpenToAll`` when others could reach it and nothing
  ///   is checked.
  public init(
    loop: EventLoop, configuration: ServerConfiguration, store: any ChannelStore,
    definitions: [ChannelDefinition] = [], log: ServerLog
  ) throws {
    self.loop = loop
    self.configuration = configuration
    self.log = log
    let storage = StorageThread(loop)
    let environment = Self.environment(loop, storage)
    let keys = try configuration.keys.map { try KeyRing(folder: $0) }
    self.keys = keys
    definedAliases = Set(definitions.compactMap(\.alias))
    let visitors = Visitors(configuration.limits.visitors)
    access = AccessControl(configuration, keys: keys, visitors: visitors, now: environment.now)
    guard !access.isOpen || !configuration.isReachable || configuration.isOpenToAll else {
      throw OpenToAll(configuration)
    }
    let metricsAccess = try MetricsAccess(configuration)
    hub = Hub(store: store, environment: environment, log: log, loop: loop)
    pushes = PushRegistry(environment: environment)
    registry = SessionRegistry()
    sweep = KeepAliveSweep(
      loop: loop, keepAlive: configuration.keepAlive, messageSeconds: configuration.handshakeSeconds)
    let monitoring = Monitoring(
      metrics: hub.metrics, access: metricsAccess, hub: hub, registry: registry, log: log, startedAt: Date())
    var random = environment.random
    let requests = RequestLog(
      epoch: StreamPosition.randomEpoch(using: &random), log: log, metrics: hub.metrics)
    let services = SessionServices(
      hub: hub, pushes: pushes, registry: registry, sweep: sweep, access: access, requests: requests)
    service = Service(
      loop: loop, services: services, visitors: visitors, monitoring: monitoring,
      configuration: configuration, log: log)
    // Before anything is written: a server that has no place to listen leaves the store as it is.
    (main, provider) = try Self.ports(loop, configuration, service, log)
    do { try begin(definitions, storage) } catch {
      // Whoever holds the store may open it again then.
      main.close()
      provider?.close()
      hub.loops?.stop()
      throw error
    }
    for (name, server) in [("main", main), (Self.providerPortName, provider)] {
      monitoring.ports.append((name, { [weak server] in server }))
    }
    monitoring.watch(loop)
    loop.schedule(after: 5, every: 5) { log.tellCounts() }
    tellStart(store)
  }

  private static func environment(_ loop: EventLoop, _ storage: StorageThread) -> HubEnvironment {
    HubEnvironment(
      now: { Date() }, clock: { loop.now },
      schedule: { seconds, body in
        let timer = loop.schedule(after: seconds, body)
        return { timer.cancel() }
      }, perform: storage.perform, atEndOfTurn: storage.atEndOfTurn)
  }

  /// Listens. Whoever connects is answered when the loop runs.
  private static func ports(
    _ loop: EventLoop, _ configuration: ServerConfiguration, _ service: Service, _ log: ServerLog
  ) throws -> (main: HTTPServer, provider: HTTPServer?) {
    let gate = configuration.limits.gate(openFiles: EventLoop.descriptorLimit)
    let identity = configuration.usesTLS ? try configuration.identity(log) : nil
    let main = try HTTPServer(
      loop: loop, options: options(configuration, configuration.listen, identity), gate: gate,
      service: service)
    do { return (main, try providerServer(loop, configuration, gate, service, log)) } catch {
      main.close()
      throw error
    }
  }

  /// Starts the other loops, and takes over what the store holds and what the definitions say.
  private func begin(_ definitions: [ChannelDefinition], _ storage: StorageThread) throws {
    hub.deleted = { [registry] in registry.deleted($0) }
    if configuration.loops > 1 {
      hub.loops = try DeliveryLoops(
        configuration.loops - 1, beside: loop, hub: hub, registry: registry,
        options: Self.options(configuration, configuration.listen, nil), keepAlive: configuration.keepAlive)
    }
    try hub.load()
    var conflict: DefinitionConflict?
    for definition in definitions {
      let alias = definition.alias?.name ?? ""
      do throws(AnswerError) {
        try access.checkDefinition(definition)
        _ = try hub.install(definition) { conflict = DefinitionConflict(alias: alias, problem: $0.message) }
      } catch {
        throw DefinitionConflict(alias: alias, problem: error.message)
      }
    }
    storage.start()
    if let conflict { throw conflict }
  }

  private func tellStart(_ store: any ChannelStore) {
    log(
      .info, .store,
      store.isDurable
        ? "the store is \(store.place)"
        : "the store is memory: channels and what they remember end with this process",
      ["path": store.isDurable ? store.place : nil])
    log(
      .info, .started,
      "touchline \(TouchlineVersion.current) serves \(hub.channelCount) channels on \(([url] + [providerURL].compactMap(\.self)).joined(separator: " and "))",
      ["version": TouchlineVersion.current])
    warn()
    for note in keys?.notes ?? [] { log(.warning, .keys, note) }
    if access.isOpen {
      log(
        configuration.isReachable ? .warning : .info, .open,
        "no tokens are checked: whoever reaches this server may publish, read and delete (--keys changes that)"
      )
    }
  }

  /// Tells what is odd about the settings, though it works.
  private func warn() {
    tellOfAppsWithoutTeam()
    for server in [main, provider].compactMap(\.self) {
      guard let expiry = server.certificateExpiry.map({ Date(timeIntervalSince1970: Double($0)) }),
        expiry < Date(timeIntervalSinceNow: 14 * 86_400)
      else { continue }
      let address = ListenAddress(host: server.host, port: server.port)
      log(
        .warning, .certificate,
        "the certificate on \(address) \(expiry < Date() ? "expired" : "expires") on \(expiry.formatted(.iso8601)); clients refuse an expired one"
      )
    }
    guard !configuration.usesTLS, provider == nil else { return }
    if configuration.clientAuthority != nil {
      log(
        .warning, .setting,
        "client certificates are asked for on ports with TLS, and there is none; see --provider-listen and --tls"
      )
    }
    if configuration.certificate != nil {
      log(
        .warning, .setting,
        "the certificate isn't used, because no port speaks TLS; see --provider-listen and --tls")
    }
  }

  /// The server's own reference: the listeners hold the service as long as they live, and so do we.
  let service: Service

  /// What the port for providers is called, in the metrics and for who may read them.
  static let providerPortName = "provider"

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
      var options = options(configuration, address, try configuration.identity(log))
      options.name = providerPortName
      return try HTTPServer(loop: loop, options: options, gate: gate, service: service)
    } catch  where !configuration.insistsOnProviderListen && !configuration.namesCertificates {
      log(
        .warning, .providerOff,
        "the provider API with HTTP/2 and TLS is off: \(error); give it a place with --provider-listen, or turn it off there"
      )
      return nil
    }
  }

  /// Lets out what waits in the windows, parts with every session (see ``Goodbyes``), waits until they are gone, at most
  /// ``Limits/shutdownSeconds``, and stops the loop. A second call stops at once.
  public func shutDown() {
    guard !isStopping else { return stop() }
    isStopping = true
    log(.info, .stopping, "shutting down; \(registry.count) sessions are told")
    var hasBegun = false
    let begin = { [self] in
      guard !hasBegun else { return }
      hasBegun = true
      closeConnections()
    }
    hub.shutDown(begin)
    // A disk that stands still doesn't keep the server from ending: what it answered is stored.
    if !hasBegun { loop.schedule(after: Limits.shutdownSeconds, begin) }
  }

  private func closeConnections() {
    pushes.shutDown()
    main.stopAccepting()
    provider?.stopAccepting()
    sweep.stop()
    registry.sayGoodbye(on: loop)
    let deadline = loop.now + Limits.shutdownSeconds
    loop.schedule(after: 0, every: 0.01) { [self] in
      let isDrained = registry.count == 0 && (provider?.connectionCount ?? 0) == 0
      guard isDrained || loop.now >= deadline else { return }
      log.tellAllCounts()
      stop()
    }
  }

  private func stop() {
    hub.loops?.stop()
    loop.stop()
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
