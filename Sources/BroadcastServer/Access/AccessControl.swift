import BroadcastChannels
import Credentials
import EventLoop
import Foundation

/// Decides who may do what, by provider tokens, client certificates and subscribers' tokens.
///
/// Without keys and without client authorities everybody may do everything: the development mode.
final class AccessControl {
  private let verifier: TokenVerifier?
  private let takesCertificates: Bool
  private let certificates: CertificateRules
  private let isPaced: Bool
  private let visitors: Visitors
  private let now: () -> Date
  private let anybody = Caller(.anybody)
  private let stranger = Caller(.stranger)
  /// Hears of each request that was turned away because its address showed too many bad tokens.
  var turnedAway: (_ peer: HTTPPeer, _ isNews: Bool) -> Void = { _, _ in }

  /// - Parameter keys: nil when no tokens are checked.
  init(
    _ configuration: ServerConfiguration, keys: KeyRing?, visitors: Visitors = Visitors(),
    now: @escaping () -> Date
  ) {
    self.visitors = visitors
    verifier = keys.map { TokenVerifier(keys: $0, strict: configuration.strictness.contains(.tokenClaims)) }
    takesCertificates = configuration.clientAuthority != nil
    certificates = CertificateRules(environment: configuration.environment)
    isPaced = configuration.strictness.contains(.tokenRefresh)
    self.now = now
  }

  /// Whether everybody may do everything.
  var isOpen: Bool { verifier == nil && !takesCertificates }

  /// Takes other keys.
  func use(_ keys: KeyRing) { verifier?.use(keys) }

  // MARK: Who it is

  /// Who a request to the provider API comes from.
  ///
  /// - Throws: the API's reasons for a missing or bad token or certificate.
  func provider(of request: HTTPRequest) throws(AnswerError) -> Caller {
    if isOpen { return anybody }
    if let caller = try certified(request) { return caller }
    guard let verifier else {
      throw AnswerError(
        Refusal(
          .missingProviderToken,
          "this server takes client certificates and has no keys to check tokens with; connect with a certificate"
        ))
    }
    do throws(Refusal) {
      let token = try providerToken(of: request, verifier)
      try connection(of: request.peer).admit(token, now: now())
      return Caller(.provider(Provider(token, verifier)))
    } catch {
      throw AnswerError(error)
    }
  }

  /// The name of the provider that a request came from, for the request log; nil when it shows nothing good. It counts
  /// nowhere: not for the connection's team, nor its pace, nor as a bad token, unless nobody checked that token before.
  func providerName(of request: HTTPRequest) -> String? {
    if let caller = try? certified(request) { return caller.providerName }
    guard let verifier else { return nil }
    let header = request.header("authorization")
    if verifier.remembers(authorization: header) {
      return (try? verifier.provider(authorization: header, now: now())).map { Provider($0, verifier).name }
    }
    // A signature would be checked: made-up tokens are counted wherever they are sent, and once.
    guard visitors.mayShowCredential(from: request.peer.address, at: now()) else { return nil }
    return (try? providerToken(of: request, verifier)).map { Provider($0, verifier).name }
  }

  /// The one way to a provider's token: bad ones are counted.
  private func providerToken(
    of request: HTTPRequest, _ verifier: TokenVerifier
  ) throws(Refusal) -> ProviderToken {
    let header = request.header("authorization")
    try checkVisitor(request.peer, unless: verifier.remembers(authorization: header))
    do throws(Refusal) {
      return try verifier.provider(authorization: header, now: now())
    } catch {
      if error.reason == .invalidProviderToken { visitors.failed(from: request.peer.address, at: now()) }
      throw error
    }
  }

  /// Who has shown many bad tokens is answered for those alone that were checked before, which costs nothing.
  private func checkVisitor(
    _ peer: HTTPPeer, unless isRemembered: @autoclosure () -> Bool
  ) throws(Refusal) {
    do throws(Visitors.Refusal) {
      try visitors.checkCredential(from: peer.address, at: now())
    } catch {
      if isRemembered() { return }
      turnedAway(peer, error.isNews)
      throw Refusal(error, "too many bad tokens came")
    }
  }

  /// Who a request to Touchline's own interface, or a WebSocket handshake, comes from: a provider, a subscriber, or
  /// nobody known.
  ///
  /// - Throws: for a token that is there and not good.
  func caller(of request: HTTPRequest) throws(AnswerError) -> Caller {
    if isOpen { return anybody }
    if let caller = try certified(request) { return caller }
    guard let verifier else { return stranger }
    let presented: (text: String, place: SubscriberToken.Place)?
    do throws(SubscriberToken.Refusal) {
      presented = try SubscriberToken.extract(
        authorization: request.header("authorization").map { [$0] } ?? [],
        subprotocols: request.header("sec-websocket-protocol").map(listItems) ?? [],
        queryTokens: request.query.filter { $0.name == "token" }.map(\.value))
    } catch {
      throw AnswerError(error)
    }
    guard let presented else { return stranger }
    // What else is in the header is a provider's. Beside it there are subscribers' tokens alone: a URL is seen by too
    // many for a provider's.
    guard presented.place != .authorization || Self.isSubscriberToken(presented.text) else {
      return try provider(of: request)
    }
    do throws(Refusal) {
      try checkVisitor(request.peer, unless: verifier.remembers(presented.text))
    } catch {
      throw AnswerError(error)
    }
    do throws(SubscriberToken.Refusal) {
      return Caller(.subscriber(try verifier.subscriber(presented.text, now: now())))
    } catch {
      if case .invalid = error { visitors.failed(from: request.peer.address, at: now()) }
      throw AnswerError(error)
    }
  }

  private static func isSubscriberToken(_ text: String) -> Bool {
    guard let token = try? CompactJWS(text) else { return false }
    return TokenKind(header: token.header) == .subscriber
  }

  private func certified(_ request: HTTPRequest) throws(AnswerError) -> Caller? {
    guard takesCertificates, let certificate = request.peer.clientCertificate else { return nil }
    return Caller(.provider(try certificates.provider(certificate)))
  }

  private func connection(of peer: HTTPPeer) -> ProviderConnection {
    if let known = peer.userInfo as? ProviderConnection { return known }
    let new = ProviderConnection(rules: ConnectionTokenRules(pacing: isPaced))
    peer.userInfo = new
    return new
  }

  // MARK: What it may do

  /// - Throws: for a caller that is no provider.
  func checkProvider(_ caller: Caller) throws(AnswerError) {
    switch caller.kind {
    case .anybody, .provider: return
    case .stranger:
      throw AnswerError(
        Refusal(
          .missingProviderToken,
          "this takes a provider token; send it as \"authorization: bearer <token>\" (touchline's commands: --key FILE)"
        ))
    case .subscriber:
      throw AnswerError(
        Refusal(.invalidProviderToken, "this takes a provider token, and a subscriber token was sent"))
    }
  }

  /// - Throws: for a caller that may not publish into an app's channels, or make and delete them.
  func checkPublishing(for app: BundleID, by caller: Caller) throws(AnswerError) {
    try checkProvider(caller)
    if case .provider(let provider) = caller.kind, !provider.owns(app) {
      throw AnswerError(Refusal(.topicMismatch, "\(app) is no app of \(provider.name)"))
    }
  }

  /// - Throws: for a caller that may not subscribe to a channel, nor read what it is.
  func checkSubscribing(to room: ChannelRoom, by caller: Caller) throws(AnswerError) {
    guard rule(of: room.definition) == .token else { return }
    do throws(SubscriberToken.Refusal) {
      switch caller.kind {
      case .anybody: return
      case .stranger: throw .missing
      case .provider(let provider):
        guard !provider.owns(room.channel.settings.app) else { return }
        throw .notAllowed("the channel's app is no app of \(provider.name)")
      case .subscriber(let token):
        let app = room.channel.settings.app
        try token.check(channelID: room.channel.id, alias: room.channel.alias, app: app)
        guard verifier?.keys.teams[token.team.id]?.owns(app) != true else { return }
        throw .notAllowed("the channel's app is no longer one of the team \(token.team.id)")
      }
    } catch {
      throw AnswerError(error)
    }
  }

  /// Whether a caller may know of a channel: who may subscribe to it.
  func maySee(_ room: ChannelRoom, _ caller: Caller) -> Bool {
    (try? checkSubscribing(to: room, by: caller)) != nil
  }

  /// - Throws: for a definition that asks for tokens which the server has no keys to check.
  func checkDefinition(_ definition: ChannelDefinition) throws(AnswerError) {
    guard definition.subscribe == .token, verifier == nil else { return }
    throw AnswerError(
      status: 400, reason: "BadDefinition",
      message:
        "subscribe is \"token\", but the server has no keys to check tokens with; start it with --keys, or leave it out"
    )
  }

  /// Whether a caller is still who it was, after the keys changed.
  func recheck(_ caller: Caller) throws(AnswerError) {
    let (keyID, team): (KeyID?, TeamID?) =
      switch caller.kind {
      case .anybody, .stranger: (nil, nil)
      case .provider(let provider): (provider.keyID, provider.team)
      case .subscriber(let token): (token.keyID, token.team.id)
      }
    guard let keyID, let verifier else { return }
    guard verifier.keys.key(keyID)?.team.id == team else {
      throw AnswerError(
        status: 403, reason: "KeyWithdrawn",
        message: "the key \(keyID) that signed the token is no longer accepted")
    }
  }

  private func rule(of definition: ChannelDefinition) -> SubscribeRule {
    guard let verifier else { return .open }
    return definition.subscribe ?? verifier.keys.subscribeRule(for: definition.settings.app)
  }
}

/// What is kept of a connection's tokens.
private final class ProviderConnection {
  private var rules: ConnectionTokenRules

  init(rules: ConnectionTokenRules) { self.rules = rules }

  func admit(_ token: ProviderToken, now: Date) throws(Refusal) { try rules.admit(token, now: now) }
}

extension Provider {
  /// The team of a good token.
  fileprivate init(_ token: ProviderToken, _ verifier: TokenVerifier) {
    let end = token.issuedAt.addingTimeInterval(Limits.providerTokenSeconds)
    self.init(
      name: "the team \(token.team.id)", keyID: token.keyID, team: token.team.id,
      owns: { verifier.keys.teams[token.team.id]?.owns($0) ?? false },
      expires: token.expires.map { min($0, end) } ?? end)
  }
}

extension AnswerError {
  /// A subscriber's token that doesn't do.
  init(_ refusal: SubscriberToken.Refusal) {
    self.init(status: refusal.status, reason: refusal.reason, message: refusal.detail)
    if status == 401 { headers = [("www-authenticate", "Bearer realm=\"touchline\"")] }
  }
}
