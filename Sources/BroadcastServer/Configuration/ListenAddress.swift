import EventLoop

/// Where a server listens.
public struct ListenAddress: Sendable, Hashable {
  /// A numeric address of this machine, or `localhost`.
  public var host: String
  /// The port; 0 takes a free one.
  public var port: UInt16

  /// Makes an address.
  public init(host: String = "127.0.0.1", port: UInt16) {
    self.host = host
    self.port = port
  }

  /// What ``read(_:)`` takes, in words for a message.
  public static let rule =
    "HOST:PORT was expected, such as 127.0.0.1:8080 or [::1]:0, the host being a numeric address or localhost, with a port from 0 to 65535"

  /// Whether only programs on this machine can reach it.
  public var isLoopback: Bool { host == "localhost" || NetworkAddress(host)?.isLoopback == true }

  /// Takes `HOST:PORT`, `[IPv6]:PORT`, `HOST` or `:PORT`; what isn't said stays as it is.
  ///
  /// - Returns: whether the text was one of these; otherwise nothing changed.
  public mutating func read(_ text: String) -> Bool {
    var rest = text[...]
    var name: Substring?
    var number = port
    if rest.first == "[" {
      guard let end = rest.firstIndex(of: "]") else { return false }
      name = rest[rest.index(after: rest.startIndex)..<end]
      rest = rest[rest.index(after: end)...]
    } else if let colon = rest.lastIndex(of: ":") {
      if colon != rest.startIndex { name = rest[..<colon] }
      rest = rest[colon...]
    } else {
      name = rest
      rest = ""
    }
    if !rest.isEmpty {
      guard rest.first == ":", let given = UInt16(rest.dropFirst()) else { return false }
      number = given
    }
    if let name {
      let isLocalhost = name.lowercased() == "localhost"
      // Not what the system would take besides, such as 0x0 for 0.0.0.0: who can reach it must be plain.
      guard isLocalhost || NetworkAddress(String(name)) != nil else { return false }
      host = isLocalhost ? "localhost" : String(name)
    }
    port = number
    return true
  }
}

extension ListenAddress: CustomStringConvertible {
  /// `HOST:PORT`, with brackets around an IPv6 address.
  public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
