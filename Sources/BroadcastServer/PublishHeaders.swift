import BroadcastChannels
import EventLoop

/// What a broadcast and a push to one device have in common: headers of the request, and of the answer.
extension HTTPRequest {
  /// Whether `apns-push-type` says what it has to, in any case of letters.
  ///
  /// - Throws: `MissingPushType`, `InvalidPushType`.
  func checkPushType() throws(AnswerError) {
    guard let type = header("apns-push-type"), !type.isEmpty else {
      throw AnswerError(
        Refusal(.missingPushType, "the header apns-push-type is missing; liveactivity was expected"))
    }
    guard type.lowercased() == "liveactivity" else {
      throw AnswerError(
        Refusal(.invalidPushType, "apns-push-type is \"\(type.prefix(60))\"; liveactivity was expected"))
    }
  }

  /// Reads `apns-expiration`; nil where it is missing.
  ///
  /// - Throws: `BadExpirationDate`.
  func expiration() throws(AnswerError) -> Expiration? {
    guard let text = header("apns-expiration") else { return nil }
    guard let seconds = Int64(text), let expiration = Expiration(unixSeconds: seconds) else {
      throw AnswerError(
        Refusal(
          .badExpirationDate, "apns-expiration is \"\(text.prefix(60))\"; Unix seconds, or 0, were expected"))
    }
    return expiration
  }
}

extension BudgetReport {
  /// What is left, as an answer's headers; nothing without limits.
  var headers: [(String, String)] {
    [("ratelimit-policy", policyField), ("ratelimit", remainingField)].compactMap { name, field in
      field.map { (name, $0) }
    }
  }
}
