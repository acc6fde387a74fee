import BroadcastChannels
import EventLoop

/// What an operator's tools ask the server for, and what a person sees who looks at it with a browser.
extension LocalAPI {
  /// What is asked by its path alone, and by nobody in particular.
  enum Probe: String {
    case health = "healthz"
    case ready = "readyz"
    case metrics
  }

  func response(to request: HTTPRequest, _ probe: Probe) throws(AnswerError) -> HTTPResponse {
    switch probe {
    case .health: return health
    case .ready:
      let (status, body) = monitoring.readiness.answer
      return Self.json(status, body)
    case .metrics:
      try monitoring.access.check(request)
      return HTTPResponse(
        status: 200, headers: [("content-type", Exposition.contentType)],
        body: Array(monitoring.exposition().utf8))
    }
  }

  private var health: HTTPResponse {
    let body = JSONWriter.object([
      "status": hub.isShuttingDown ? "\"shutting-down\"" : "\"ok\"", "channels": String(hub.channelCount),
      "sessions": String(registry.count),
      "uptime": JSONWriter.seconds(hub.now.timeIntervalSince(startedAt)),
    ])
    return Self.json(hub.isShuttingDown ? 503 : 200, body)
  }

  func welcome(for caller: Caller) -> String {
    let rooms = hub.allRooms.filter { access.maySee($0, caller) }
    let channels = rooms.prefix(20).map { room in
      "  \(room.channel.alias?.name ?? room.channel.id.base64)  (\(room.channel.settings.app), \(room.subscriberCount) subscribed)\n"
    }
    return """
      Touchline \(TouchlineVersion.current): a local stand-in for Apple's Live Activity broadcast channels.

      Publish    POST /4/broadcasts/apps/<bundle-id>            as to APNs, or: touchline publish CHANNEL
      Channels   GET|POST|DELETE /1/apps/<bundle-id>/channels   as to APNs
                 GET /v1/channels, /v1/channels/<id-or-alias>   settings, budget left, counts
      Push       POST /3/device/<token>                         as to APNs; touchline watch --push-token prints one
      Watch      /v1/channels/<id-or-alias>/events              WebSocket, or Accept: text/event-stream
                 /v1/events                                     WebSocket, subprotocol touchline.v1
      Requests   GET /v1/requests                               what was asked, answered, and came of it
      Health     GET /healthz, /readyz, /metrics

      Channels here (\(rooms.count)):
      \(channels.isEmpty ? "  none yet; create one with: touchline channel create NAME\n" : channels.joined())
      The API is described in docs/openapi.yaml, the streams in docs/asyncapi.yaml.

      """
  }
}
