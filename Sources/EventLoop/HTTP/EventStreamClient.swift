// Why: the far end of an event stream. It is lws' HTTP client, whose body never ends; what HTTPClient collects is told here
// as it comes.

import CLibwebsockets
import CLibwebsocketsShims

/// One stream of server-sent events. It connects when made and lives until it ended.
public final class EventStreamClient {
  /// What happens on the stream; always told on the loop's thread, never inside a call of the client.
  public enum Event {
    /// The server answered with a stream.
    case opened
    /// An event came.
    case event(ServerSentEvent)
    /// The server answered with something else; the body is what came of it, at most 64 KiB. The last thing that is told.
    case refused(status: Int, body: [UInt8])
    /// There is no stream, or no longer. The last thing that is told.
    case ended(HTTPClientError)
  }

  /// Bytes of an event; more ends the stream.
  public static let maxEventBytes = 1_048_576

  /// ``EventLoop/now`` when the server was last heard, be it a comment.
  public var lastHeard: Double { socket?.lastHeard ?? lastHeardAtStart }
  /// Seconds after which a server that ends wants to be asked again; nil when it said nothing of that.
  public var askedToRetry: Double? { socket?.askedToRetry }
  private let socket: EventStreamSocket?
  private let lastHeardAtStart: Double

  /// Starts to connect. A host name is looked up with a blocking call; a numeric address is not.
  /// - Parameters:
  ///   - url: `http://host:port/path?query` or `https://…`, path and query already encoded.
  ///   - headers: sent as they are with the request; values must not have line breaks.
  ///   - lastEventID: where to go on, as the last event said.
  ///   - connectTimeout: seconds until the answer must begin.
  public init(
    loop: EventLoop, url: String, headers: [(String, String)] = [], lastEventID: String? = nil,
    tls: ClientTLS = ClientTLS(), connectTimeout: Double = 10,
    handler: @escaping (Event) -> Void
  ) {
    guard let target = ClientURL(url, scheme: "http") else {
      socket = nil
      lastHeardAtStart = loop.now
      loop.soon { handler(.ended(.badRequest("GET \(url)"))) }
      return
    }
    lastHeardAtStart = loop.now
    let socket = EventStreamSocket(
      loop: loop, target: target, headers: headers, lastEventID: lastEventID, tls: tls, handler: handler)
    self.socket = socket
    socket.connect(timeout: connectTimeout)
  }

  /// Ends the stream; nothing more is told.
  public func close() { socket?.close() }
}

private final class EventStreamSocket: WebSocketEndpoint {
  private(set) var lastHeard: Double
  var askedToRetry: Double? { reader.askedToRetry }
  private let loop: EventLoop
  private let target: ClientURL
  private let headers: [(String, String)]
  private let tls: ClientTLS
  private var verdict: ServerVerdict
  private var handler: ((EventStreamClient.Event) -> Void)?
  private var reader: EventStreamReader
  private var refusal: (status: Int, body: [UInt8])?
  private var timer: LoopTimer?

  private static let maxRefusalBytes = 65_536

  init(
    loop: EventLoop, target: ClientURL, headers: [(String, String)], lastEventID: String?, tls: ClientTLS,
    handler: @escaping (EventStreamClient.Event) -> Void
  ) {
    self.loop = loop
    self.target = target
    let own = [("accept", "text/event-stream"), ("connection", "close")]
    self.headers = headers + own + (lastEventID.map { [("last-event-id", $0)] } ?? [])
    self.tls = tls
    verdict = ServerVerdict(host: target.host, isInsecure: tls.isInsecure)
    self.handler = handler
    lastHeard = loop.now
    reader = EventStreamReader(lastID: lastEventID, limit: EventStreamClient.maxEventBytes)
  }

  func connect(timeout: Double) {
    guard let context = try? loop.websocketsContext() else { return fail("the loop has ended") }
    timer = loop.schedule(after: timeout) { [weak self] in self?.timedOut() }
    do {
      if !(try context.request("GET", target, tls, endpoint: self)) { fail("connection refused") }
    } catch {
      end(.untrusted(address: target.address, reason: "\(error)"))
    }
  }

  override func trusts(_ verification: OpaquePointer, isTrusted: Bool) -> Bool {
    verdict.accepts(verification, isTrusted: isTrusted)
  }

  func close() {
    handler = nil
    let wsi = self.wsi
    finish()
    if let wsi { destroy(wsi) }
  }

  private func timedOut() {
    let wsi = self.wsi
    end(.timedOut(address: target.address))
    if let wsi { destroy(wsi) }
  }

  override func handle(
    _ reason: lws_callback_reasons, _ data: UnsafeMutableRawPointer?, _ count: Int
  ) -> Int32 {
    guard let wsi else { return 0 }
    switch reason {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
      return appendHeaders(headers, to: data, count)
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP: answered(Int(lws_http_client_http_response(wsi)))
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP: return readBody(wsi)
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ:
      if let data { return received(UnsafeRawBufferPointer(start: data, count: count)) }
    case LWS_CALLBACK_COMPLETED_CLIENT_HTTP:
      closed()
      return -1
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
      end(HTTPClientError(connectingTo: target, verdict, data, count))
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP, LWS_CALLBACK_WSI_DESTROY: closed()
    default: break
    }
    return 0
  }

  private func answered(_ status: Int) {
    lastHeard = loop.now
    timer?.cancel()
    timer = nil
    if status == 200 { tell(.opened) } else { refusal = (status, []) }
  }

  private func received(_ bytes: UnsafeRawBufferPointer) -> Int32 {
    lastHeard = loop.now
    if let before = refusal {
      refusal?.body.append(contentsOf: bytes.prefix(Self.maxRefusalBytes - before.body.count))
      return 0
    }
    do {
      for event in try reader.read(bytes) { tell(.event(event)) }
      return 0
    } catch {
      end(.tooLarge(address: target.address))
      return -1
    }
  }

  private func closed() {
    guard let refusal else { return fail("the connection was closed") }
    tell(.refused(status: refusal.status, body: refusal.body))
    handler = nil
    finish()
  }

  private func fail(_ reason: String) { end(.unreachable(address: target.address, reason: reason)) }

  private func end(_ error: HTTPClientError) {
    tell(.ended(error))
    handler = nil
    finish()
  }

  /// Queued, so that it never comes inside a callback of lws, where a connection can't be ended.
  private func tell(_ event: EventStreamClient.Event) {
    guard let handler else { return }
    loop.soon { handler(event) }
  }

  private func finish() {
    timer?.cancel()
    timer = nil
    if let context = try? loop.websocketsContext() { context.release(self) }
  }
}
