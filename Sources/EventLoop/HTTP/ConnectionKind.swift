/// What a connection of an ``HTTPServer`` is at the moment, for whoever counts them.
public enum ConnectionKind: String, Sendable, CaseIterable {
  /// Accepted, and nothing is known yet: a TLS handshake, or the first bytes are missing.
  case arriving
  /// HTTP/1.1, between two requests or with one.
  case http1
  /// HTTP/2, whatever number of requests and event streams is on it.
  case http2
  /// HTTP/1.1 with the endless answer of an event stream.
  case eventStream = "event_stream"
  /// An open WebSocket.
  case webSocket = "websocket"
  /// Ending, politely.
  case closing
}

extension HTTPServer {
  /// Connections of each kind; they sum up to ``connectionCount``. Costs a look at each that is no open WebSocket.
  public var connectionCounts: [(kind: ConnectionKind, count: Int)] {
    var counts = [ConnectionKind: Int]()
    counts[.webSocket] = connectionCount - connections.count
    for connection in connections.values { counts[Self.kind(of: connection), default: 0] += 1 }
    return ConnectionKind.allCases.map { ($0, counts[$0] ?? 0) }
  }

  private static func kind(of connection: any ServedConnection) -> ConnectionKind {
    switch connection {
    case is Arrival: return .arriving
    case is HTTP2Connection: return .http2
    case let http as HTTPConnection:
      if case .streaming = http.phase { return .eventStream }
      return .http1
    default: return .closing
    }
  }
}
