import BroadcastChannels
import EventLoop
import Foundation

/// A provider request that waits for its answer: what the log tells of the asking side.
struct LoggedRequest {
  /// What carried it: `HTTP/1.1`, `HTTP/2`, or `WebSocket`.
  let transport: String
  let method: String
  /// Without a query, and with device tokens shortened.
  let path: String
  let remoteAddress: String
  let userAgent: String?
  /// The kind of the `authorization` header, never its content.
  let authorization: String?
  let bodyBytes: Int
  let receivedAt: Date
  /// When it began on a clock that never jumps, in seconds.
  let begun: Double

  /// A request over HTTP.
  ///
  /// - Parameters:
  ///   - now: the time of day.
  ///   - clock: seconds on a clock that never jumps, such as ``EventLoop/now``.
  init(_ request: HTTPRequest, at now: Date, clock: Double) {
    transport = "HTTP/\(request.peer.httpVersion)"
    method = Redaction.text(request.method)
    path = Redaction.path(request.rawPath)
    remoteAddress = request.peer.remoteAddress
    userAgent = request.header("user-agent").map(Redaction.text)
    authorization = request.header("authorization").map(Redaction.authorization)
    bodyBytes = request.body.count
    receivedAt = now
    begun = clock
  }

  /// A `publish` frame of a session.
  ///
  /// - Parameter bytes: those of the whole frame's text.
  init(frame bytes: Int, path: String, remoteAddress: String, userAgent: String?, at now: Date, clock: Double)
  {
    transport = "WebSocket"
    method = "publish"
    self.path = path
    self.remoteAddress = remoteAddress
    self.userAgent = userAgent.map(Redaction.text)
    authorization = nil
    bodyBytes = bytes
    receivedAt = now
    begun = clock
  }
}
