import BroadcastChannels
import EventLoop
import Foundation

/// Who may read `/metrics`: they name every app's channels, so that a team's provider token doesn't count for it.
struct MetricsAccess {
  /// A token's file that can't be used.
  struct BrokenToken: Error, CustomStringConvertible {
    let description: String
  }

  private let rule: ServerConfiguration.MetricsAccess
  private let token: [UInt8]?

  /// - Throws: when the token's file can't be read, or has no secret in it.
  init(_ configuration: ServerConfiguration) throws(BrokenToken) {
    rule = configuration.metricsAccess
    token = try configuration.metricsToken.map { path throws(BrokenToken) in try Self.readToken(path) }
  }

  private static func readToken(_ path: String) throws(BrokenToken) -> [UInt8] {
    let range = Limits.metricsTokenBytes
    guard let handle = FileHandle(forReadingAtPath: path),
      let data = try? handle.read(upToCount: range.upperBound + 1), !data.isEmpty
    else {
      throw BrokenToken(description: "\(path): can't be read, or is empty; a file with a token was expected")
    }
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
    var token = Array(data)[...]
    while token.last.map(isBlank) == true { token.removeLast() }
    guard range.contains(token.count), token.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw BrokenToken(
        description:
          "\(path): one word of \(range.lowerBound) to \(range.upperBound) visible ASCII characters was expected; 'openssl rand -hex 32' makes one"
      )
    }
    return Array(token)
  }

  /// - Throws: `MetricsForbidden` for who may not.
  func check(_ request: HTTPRequest) throws(AnswerError) {
    if rule == .all || (rule == .local && Self.isLocal(request)) { return }
    if let token, let shown = Self.bearer(request), Self.isSame(token, Array(shown.utf8)) { return }
    let ways =
      token == nil ? "; --metrics and --metrics-token say who may" : "; show the token of --metrics-token"
    throw AnswerError(
      status: 403, reason: "MetricsForbidden",
      message: "the metrics are \(rule == .off ? "for nobody" : "for this machine alone")\(ways)")
  }

  /// A proxy on this machine brings everybody, and says so in one of these.
  private static func isLocal(_ request: HTTPRequest) -> Bool {
    let address = request.peer.remoteAddress
    guard address == "::1" || address.hasPrefix("127.") else { return false }
    return ["forwarded", "x-forwarded-for", "x-real-ip", "via"].allSatisfy { request.header($0) == nil }
  }

  private static func bearer(_ request: HTTPRequest) -> String? {
    let words = request.header("authorization")?.split(separator: " ") ?? []
    guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
    return String(words[1])
  }

  /// Takes as long whatever is the same, so that time tells nothing of the token.
  private static func isSame(_ token: [UInt8], _ shown: [UInt8]) -> Bool {
    guard token.count == shown.count else { return false }
    return zip(token, shown).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
