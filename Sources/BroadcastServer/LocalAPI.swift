import BroadcastChannels
import EventLoop
import Foundation

/// Touchline's own part of the HTTP interface: probes, channels with their rules and counts, and the streams.
struct LocalAPI {
  let services: SessionServices
  let monitoring: Monitoring
  var origins: Origins
  let startedAt: Date

  var hub: Hub { services.hub }
  private var pushes: PushRegistry { services.pushes }
  var registry: SessionRegistry { services.registry }
  var access: AccessControl { services.access }
  private var requests: RequestLog { services.requests }

  /// Where a path leads.
  private enum Route {
    case root
    case probe(Probe)
    case channels
    case channel(String)
    case stream(String)
    case message(channel: String, id: String)
    case push(String)
    case session
    case requests

    var methods: [String] {
      switch self {
      case .root, .probe, .stream, .message, .push, .session, .requests: ["GET", "HEAD"]
      case .channels: ["GET", "HEAD", "POST"]
      case .channel: ["GET", "HEAD", "DELETE"]
      }
    }

    /// Whether an answer has what is counted on every loop.
    var tellsCounts: Bool {
      switch self {
      case .channel, .message, .push, .requests: true
      case .probe(let probe): probe == .metrics
      case .root, .channels, .stream, .session: false
      }
    }
  }

  private static func route(_ segments: [Substring]) -> Route? {
    if segments == [""] { return .root }
    if segments.count == 1, let probe = Probe(rawValue: String(segments[0])) { return .probe(probe) }
    guard segments.first == "v1" else { return nil }
    if segments.count == 2, segments[1] == "channels" { return .channels }
    if segments.count == 2, segments[1] == "events" { return .session }
    if segments.count == 3, segments[1] == "pushes" { return .push(String(segments[2])) }
    if segments.count == 2, segments[1] == "requests" { return .requests }
    guard segments.count >= 3, segments[1] == "channels" else { return nil }
    guard let name = segments[2].removingPercentEncoding else { return nil }
    if segments.count == 3 { return .channel(name) }
    if segments.count == 4, segments[3] == "events" { return .stream(name) }
    if segments.count == 5, segments[3] == "messages" {
      return .message(channel: name, id: String(segments[4]))
    }
    return nil
  }

  // MARK: Requests

  /// Answers a request, or begins an event stream.
  func answer(_ request: HTTPRequest, segments: [Substring], _ exchange: HTTPExchange) {
    guard let loops = services.loops, Self.route(segments)?.tellsCounts == true else {
      return answerNow(request, segments: segments, exchange)
    }
    loops.settle { answerNow(request, segments: segments, exchange) }
  }

  private func answerNow(_ request: HTTPRequest, segments: [Substring], _ exchange: HTTPExchange) {
    do throws(AnswerError) {
      guard let route = Self.route(segments) else { throw notFound(segments) }
      guard route.methods.contains(request.method) else {
        throw AnswerError.methodNotAllowed(request.method, allowed: route.methods)
      }
      try origins.check(request)
      switch route {
      case .stream(let name): try stream(request, name, exchange)
      case .requests: try readRequests(request, exchange)
      case .channels where request.method == "POST": try create(request, exchange)
      case .channel(let name) where request.method == "DELETE": try delete(name, request, exchange)
      default:
        finish(.success(try response(to: request, route)), request, exchange)
      }
    } catch {
      finish(.failure(error), request, exchange)
    }
  }

  private func finish(
    _ result: Result<HTTPResponse, AnswerError>, _ request: HTTPRequest, _ exchange: HTTPExchange
  ) {
    var response: HTTPResponse
    switch result {
    case .success(let answer): response = answer
    case .failure(let error): response = Self.response(error)
    }
    response.headers += origins.headers(for: request)
    exchange.answer(response)
  }

  private func response(to request: HTTPRequest, _ route: Route) throws(AnswerError) -> HTTPResponse {
    // Whoever watches the server isn't told that a token expired.
    if case .probe(let probe) = route { return try response(to: request, probe) }
    let caller = try access.caller(of: request)
    switch route {
    case .root: return Self.text(welcome(for: caller))
    case .channels: return list(for: caller)
    case .channel(let name):
      let room = try room(name, caller)
      try access.checkSubscribing(to: room, by: caller)
      return Self.json(200, describe(room))
    case .message(let name, let id):
      let room = try room(name, caller)
      try access.checkSubscribing(to: room, by: caller)
      guard let record = room.messages[id.lowercased()] else {
        throw AnswerError(
          status: 404, reason: "MessageNotKnown",
          message:
            "the channel knows no message \"\(id.prefix(60))\"; it remembers the last \(Limits.messageRecordsPerChannel), by the unique id of the publish answer"
        )
      }
      return Self.json(200, record.json(channel: room.channel.id))
    case .push(let id):
      guard let record = pushes.records[UniqueID(text: id.lowercased())] else {
        throw AnswerError(
          status: 404, reason: "PushNotKnown",
          message:
            "no push \"\(id.prefix(60))\" is known; the last \(Limits.pushRecords) are, by the unique id of their answers"
        )
      }
      try access.checkPublishing(for: record.app, by: caller)
      return Self.json(200, record.json)
    case .session, .stream, .requests, .probe:
      var error = AnswerError(
        status: 426, reason: "UpgradeRequired",
        message:
          "/v1/events is a WebSocket; connect with \(request.peer.isSecure ? "wss" : "ws"):// and the subprotocol touchline.v1"
      )
      error.headers = [("upgrade", "websocket"), ("sec-websocket-version", "13")]
      throw error
    }
  }

  /// Decides on a WebSocket handshake.
  func upgrade(_ request: HTTPRequest, segments: [Substring]) -> UpgradeDecision {
    do throws(AnswerError) {
      try origins.check(request)
      switch Self.route(segments) {
      case .session:
        return .accept(session(request, by: try access.caller(of: request)).makeReceiver())
      case .stream(let name): return .accept(try session(request, name).makeReceiver())
      default:
        throw AnswerError(
          status: 404, reason: "BadPath",
          message: "no WebSocket here; connect to /v1/channels/<id-or-alias>/events or /v1/events")
      }
    } catch {
      var response = Self.response(error)
      response.headers += origins.headers(for: request)
      return .refuse(response)
    }
  }

  private func stream(_ request: HTTPRequest, _ name: String, _ exchange: HTTPExchange) throws(AnswerError) {
    let accept = request.header("accept")?.lowercased() ?? "*/*"
    guard accept.contains("text/event-stream") || (accept.contains("*/*") && !accept.contains("text/html"))
    else {
      throw AnswerError(
        status: 406, reason: "NotAcceptable",
        message:
          "this is a stream: connect a WebSocket, or ask with \"Accept: text/event-stream\" (curl -N does, and EventSource in a browser)"
      )
    }
    begin(try session(request, name).makeReceiver(), request, exchange)
  }

  private func begin(_ stream: any StreamHandler, _ request: HTTPRequest, _ exchange: HTTPExchange) {
    let headers = Self.streamHeaders + origins.headers(for: request)
    if request.method == "HEAD" {
      exchange.answer(HTTPResponse(status: 200, headers: headers))
    } else {
      exchange.stream(headers: headers, handler: stream)
    }
  }

  /// The session of one channel's stream.
  private func session(_ request: HTTPRequest, _ name: String) throws(AnswerError) -> Session {
    let caller = try access.caller(of: request)
    let position = try position(request)
    let room = try room(name, caller)
    try access.checkSubscribing(to: room, by: caller)
    return session(request, by: caller, initial: (room, position))
  }

  private func session(
    _ request: HTTPRequest, by caller: Caller, initial: (room: ChannelRoom, since: StreamPosition?)? = nil
  ) -> Session {
    Session(services, caller: caller, userAgent: request.header("user-agent"), initial: initial)
  }

  private static let streamHeaders = [("content-type", "text/event-stream"), ("cache-control", "no-store")]

  /// Where a stream resumes: `Last-Event-ID`, which a browser sends by itself, or the arguments `epoch` and `seq`.
  private func position(_ request: HTTPRequest) throws(AnswerError) -> StreamPosition? {
    if let text = request.header("last-event-id"), !text.isEmpty {
      guard let position = StreamPosition(text) else {
        throw badPosition(
          "Last-Event-ID is \"\(text.prefix(60))\"; EPOCH:SEQ, as the stream's events carry it, was expected")
      }
      return position
    }
    let epoch = request.query.first { $0.name == "epoch" }?.value
    let sequence = request.query.first { $0.name == "seq" }?.value
    switch (epoch, sequence) {
    case (nil, nil): return nil
    case (let epoch?, let sequence?):
      guard let position = StreamPosition("\(epoch):\(sequence)") else {
        throw badPosition("seq is \"\(sequence.prefix(60))\"; a sequence number was expected")
      }
      return position
    default: throw badPosition("epoch and seq resume only together")
    }
  }

  private func badPosition(_ message: String) -> AnswerError {
    AnswerError(status: 400, reason: "BadRequestParams", message: message)
  }

  private func room(_ name: String, _ caller: Caller) throws(AnswerError) -> ChannelRoom {
    do throws(Refusal) {
      return try hub.room(named: name) { access.maySee($0, caller) }
    } catch {
      throw AnswerError(error).asLocal
    }
  }

  // MARK: Request log

  /// The last provider requests, or a stream of them.
  private func readRequests(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(AnswerError) {
    let caller = try access.caller(of: request)
    try access.checkProvider(caller)
    // A token in the query belongs to the caller, not to the question.
    var query = try RequestQuery(request.query.filter { $0.name != "token" })
    if case .provider(let provider) = caller.kind { query.filter.reader = provider }
    guard request.header("accept")?.lowercased().contains("text/event-stream") == true else {
      var response = Self.json(200, requests.answer(query))
      response.headers += origins.headers(for: request)
      return exchange.answer(response)
    }
    // Which a browser sends by itself when it comes back.
    if let text = request.header("last-event-id"), !text.isEmpty {
      query.after = try RequestQuery.position("Last-Event-ID", text)
    }
    let next =
      query.after.map { requests.next(after: $0) }
      ?? requests.first(ofNewest: query.limit, taking: query.filter)
    let stream = RequestStream(services, caller: caller, filter: query.filter, next: next)
    begin(stream, request, exchange)
  }

  // MARK: Channels

  private func delete(
    _ name: String, _ request: HTTPRequest, _ exchange: HTTPExchange
  ) throws(AnswerError) {
    let caller = try access.caller(of: request)
    let room = try room(name, caller)
    try access.checkPublishing(for: room.channel.settings.app, by: caller)
    hub.delete(room) { [self] error in
      finish(error.map { .failure($0) } ?? .success(HTTPResponse(status: 204)), request, exchange)
    }
  }

  private func create(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(AnswerError) {
    let caller = try access.caller(of: request)
    try access.checkProvider(caller)
    let definition = try definition(request)
    try access.checkPublishing(for: definition.settings.app, by: caller)
    try access.checkDefinition(definition)
    hub.create(definition) { [self] result in
      let answer = result.map { room in
        var response = Self.json(201, describe(room))
        response.headers.append(("location", "/v1/channels/\(room.channel.id.pathSegment)"))
        return response
      }
      finish(answer, request, exchange)
    }
  }

  /// Reads the definition that a request brings.
  private func definition(_ request: HTTPRequest) throws(AnswerError) -> ChannelDefinition {
    let form = "{\"alias\": \"name\", \"definition\": {…}}, with a definition as in Channels/, was expected"
    guard !request.bodyTruncated else {
      throw AnswerError(
        status: 413, reason: "PayloadTooLarge",
        message: "the body has more than \(Limits.requestBodyBytes) bytes")
    }
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(request.body)
    } catch {
      throw AnswerError(
        status: 400, reason: "BadRequestPayload", message: "the body is not JSON: \(error); \(form)")
    }
    guard let members = document.root.members, let value = document.root["definition"],
      members.allSatisfy({ $0.name == "alias" || $0.name == "definition" })
    else { throw AnswerError(status: 400, reason: "BadRequestParams", message: form) }
    var alias: ChannelAlias?
    if let given = document.root["alias"], !given.isNull {
      alias = given.string.flatMap { ChannelAlias($0) }
      if alias == nil {
        throw AnswerError(
          status: 400, reason: "BadRequestParams",
          message: "the alias is \(given.described); \(ChannelAlias.rule)")
      }
    }
    do throws(Findings) {
      return try ChannelDefinition(value, alias: alias, in: document)
    } catch {
      throw AnswerError(status: 400, reason: "BadDefinition", message: error.description)
    }
  }

  private func list(for caller: Caller) -> HTTPResponse {
    let channels = hub.allRooms.filter { access.maySee($0, caller) }.map { room in
      JSONWriter.object([
        "id": JSONWriter.quoted(room.channel.id.base64),
        "alias": room.channel.alias.map { JSONWriter.quoted($0.name) },
        "app": JSONWriter.quoted(room.channel.settings.app.identifier),
        "message-storage-policy": String(room.channel.settings.storagePolicy.rawValue),
        "frequent-updates": String(room.channel.settings.frequentUpdates),
        "subscribers": String(room.subscriberCount), "seq": String(room.seen.position.sequence),
      ])
    }
    return Self.json(200, "{\"channels\":[\(channels.joined(separator: ","))]}")
  }

  private func describe(_ room: ChannelRoom) -> String {
    let channel = room.channel
    let counts = channel.counts
    return JSONWriter.object([
      "id": JSONWriter.quoted(channel.id.base64), "alias": channel.alias.map { JSONWriter.quoted($0.name) },
      "definition": room.definition.json,
      "epoch": JSONWriter.quoted(channel.position.epoch), "seq": String(room.seen.position.sequence),
      "subscribers": String(room.subscriberCount),
      "budget": channel.budgetReport(at: hub.now).json,
      "counts": JSONWriter.object([
        "accepted": String(counts.accepted), "delivered": String(counts.delivered),
        "windowed": String(counts.windowed), "demoted": String(counts.demoted),
        "superseded": String(counts.superseded), "dropped": String(counts.dropped),
        "rejected": String(counts.rejected), "repeated": String(counts.repeated),
        "written": String(room.counts.written), "conflated": String(room.counts.conflated),
        "acknowledged": String(room.counts.acknowledged),
      ]),
    ])
  }

  private func notFound(_ segments: [Substring]) -> AnswerError {
    AnswerError(
      status: 404, reason: "BadPath", message: "there is nothing at this path; GET / tells what there is")
  }

  // MARK: Responses

  /// The local interface's errors: the reason, and what to do.
  static func response(_ error: AnswerError) -> HTTPResponse {
    let body = JSONWriter.object([
      "reason": JSONWriter.quoted(error.reason), "message": JSONWriter.quoted(error.message),
    ])
    var response = json(error.status, body)
    response.headers += error.headers
    if let seconds = error.retryAfter {
      response.headers.append(("retry-after", String(Int(seconds.rounded(.up)))))
    }
    return response
  }

  static func json(_ status: Int, _ body: String) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [("content-type", "application/json")], body: Array("\(body)\n".utf8))
  }

  static func text(_ body: String) -> HTTPResponse {
    HTTPResponse(
      status: 200, headers: [("content-type", "text/plain; charset=utf-8")], body: Array(body.utf8))
  }
}
