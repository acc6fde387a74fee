import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct TLSTests {
  private let certificates: Certificates

  init() throws { certificates = try Certificates.shared.get() }

  private func secureServer(_ configure: (inout ServerOptions) -> Void = { _ in }) throws -> TestServer {
    try TestServer { options in
      options.tls = certificates.identity
      configure(&options)
    }
  }

  private func curl(_ arguments: String...) throws -> String {
    try run("/usr/bin/curl", ["-s", "--max-time", "20", "--cacert", certificates.authority] + arguments)
  }

  private func expectWell(_ server: TestServer) throws {
    #expect(try curl("https://127.0.0.1:\(server.port)/peer") == "true 2 -")
  }

  @Test("TLS 1.2 and 1.3 are spoken, 1.1 is not", arguments: ["-tls1_1", "-tls1_2", "-tls1_3"])
  func versions(flag: String) throws {
    let server = try secureServer()
    defer { server.stop() }
    let output = try run(
      "/usr/bin/openssl",
      [
        "s_client", "-connect", "127.0.0.1:\(server.port)", "-CAfile", certificates.authority, flag, "-alpn",
        "h2",
      ]
        + (flag == "-tls1_1" ? ["-cipher", "ALL:@SECLEVEL=0"] : []))
    #expect(output.contains("ALPN protocol: h2") == (flag != "-tls1_1"))
    #expect(output.contains("Cipher is (NONE)") == (flag == "-tls1_1"))
    try expectWell(server)
  }

  @Test("who asks a secure port in the clear is told so, and TLS on a plain port is refused")
  func wrongPort() throws {
    let server = try secureServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    let answer = socket.readAll()
    #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.hasSuffix("{\"reason\":\"TLSRequired\"}\n"))
    try expectWell(server)
    let plain = try TestServer()
    defer { plain.stop() }
    let hello = try RawSocket(port: plain.port)
    hello.write([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0])
    #expect(hello.readAll().hasPrefix("HTTP/1.1 400 "))
  }

  @Test("half a hello and then silence is waited for no longer than the handshake may take")
  func halfHello() throws {
    let server = try secureServer { $0.handshakeTimeout = 0.3 }
    defer { server.stop() }
    let half = try RawSocket(port: server.port)
    half.write([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])
    let silent = try RawSocket(port: server.port)
    #expect(half.read(1).isEmpty && silent.read(1).isEmpty)
    try server.waitForCount(0)
    try expectWell(server)
  }

  @Test("garbage instead of a hello, and in the place of a record, ends that connection only")
  func garbage() throws {
    let server = try secureServer { $0.handshakeTimeout = 0.5 }
    defer { server.stop() }
    for seed in 0..<20 {
      let socket = try RawSocket(port: server.port)
      socket.write([0x16, 3, 1] + (0..<300).map { UInt8(truncatingIfNeeded: $0 * 7 + seed) })
      if seed % 2 == 0 { socket.reset() } else { _ = socket.readAll() }
    }
    let output = try python(
      """
      import socket, ssl
      context = ssl.create_default_context(cafile="\(certificates.authority)")
      raw = socket.create_connection(("127.0.0.1", \(server.port)))
      secure = context.wrap_socket(raw, server_hostname="localhost", do_handshake_on_connect=False)
      secure.do_handshake()
      fd = secure.detach()
      raw = socket.socket(fileno=fd); raw.settimeout(10)
      raw.sendall(b"\\x17\\x03\\x03\\x00\\x20" + b"g" * 32)
      try:
        while raw.recv(4096): pass
        print("closed")
      except ConnectionResetError: print("closed")
      """)
    #expect(output == "closed\n")
    try server.waitForCount(0)
    try expectWell(server)
  }

  @Test("after a handshake that failed the loop rests, although the client keeps its socket open")
  func restsAfterFailure() throws {
    let server = try secureServer()
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.write([0x16, 3, 1] + [UInt8](repeating: 7, count: 300))
    // The alert, and the end of what the server says.
    _ = socket.readAll()
    try waitUntil("nothing to be done soon") { try server.loop.on { $0.soonJobs.isEmpty } }
    try expectWell(server)
  }

  @Test("a client without ALPN that opens with the preface gets HTTP/2")
  func prefaceWithoutALPN() throws {
    let server = try secureServer()
    defer { server.stop() }
    let output = try python(
      """
      import socket, ssl, time
      context = ssl.create_default_context(cafile="\(certificates.authority)")
      s = context.wrap_socket(socket.create_connection(("127.0.0.1", \(server.port))), server_hostname="localhost")
      preface = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"
      s.sendall(preface[:5]); s.sendall(preface[5:] + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
      print(s.selected_alpn_protocol(), s.recv(9)[3])
      """)
    // 4: SETTINGS.
    #expect(output == "None 4\n")
  }

  @Test("a session is resumed by its ticket", arguments: ["-tls1_2", "-tls1_3"])
  func tickets(version: String) throws {
    let server = try secureServer()
    defer { server.stop() }
    let output = try run(
      "/bin/bash",
      [
        "-c",
        """
        cd $(mktemp -d)
        ask() { printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' | timeout 10 openssl s_client \
          -connect 127.0.0.1:\(server.port) -CAfile \(certificates.authority) \(version) -ign_eof "$@" 2>&1; }
        ask -sess_out s >/dev/null; ask -sess_in s | grep -E '^(New|Reused)'
        """,
      ])
    #expect(output.hasPrefix("Reused"))
  }

  @Test("a ticket is good after a reload and on another port, and not for another certificate or authority")
  func ticketsAndReloads() throws {
    let server = try secureServer()
    defer { server.stop() }
    let twin = try secureServer()
    defer { twin.stop() }
    let folder = try run("/bin/mktemp", ["-d"]).trimmingCharacters(in: .whitespacesAndNewlines)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    func ask(_ port: UInt16, _ what: String) throws -> String {
      try run(
        "/bin/bash",
        [
          "-c",
          """
          printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' | timeout 10 openssl s_client \
            -connect 127.0.0.1:\(port) -ign_eof \(what) \(folder)/s 2>&1 | grep -oE '^(New|Reused)'
          """,
        ])
    }
    func reload(_ change: (inout TLSIdentity) -> Void) throws {
      var identity = certificates.identity
      change(&identity)
      let changed = identity
      try server.loop.on { _ in try server.server?.reload(tls: changed) }
    }
    #expect(try ask(server.port, "-sess_out") == "New\n")
    try reload { _ in }
    #expect(try ask(server.port, "-sess_in") == "Reused\n")
    #expect(try ask(twin.port, "-sess_in") == "Reused\n")
    try reload { $0 = certificates.otherIdentity }
    #expect(try ask(server.port, "-sess_in") == "New\n")
    try reload { $0.clientAuthority = .init(certificates: .file(certificates.authority), isRequired: false) }
    #expect(try ask(server.port, "-sess_in") == "New\n")
    try reload { _ in }
    #expect(try ask(server.port, "-sess_in") == "Reused\n")
  }

  @Test("a certificate or key that cannot be used is an error that names the file and the fault")
  func badFiles() throws {
    func fault(_ chain: PEMSource, _ key: PEMSource) throws -> String {
      do {
        _ = try TLSContext(TLSIdentity(certificateChain: chain, privateKey: key))
        return "none"
      } catch {
        return error.description
      }
    }
    let chain = PEMSource.file(certificates.chain)
    let key = PEMSource.file(certificates.key)
    #expect(try fault(chain, key) == "none")
    #expect(try fault(.file(certificates.expiredChain), .file(certificates.expiredKey)) == "none")
    #expect(
      try fault(.file("/nowhere/a.pem"), key)
        == "/nowhere/a.pem: the certificate cannot be read: No such file or directory")
    #expect(try fault(chain, .file("/")) == "/: the key cannot be read: Is a directory")
    #expect(
      try fault(key, key)
        == "\(certificates.key): it has no readable PEM certificate (-----BEGIN CERTIFICATE-----)")
    #expect(
      try fault(chain, .bytes(Array("key".utf8), name: "the key"))
        == "the key: it has no readable PEM private key (-----BEGIN PRIVATE KEY-----)")
    #expect(
      try fault(chain, .file(certificates.encryptedKey))
        == "\(certificates.encryptedKey): the key is encrypted; give one without a passphrase")
    #expect(
      try fault(chain, .file(certificates.otherKey))
        == "\(certificates.otherKey): the key does not belong to the certificate in \(certificates.chain)")
  }

  @Test("a reload shows the new certificate to new connections, keeps old ones, and refuses broken files")
  func reload() throws {
    let server = try secureServer()
    defer { server.stop() }
    func subject() throws -> String {
      try run(
        "/bin/bash",
        [
          "-c",
          "openssl s_client -connect 127.0.0.1:\(server.port) </dev/null 2>/dev/null | openssl x509 -noout -subject",
        ])
    }
    #expect(try subject() == "subject=CN = server\n")
    let old = ClientRecorder()
    try server.loop.on { [certificates] loop in
      old.client = WebSocketClient(
        loop: loop, url: "wss://127.0.0.1:\(server.port)/",
        tls: ClientTLS(authority: .file(certificates.authority)),
        handler: old)
    }
    try old.events.wait("opened") { $0.first == "opened -" }
    let other = certificates.otherIdentity
    try server.loop.on { _ in try server.server?.reload(tls: other) }
    #expect(try subject() == "subject=CN = other\n")
    var broken = other
    broken.privateKey = .file(certificates.key)
    let bad = broken
    #expect(throws: EventLoopError.self) { try server.loop.on { _ in try server.server?.reload(tls: bad) } }
    #expect(try subject() == "subject=CN = other\n")
    try server.loop.on { _ in old.client?.send(text: Array("still".utf8)) }
    try old.events.wait("echo") { $0.last == "text still" }
    #expect(
      try server.loop.on { _ in server.server?.certificateExpiry ?? 0 } > Int(Date().timeIntervalSince1970))
  }

  @Test("a client's certificate is verified and told to the service; without one the choice is the server's")
  func clientCertificates() throws {
    for isRequired in [true, false] {
      let server = try secureServer {
        $0.tls?.clientAuthority = .init(certificates: .file(certificates.authority), isRequired: isRequired)
      }
      defer { server.stop() }
      let url = "https://127.0.0.1:\(server.port)/peer"
      let own = ["--cert", certificates.clientChain, "--key", certificates.clientKey]
      let seen = try run("/usr/bin/curl", ["-s", "--cacert", certificates.authority] + own + [url])
      #expect(
        seen == #"true 2 ["com.example.scores"] ["Sender ä"] ["sender.example", "a@example.com"]"#)
      #expect(try curl(url) == (isRequired ? "" : "true 2 -"))
      let strange = ["--cert", certificates.strangeChain, "--key", certificates.strangeKey]
      #expect(try run("/usr/bin/curl", ["-s", "--cacert", certificates.authority] + strange + [url]) == "")
    }
  }

  @Test("a slow reader of an event stream gets whole messages in order", arguments: ["--http1.1", "--http2"])
  func slowEventStream(version: String) throws {
    let server = try secureServer { $0.sendBufferBytes = 16_384 }
    defer { server.stop() }
    let service = server.service
    let refusals = Box(0)
    let filler = Thread {
      guard let recorder = try? service.recorder(0) else { return }
      _ = try? recorder.events.wait { $0.contains("opened -") }
      let sent = Box(0)
      let work = Unchecked {
        let fill = { (connection: Connection) in
          while sent.value < 2_000 {
            let text = "data: \(sent.value) " + String(repeating: "x", count: 1_000) + "\n\n"
            guard connection.send(OutgoingBytes(raw: Array(text.utf8))) else {
              refusals.value += 1
              return
            }
            sent.value += 1
          }
          connection.close(code: 1000, reason: "")
        }
        recorder.onWritable = fill
        if let connection = recorder.connection { fill(connection) }
      }
      try? server.loop.on { _ in work.value() }
    }
    filler.start()
    let output = try curl(version, "-N", "--limit-rate", "3M", "https://localhost:\(server.port)/events")
    let expected = (0..<2_000).map { "data: \($0) " + String(repeating: "x", count: 1_000) + "\n\n" }
    #expect(output == expected.joined())
    #expect(refusals.value > 10)
  }
}
