import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// What a client asks of its session: subscriptions, acknowledgements, messages, pressed buttons, push tokens.
extension Session {
  func carryOut(_ frame: ClientFrame) {
    switch frame.subject {
    case .channel(let name, let request): carryOut(request, name, frame)
    case .device(let request): carryOut(request, requestID: frame.requestID?.text)
    }
  }

  private func carryOut(_ request: ClientFrame.Request, _ name: String, _ frame: ClientFrame) {
    do throws(AnswerError) {
      let room = try room(name)
      switch request {
      case .subscribe(let since):
        guard isSubscribed(to: room.id) || subscriptionCount < Limits.subscriptionsPerSession
        else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session subscribes to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        try access.checkSubscribing(to: room, by: caller)
        subscribe(to: room, since: since, requestID: frame.requestID)
      case .unsubscribe: try unsubscribe(from: room, requestID: frame.requestID)
      case .acknowledge(let sequence, let displayed, let stale):
        try checkSubscription(room)
        let acknowledgement = Acknowledgement(
          sequence: sequence, displayed: displayed, stale: stale, name: name, requestID: frame.requestID)
        line?.acknowledge(acknowledgement, of: room.id)
      case .intent(let action):
        try access.checkSubscribing(to: room, by: caller)
        try countIntent()
        try pass(action, intentID: frame.requestID?.text ?? "", to: room)
      case .listen:
        let more = makeMore()
        guard more.listening[room.id] != nil || more.listening.count < Limits.subscriptionsPerSession else {
          throw AnswerError(
            status: 400, reason: "TooManySubscriptions",
            message:
              "a session listens to at most \(Limits.subscriptionsPerSession) channels; open another one")
        }
        try access.checkPublishing(for: room.channel.settings.app, by: caller)
        send(.listening(channel: room.channel.id.base64, requestID: frame.requestID?.text))
        more.listening[room.id] = room
        room.listen(self, at: hub.now)
      // Carried out apart: it goes into the request log.
      case .publish: break
      }
    } catch {
      send(.error(error.frame(channel: name, requestID: frame.requestID?.text)))
    }
  }

  private func carryOut(_ request: DeviceRequest, requestID: String?) {
    do throws(AnswerError) {
      switch request {
      case .register(let registration):
        try pushes.register(registration, for: self, requestID: requestID) { send(.registered($0)) }
      case .rotate(let token):
        send(.registered(try pushes.rotate(token, of: self, requestID: requestID)))
      case .unregister(let token, let reason):
        try pushes.unregister(token, of: self, reason: reason)
        send(.unregistered(token: token, reason: .requested, requestID: requestID))
      case .acknowledge(let token, let uniqueID, let isDisplayed):
        try pushes.acknowledge(token, uniqueID: uniqueID, isDisplayed: isDisplayed, of: self)
        send(.pushAcknowledged(token: token, uniqueID: uniqueID, requestID: requestID))
      }
    } catch {
      send(.error(error.frame(channel: nil, requestID: requestID)))
    }
  }

  private func room(_ name: String) throws(AnswerError) -> ChannelRoom {
    do throws(Refusal) { return try hub.room(named: name) } catch { throw AnswerError(error) }
  }

  /// Subscribes, or resumes: the newest stored message comes right after the answer, if it is newer.
  func subscribe(to room: ChannelRoom, since: StreamPosition?, requestID: RequestID?) {
    let seen = room.seen
    // Subscribing anew goes on: what was counted for this session isn't counted again, and what is on its way comes first.
    if isSubscribed(to: room.id) { line?.catchUp(room) } else { add(room) }
    send(
      .subscribed(
        SubscribedFrame(
          channel: room.channel.id.base64, alias: room.channel.alias?.name, position: seen.position,
          storagePolicy: room.channel.settings.storagePolicy, requestID: requestID?.text)))
    if let newest = seen.newest(after: since, at: hub.now) {
      line?.deliver(stored: room.broadcast(stored: newest))
    }
  }

  private func checkSubscription(_ room: ChannelRoom) throws(AnswerError) {
    guard isSubscribed(to: room.id) else {
      throw AnswerError(
        status: 400, reason: "NotSubscribed",
        message: "this session is not subscribed to the channel; subscribe first")
    }
  }

  private func unsubscribe(from room: ChannelRoom, requestID: RequestID?) throws(AnswerError) {
    try checkSubscription(room)
    drop(room, isForgotten: true)
    send(.unsubscribed(channel: room.id.base64, reason: "requested", requestID: requestID?.text))
  }

  /// A pressed button goes to everybody who listens, so that one session could make the server send any number of frames.
  private func countIntent() throws(AnswerError) {
    let more = makeMore()
    var bucket =
      more.intents
      ?? TokenBucket(
        capacity: Limits.intentBurst, refillPerSecond: Limits.intentsPerSecond, now: hub.now)
    defer { more.intents = bucket }
    guard bucket.take(at: hub.now) else {
      throw AnswerError(
        Refusal(
          .tooManyRequests, "a session passes on at most \(Int(Limits.intentsPerSecond)) intents a second",
          retryAfter: bucket.secondsToNext(at: hub.now)))
    }
  }

  private func pass(_ name: String, intentID: String, to room: ChannelRoom) throws(AnswerError) {
    let actions = room.definition.actions
    guard let action = actions.first(where: { $0.name == name }) else {
      let hint =
        actions.isEmpty ? "; it declares none" : Suggestion.phrase(for: name, among: actions.map(\.name))
      throw AnswerError(
        status: 400, reason: "UnknownAction",
        message: "\"\(name)\" is no action of the channel's definition\(hint)")
    }
    let channel = room.channel.id.base64
    let frame = IntentFrame(
      channel: channel, action: name, property: action.property, value: action.value, intentID: intentID)
    let isRepetition = room.pass(frame, at: hub.now)
    send(.intentAccepted(channel: channel, intentID: intentID, isRepetition: isRepetition))
  }

  func publish(_ publish: ClientFrame.Publish, _ name: String, requestID: RequestID?, bytes: Int) {
    let logged = logged(bytes)
    var facts = RequestFacts()
    facts.channel = name
    facts.provider = caller.providerName
    facts.requestID = requestID?.text
    do throws(AnswerError) {
      let room = try room(name)
      facts.found(room)
      try access.checkPublishing(for: room.channel.settings.app, by: caller)
      let found = facts
      hub.publish(
        publish.payload, requestID: requestID, priority: publish.priority,
        expiration: publish.expiration, into: room
      ) { [self] result in
        answer(result, in: room, name, requestID: requestID, logged, found)
      }
    } catch {
      answer(.failure(error), in: nil, name, requestID: requestID, logged, facts)
    }
  }

  private func answer(
    _ result: Result<Publication, AnswerError>, in room: ChannelRoom?, _ name: String, requestID: RequestID?,
    _ logged: LoggedRequest, _ facts: RequestFacts
  ) {
    var facts = facts
    var status = 200
    switch result {
    case .success(let publication):
      facts.publication = publication
      // Who hears its own channel has the message before the answer, and not at the end of the turn.
      if let room, isSubscribed(to: room.id) { line?.catchUpPublisher(room) }
      let published = publication.result
      send(
        .published(
          PublishedFrame(
            channel: facts.channel ?? name, requestID: requestID?.text, uniqueID: published.uniqueID.text,
            outcome: published.outcome, budget: JSONText(compacting: publication.budget.json.utf8),
            isRepetition: published.isRepetition)))
    case .failure(let error):
      facts.refused(error)
      status = error.status
      send(.error(error.frame(channel: name, requestID: requestID?.text)))
    }
    services.requests.add(logged, status: status, facts, clock: services.clock)
  }

  /// A `publish` frame was refused before its channel was looked for. A frame has no status: the log tells the one that
  /// the provider API would have answered.
  func log(refused frame: ErrorFrame, bytes: Int) {
    var facts = RequestFacts()
    facts.channel = frame.channel
    facts.requestID = frame.requestID
    facts.refused(frame.reason, frame.message)
    let status = RefusalReason(rawValue: frame.reason)?.status ?? 400
    services.requests.add(logged(bytes), status: status, facts, clock: services.clock)
  }

  private func logged(_ bytes: Int) -> LoggedRequest {
    let name = initialRoom.map { $0.channel.alias?.name ?? $0.id.pathSegment }
    return LoggedRequest(
      frame: bytes, path: name.map { "/v1/channels/\($0)/events" } ?? "/v1/events",
      remoteAddress: line?.remoteAddress ?? "", userAgent: userAgent, at: hub.now, clock: services.clock)
  }
}
