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
    "HOST:PORT was expected, such as 127.0.0.1:8080 or [::1]:0, with a port from 0 to 65535"

  /// Whether only programs on this machine can reach it. What is no numeric address can't be listened on, and so not be
  /// reached either.
  public var isLoopback: Bool {
    let name = host.lowercased()
    let isNumeric = name.contains(":") || name.allSatisfy { $0.isNumber || $0 == "." }
    return !isNumeric || name == "::1" || name.hasPrefix("127.") || name.hasPrefix("::ffff:127.")
  }

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
      guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !name.contains("["),
        !name.contains("]")
      else { return false }
      host = String(name)
    }
    port = number
    return true
  }
}

extension ListenAddress: CustomStringConvertible {
  /// `HOST:PORT`, with brackets around an IPv6 address.
  public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
