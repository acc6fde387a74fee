// Why: the little of a URL that both clients need, split without Foundation.

/// `scheme://host:port/path?query`; path and query stay as they are.
struct ClientURL {
  var host: String
  var port: UInt16
  var path: String
  var isSecure: Bool

  var address: String { joinAddress(host, port) }
  /// For the Host header: without the port when it is the scheme's own.
  var hostHeader: String {
    port == (isSecure ? 443 : 80)
      ? String(joinAddress(host, port).dropLast("\(port)".count + 1)) : joinAddress(host, port)
  }

  /// nil when it is not a URL of `scheme` or its secure form with an `s`, names no host, or has characters that end a request
  /// line.
  init?(_ url: String, scheme: String) {
    let lower = url.lowercased()
    isSecure = lower.hasPrefix(scheme + "s://")
    guard isSecure || lower.hasPrefix(scheme + "://"), url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      return nil
    }
    let rest = url.dropFirst(scheme.count + (isSecure ? 4 : 3))
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let target = rest.dropFirst(authority.count).prefix { $0 != "#" }
    path = target.hasPrefix("/") ? String(target) : "/" + target
    guard !authority.contains("@") else { return nil }
    var hostPart = authority
    port = isSecure ? 443 : 80
    if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
      guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
      port = number
      hostPart = authority[..<colon]
    }
    if hostPart.hasPrefix("["), hostPart.hasSuffix("]") { hostPart = hostPart.dropFirst().dropLast() }
    guard !hostPart.isEmpty else { return nil }
    host = String(hostPart)
  }
}
