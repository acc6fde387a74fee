/// The opening handshake (RFC 6455, section 4), as far as a client needs it that knows its server.
enum Handshake {
  /// The key of the RFC's own example. It is there to tell a WebSocket server from a confused cache; no cache is between.
  private static let key = "dGhlIHNhbXBsZSBub25jZQ=="
  /// What section 1.3 computes from it.
  private static let accept = "s3pplmbitxaq9kygzzhzrbk+xoo="

  /// Bytes of an answer's head at most.
  static let largest = 4_096

  static func request(path: String, host: String, headers: [(String, String)] = []) -> [UInt8] {
    Array(
      """
      GET \(path) HTTP/1.1\r
      Host: \(host)\r
      Upgrade: websocket\r
      Connection: Upgrade\r
      Sec-WebSocket-Key: \(key)\r
      Sec-WebSocket-Version: 13\r
      Sec-WebSocket-Protocol: touchline.v1\r
      User-Agent: touchline-soak\r
      \(headers.map { "\($0): \($1)\r\n" }.joined())\r

      """.utf8)
  }

  /// Looks for the end of the answer's head.
  ///
  /// - Returns: where it ends, and whether it opens the connection; nil when it isn't whole yet.
  static func read(_ bytes: some RandomAccessCollection<UInt8>) -> (end: Int, status: Int, isOpen: Bool)? {
    let blank: [UInt8] = [13, 10, 13, 10]
    let all = Array(bytes)
    guard all.count >= 16,
      let end = all.indices.dropLast(3).first(where: { all[$0..<$0 + 4].elementsEqual(blank) })
    else { return nil }
    let head = String(decoding: all[..<end], as: UTF8.self).lowercased()
    let status = head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    let isOpen = status == 101 && head.contains("sec-websocket-accept: \(accept)")
    return (end + 4, status, isOpen)
  }
}
