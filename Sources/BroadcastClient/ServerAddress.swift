import BroadcastChannels
import Foundation

/// Where a server is: the base of every URL.
public struct ServerAddress: Sendable, Hashable {
  /// The host, as it stands in a URL (an IPv6 address in brackets).
  public let host: String
  /// The port.
  public let port: UInt16

  /// The address of a server that was started without options.
  public static let standard = ServerAddress(host: "127.0.0.1", port: 8080)

  /// What is accepted, in words for a message.
  public static let rule = "http://HOST:PORT, such as http://127.0.0.1:8080,"

  init(host: String, port: UInt16) {
    self.host = host
    self.port = port
  }

  /// Reads `http://HOST:PORT`, `ws://HOST:PORT` or `HOST:PORT`; a trailing slash is forgiven.
  public init?(_ text: String) {
    var rest = text[...]
    for scheme in ["http://", "ws://"] where rest.lowercased().hasPrefix(scheme) {
      rest = rest.dropFirst(scheme.count)
    }
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    guard !rest.isEmpty, !rest.contains("/"), !rest.contains(" "), !rest.contains("@"), !rest.contains("?")
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
      self.init(host: String(rest[..<colon]), port: port)
    } else {
      self.init(host: String(rest), port: 80)
    }
  }

  /// An HTTP URL; the path must be encoded.
  public func http(_ path: String) -> String { "http://\(host):\(port)\(path)" }

  /// A WebSocket URL; the path must be encoded.
  public func webSocket(_ path: String) -> String { "ws://\(host):\(port)\(path)" }
}

extension ServerAddress: CustomStringConvertible {
  /// The HTTP URL of the server.
  public var description: String { "http://\(host):\(port)" }
}
