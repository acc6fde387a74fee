// Why: one request, one connection, one answer. Keep-alive of lws' client is left out: its queue of
// pipelined transactions fails all that wait when the server closes.

import CLibwebsockets
import CLibwebsocketsShims

/// Why a request got no answer.
public enum HTTPClientError: Error, Equatable, CustomStringConvertible {
  /// Not an `http://` or `https://` URL, or a method that is none.
  case badRequest(String)
  /// Nobody listens there, or the connection broke before the answer was whole.
  case unreachable(address: String, reason: String)
  /// The server's certificate doesn't do.
  case untrusted(address: String, reason: String)
  /// No whole answer in time.
  case timedOut(address: String)
  /// The answer's body is longer than 1 MiB.
  case tooLarge(address: String)

  /// One line for a log.
  public var description: String {
    switch self {
    case .badRequest(let what): "\(what) cannot be requested"
    case .unreachable(let address, let reason): "no answer from \(address): \(reason)"
    case .untrusted(let address, let reason): "no connection to \(address): \(reason)"
    case .timedOut(let address): "\(address) did not answer in time"
    case .tooLarge(let address): "\(address) answered with more than 1 MiB"
    }
  }
}

/// A whole answer.
public struct HTTPClientResponse: Sendable, Equatable {
  /// The status code.
  public var status: Int
  /// The headers that were asked for and are there, by lower-case name.
  public var headers: [String: String]
  /// The body, without transfer coding.
  public var body: [UInt8]
}

/// Sends HTTP/1.1 requests, each over its own connection.
public final class HTTPClient {
  private let loop: EventLoop
  private let tls: ClientTLS

  /// Makes a client; it holds no connection by itself.
  /// - Parameter tls: for `https://` URLs.
  public init(loop: EventLoop, tls: ClientTLS = ClientTLS()) {
    self.loop = loop
    self.tls = tls
  }

  /// Sends a request. Redirects are not followed.
  /// - Parameters:
  ///   - url: `http://host:port/path?query`, or `https://`, path and query already encoded. A host name is looked up with
  ///     a blocking call.
  ///   - timeout: seconds until the whole answer must be there.
  ///   - readableHeaders: lower-case names of the answer's headers to read.
  ///   - completion: called once, on the loop's thread, never inside this call.
  public func send(
    method: String = "GET", url: String, headers: [(String, String)] = [], body: [UInt8] = [],
    timeout: Double = 10, readableHeaders: [String] = [],
    completion: @escaping (Result<HTTPClientResponse, HTTPClientError>) -> Void
  ) {
    guard let target = ClientURL(url, scheme: "http"), !method.isEmpty, method.utf8.allSatisfy(isTokenByte)
    else {
      loop.soon { completion(.failure(.badRequest("\(method) \(url)"))) }
      return
    }
    let transfer = Transfer(
      loop: loop, target: target, tls: tls, method: method, body: body, readable: readableHeaders,
      completion: completion)
    transfer.start(headers: headers, timeout: timeout)
  }
}

extension LibwebsocketsContext {
  /// Starts an HTTP/1.1 request. `false`: it failed at once and `endpoint` hears nothing.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  func request(
    _ method: String, _ target: ClientURL, _ tls: ClientTLS, endpoint: WebSocketEndpoint
  ) throws(EventLoopError) -> Bool {
    var info = lws_client_connect_info()
    info.port = Int32(target.port)
    info.local_protocol_name = Statics.cString(Statics.protocolName)
    info.ssl_connection = Int32(LCCSCF_HTTP_NO_FOLLOW_REDIRECT.rawValue)
    return try withCStrings([target.host, target.path, target.hostHeader, method]) {
      strings throws(EventLoopError) in
      info.address = strings[0]
      info.path = strings[1]
      info.host = strings[2]
      info.method = strings[3]
      return try connect(&info, tls: target.isSecure ? tls : nil, endpoint: endpoint)
    }
  }
}

/// Lets lws read what has come of an answer's body; it says so through LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ.
func readBody(_ wsi: OpaquePointer) -> Int32 {
  var room = [CChar](repeating: 0, count: 16_384)
  return room.withUnsafeMutableBufferPointer { buffer in
    var start = buffer.baseAddress
    var count = Int32(buffer.count)
    return lws_http_client_read(wsi, &start, &count) < 0 ? -1 : 0
  }
}

extension HTTPClientError {
  private static let refused = "connection refused"
  /// What lws says when the kernel refused the connection (lib/core-net/close.c).
  private static let lwsRefused = "closed before established"

  /// Why no connection came about (LWS_CALLBACK_CLIENT_CONNECTION_ERROR): what was wrong with the server's certificate, or
  /// lws' own words.
  init(
    connectingTo target: ClientURL, _ verdict: ServerVerdict, _ data: UnsafeMutableRawPointer?, _ count: Int
  ) {
    if target.isSecure, let refusal = verdict.refusal {
      self = .untrusted(address: target.address, reason: refusal)
      return
    }
    let text = data.map { String(decoding: UnsafeRawBufferPointer(start: $0, count: count), as: UTF8.self) }
    let said = text.map { String($0.prefix { $0 != "\0" }) } ?? Self.refused
    let reason = said == Self.lwsRefused ? Self.refused : handshakeFailure(said) ?? said
    self = .unreachable(address: target.address, reason: reason)
  }
}

private final class Transfer: WebSocketEndpoint {
  private let loop: EventLoop
  private let target: ClientURL
  private let tls: ClientTLS
  private var verdict: ServerVerdict
  private let method: String
  private let body: [UInt8]
  private let readable: [String]
  private var headers: [(String, String)] = []
  private var completion: ((Result<HTTPClientResponse, HTTPClientError>) -> Void)?
  private var response: HTTPClientResponse?
  private var lastsUntilClose = false
  private var timer: LoopTimer?

  private static let maxBodyBytes = 1_048_576

  init(
    loop: EventLoop, target: ClientURL, tls: ClientTLS, method: String, body: [UInt8], readable: [String],
    completion: @escaping (Result<HTTPClientResponse, HTTPClientError>) -> Void
  ) {
    self.loop = loop
    self.target = target
    self.tls = tls
    verdict = ServerVerdict(host: target.host, isInsecure: tls.isInsecure)
    self.method = method
    self.body = body
    self.readable = readable
    self.completion = completion
  }

  func start(headers: [(String, String)], timeout: Double) {
    self.headers = headers + [("connection", "close")]
    if !body.isEmpty || ["POST", "PUT", "PATCH"].contains(method) {
      self.headers.append(("content-length", String(body.count)))
    }
    guard let context = try? loop.websocketsContext() else { return fail("the loop has ended") }
    timer = loop.schedule(after: timeout) { [weak self] in self?.timedOut() }
    do {
      if !(try context.request(method, target, tls, endpoint: self)) { fail("connection refused") }
    } catch {
      finish(.failure(.untrusted(address: target.address, reason: "\(error)")))
    }
  }

  override func trusts(_ verification: OpaquePointer, isTrusted: Bool) -> Bool {
    verdict.accepts(verification, isTrusted: isTrusted)
  }

  override func handle(
    _ reason: lws_callback_reasons, _ data: UnsafeMutableRawPointer?, _ count: Int
  ) -> Int32 {
    guard let wsi else { return 0 }
    switch reason {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
      guard appendHeaders(headers, to: data, count) == 0 else { return -1 }
      if !body.isEmpty {
        lws_client_http_body_pending(wsi, 1)
        lws_callback_on_writable(wsi)
      }
    case LWS_CALLBACK_CLIENT_HTTP_WRITEABLE: return writeBody(wsi)
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP: return answered(wsi)
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP: return readBody(wsi)
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ:
      guard let data else { return 0 }
      response?.body.append(contentsOf: UnsafeRawBufferPointer(start: data, count: count))
      guard (response?.body.count ?? 0) <= Self.maxBodyBytes else {
        finish(.failure(.tooLarge(address: target.address)))
        return -1
      }
    case LWS_CALLBACK_COMPLETED_CLIENT_HTTP:
      if let response { finish(.success(response)) }
      return -1
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
      finish(.failure(HTTPClientError(connectingTo: target, verdict, data, count)))
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP, LWS_CALLBACK_WSI_DESTROY:
      if let response, lastsUntilClose {
        finish(.success(response))
      } else {
        fail("connection closed")
      }
    default: break
    }
    return 0
  }

  private func writeBody(_ wsi: OpaquePointer) -> Int32 {
    guard !body.isEmpty else { return 0 }
    lws_client_http_body_pending(wsi, 0)
    let room = shim_lws_pre()
    var buffer = [UInt8](repeating: 0, count: room)
    buffer.append(contentsOf: body)
    return buffer.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return -1 }
      // What the socket does not take is copied and sent by lws itself.
      return lws_write(wsi, start + room, body.count, LWS_WRITE_HTTP_FINAL) < 0 ? -1 : 0
    }
  }

  private func answered(_ wsi: OpaquePointer) -> Int32 {
    let status = Int(lws_http_client_http_response(wsi))
    var found: [String: String] = [:]
    for name in readable { found[name] = copyHeader(wsi, named: name) }
    let response = HTTPClientResponse(status: status, headers: found, body: [])
    self.response = response
    let length = copyHeader(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH)
    lastsUntilClose = length == nil && copyHeader(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) == nil
    // lws would wait for a body that never comes.
    guard status != 204, status != 304, method != "HEAD" else {
      finish(.success(response))
      return -1
    }
    return 0
  }

  private func fail(_ reason: String) {
    finish(.failure(.unreachable(address: target.address, reason: reason)))
  }

  private func timedOut() {
    let wsi = self.wsi
    finish(.failure(.timedOut(address: target.address)))
    if let wsi { destroy(wsi) }
  }

  /// Says the result once and lets lws end the connection alone.
  private func finish(_ result: Result<HTTPClientResponse, HTTPClientError>) {
    guard let completion else { return }
    self.completion = nil
    timer?.cancel()
    timer = nil
    if let context = try? loop.websocketsContext() { context.release(self) }
    loop.soon { completion(result) }
  }
}
