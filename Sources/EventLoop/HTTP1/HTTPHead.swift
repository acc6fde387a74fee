// Why our own: the head parser of lws 4.1.6 is lossy and lenient where a public API cannot be. It decodes
// the path while it reads and then folds "//", "/./" and "/../" of the *decoded* bytes, turns "+" into a
// blank (lib/roles/http/parsers.c, lws_parse_urldecode), drops unknown methods without an answer
// ("Unknown method - dropping"), reads content-length with atoll(), and takes the bytes of a chunked body
// for the next request. So untrusted heads are read here, strictly (RFC 9112), and lws is what our
// clients use.

/// What a request head says about itself and its body.
struct HTTPHead {
  enum Body: Equatable {
    case none
    case length(Int)
    case chunked
  }

  var request: HTTPRequest
  var body: Body
  var keepAlive: Bool
  /// HTTP/1.0.
  var isOld: Bool
  var expectsContinue: Bool

  /// Why a head is refused; each closes the connection, because where the next request begins is unsure.
  struct Refusal: Error, Equatable {
    var status: Int
    var reason: String
  }

  /// Reads a head, given without its final empty line.
  init(parsing bytes: ArraySlice<UInt8>, peer: HTTPPeer) throws(Refusal) {
    guard !bytes.contains(0) else { throw Refusal(status: 400, reason: "BadRequest") }
    let lines = try Self.lines(bytes)
    let start = lines[0].split(separator: 0x20, omittingEmptySubsequences: false)
    guard start.count == 3, !start[0].isEmpty, start[0].allSatisfy(isTokenByte) else {
      throw Refusal(status: 400, reason: "BadRequestLine")
    }
    let isOld: Bool
    switch String(decoding: start[2], as: UTF8.self) {
    case "HTTP/1.1": isOld = false
    case "HTTP/1.0": isOld = true
    case let version where version.hasPrefix("HTTP/"):
      throw Refusal(status: 505, reason: "HTTPVersionNotSupported")
    default: throw Refusal(status: 400, reason: "BadRequestLine")
    }

    var request = HTTPRequest(
      method: String(decoding: start[0], as: UTF8.self), path: "", peer: peer)
    try Self.readTarget(start[1], into: &request)
    for line in lines.dropFirst() { request.fields.append(try Self.field(line)) }
    let hosts = request.fields.count { $0.name == "host" }
    guard hosts == 1 || (isOld && hosts == 0) else { throw Refusal(status: 400, reason: "BadHost") }

    self.request = request
    self.isOld = isOld
    body = try Self.body(of: request, isOld: isOld)
    keepAlive = !isOld && !request.hasToken("close", in: "connection")
    expectsContinue = false
    if let expected = request.header("expect"), !isOld {
      guard expected.lowercased() == "100-continue" else {
        throw Refusal(status: 417, reason: "ExpectationFailed")
      }
      expectsContinue = body != .none
    }
  }

  private static func lines(_ bytes: ArraySlice<UInt8>) throws(Refusal) -> [ArraySlice<UInt8>] {
    var lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    for index in lines.indices {
      // Every line but the last (whose CRLF was cut off) ends in CR; a bare LF or CR hides smuggling.
      if index < lines.count - 1 {
        guard lines[index].last == 0x0d else { throw Refusal(status: 400, reason: "BadLineEnd") }
        lines[index].removeLast()
      }
      guard !lines[index].contains(0x0d) else { throw Refusal(status: 400, reason: "BadLineEnd") }
    }
    return lines
  }

  /// origin-form, or the absolute-form that proxies send (RFC 9112 section 3.2); `*` for OPTIONS.
  static func readTarget(
    _ target: ArraySlice<UInt8>, into request: inout HTTPRequest
  ) throws(Refusal) {
    var target = target
    if target.first != 0x2f, !target.elementsEqual([0x2a]) {
      let text = String(decoding: target, as: UTF8.self).lowercased()
      let scheme = text.hasPrefix("http://") ? 7 : text.hasPrefix("https://") ? 8 : 0
      guard scheme > 0 else { throw Refusal(status: 400, reason: "BadTarget") }
      target = target.dropFirst(scheme).drop { $0 != 0x2f && $0 != 0x3f }
      if target.first != 0x2f { target = ArraySlice([0x2f] + target) }
    }
    guard target.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
      throw Refusal(status: 400, reason: "BadTarget")
    }
    let parts = target.split(separator: 0x3f, maxSplits: 1, omittingEmptySubsequences: false)
    guard let path = percentDecoded(parts[0], plusIsSpace: false), !path.contains(0) else {
      throw Refusal(status: 400, reason: "BadPath")
    }
    request.rawPath = String(decoding: parts[0], as: UTF8.self)
    request.path = String(decoding: path, as: UTF8.self)
    guard parts.count == 2 else { return }
    for pair in parts[1].split(separator: 0x26) {
      let sides = pair.split(separator: 0x3d, maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = percentDecoded(sides[0], plusIsSpace: true),
        let value = percentDecoded(sides.count == 2 ? sides[1] : [], plusIsSpace: true)
      else { throw Refusal(status: 400, reason: "BadQuery") }
      request.query.append(
        (name: String(decoding: name, as: UTF8.self), value: String(decoding: value, as: UTF8.self)))
    }
  }

  private static func field(_ line: ArraySlice<UInt8>) throws(Refusal) -> (name: String, value: String) {
    // A blank before the colon, or a continuation line, is refused (RFC 9112 sections 5.1 and 5.2).
    guard let colon = line.firstIndex(of: 0x3a), colon > line.startIndex,
      line[..<colon].allSatisfy(isTokenByte)
    else { throw Refusal(status: 400, reason: "BadHeader") }
    var value = line[line.index(after: colon)...].drop { $0 == 0x20 || $0 == 0x09 }
    while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
    return (
      name: String(decoding: line[..<colon], as: UTF8.self).lowercased(),
      value: String(decoding: value, as: UTF8.self)
    )
  }

  /// Where the body ends (RFC 9112 section 6.3): anything doubtful is refused, not guessed.
  private static func body(of request: HTTPRequest, isOld: Bool) throws(Refusal) -> Body {
    let lengths = request.fields.filter { $0.name == "content-length" }
    if let coding = request.header("transfer-encoding") {
      guard lengths.isEmpty, !isOld else { throw Refusal(status: 400, reason: "BadTransferEncoding") }
      guard coding.lowercased() == "chunked" else {
        throw Refusal(status: 501, reason: "UnknownTransferEncoding")
      }
      return .chunked
    }
    guard let length = lengths.first?.value else { return .none }
    guard lengths.count == 1, (1...18).contains(length.utf8.count),
      length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(length)
    else { throw Refusal(status: 400, reason: "BadContentLength") }
    return count == 0 ? .none : .length(count)
  }
}

/// `tchar` of RFC 9110 section 5.6.2.
func isTokenByte(_ byte: UInt8) -> Bool {
  switch byte {
  case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
  case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e...0x60, 0x7c, 0x7e: true
  default: false
  }
}

/// nil when a `%` is not followed by two hexadecimal digits.
func percentDecoded(_ bytes: ArraySlice<UInt8>, plusIsSpace: Bool) -> [UInt8]? {
  var decoded: [UInt8] = []
  decoded.reserveCapacity(bytes.count)
  var rest = bytes
  while let byte = rest.popFirst() {
    switch byte {
    case 0x25:
      guard let high = rest.popFirst().flatMap(hexValue), let low = rest.popFirst().flatMap(hexValue) else {
        return nil
      }
      decoded.append(high << 4 | low)
    case 0x2b where plusIsSpace: decoded.append(0x20)
    default: decoded.append(byte)
    }
  }
  return decoded
}

func hexValue(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x37
  case 0x61...0x66: byte - 0x57
  default: nil
  }
}
