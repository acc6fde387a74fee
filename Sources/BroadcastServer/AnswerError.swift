import BroadcastChannels
import EventLoop
import Foundation
import SubscriberProtocol

/// A refusal on its way to a client: one of the API's codes, or one of the local interface's own.
struct AnswerError: Error {
  let status: Int
  let reason: String
  let message: String
  let retryAfter: Double?
  /// Further headers of the HTTP answer.
  var headers: [(String, String)] = []
  /// Since when a push token is no more, with 410.
  var goneSince: Date?

  init(status: Int, reason: String, message: String, retryAfter: Double? = nil) {
    self.status = status
    self.reason = reason
    self.message = message
    self.retryAfter = retryAfter
  }

  init(_ refusal: Refusal) {
    self.init(
      status: refusal.reason.status, reason: refusal.reason.rawValue, message: refusal.detail,
      retryAfter: refusal.retryAfter)
  }

  /// What has to be stored can't be, and nothing has changed.
  static let storeFailed = AnswerError(.storeFailed)

  /// The same on the local interface, where an unknown channel is a path that isn't there.
  var asLocal: AnswerError {
    guard reason == RefusalReason.channelNotRegistered.rawValue else { return self }
    return AnswerError(status: 404, reason: reason, message: message, retryAfter: retryAfter)
  }

  /// The answer to a method that a path doesn't have, with the `allow` that RFC 9110 asks for.
  static func methodNotAllowed(_ method: String, allowed: [String]) -> AnswerError {
    let methods = allowed.joined(separator: ", ")
    var error = AnswerError(
      Refusal(
        .methodNotAllowed, "\(method) is not allowed here; \(methods) \(allowed.count == 1 ? "is" : "are")"))
    error.headers = [("allow", methods)]
    return error
  }

  /// The answer of the provider API: Apple's body, and what to do in a header, for which that body has no room.
  var providerResponse: HTTPResponse {
    let body = JSONWriter.object([
      "reason": JSONWriter.quoted(reason),
      "timestamp": goneSince.map { String(Int64(($0.timeIntervalSince1970 * 1_000).rounded(.down))) },
    ])
    // A header's value has visible ASCII only (RFC 9110, section 5.5).
    let detail = message.replacing("…", with: "...").unicodeScalars.map {
      (0x20..<0x7F).contains($0.value) ? Character($0) : "?"
    }
    return HTTPResponse(
      status: status,
      headers: [("content-type", "application/json"), ("touchline-detail", String(detail))]
        + (retryAfter.map { [("retry-after", String(Int($0.rounded(.up))))] } ?? []) + headers,
      body: Array(body.utf8))
  }

  func frame(channel: String?, requestID: String?) -> ErrorFrame {
    ErrorFrame(
      reason: reason, message: message, channel: channel, requestID: requestID, retryAfter: retryAfter)
  }
}

extension Refusal {
  /// What has to be stored can't be, and nothing has changed.
  static let storeFailed = Refusal(
    .serviceUnavailable, "the server can't store this now; try again later",
    retryAfter: Limits.storeRetrySeconds)

  /// Nothing is taken any more.
  static let shuttingDown = Refusal(.shutdown, "the server is shutting down; try again later")
}
