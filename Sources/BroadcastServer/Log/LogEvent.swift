/// The kinds of lines in a server's log. The names are what an operator filters and alerts by, so they don't change.
public enum LogEvent: String, Sendable, CaseIterable {
  // What the server does.
  /// It serves.
  case started
  /// It ends: nothing new is taken.
  case stopping
  /// Nothing checks who publishes.
  case open
  /// A setting works and is probably not as meant.
  case setting
  /// SIGHUP took settings over.
  case settingsReloaded = "settings-reloaded"
  /// SIGHUP found settings that only count from the next start on.
  case restartNeeded = "restart-needed"
  /// SIGHUP found a broken configuration file: the old settings stay.
  case settingsRefused = "settings-refused"
  /// Keys were read again.
  case keysReloaded = "keys-reloaded"
  /// Keys can't be used: the old ones stay.
  case keysRefused = "keys-refused"
  /// Something about the keys is odd.
  case keys
  /// Certificates were read again.
  case certificatesReloaded = "certificates-reloaded"
  /// Certificates can't be used: the old ones stay.
  case certificatesRefused = "certificates-refused"
  /// A certificate was made, expires soon, or isn't used.
  case certificate
  /// The provider API's port is off.
  case providerOff = "provider-off"

  // Channels and their messages.
  /// A channel was made.
  case channelCreated = "channel-created"
  /// A channel was deleted.
  case channelDeleted = "channel-deleted"
  /// Channel definitions were read again.
  case channelsReloaded = "channels-reloaded"
  /// Channel definitions can't be used: the old ones stay.
  case channelsRefused = "channels-refused"
  /// A channel's definition is gone from its folder; the channel stays.
  case definitionGone = "definition-gone"
  /// A payload was accepted that devices will not take as meant.
  case payload
  /// A publisher leaves out what Apple requires.
  case omission
  /// Where the store is; that it failed or that its disk stands still, and that it works again.
  case store

  // Connections.
  /// There are no descriptors left.
  case noDescriptors = "no-descriptors"
  /// A client was turned away, because there are as many connections as there may be.
  case tooManyConnections = "too-many-connections"
  /// An address asks too often.
  case tooManyRequests = "too-many-requests"
  /// An address shows many bad tokens.
  case tooManyBadTokens = "too-many-bad-tokens"
  /// A TLS handshake broke off.
  case handshakeFailed = "handshake-failed"
  /// A secure port was asked in the clear.
  case notSecure = "not-secure"
  /// An HTTP/2 session was ended for what its peer did.
  case sessionEnded = "session-ended"

  // For who looks closely.
  /// A provider's request, with its answer.
  case request
  /// The log itself: lines were lost.
  case log

  /// Whether clients can bring about as many lines of it as they like: those that are equal are then counted.
  var comesInFloods: Bool {
    switch self {
    case .payload, .omission, .store, .noDescriptors, .tooManyConnections, .tooManyRequests,
      .tooManyBadTokens, .handshakeFailed, .notSecure, .sessionEnded:
      true
    default: false
    }
  }
}
