import BroadcastChannels
import EventLoop
import Foundation

/// How a server is set up. ``Setting`` describes each part; ``LayeredConfiguration`` puts them together.
public struct ServerConfiguration: Sendable, Hashable {
  /// What a server can be strict about. Real senders do each of these, so it is off unless somebody asks for it.
  public enum Strictness: String, Sendable, Hashable, CaseIterable {
    /// A broadcast without `apns-priority` or `apns-expiration` is refused: Apple documents both as required.
    case headers
    /// A provider token's claims have the documented types alone.
    case tokenClaims = "token-claims"
    /// A new provider token less than 20 minutes after the last one on a connection is refused.
    case tokenRefresh = "token-refresh"
  }

  /// Which of Apple's two environments a server stands in for. It decides which client certificates fit.
  public enum Environment: String, Sendable, Hashable, CaseIterable {
    case development, production
  }

  /// Who may read `/metrics` without a token.
  public enum MetricsAccess: String, Sendable, Hashable, CaseIterable {
    /// Programs on this machine that didn't come through a proxy.
    case local
    /// Everybody.
    case all
    /// Nobody.
    case off
  }

  /// The address to listen on: this machine alone, unless somebody says otherwise.
  public var listen = ListenAddress(port: 8080)
  /// Whether that port speaks TLS.
  public var usesTLS = false
  /// Where the provider API listens with TLS; nil for nowhere.
  public var providerListen: ListenAddress? = ListenAddress(port: 8443)
  /// Whether the server fails when it can't have ``providerListen``: so when somebody named it. The default port may
  /// belong to another server on this machine.
  public var insistsOnProviderListen = false
  /// The PEM file of the certificate and its chain; nil for the development authority's.
  public var certificate: String?
  /// The PEM file of the certificate's key.
  public var certificateKey: String?
  /// The folder of the development authority; nil for its standard place.
  public var tlsFolder: String?
  /// The PEM file of the authorities whose client certificates are accepted in place of provider tokens.
  public var clientAuthority: String?
  /// The folder of the keys that tokens are checked with; nil lets everybody in.
  public var keys: String?
  /// Whether to listen without ``keys`` where other machines can reach it.
  public var isOpenToAll = false
  /// What the server is strict about.
  public var strictness: Set<Strictness> = []
  /// The environment that client certificates must be for.
  public var environment = Environment.development
  /// The web origins whose pages may connect; nil for all.
  public var origins: Set<String>?
  /// The SQLite file; nil for the standard one, see ``storePath(environment:)``.
  public var store: String?
  /// Whether channels are kept in memory alone.
  public var keepsInMemory = false
  /// The folder of channel definitions.
  public var channels: String?
  /// How many loops carry messages to subscribers, each in a thread of its own; the first one has the rules as well.
  public var loops = ServerConfiguration.availableProcessors
  /// How silent peers are found.
  public var keepAlive = KeepAlive(ping: Limits.pingSeconds, silence: Limits.silenceSeconds)
  /// Seconds for a whole request or handshake. No key of a configuration file: tests alone want another.
  public var handshakeSeconds = Limits.handshakeSeconds
  /// What clients may use of the server.
  public var limits = ServerLimits()
  /// What is logged.
  public var logLevel = ServerLog.Level.info
  /// How a line of the log looks.
  public var logFormat = LogFormat.text
  /// Who may read `/metrics` without a token.
  public var metricsAccess = MetricsAccess.local
  /// The file of the token that lets anybody read `/metrics`; nil for none.
  public var metricsToken: String?

  /// The defaults.
  public init() {}

  /// Whether other machines can reach one of its ports.
  public var isReachable: Bool { !listen.isLoopback || providerListen?.isLoopback == false }

  /// Takes `HOST:PORT`, `[IPv6]:PORT`, `HOST` or `:PORT`.
  ///
  /// - Returns: what was expected, when the text is none of these.
  public mutating func setListen(_ text: String) -> String? { listen.read(text) ? nil : ListenAddress.rule }

  /// Takes an address as ``setListen(_:)``, or `off`.
  public mutating func setProviderListen(_ text: String) -> String? {
    guard text != "off" else {
      providerListen = nil
      return nil
    }
    var address = providerListen ?? ListenAddress(port: 8443)
    guard address.read(text) else { return "\"off\" or \(ListenAddress.rule)" }
    providerListen = address
    insistsOnProviderListen = true
    return nil
  }

  /// Takes a path, or `memory`.
  public mutating func setStore(_ text: String) -> String? {
    guard !text.isEmpty else { return "a path or \"memory\" was expected" }
    keepsInMemory = text == "memory"
    store = keepsInMemory ? nil : text
    return nil
  }

  /// How many processors this process may use: ``Limits/loops`` at most.
  public static var availableProcessors: Int {
    min(EventLoop.availableProcessors, Limits.loops)
  }

  /// The file that channels are kept in: the one that was named, or `touchline/channels.sqlite` in the user's folder of
  /// state (XDG Base Directory Specification).
  ///
  /// - Returns: nil when the environment names no such folder and no home.
  public func storePath(environment: [String: String]) -> String? {
    if let store { return store }
    // "All paths set in these environment variables must be absolute. If [one] encounters a relative path [it] should
    // consider the path invalid and ignore it."
    if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") {
      return "\(state)/touchline/channels.sqlite"
    }
    guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
    return "\(home)/.local/state/touchline/channels.sqlite"
  }

  /// Takes web origins.
  public mutating func setOrigins(_ texts: [String]) -> String? {
    let expected = "origins such as https://scores.example.com, without a path, were expected"
    guard texts.allSatisfy(Self.isOrigin), !texts.isEmpty else { return expected }
    origins = Set(texts.map { $0.lowercased() })
    return nil
  }

  private static func isOrigin(_ text: String) -> Bool {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, parts[1].hasPrefix("//"), !parts[0].isEmpty else { return false }
    return parts[1].count > 2 && !parts[1].dropFirst(2).contains { "/ ?#@".contains($0) }
  }
}
