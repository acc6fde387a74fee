import BroadcastChannels
import Credentials
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
      throw BrokenToken(
        description:
          "\(shown(path))can't be read, or is empty; the path of a file with a token was expected, not the token"
      )
    }
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
    var token = Array(data)[...]
    while token.last.map(isBlank) == true { token.removeLast() }
    guard range.contains(token.count), token.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw BrokenToken(
        description:
          "\(Redaction.text(path)): one word of \(range.lowerBound) to \(range.upperBound) visible ASCII characters was expected; 'openssl rand -hex 32' makes one"
      )
    }
    return Array(token)
  }

  /// The path with a colon, for a message. Somebody may have put the token there: what names no folder that exists isn't repeated.
  private static func shown(_ path: String) -> String {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
    guard path.contains("/"), FileManager.default.fileExists(atPath: folder) else { return "" }
    return "\(Redaction.text(path)): "
  }

  /// - Throws: `MetricsForbidden` for who may not.
  func check(_ request: HTTPRequest) throws(AnswerError) {
    if rule == .all || (rule == .local && Self.isLocal(request)) { return }
    if let token, let shown = Self.bearer(request), isSameSecret(token, shown.utf8) { return }
    let ways =
      token == nil ? "; --metrics and --metrics-token say who may" : "; show the token of --metrics-token"
    throw AnswerError(
      status: 403, reason: "MetricsForbidden",
      message: "the metrics are \(rule == .off ? "for nobody" : "for this machine alone")\(ways)")
  }

  /// A proxy on this machine brings everybody, and says so in one of these. One that carries TLS on to the provider port can say
  /// nothing, so that nobody is local there.
  private static func isLocal(_ request: HTTPRequest) -> Bool {
    guard request.peer.address?.isLoopback == true, request.peer.listener != BroadcastServer.providerPortName
    else { return false }
    return ["forwarded", "x-forwarded-for", "x-real-ip", "via"].allSatisfy { request.header($0) == nil }
  }

  private static func bearer(_ request: HTTPRequest) -> String? {
    let words = request.header("authorization")?.split(separator: " ") ?? []
    guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
    return String(words[1])
  }
}
