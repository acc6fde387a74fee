import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation

/// The server: one port that speaks HTTP/1.1, WebSocket and server-sent events, on a loop that its owner runs.
public final class BroadcastServer {
  private let loop: EventLoop
  private let hub: Hub
  private let registry: SessionRegistry
  private let http: HTTPServer
  private let log: ServerLog
  private var isStopping = false

  /// Opens the store, takes over the definitions, and listens.
  ///
  /// - Parameters:
  ///   - loop: the loop that carries the connections; everything happens on its thread.
  ///   - definitions: channels that must exist; one that is missing is created.
  /// - Throws: ``EventLoopError`` when it can't listen, ``StoreError`` when the store can't be read,
  ///   ``DefinitionConflict`` when a definition can't be taken over.
  public init(
    loop: EventLoop, configuration: ServerConfiguration, store: any ChannelStore,
    definitions: [ChannelDefinition] = [], log: ServerLog
  ) throws {
    self.loop = loop
    self.log = log
    let environment = HubEnvironment(
      now: { Date() },
      schedule: { seconds, body in
        let timer = loop.schedule(after: seconds, body)
        return { timer.cancel() }
      })
    hub = Hub(store: store, environment: environment, log: log)
    try hub.load()
    for definition in definitions {
      do throws(AnswerError) {
        try hub.install(definition)
      } catch {
        throw DefinitionConflict(alias: definition.alias?.name ?? "", problem: error.message)
      }
    }
    registry = SessionRegistry(loop: loop, keepAlive: configuration.keepAlive)
    var options = ServerOptions(host: configuration.host, port: configuration.port)
    options.maxHeaderBytes = Limits.requestHeaderBytes
    options.maxBodyBytes = Limits.requestBodyBytes
    options.maxMessageBytes = Limits.inboundFrameBytes
    options.handshakeTimeout = configuration.handshakeSeconds
    options.subprotocols = ["touchline.v1"]
    var random = environment.random
    let requests = RequestLog(epoch: StreamPosition.randomEpoch(using: &random), log: log)
    let service = Service(
      loop: loop, requests: requests, provider: ProviderAPI(hub: hub),
      local: LocalAPI(hub: hub, registry: registry, requests: requests, startedAt: Date()))
    http = try HTTPServer(loop: loop, options: options, service: service)
    self.service = service
  }

  /// The server's own reference: the listener holds the service as long as it lives, and so do we.
  private let service: Service

  /// The address that it really listens on, such as `127.0.0.1:8080`.
  public var address: String {
    http.host.contains(":") ? "[\(http.host)]:\(http.port)" : "\(http.host):\(http.port)"
  }

  /// The port that it really listens on.
  public var port: UInt16 { http.port }

  /// Lets out what waits in the windows, closes every connection with 1001, waits until they are gone, at most
  /// ``Limits/shutdownSeconds``, and stops the loop. A second call stops at once.
  public func shutDown() {
    guard !isStopping else {
      loop.stop()
      return
    }
    isStopping = true
    log(.info, "shutting down; \(registry.count) sessions are told")
    hub.shutDown()
    http.stopAccepting()
    registry.stop()
    registry.closeAll(code: 1001, reason: "the server is shutting down")
    let deadline = loop.now + Limits.shutdownSeconds
    loop.schedule(after: 0, every: 0.01) { [self] in
      if registry.count == 0 || loop.now >= deadline { loop.stop() }
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

/// Sends each request to the part of the interface that it belongs to.
private final class Service: HTTPService {
  private let loop: EventLoop
  private let requests: RequestLog
  private let provider: ProviderAPI
  private let local: LocalAPI

  init(loop: EventLoop, requests: RequestLog, provider: ProviderAPI, local: LocalAPI) {
    self.loop = loop
    self.requests = requests
    self.provider = provider
    self.local = local
  }

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    let segments = Self.segments(request)
    if ProviderAPI.owns(segments) {
      let logged = LoggedRequest(request, at: provider.hub.now, clock: loop.now)
      let answer = provider.answer(request, segments: segments)
      let answered = loop.now
      exchange.answer(answer.response)
      requests.add(logged, status: answer.response.status, answer.facts, clock: answered)
    } else {
      local.answer(request, segments: segments, exchange)
    }
  }

  func upgrade(_ request: HTTPRequest) -> UpgradeDecision {
    local.upgrade(request, segments: Self.segments(request))
  }

  /// The path's segments before percent-decoding, so that an encoded slash stays inside its segment.
  private static func segments(_ request: HTTPRequest) -> [Substring] {
    request.rawPath.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
  }
}
