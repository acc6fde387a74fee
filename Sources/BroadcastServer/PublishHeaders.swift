import BroadcastChannels
import EventLoop

/// What a broadcast and a push to one device have in common: the request's headers and payload, the answer's headers, and what
/// is logged of a payload.
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

extension HTTPRequest {
  /// Reads `apns-priority`; nil where it is missing.
  ///
  /// - Throws: `BadPriority`.
  func priority(to destination: Payload.Destination) throws(AnswerError) -> Priority? {
    guard let text = header("apns-priority") else { return nil }
    let priority = Int(text).flatMap { Priority(rawValue: $0) }
    let isForChannels = priority == .passive && destination == .device
    guard let priority, !isForChannels else {
      let expected = destination == .channel ? "10, 5 or 1" : "10 or 5"
      throw AnswerError(
        Refusal(
          .badPriority,
          "apns-priority is \"\(text.prefix(60))\"; \(expected) was expected\(isForChannels ? "; 1 is for broadcasts" : "")"
        ))
    }
    return priority
  }

  /// Reads the body.
  ///
  /// - Throws: `PayloadEmpty`, `PayloadTooLarge`, and what is wrong with its content.
  func payload(to destination: Payload.Destination) throws(Refusal) -> Payload {
    guard !body.isEmpty else {
      throw Refusal(.payloadEmpty, "the body is empty; a payload of the form {\"aps\":{…}} was expected")
    }
    guard !bodyTruncated, body.count <= destination.payloadBytes else {
      let size = bodyTruncated ? "more than \(body.count)" : "\(body.count)"
      let what = destination == .channel ? "a broadcast" : "a push to one device"
      throw Refusal(
        .payloadTooLarge, "the payload is \(size) bytes; \(what) may have \(destination.payloadBytes)")
    }
    do throws(PayloadError) {
      return try Payload(body: body, to: destination)
    } catch {
      throw error.refusal
    }
  }
}

extension ServerLog {
  /// Tells what devices will not take as meant. Keys and texts are the sender's.
  func payload(_ finding: Finding, of what: String, _ fields: KeyValuePairs<String, String?>) {
    self(
      .warning, .payload,
      "\(what): \(Redaction.text(finding.key)) \(Redaction.text(finding.message)) [\(finding.kind); further cases are not logged]",
      fields)
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
