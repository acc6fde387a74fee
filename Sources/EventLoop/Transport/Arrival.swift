// Why: what a client speaks is known from its first bytes only. A TLS record begins with 0x16 (RFC 8446 section 5.1), so that
// somebody who asks a secure port in the clear can be told so. After the handshake ALPN says which HTTP follows, but some
// senders offer none and just open with the HTTP/2 preface; on a plain port that preface is all there is (RFC 9113 section 3.3).

/// A connection that was accepted and has not said yet what it speaks.
final class Arrival: ServedConnection, WireUser {
  private enum Step {
    case firstByte
    case handshake
    case preface
  }

  private let wire: Wire
  private let remoteAddress: String
  private let address: NetworkAddress?
  private unowned(unsafe) let server: HTTPServer
  private let deadline: Double
  private var step: Step
  private var input: [UInt8] = []

  init(_ wire: Wire, remoteAddress: String, address: NetworkAddress?, server: HTTPServer) {
    self.wire = wire
    self.remoteAddress = remoteAddress
    self.address = address
    self.server = server
    deadline = server.loop.now + server.options.handshakeTimeout
    step = server.tls == nil ? .preface : .firstByte
    wire.user = self
    wire.want(.readable)
  }

  func isReady(_ wire: Wire, _ events: Wire.Events) {
    if events.contains(.failed) { return abort() }
    switch step {
    case .firstByte: lookAtFirstByte()
    case .handshake: shakeHands()
    case .preface: read()
    }
  }

  private func lookAtFirstByte() {
    // Readable without a byte: the peer left.
    guard let byte = wire.peekByte() else { return abort() }
    guard byte == 0x16, let context = server.tls else {
      server.service.noticed(.notSecure, from: remoteAddress)
      becomeHTTP1().refuse(400, "TLSRequired")
      return
    }
    guard let session = TLSSession(context, descriptor: wire.descriptor) else { return abort() }
    wire.secure(with: session)
    step = .handshake
    shakeHands()
  }

  private func shakeHands() {
    switch wire.handshake() {
    case .blocked: wire.want(.readable)
    // OpenSSL has sent the alert that says why; the peer shall be able to read it.
    case .failed(let reason):
      server.service.noticed(.handshakeFailed(reason), from: remoteAddress)
      server.replace(self, with: Farewell(wire, host: server))
    case .done:
      switch wire.tls?.applicationProtocol {
      case "h2": becomeHTTP2()
      case "http/1.1": startHTTP1()
      default:
        step = .preface
        wire.want(.readable)
      }
    }
  }

  private func read() {
    switch server.scratch.withUnsafeMutableBytes({ wire.read(into: $0) }) {
    case .blocked: return
    case .failed: return abort()
    case .ended:
      // Part of a preface was the beginning of nothing.
      return abort()
    case .bytes(let count): input.append(contentsOf: server.scratch.prefix(count))
    }
    if input.starts(with: HTTP2Connection.preface) {
      becomeHTTP2()
    } else if !HTTP2Connection.preface.starts(with: input) {
      startHTTP1()
    }
  }

  private func peer(_ version: String) -> HTTPPeer {
    HTTPPeer(
      remoteAddress: remoteAddress, address: address, isSecure: wire.isSecure, httpVersion: version,
      clientCertificate: wire.tls?.peerCertificate)
  }

  private func becomeHTTP1() -> HTTPConnection {
    let connection = HTTPConnection(
      wire, peer: peer("1.1"), input: input, deadline: deadline, server: server)
    server.replace(self, with: connection)
    return connection
  }

  private func startHTTP1() {
    let connection = becomeHTTP1()
    connection.start()
    if server.isClosing { connection.drain() }
  }

  private func becomeHTTP2() {
    guard let connection = HTTP2Connection(wire, peer: peer("2"), server: server) else { return abort() }
    server.replace(self, with: connection)
    connection.start(input)
    if server.isClosing { connection.drain() }
  }

  func check(_ now: Double) {
    guard deadline < now else { return }
    // A request that never came whole is answered (408), silence and half a handshake are not.
    if input.isEmpty { abort() } else { becomeHTTP1().check(now) }
  }

  func drain() {
    if input.isEmpty, step == .preface { server.replace(self, with: Farewell(wire, host: server)) }
  }

  func abort() {
    wire.close()
    server.forget(self)
  }
}
