import BroadcastChannels
import EventLoop
import Foundation

/// Apple's provider API for a push to one device: `POST /3/device/<token>`.
///
/// The order of the checks: path and method, provider token, `apns-id`, the token's form and whether it is known, topic,
/// whether the topic is the provider's and the token the topic's, push type, expiration, priority, collapse id, whether the token is still in use, payload present, its
/// size, its content, whether it is what this kind of token is for, and the rate.
/// Source: Apple, "Sending notification requests to APNs" and "Handling error responses from APNs".
struct DeviceAPI {
  let hub: Hub
  let pushes: PushRegistry
  let access: AccessControl
  let log: ServerLog

  /// Whether a path is this one, whatever stands in the token's place.
  static func owns(_ segments: [Substring]) -> Bool {
    segments.count == 3 && segments[0] == "3" && segments[1] == "device"
  }

  /// Answers a request, and tells what it found out about it.
  func answer(_ request: HTTPRequest, segments: [Substring]) -> ProviderAnswer {
    let given = request.header("apns-id")
    let id = given.flatMap { RequestID($0) }
    var facts = RequestFacts()
    let echoed = (id ?? hub.newRequestID()).text
    facts.requestID = echoed
    // Told even when the request is refused before the topic is looked at: its provider asks for it.
    facts.app = request.header("apns-topic").flatMap { try? PushTopic($0) }?.app.identifier
    var response: HTTPResponse
    do throws(AnswerError) {
      guard request.method == "POST" else {
        throw AnswerError.methodNotAllowed(request.method, allowed: ["POST"])
      }
      let caller = try access.provider(of: request)
      facts.provider = caller.providerName
      if let given, id == nil {
        throw refuse(
          .badMessageID,
          "apns-id is \"\(given.prefix(60))\"; a UUID such as 2288cf3f-70d8-46a6-97d7-dd5d00867127 was expected"
        )
      }
      response = try push(request, String(segments[2]), id, caller, &facts)
    } catch {
      facts.refused(error)
      response = error.providerResponse
    }
    response.headers.insert(("apns-id", echoed), at: 0)
    return ProviderAnswer(response: response, facts: facts)
  }

  private func push(
    _ request: HTTPRequest, _ text: String, _ id: RequestID?, _ caller: Caller, _ facts: inout RequestFacts
  ) throws(AnswerError) -> HTTPResponse {
    let token = try known(text)
    facts.app = token.app.identifier
    let topic = try topic(request)
    try access.checkPublishing(for: topic.app, by: caller)
    guard token.app == topic.app else {
      throw refuse(
        .deviceTokenNotForTopic, "the token belongs to another app than \(topic.app), which apns-topic names")
    }
    try request.checkPushType()
    let expiration = try request.expiration() ?? .once
    let priority = try request.priority(to: .device) ?? .immediate
    let collapseID = try collapseID(request)
    let entry: RegisteredToken
    switch token {
    case .current(let current): entry = current
    case .past(let past):
      if let answer = past.lastAnswer?.answer(to: id, at: hub.now) {
        facts.push = AcceptedPush(answer, pushes.records[answer.uniqueID], findings: [])
        return success(answer, nil)
      }
      var error = refuse(past.reason, "\(past.detail), since \(Self.iso(past.since))")
      error.goneSince = past.since
      throw error
    }
    if hub.isShuttingDown { throw refuse(.shutdown, "the server is shutting down; try again later") }
    let payload: Payload
    do throws(Refusal) { payload = try request.payload(to: .device) } catch { throw AnswerError(error) }
    let message = pushes.message(
      payload, requestID: id, priority: priority, expiration: expiration, collapseID: collapseID)
    do throws(Refusal) {
      let answer = try pushes.accept(message, for: entry)
      let findings = answer.isRepetition ? [] : diagnose(request.body, payload, entry, id)
      facts.push = AcceptedPush(answer, pushes.records[answer.uniqueID], findings: findings)
      return success(answer, entry)
    } catch {
      var refusal = AnswerError(error)
      if refusal.status == 429 { refusal.headers += entry.inbox.budgetReport(at: hub.now).headers }
      throw refusal
    }
  }

  private func success(_ answer: PushAnswer, _ entry: RegisteredToken?) -> HTTPResponse {
    var headers = [("apns-unique-id", answer.uniqueID.text), ("touchline-outcome", answer.outcome.rawValue)]
    if answer.isRepetition { headers.append(("touchline-repeated", "true")) }
    return HTTPResponse(
      status: 200, headers: headers + (entry?.inbox.budgetReport(at: hub.now).headers ?? []))
  }

  // MARK: The token

  private enum KnownToken {
    case current(RegisteredToken)
    case past(PastToken)

    var app: BundleID {
      switch self {
      case .current(let entry): entry.inbox.app
      case .past(let past): past.app
      }
    }
  }

  private func known(_ segment: String) throws(AnswerError) -> KnownToken {
    let text = segment.removingPercentEncoding ?? segment
    guard let token = PushToken(text) else {
      let isChannel = hub.knownRoom(text) != nil
      throw refuse(
        .badDeviceToken,
        isChannel
          ? "this names a channel; to publish into it, POST /4/broadcasts/apps/<bundle-id> with the header apns-channel-id"
          : PushToken.mistake(text))
    }
    switch pushes.find(token) {
    case (let entry?, _): return .current(entry)
    case (_, let past?): return .past(past)
    case (nil, nil):
      let hint =
        PushToken.isLike(text)
        ? "; tokens end with the server's run, and a device prints the one that it has now"
        : "; tokens here have \(2 * Limits.pushTokenBytes) digits, and this one \(token.hex.count)"
      throw refuse(.badDeviceToken, "no device has registered this token here\(hint)")
    }
  }

  // MARK: Headers

  private func topic(_ request: HTTPRequest) throws(AnswerError) -> PushTopic {
    guard let text = request.header("apns-topic"), !text.isEmpty else {
      throw refuse(
        .missingTopic, "the header apns-topic is missing; <bundle-id>\(PushTopic.suffix) was expected")
    }
    do throws(Refusal) { return try PushTopic(text) } catch { throw AnswerError(error) }
  }

  private func collapseID(_ request: HTTPRequest) throws(AnswerError) -> String? {
    guard let text = request.header("apns-collapse-id"), !text.isEmpty else { return nil }
    guard text.utf8.count <= Limits.collapseIDBytes else {
      throw refuse(
        .badCollapseID,
        "apns-collapse-id has \(text.utf8.count) bytes; at most \(Limits.collapseIDBytes) are allowed")
    }
    return text
  }

  // MARK: Payload

  /// Finds what would go wrong with a push on the device, such as a channel that a start names in vain, and logs each
  /// kind once a token: the sender is answered 200 all the same, as by Apple.
  private func diagnose(
    _ body: [UInt8], _ payload: Payload, _ entry: RegisteredToken, _ requestID: RequestID?
  ) -> [Finding] {
    var definition: ChannelDefinition?
    var findings: [Finding] = []
    if case .channel(let name) = payload.start?.input {
      definition = hub.knownRoom(name)?.definition
      if definition?.settings.app != entry.inbox.app {
        findings.append(
          Finding(
            .error, "unknown-channel", key: "aps.input-push-channel",
            "names no channel of the app; the device starts nothing",
            position: SourcePosition(line: 1, column: 1)))
      }
    }
    findings += PayloadDiagnosis.findings(body: body, to: .device, definition: definition, now: hub.now)
    let what = "a push to \(entry.token) (\(entry.registration.activity ?? "\(entry.inbox.app), start"))"
    for finding in findings where entry.isFirst(finding) {
      log.payload(
        finding, of: what,
        ["app": entry.inbox.app.identifier, "kind": finding.kind, "request": requestID?.text])
    }
    return findings
  }

  private static func iso(_ date: Date) -> String { date.formatted(.iso8601) }

  private func refuse(_ reason: RefusalReason, _ detail: String) -> AnswerError {
    AnswerError(Refusal(reason, detail))
  }
}
