import BroadcastChannels
import EventLoop

/// Sends each request to the part of the interface that it belongs to.
final class Service: HTTPService {
  private let loop: EventLoop
  private let requests: RequestLog
  private let visitors: Visitors
  private let provider: ProviderAPI
  private let device: DeviceAPI
  var local: LocalAPI
  private let log: ServerLog

  init(
    loop: EventLoop, services: SessionServices, visitors: Visitors, monitoring: Monitoring,
    configuration: ServerConfiguration, log: ServerLog
  ) {
    let (hub, access) = (services.hub, services.access)
    self.loop = loop
    self.visitors = visitors
    self.log = log
    requests = services.requests
    provider = ProviderAPI(hub: hub, access: access, strictness: configuration.strictness)
    device = DeviceAPI(hub: hub, pushes: services.pushes, access: access, log: log)
    local = LocalAPI(
      services: services, monitoring: monitoring, origins: Origins(allowed: configuration.origins),
      startedAt: hub.now)
    provider.access.turnedAway = { [weak self] in self?.turnedAway($0, isNews: $1) }
  }

  func noticed(_ trouble: ConnectionTrouble, from remoteAddress: String) {
    let (level, event): (ServerLog.Level, LogEvent) =
      switch trouble {
      case .noDescriptors: (.warning, .noDescriptors)
      case .tooManyConnections: (.warning, .tooManyConnections)
      case .handshakeFailed: (.info, .handshakeFailed)
      case .notSecure: (.info, .notSecure)
      case .sessionEnded: (.info, .sessionEnded)
      }
    switch trouble {
    case .noDescriptors: provider.hub.metrics.refusedClient(.descriptors)
    case .tooManyConnections(.tooMany): provider.hub.metrics.refusedClient(.connections)
    case .tooManyConnections(.tooManyFromAddress): provider.hub.metrics.refusedClient(.addressConnections)
    default: break
    }
    // Whoever makes trouble on purpose comes from many addresses.
    log(
      level, event, "\(trouble)", ["remote": remoteAddress.isEmpty ? nil : remoteAddress], key: "\(trouble)")
  }

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    let segments = Self.segments(request)
    if let refusal = refusal(of: request) {
      exchange.answer(
        ProviderAPI.owns(segments) ? refusal.providerResponse : LocalAPI.response(refusal))
    } else if ProviderAPI.owns(segments) {
      let logged = LoggedRequest(request, at: provider.hub.now, clock: loop.now)
      if DeviceAPI.owns(segments) {
        finish(device.answer(request, segments: segments), request, logged, exchange)
      } else {
        provider.answer(request, segments: segments) { [self] in finish($0, request, logged, exchange) }
      }
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
      provider.hub.metrics.refusedClient(.addressRequests)
      if error.isNews {
        log(
          .warning, .tooManyRequests,
          "\(request.peer.remoteAddress) asks too often, and is answered 429 for a while",
          ["remote": request.peer.remoteAddress], key: "")
      }
      return AnswerError(Refusal(error, "too many requests come"))
    }
  }

  /// Somebody who showed many bad tokens was answered 429. What was checked before goes on, so it is no refusal of everything.
  private func turnedAway(_ peer: HTTPPeer, isNews: Bool) {
    provider.hub.metrics.refusedClient(.addressCredentials)
    guard isNews else { return }
    log(
      .warning, .tooManyBadTokens,
      "\(peer.remoteAddress) shows too many bad tokens, and is answered 429 for new ones for a while",
      ["remote": peer.remoteAddress], key: "")
  }

  private func finish(
    _ answer: ProviderAnswer, _ request: HTTPRequest, _ logged: LoggedRequest, _ exchange: HTTPExchange
  ) {
    var facts = answer.facts
    // Refused before anybody asked who it is: whose request it was decides who finds it in the log.
    if facts.provider == nil, facts.refusal != nil {
      facts.provider = provider.access.providerName(of: request)
    }
    let answered = loop.now
    exchange.answer(answer.response)
    requests.add(logged, status: answer.response.status, facts, clock: answered)
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
