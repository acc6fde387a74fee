import Foundation

@testable import BroadcastServer
@testable import EventLoop

/// HTTP/1.1 as it comes from strangers, and event streams as they come from servers.
enum HTTPTargets {
  static let all = [
    FuzzTarget(name: "http-head", check: head), FuzzTarget(name: "http2-head", check: http2Head),
    FuzzTarget(name: "http-body", check: body),
    FuzzTarget(name: "event-stream", check: eventStream), FuzzTarget(name: "url", check: url),
  ]

  private static func head(_ bytes: [UInt8]) {
    let peer = HTTPPeer(remoteAddress: "127.0.0.1")
    guard let head = try? HTTPHead(parsing: bytes[...], peer: peer) else { return }
    let request = head.request
    require(!request.method.isEmpty && request.method.utf8.allSatisfy(isTokenByte), "the method is no token")
    require(
      request.rawPath.utf8.first == UInt8(ascii: "/") || request.rawPath == "*",
      "the path is \(request.rawPath)")
    for field in request.fields {
      require(!field.name.isEmpty && field.name == field.name.lowercased(), "the header \(field.name)")
      require(field.value.utf8.allSatisfy { $0 != 0x0D && $0 != 0x0A && $0 != 0 }, "a line break in a header")
      require(field.value.first != " " && field.value.last != " ", "a blank around a value")
    }
    if case .length(let count) = head.body { require(count > 0, "a length of \(count)") }
    // Written again by the book, it is the same request.
    let lines =
      ["\(request.method) \(target(bytes, request)) HTTP/\(head.isOld ? "1.0" : "1.1")"]
      + request.fields.map { "\($0.name): \($0.value)" }
    do throws(HTTPHead.Refusal) {
      let again = try HTTPHead(parsing: Array(lines.joined(separator: "\r\n").utf8)[...], peer: peer)
      require(
        again.request.rawPath.utf8.elementsEqual(request.rawPath.utf8) && again.body == head.body
          && again.keepAlive == head.keepAlive && again.expectsContinue == head.expectsContinue
          && again.request.fields.elementsEqual(request.fields, by: ==)
          && again.request.query.elementsEqual(request.query, by: ==), "written again, it is another request")
    } catch {
      // Bytes that are not UTF-8 are repaired when they are read, also into what a header may not have.
      require(
        String(validating: bytes, as: UTF8.self) == nil, "written again, it is refused: \(error.reason)")
    }
  }

  /// The request target in origin-form.
  private static func target(_ bytes: [UInt8], _ request: HTTPRequest) -> String {
    let line = String(decoding: bytes.prefix { $0 != 0x0D }, as: UTF8.self)
    let words = line.split(separator: " ", omittingEmptySubsequences: false)
    let query = words[1].firstIndex(of: "?").map { words[1][$0...] } ?? ""
    return request.rawPath + query
  }

  /// Fields by lines, as nghttp2 would hand them on one by one.
  private static func http2Head(_ bytes: [UInt8]) {
    var head = HTTP2RequestHead()
    for line in bytes.split(separator: 0x0A) {
      let colon = line.dropFirst().firstIndex(of: 0x3A) ?? line.endIndex
      let name = Array(line[..<colon])
      let value = Array(line[colon...].dropFirst(2))
      name.withUnsafeBufferPointer { name in
        value.withUnsafeBufferPointer { head.add(name, $0, limit: 1_000) }
      }
    }
    guard let request = try? head.request(peer: HTTPPeer(remoteAddress: "127.0.0.1")) else { return }
    require(
      request.rawPath.utf8.first == UInt8(ascii: "/") || request.rawPath == "*",
      "the path is \(request.rawPath)")
    require(!request.path.utf8.contains(0), "a zero byte in a path")
    let size = request.fields.reduce(0) { $0 + $1.name.utf8.count }
    // A byte that is no UTF-8 is repaired to three; nghttp2 itself lets none through.
    require(size <= 3_000, "more fields than the limit allows")
  }

  /// The first byte says how the body ends, the second where it is cut into pieces.
  private static func body(_ bytes: [UInt8]) {
    guard bytes.count > 2 else { return }
    let kind: HTTPHead.Body = bytes[0] < 128 ? .chunked : .length(Int(bytes[0] - 127))
    let piece = Int(bytes[1]) + 1
    let input = bytes[2...]
    let limit = 100
    func read(in pieces: Int) -> (HTTPBodyReader.Progress, [UInt8], Bool, taken: Int) {
      var reader = HTTPBodyReader(kind, limit: limit)
      var rest = input
      var taken = 0
      while true {
        var part = rest.prefix(pieces)
        let before = part.count
        let progress = reader.consume(&part)
        taken += before - part.count
        rest = rest.dropFirst(before)
        if progress != .more || rest.isEmpty { return (progress, reader.kept, reader.isTruncated, taken) }
      }
    }
    let whole = read(in: input.count)
    let cut = read(in: piece)
    require(whole.0 == cut.0 && whole.1 == cut.1 && whole.2 == cut.2, "cutting the input changes the body")
    require(whole.1.count <= limit, "more is kept than allowed")
    if !whole.2, whole.0 == .done { require(whole.taken == cut.taken, "cutting the input changes its end") }
    guard whole.0 == .done, !whole.2 else { return }
    // In chunks of one's own the body is the same.
    var reader = HTTPBodyReader(.chunked, limit: limit)
    let size = String(whole.1.count, radix: 16)
    let chunk = whole.1.isEmpty ? [] : Array("\(size)\r\n".utf8) + whole.1 + Array("\r\n".utf8)
    var chunks = (chunk + Array("0\r\n\r\nnext".utf8))[...]
    require(
      reader.consume(&chunks) == .done && reader.kept == whole.1 && chunks.elementsEqual("next".utf8),
      "in chunks it is another body")
  }

  private static func eventStream(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    let input = bytes.dropFirst()
    func read(_ input: ArraySlice<UInt8>, in pieces: Int) -> [ServerSentEvent]? {
      var reader = EventStreamReader(lastID: nil, limit: 500)
      var events: [ServerSentEvent] = []
      var rest = input
      while !rest.isEmpty {
        guard let more = try? reader.read(rest.prefix(pieces)) else { return nil }
        events += more
        rest = rest.dropFirst(pieces)
      }
      return events
    }
    let whole = read(input, in: max(1, input.count))
    require(whole == read(input, in: Int(first) + 1), "cutting the input changes the events")
    // What the server writes is what its clients read, but for line breaks, which all become one kind.
    guard input.count < 200 else { return }
    let text = EventStreamText.event("name", id: "e:1", data: Array(input))
    let pairs = zip([0] + input, input)
    let data = pairs.filter { !($0 == 0x0D && $1 == 0x0A) }.map { $1 == 0x0D ? 0x0A : $1 }
    require(
      read(text[...], in: text.count) == [ServerSentEvent(name: "name", id: "e:1", data: data)],
      "an event is read as another")
  }

  private static func url(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    for scheme in ["http", "ws"] {
      guard let url = ClientURL(text, scheme: scheme) else { continue }
      require(url.path.hasPrefix("/") && url.port > 0 && !url.host.isEmpty, "no whole URL")
      require((url.path + url.host).utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "what ends a request line")
    }
  }
}
