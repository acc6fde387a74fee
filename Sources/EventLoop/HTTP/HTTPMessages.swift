// Why: requests and responses as plain values, so that a service can be tested without a socket.

/// The connection that requests came on; all requests of a connection share it.
public final class HTTPPeer {
  /// The peer's numeric address, without its port.
  public let remoteAddress: String
  /// The same, for whoever counts by it; nil for a text that is no address.
  public let address: NetworkAddress?
  /// Whether it came through TLS.
  public let isSecure: Bool
  /// The version of the newest request: `1.0`, `1.1` or `2`.
  public internal(set) var httpVersion: String
  /// The certificate that the client has shown in the handshake; it was verified.
  public let clientCertificate: PeerCertificate?
  /// Room for what a service wants to know of a connection beyond one request.
  public var userInfo: AnyObject?

  /// Makes a peer.
  public convenience init(remoteAddress: String, isSecure: Bool = false, httpVersion: String = "1.1") {
    self.init(
      remoteAddress: remoteAddress, address: NetworkAddress(remoteAddress), isSecure: isSecure,
      httpVersion: httpVersion, clientCertificate: nil)
  }

  /// Makes the peer of a connection whose address is known already.
  init(
    remoteAddress: String, address: NetworkAddress?, isSecure: Bool, httpVersion: String,
    clientCertificate: PeerCertificate?
  ) {
    self.remoteAddress = remoteAddress
    self.address = address
    self.isSecure = isSecure
    self.httpVersion = httpVersion
    self.clientCertificate = clientCertificate
  }
}

/// A whole HTTP request.
public struct HTTPRequest {
  /// As sent: methods are case-sensitive (RFC 9110 section 9.1).
  public var method: String
  /// The path without the query, percent-decoded, otherwise untouched: `//`, `.` and `..` stay, and an
  /// encoded slash cannot be told from a plain one (use ``rawPath`` for that).
  public var path: String
  /// The path without the query, exactly as sent.
  public var rawPath: String
  /// The query's pairs in order, decoded (`+` is a space); a name without `=` has an empty value.
  public var query: [(name: String, value: String)]
  /// The connection that it came on.
  public var peer: HTTPPeer
  /// The body without transfer coding, at most `maxBodyBytes` long.
  public var body: [UInt8]
  /// The body was longer than `maxBodyBytes`; the surplus is thrown away and the connection ends after
  /// the answer.
  public var bodyTruncated: Bool
  var fields: [(name: String, value: String)]

  /// Makes a request, for tests of a service.
  /// - Parameter headers: names are compared in lower case.
  public init(
    method: String, path: String, query: [(name: String, value: String)] = [],
    headers: [(String, String)] = [], peer: HTTPPeer = HTTPPeer(remoteAddress: "127.0.0.1"),
    body: [UInt8] = [],
    bodyTruncated: Bool = false
  ) {
    self.method = method
    self.path = path
    self.rawPath = path
    self.query = query
    self.peer = peer
    self.body = body
    self.bodyTruncated = bodyTruncated
    self.fields = headers.map { (name: $0.0.lowercased(), value: $0.1) }
  }

  /// The header's value without surrounding blanks, repaired where it is not UTF-8; several headers of
  /// one name are joined by `, ` (RFC 9110 section 5.3).
  /// - Parameter name: in lower case.
  public func header(_ name: String) -> String? {
    var found: String?
    for field in fields where field.name == name {
      found = found.map { "\($0), \(field.value)" } ?? field.value
    }
    return found
  }

  /// Whether the comma-separated list in header `name` has `token`, which is in lower case, in any case.
  func hasToken(_ token: String, in name: String) -> Bool {
    guard let list = header(name) else { return false }
    return items(list).contains { item in
      item.count == token.utf8.count && zip(item, token.utf8).allSatisfy { lowercase($0) == $1 }
    }
  }
}

/// The items of a comma-separated header value, without blanks around them and without empty ones.
public func listItems(_ value: String) -> [String] {
  items(value).map { String(Substring($0)) }
}

/// Bytes, because finding characters is most of the cost of a handshake.
private func items(_ value: String) -> [Substring.UTF8View] {
  func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
  return value.utf8.split(separator: 0x2c).compactMap { item in
    guard let first = item.firstIndex(where: { !isBlank($0) }),
      let last = item.lastIndex(where: { !isBlank($0) })
    else { return nil }
    return item[first...last]
  }
}

private func lowercase(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }

/// A whole HTTP response.
public struct HTTPResponse: Sendable {
  /// The status code, 200 to 599.
  public var status: Int
  /// Header names and values; `content-length`, `connection` and `date` are added by the server.
  public var headers: [(String, String)]
  /// The body; not sent with 204 and 304, nor as an answer to HEAD.
  public var body: [UInt8]

  /// Makes a response.
  public init(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// The server's own refusals: a small JSON object with a `reason`.
  static func refusal(_ status: Int, _ reason: String, headers: [(String, String)] = []) -> HTTPResponse {
    HTTPResponse(
      status: status, headers: [("content-type", "application/json")] + headers,
      body: Array("{\"reason\":\"\(reason)\"}\n".utf8))
  }

  /// Status line and headers, the empty line included. `length` nil: the body ends with the connection.
  func head(length: Int?, keepAlive: Bool, date: String) -> [UInt8] {
    var text = "HTTP/1.1 \(status) \(Self.phrase(status))\r\n"
    for (name, value) in headers { text += "\(Self.clean(name)): \(Self.clean(value))\r\n" }
    if let length, status != 204, status != 304 { text += "content-length: \(length)\r\n" }
    text += "date: \(date)\r\n"
    text += keepAlive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n"
    return Array(text.utf8)
  }

  /// A line break in a header would let its value write further headers.
  static func clean(_ text: String) -> String {
    guard text.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 }) else { return text }
    return String(decoding: text.utf8.map { $0 < 0x20 && $0 != 0x09 ? 0x20 : $0 }, as: UTF8.self)
  }

  private static func phrase(_ status: Int) -> String {
    switch status {
    case 200: "OK"
    case 201: "Created"
    case 202: "Accepted"
    case 204: "No Content"
    case 304: "Not Modified"
    case 400: "Bad Request"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 406: "Not Acceptable"
    case 408: "Request Timeout"
    case 409: "Conflict"
    case 410: "Gone"
    case 411: "Length Required"
    case 413: "Content Too Large"
    case 414: "URI Too Long"
    case 417: "Expectation Failed"
    case 426: "Upgrade Required"
    case 429: "Too Many Requests"
    case 431: "Request Header Fields Too Large"
    case 500: "Internal Server Error"
    case 501: "Not Implemented"
    case 503: "Service Unavailable"
    case 505: "HTTP Version Not Supported"
    default: "Status"
    }
  }
}
