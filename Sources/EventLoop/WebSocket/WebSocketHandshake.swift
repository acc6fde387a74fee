// Why: every refusal of a handshake is a real answer, with a reason in it. No extension is agreed on, so permessage-deflate
// stays off: a frame is then the same bytes for everybody.

import COpenSSL

enum WebSocketHandshake {
  /// `answer` is the whole 101 response.
  case accepted(answer: [UInt8], subprotocol: String?)
  case refused(HTTPResponse)

  static func check(_ head: HTTPHead, subprotocols: [String]) -> WebSocketHandshake {
    let request = head.request
    guard request.method == "GET", head.body == .none else {
      return .refused(.refusal(400, "BadHandshake"))
    }
    guard request.header("sec-websocket-version") == "13" else {
      return .refused(
        .refusal(
          426, "UnknownWebSocketVersion",
          headers: [("upgrade", "websocket"), ("sec-websocket-version", "13")])
      )
    }
    // 16 bytes in base64 (RFC 6455 section 4.1).
    guard let key = request.header("sec-websocket-key"), key.utf8.count == 24, key.hasSuffix("=="),
      key.utf8.dropLast(2).allSatisfy(isBase64Byte)
    else { return .refused(.refusal(400, "BadWebSocketKey")) }

    let offered = request.header("sec-websocket-protocol").map(listItems) ?? []
    let chosen = offered.first { subprotocols.contains($0) }
    guard offered.isEmpty || chosen != nil else {
      return .refused(.refusal(400, "UnknownSubprotocol"))
    }
    var text =
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      + "Sec-WebSocket-Accept: \(accept(key))\r\n"
    if let chosen { text += "Sec-WebSocket-Protocol: \(chosen)\r\n" }
    text += "\r\n"
    return .accepted(answer: Array(text.utf8), subprotocol: chosen)
  }

  /// What proves that the key was read (RFC 6455 section 4.2.2).
  static func accept(_ key: String) -> String {
    let text = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
    var digest = [UInt8](repeating: 0, count: 20)
    EVP_Digest(text, text.count, &digest, nil, EVP_sha1(), nil)
    // 20 bytes are 28 characters, and a zero.
    var encoded = [UInt8](repeating: 0, count: 29)
    EVP_EncodeBlock(&encoded, digest, Int32(digest.count))
    return String(decoding: encoded.prefix(28), as: UTF8.self)
  }

  private static func isBase64Byte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2b, 0x2f: true
    default: false
    }
  }
}
