import BroadcastChannels
import Credentials
import Foundation

/// Who speaks for a provider: a team by its token, or a client certificate.
struct Provider {
  /// What it is called in logs: the team, or the certificate's name.
  let name: String
  /// The key that signed its token; nil for a certificate.
  let keyID: KeyID?
  /// The key's team; nil for a certificate.
  let team: TeamID?
  /// Whether an app is its own.
  let owns: (BundleID) -> Bool
  /// Until when this holds; nil for as long as the connection.
  let expires: Date?
}

/// Who a request or a session comes from, and what was shown for it. Shared, because thousands of sessions are the same
/// anybody.
final class Caller {
  enum Kind {
    /// Somebody, on a server that checks no tokens.
    case anybody
    /// Somebody without a token, on a server that checks them.
    case stranger
    case provider(Provider)
    case subscriber(SubscriberToken)
  }

  let kind: Kind

  init(_ kind: Kind) { self.kind = kind }

  /// The provider's name, for the request log; nil for everybody else.
  var providerName: String? { if case .provider(let provider) = kind { provider.name } else { nil } }

  /// When it stops holding.
  var expires: Date? {
    switch kind {
    case .anybody, .stranger: nil
    case .provider(let provider): provider.expires
    case .subscriber(let token): token.expires
    }
  }

  /// Closes a connection when what was shown for it expires.
  ///
  /// - Returns: what cancels that; nil when nothing expires.
  func closeWhenExpired(
    in environment: HubEnvironment, _ close: @escaping (_ code: UInt16, _ reason: String) -> Void
  ) -> (() -> Void)? {
    guard let expires else { return nil }
    return environment.schedule(max(0, expires.timeIntervalSince(environment.now()))) {
      close(4001, "the token expired; connect again with a new one")
    }
  }
}
