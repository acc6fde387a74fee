// Why: HTTP/2 spells a message's first line as fields with a colon, names in lower case, and knows no connection-wide fields
// (RFC 9113 sections 8.2 and 8.3). Here that is turned into the same HTTPRequest that HTTP/1.1 makes, and back.

import CNghttp2

/// The fields of a message on their way out, in one buffer.
struct HTTP2Fields {
  private var bytes: [UInt8] = []
  private var ends: [(name: Int, value: Int)] = []

  /// Fields of a response. `length` is announced when it is given.
  init(_ response: HTTPResponse, length: Int?, date: String) {
    add(":status", String(response.status))
    for (name, value) in response.headers {
      let name = HTTPResponse.clean(name.lowercased())
      guard !Self.belongsToConnection(name) else { continue }
      add(name, HTTPResponse.clean(value))
    }
    if let length { add("content-length", String(length)) }
    add("date", date)
  }

  init() {}

  mutating func add(_ name: String, _ value: String) {
    bytes.append(contentsOf: name.utf8)
    let end = bytes.count
    bytes.append(contentsOf: value.utf8)
    ends.append((name: end, value: bytes.count))
  }

  /// nghttp2 copies what the list points to.
  func withFields<Result>(_ body: (UnsafeBufferPointer<nghttp2_nv>) -> Result) -> Result {
    var bytes = self.bytes
    return bytes.withUnsafeMutableBufferPointer { buffer in
      var list: [nghttp2_nv] = []
      guard let start = buffer.baseAddress else { return list.withUnsafeBufferPointer(body) }
      var begin = 0
      for end in ends {
        list.append(
          nghttp2_nv(
            name: start + begin, value: start + end.name, namelen: end.name - begin,
            valuelen: end.value - end.name,
            flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)))
        begin = end.value
      }
      return list.withUnsafeBufferPointer(body)
    }
  }

  /// Fields that HTTP/2 does not know (RFC 9113 section 8.2.2).
  private static func belongsToConnection(_ name: String) -> Bool {
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"].contains(name)
  }
}

/// The fields of a request on their way in.
struct HTTP2RequestHead {
  private var method: String?
  private var target: [UInt8]?
  private var authority: String?
  private var fields: [(name: String, value: String)] = []
  private(set) var bytes = 0

  /// Counts as SETTINGS_MAX_HEADER_LIST_SIZE does (RFC 9113 section 6.5.2), and keeps what is within `limit`.
  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limit: Int
  ) {
    bytes += name.count + value.count + 32
    guard bytes <= limit else {
      fields = []
      return
    }
    let name = String(decoding: name, as: UTF8.self)
    switch name {
    case ":method": method = String(decoding: value, as: UTF8.self)
    case ":path": target = Array(value)
    case ":authority": authority = String(decoding: value, as: UTF8.self)
    case let pseudo where pseudo.hasPrefix(":"): break
    default: fields.append((name: name, value: String(decoding: value, as: UTF8.self)))
    }
  }

  /// The same request as HTTP/1.1 would have made of it.
  func request(peer: HTTPPeer) throws(HTTPHead.Refusal) -> HTTPRequest {
    // A tunnel (RFC 9113 section 8.5); nghttp2 lets it through without a path.
    guard let method, method != "CONNECT", let target else {
      throw HTTPHead.Refusal(status: 405, reason: "MethodNotAllowed")
    }
    var request = HTTPRequest(method: method, path: "", peer: peer)
    try HTTPHead.readTarget(target[...], into: &request)
    request.fields = fields
    if let authority, !fields.contains(where: { $0.name == "host" }) {
      request.fields.append((name: "host", value: authority))
    }
    return request
  }
}
