// Why: lws keeps headers it knows in numbered tokens and the others by name, and both clients must not care.

import CLibwebsockets

/// Appends header lines at the end of a request that lws is writing
/// (LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER: `data` points to the end pointer, `room` is what is left).
/// - Returns: -1 when they do not fit, which ends the connection.
func appendHeaders(_ headers: [(String, String)], to data: UnsafeMutableRawPointer?, _ room: Int) -> Int32 {
  guard let data else { return -1 }
  let end = data.assumingMemoryBound(to: UnsafeMutablePointer<UInt8>.self)
  var lines: [UInt8] = []
  for (name, value) in headers {
    // A line break would smuggle in further headers.
    let line = "\(name): \(value)".utf8.filter { $0 >= 0x20 || $0 == 0x09 }
    lines += line + [0x0d, 0x0a]
  }
  guard lines.count < room else { return -1 }
  UnsafeMutableRawPointer(end.pointee).copyMemory(from: lines, byteCount: lines.count)
  end.pointee += lines.count
  return 0
}

/// A header lws knows by token; nil when it is absent.
func copyHeader(_ wsi: OpaquePointer, _ token: lws_token_indexes) -> String? {
  let length = lws_hdr_total_length(wsi, token)
  guard length > 0 else { return nil }
  var room = [CChar](repeating: 0, count: Int(length) + 1)
  guard lws_hdr_copy(wsi, &room, length + 1, token) > 0 else { return nil }
  return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// A header by its lower-case name; nil when it is absent.
func copyHeader(_ wsi: OpaquePointer, named name: String) -> String? {
  if let token = knownTokens[name] { return copyHeader(wsi, lws_token_indexes(token)) }
  // The name is stored with its colon (lib/roles/http/parsers.c, lws_hdr_custom_length).
  let key = name + ":"
  let length = lws_hdr_custom_length(wsi, key, Int32(key.utf8.count))
  guard length > 0 else { return nil }
  var room = [CChar](repeating: 0, count: Int(length) + 1)
  guard lws_hdr_custom_copy(wsi, &room, length + 1, key, Int32(key.utf8.count)) > 0 else { return nil }
  return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

private let knownTokens: [String: UInt32] = {
  var tokens: [String: UInt32] = [:]
  for token in 0..<WSI_TOKEN_COUNT.rawValue {
    guard let text = lws_token_to_string(lws_token_indexes(token)) else { continue }
    let name = String(cString: text)
    if name.hasSuffix(":"), !name.hasPrefix(":") { tokens[String(name.dropLast())] = token }
  }
  return tokens
}()

/// Calls `body` with C copies of `strings`, which lws copies once more (lib/core-net/connect.c, lws_client_stash_create).
func withCStrings<Result>(
  _ strings: [String], _ body: ([UnsafePointer<CChar>]) throws(EventLoopError) -> Result
) throws(EventLoopError) -> Result {
  let copies = strings.map { string in
    let bytes = Array(string.utf8CString)
    let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
    copy.initialize(from: bytes, count: bytes.count)
    return copy
  }
  defer { for copy in copies { copy.deallocate() } }
  return try body(copies.map { UnsafePointer($0) })
}
