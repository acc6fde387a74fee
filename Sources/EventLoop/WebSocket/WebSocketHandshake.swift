// Why: a handshake is checked here and then written anew for lws with the five headers it needs. What lws
// would drop without an answer (unknown subprotocols, lib/roles/ws/server-ws.c, lws_process_ws_upgrade) gets
// a real answer, and nothing a peer sent reaches lws' HTTP parser, whose upgrade paths had memory faults
// after 4.1.6. Extensions are not offered to lws, so permessage-deflate stays off.

enum WebSocketHandshake {
  case accepted(bytes: [UInt8], subprotocol: String?)
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
    let text =
      "GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
      + "sec-websocket-key: \(key)\r\nsec-websocket-version: 13\r\n\r\n"
    return .accepted(bytes: Array(text.utf8), subprotocol: chosen)
  }

  private static func isBase64Byte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2b, 0x2f: true
    default: false
    }
  }
}
