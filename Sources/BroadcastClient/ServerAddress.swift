import BroadcastChannels
import Foundation

/// Where a server is: the base of every URL.
public struct ServerAddress: Sendable, Hashable {
  /// The host, as it stands in a URL (an IPv6 address in brackets).
  public let host: String
  /// The port.
  public let port: UInt16
  /// Whether it speaks TLS: https and wss.
  public let isSecure: Bool

  /// The address of a server that was started without options.
  public static let standard = ServerAddress(host: "127.0.0.1", port: 8080, isSecure: false)

  /// What is accepted, in words for a message.
  public static let rule = "http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080,"

  init(host: String, port: UInt16, isSecure: Bool) {
    self.host = host
    self.port = port
    self.isSecure = isSecure
  }

  /// Reads `http://HOST:PORT`, `https://HOST:PORT`, the same with `ws` and `wss`, or `HOST:PORT`; a trailing slash is
  /// forgiven.
  public init?(_ text: String) {
    var rest = text[...]
    let scheme = ["http://", "ws://", "https://", "wss://"].first { rest.lowercased().hasPrefix($0) }
    let isSecure = scheme == "https://" || scheme == "wss://"
    rest = rest.dropFirst(scheme?.count ?? 0)
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    // Names in other letters have an ASCII form for URLs (RFC 3490), and a combining mark would join the slash before it.
    guard !rest.isEmpty, rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !rest.contains("/"),
      !rest.contains("@"), !rest.contains("?")
    else {
      return nil
    }
    let hasPort =
      rest.lastIndex(of: ":").map { $0 > (rest.lastIndex(of: "]") ?? rest.startIndex) || !rest.contains("]") }
      ?? false
    if hasPort, let colon = rest.lastIndex(of: ":") {
      guard let port = UInt16(rest[rest.index(after: colon)...]), port > 0, colon != rest.startIndex else {
        return nil
      }
      self.init(host: String(rest[..<colon]), port: port, isSecure: isSecure)
    } else {
      // Without a port only a URL can be meant, and its port is HTTP's.
      guard scheme != nil else { return nil }
      self.init(host: String(rest), port: isSecure ? 443 : 80, isSecure: isSecure)
    }
  }

  /// An HTTP URL; the path must be encoded.
  public func http(_ path: String) -> String { "\(self)\(path)" }

  /// A WebSocket URL; the path must be encoded.
  public func webSocket(_ path: String) -> String { "\(isSecure ? "wss" : "ws")://\(host):\(port)\(path)" }
}

extension ServerAddress: CustomStringConvertible {
  /// The HTTP URL of the server.
  public var description: String { "\(isSecure ? "https" : "http")://\(host):\(port)" }
}
