import BroadcastChannels
import EventLoop
import Foundation

/// Apple's provider API for broadcast channels: the same paths, headers, statuses and reasons.
///
/// The order of the checks is the documented one: path and method, provider token, channel id present and well-formed, push type,
/// expiration's form, priority, channel registered, policy against expiration, payload present, its size, its content.
/// Source: "Sending channel management requests to APNs" and "Sending broadcast push notification requests to APNs".
struct ProviderAPI {
  let hub: Hub
  let access: AccessControl
  let strictness: Set<ServerConfiguration.Strictness>

  private enum Route {
    case channels(String)
    case allChannels(String)
    case broadcast(String)

    /// The bundle id in the path, as it was written.
    var bundle: String {
      switch self {
      case .channels(let bundle), .allChannels(let bundle), .broadcast(let bundle): bundle
      }
    }

    var methods: [String] {
      switch self {
      case .channels: ["GET", "POST", "DELETE"]
      case .allChannels: ["GET"]
      case .broadcast: ["POST"]
      }
    }
  }

  private static func route(_ segments: [Substring]) -> Route? {
    if segments.count == 4, segments[0] == "1", segments[1] == "apps" {
      if segments[3] == "channels" { return .channels(String(segments[2])) }
      if segments[3] == "all-channels" { return .allChannels(String(segments[2])) }
    }
    if segments.count == 4, segments[0] == "4", segments[1] == "broadcasts", segments[2] == "apps" {
      return .broadcast(String(segments[3]))
    }
    return nil
  }

  /// Whether a path looks like one of this API, so that its errors have this API's form.
  static func owns(_ segments: [Substring]) -> Bool {
    segments.first.map { !$0.isEmpty && $0.allSatisfy(\.isNumber) } ?? false
  }

  /// Takes the answer to a request, with what was found out about it.
  private typealias Reply = (Result<HTTPResponse, AnswerError>, RequestFacts) -> Void

  /// Answers a request, now or when what it changes is stored, and tells what it found out about it.
  func answer(
    _ request: HTTPRequest, segments: [Substring], _ done: @escaping (ProviderAnswer) -> Void
  ) {
    let given = request.header("apns-request-id")
    let requestID = given.flatMap { RequestID($0) }
    let echoed = (requestID ?? hub.newRequestID()).text
    var facts = RequestFacts()
    facts.requestID = echoed
    let reply: Reply = { result, facts in
      var answer: ProviderAnswer
      switch result {
      case .success(let response): answer = ProviderAnswer(response: response, facts: facts)
      case .failure(let error):
        answer = ProviderAnswer(response: error.providerResponse, facts: facts)
        answer.facts.refused(error)
      }
      answer.response.headers.insert(("apns-request-id", echoed), at: 0)
      done(answer)
    }
    do throws(AnswerError) {
      try accept(request, segments: segments, requestID: requestID, given: given, &facts, reply)
    } catch {
      reply(.failure(error), facts)
    }
  }

  /// Replies, unless it throws.
  private func accept(
    _ request: HTTPRequest, segments: [Substring], requestID: RequestID?, given: String?,
    _ facts: inout RequestFacts, _ reply: @escaping Reply
  ) throws(AnswerError) {
    guard let route = Self.route(segments) else {
      throw refuse(
        .badPath,
        "no such path; the API has /1/apps/<bundle-id>/channels, /1/apps/<bundle-id>/all-channels, /4/broadcasts/apps/<bundle-id> and /3/device/<token>"
      )
    }
    guard route.methods.contains(request.method) else {
      throw AnswerError.methodNotAllowed(request.method, allowed: route.methods)
    }
    facts.app = route.bundle
    let caller = try access.provider(of: request)
    facts.provider = caller.providerName
    if let given, requestID == nil {
      throw refuse(
        .badMessageID,
        "apns-request-id is \"\(given.prefix(60))\"; a UUID such as 2288cf3f-70d8-46a6-97d7-dd5d00867127 was expected"
      )
    }
    switch route {
    case .channels(let bundle):
      let app = try app(bundle, caller)
      switch request.method {
      case "POST": try create(request, app, facts, reply)
      case "GET": reply(.success(try read(request, app, &facts)), facts)
      default: try delete(request, app, &facts, reply)
      }
    case .allChannels(let bundle): reply(.success(try list(try app(bundle, caller))), facts)
    case .broadcast(let bundle):
      try broadcast(request, try app(bundle, caller), requestID, &facts, reply)
    }
  }

  private func app(_ bundle: String, _ caller: Caller) throws(AnswerError) -> BundleID {
    guard let app = BundleID(bundle.removingPercentEncoding ?? bundle) else {
      throw refuse(
        .badPath, "\"\(bundle.prefix(60))\" in the path is no bundle id (letters, digits, '-' and '.')")
    }
    guard !app.hasPushTypeSuffix else {
      throw refuse(
        .topicDisallowed, "the bundle id has a push-type suffix; leave it out on channel and broadcast paths")
    }
    try access.checkPublishing(for: app, by: caller)
    return app
  }

  // MARK: Management

  private func create(
    _ request: HTTPRequest, _ app: BundleID, _ facts: RequestFacts, _ reply: @escaping Reply
  ) throws(AnswerError) {
    hub.create(ChannelDefinition(settings: try settings(request, app))) { result in
      var facts = facts
      if case .success(let room) = result { facts.found(room) }
      reply(
        result.map { room in
          HTTPResponse(status: 201, headers: [("apns-channel-id", room.channel.id.base64)])
        }, facts)
    }
  }

  private func settings(_ request: HTTPRequest, _ app: BundleID) throws(AnswerError) -> ChannelSettings {
    let form = "{\"message-storage-policy\": 0 or 1, \"push-type\": \"LiveActivity\"}"
    guard !request.body.isEmpty else {
      throw refuse(.payloadEmpty, "the body is empty; \(form) was expected")
    }
    guard request.body.count <= Limits.broadcastPayloadBytes, !request.bodyTruncated else {
      throw refuse(.payloadTooLarge, "the body is too large; \(form) was expected")
    }
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(request.body)
    } catch {
      throw refuse(.badRequestPayload, "the body is not JSON: \(error)")
    }
    guard let members = document.root.members else {
      throw refuse(.badRequestPayload, "the body is \(document.root.described); \(form) was expected")
    }
    let known = ["message-storage-policy", "push-type"]
    if let unknown = members.first(where: { !known.contains($0.name) }) {
      throw refuse(
        .badRequestParams,
        "\"\(unknown.name)\" is no attribute of a channel\(Suggestion.phrase(for: unknown.name, among: known)); \(form) was expected"
      )
    }
    guard let type = document.root["push-type"] else {
      throw refuse(.missingPushType, "\"push-type\" is missing; \(form) was expected")
    }
    guard type.string?.lowercased() == "liveactivity" else {
      throw refuse(.invalidPushType, "\"push-type\" is \(type.described); \"LiveActivity\" was expected")
    }
    guard let policy = document.root["message-storage-policy"],
      let number = policy.number?.int, let storagePolicy = StoragePolicy(rawValue: Int(clamping: number))
    else {
      throw refuse(
        .badRequestParams,
        "\"message-storage-policy\" is \(document.root["message-storage-policy"]?.described ?? "missing"); 0 (nothing stored) or 1 (most recent message stored) was expected"
      )
    }
    return ChannelSettings(app: app, storagePolicy: storagePolicy)
  }

  private func read(
    _ request: HTTPRequest, _ app: BundleID, _ facts: inout RequestFacts
  ) throws(AnswerError) -> HTTPResponse {
    let room = try registered(try channelName(request, &facts), app, &facts)
    let body =
      "{\"message-storage-policy\":\(room.channel.settings.storagePolicy.rawValue),\"push-type\":\"LiveActivity\"}"
    return HTTPResponse(status: 200, headers: [("content-type", "application/json")], body: Array(body.utf8))
  }

  private func delete(
    _ request: HTTPRequest, _ app: BundleID, _ facts: inout RequestFacts, _ reply: @escaping Reply
  ) throws(AnswerError) {
    let room = try registered(try channelName(request, &facts), app, &facts)
    let found = facts
    hub.delete(room) { error in
      reply(error.map { .failure($0) } ?? .success(HTTPResponse(status: 204)), found)
    }
  }

  private func list(_ app: BundleID) throws(AnswerError) -> HTTPResponse {
    let ids = hub.rooms(of: app).map { JSONWriter.quoted($0.channel.id.base64) }.joined(separator: ",")
    return HTTPResponse(
      status: 200, headers: [("content-type", "application/json")],
      body: Array("{\"channels\":[\(ids)]}".utf8))
  }

  // MARK: Broadcast

  private func broadcast(
    _ request: HTTPRequest, _ app: BundleID, _ requestID: RequestID?, _ facts: inout RequestFacts,
    _ reply: @escaping Reply
  ) throws(AnswerError) {
    let name = try channelName(request, &facts)
    try request.checkPushType()
    let expiration = try expiration(request)
    let priority = try priority(request)
    let room = try registered(name, app, &facts)
    noteOmissions(request, room, &facts)
    let found = facts
    let payload = Result { () throws(Refusal) in try request.payload(to: .channel) }
    hub.publish(
      payload, requestID: requestID, priority: priority ?? .immediate,
      expiration: expiration ?? .once, into: room
    ) { result in
      var facts = found
      facts.publication = try? result.get()
      reply(result.map(response).mapError { withBudget($0, of: room) }, facts)
    }
  }

  private func response(_ publication: Publication) -> HTTPResponse {
    let result = publication.result
    var headers = [("apns-unique-id", result.uniqueID.text), ("touchline-outcome", result.outcome.rawValue)]
    if result.isRepetition { headers.append(("touchline-repeated", "true")) }
    return HTTPResponse(status: 200, headers: headers + publication.budget.headers)
  }

  /// Whoever was refused for budget or rate is told what is left of them.
  private func withBudget(_ error: AnswerError, of room: ChannelRoom) -> AnswerError {
    guard error.status == 429 else { return error }
    var refusal = error
    refusal.headers += room.channel.budgetReport(at: hub.now).headers
    return refusal
  }

  /// Reads the channel's name as far as it is well-formed: an id, or the alias of a channel that is there.
  private func channelName(
    _ request: HTTPRequest, _ facts: inout RequestFacts
  ) throws(AnswerError) -> String {
    guard let name = request.header("apns-channel-id"), !name.isEmpty else {
      throw refuse(.missingChannelID, "the header apns-channel-id is missing")
    }
    facts.channel = name
    guard ChannelID(name) != nil || hub.knownRoom(name) != nil else {
      throw refuse(
        .badChannelID,
        "apns-channel-id is \"\(name.prefix(60))\"; base64 with padding, as create answered it, was expected")
    }
    return name
  }

  private func registered(
    _ name: String, _ app: BundleID, _ facts: inout RequestFacts
  ) throws(AnswerError) -> ChannelRoom {
    guard let room = hub.knownRoom(name), room.channel.settings.app == app else {
      // The digits of a push token are base64 as well.
      throw refuse(
        .channelNotRegistered,
        PushToken.isLike(name)
          ? "this is a device's push token; a push to a device is POST /3/device/<token>"
          : "the app \(app) has no channel \(name); was it deleted, or created for another app?")
    }
    facts.found(room)
    return room
  }

  private func expiration(_ request: HTTPRequest) throws(AnswerError) -> Expiration? {
    guard request.header("apns-expiration") != nil || !strictness.contains(.headers) else {
      throw refuse(
        .badExpirationDate, "the header apns-expiration is missing; 0, or Unix seconds, were expected")
    }
    return try request.expiration()
  }

  private func priority(_ request: HTTPRequest) throws(AnswerError) -> Priority? {
    guard request.header("apns-priority") != nil || !strictness.contains(.headers) else {
      throw refuse(.badPriority, "the header apns-priority is missing; 10, 5 or 1 was expected")
    }
    return try request.priority(to: .channel)
  }

  /// Real senders leave out headers that Apple documents as required; they are told once.
  private func noteOmissions(_ request: HTTPRequest, _ room: ChannelRoom, _ facts: inout RequestFacts) {
    for (name, meaning) in [("apns-priority", "10"), ("apns-expiration", "0")]
    where request.header(name) == nil {
      facts.defaults.append((name, meaning))
      hub.note(name, "a broadcast came without \(name), which Apple requires; taken as \(meaning)", in: room)
    }
  }

  private func refuse(_ reason: RefusalReason, _ detail: String) -> AnswerError {
    AnswerError(Refusal(reason, detail))
  }
}
