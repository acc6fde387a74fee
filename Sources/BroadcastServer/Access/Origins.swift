import EventLoop

/// Which web pages may use a server.
///
/// A browser lets any page open a WebSocket to any server, and says in `Origin` which page it is; programs send none.
/// Source: RFC 6455, section 10.2; the Fetch standard's CORS protocol for the event streams.
struct Origins {
  /// Origins in lower case; nil for all.
  let allowed: Set<String>?

  /// - Throws: `OriginNotAllowed` for a page that may not.
  func check(_ request: HTTPRequest) throws(AnswerError) {
    guard let allowed, let origin = request.header("origin"), !allowed.contains(origin.lowercased()) else {
      return
    }
    throw AnswerError(
      status: 403, reason: "OriginNotAllowed",
      message: "pages of \"\(origin.prefix(100))\" may not use this server; it was started with --origins")
  }

  /// What lets a page of an allowed origin read the answer, a refusal as well. The answer depends on the origin also
  /// where there is none, which caches have to know.
  /// Source: the Fetch standard, "CORS protocol and HTTP caches".
  func headers(for request: HTTPRequest) -> [(String, String)] {
    guard let allowed else { return [] }
    guard let origin = request.header("origin"), allowed.contains(origin.lowercased()) else {
      return [("vary", "origin")]
    }
    return [("access-control-allow-origin", origin), ("vary", "origin")]
  }
}
