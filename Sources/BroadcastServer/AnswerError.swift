import BroadcastChannels
import SubscriberProtocol

/// A refusal on its way to a client: one of the API's codes, or one of the local interface's own.
struct AnswerError: Error {
  let status: Int
  let reason: String
  let message: String
  let retryAfter: Double?
  /// Further headers of the HTTP answer.
  var headers: [(String, String)] = []

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

  /// The same on the local interface, where an unknown channel is a path that isn't there.
  var asLocal: AnswerError {
    guard reason == RefusalReason.channelNotRegistered.rawValue else { return self }
    return AnswerError(status: 404, reason: reason, message: message, retryAfter: retryAfter)
  }

  /// The answer to a method that a path doesn't have, with the `allow` that RFC 9110 asks for.
  static func methodNotAllowed(_ method: String, allowed: [String]) -> AnswerError {
    let methods = allowed.joined(separator: ", ")
    var error = AnswerError(Refusal(.methodNotAllowed, "\(method) is not allowed here; \(methods) are"))
    error.headers = [("allow", methods)]
    return error
  }

  func frame(channel: String?, requestID: String?) -> ErrorFrame {
    ErrorFrame(
      reason: reason, message: message, channel: channel, requestID: requestID, retryAfter: retryAfter)
  }
}
