import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct SecureClientTests {
  private let certificates: Certificates

  init() throws { certificates = try Certificates.shared.get() }

  private func get(_ url: String, _ tls: ClientTLS, from server: TestServer) throws -> String {
    let result = Box<Result<HTTPClientResponse, HTTPClientError>?>(nil)
    let client = Box<HTTPClient?>(nil)
    try server.loop.on { loop in
      client.value = HTTPClient(loop: loop, tls: tls)
      client.value?.send(method: "POST", url: url, body: Array("hi".utf8)) { result.value = $0 }
    }
    switch try result.wait("answer", until: { $0 != nil }) {
    case .success(let response): return String(decoding: response.body, as: UTF8.self)
    case .failure(let error): return error.description
    case nil: return ""
    }
  }

  private func failure(_ url: String, _ tls: ClientTLS, from server: TestServer) throws -> String {
    let recorder = ClientRecorder()
    try server.loop.on { loop in
      recorder.client = WebSocketClient(loop: loop, url: url, tls: tls, handler: recorder)
    }
    return try recorder.events.wait("end") { !$0.isEmpty }[0]
  }

  @Test("https and wss work with the authority's file, by name and by address")
  func trusted() throws {
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let tls = ClientTLS(authority: .file(certificates.authority))
    for host in ["localhost", "127.0.0.1"] {
      #expect(try get("https://\(host):\(server.port)/x", tls, from: server) == "POST|/x||hi|false|-")
      #expect(try get("https://\(host):\(server.port)/big", tls, from: server).count == 900_000)
      let recorder = ClientRecorder()
      try server.loop.on { loop in
        recorder.client = WebSocketClient(
          loop: loop, url: "wss://\(host):\(server.port)/", tls: tls, handler: recorder)
      }
      try recorder.events.wait("opened") { $0 == ["opened -"] }
      let long = String(repeating: "l", count: 15_000)
      try server.loop.on { _ in recorder.client?.send(text: Array(long.utf8)) }
      try recorder.events.wait("echo") { $0.last == "text \(long)" }
      try server.loop.on { _ in recorder.client?.close(code: 1000, reason: "done") }
      try recorder.events.wait("closed") { $0.last == "closed 1000 done" }
    }
  }

  @Test("a server that is not trusted is told apart from one that is not there")
  func untrusted() throws {
    let server = try TestServer { $0.tls = certificates.identity }
    defer { server.stop() }
    let expired = try TestServer { $0.tls = certificates.expiredIdentity }
    defer { expired.stop() }
    let misnamed = try TestServer { $0.tls = certificates.misnamedIdentity }
    defer { misnamed.stop() }
    let plain = try TestServer()
    defer { plain.stop() }
    let tls = ClientTLS(authority: .file(certificates.authority))
    let address = "127.0.0.1:\(server.port)"
    let untrusted = "the server's certificate is not trusted; name the file of the authority that signed it"
    #expect(
      try get("https://\(address)/", ClientTLS(), from: server) == "no connection to \(address): \(untrusted)"
    )
    #expect(
      try failure("wss://\(address)/", ClientTLS(), from: server)
        == "failed untrusted \(address) \(untrusted)")
    #expect(
      try get("https://127.0.0.1:\(misnamed.port)/", tls, from: server)
        == "no connection to 127.0.0.1:\(misnamed.port): the server's certificate is not for 127.0.0.1")
    #expect(
      try get("https://localhost:\(misnamed.port)/", tls, from: server)
        == "no connection to localhost:\(misnamed.port): the server's certificate is not for localhost")
    #expect(
      try get("https://127.0.0.1:\(expired.port)/", tls, from: server)
        == "no connection to 127.0.0.1:\(expired.port): the server's certificate has expired")
    let notSecure = try get("https://127.0.0.1:\(plain.port)/", tls, from: server)
    #expect(
      notSecure
        == "no answer from 127.0.0.1:\(plain.port): the TLS handshake failed: the port does not speak TLS 1.2 or newer, "
        + "or the server refuses this client")
    #expect(
      try get("https://\(address)/", ClientTLS(authority: .file("/nowhere/ca.pem")), from: server)
        == "no connection to \(address): /nowhere/ca.pem: the certificate cannot be read: No such file or directory"
    )
    #expect(
      try get("https://\(address)/x", ClientTLS(isInsecure: true), from: server) == "POST|/x||hi|false|-")
    #expect(
      try get("https://127.0.0.1:\(expired.port)/x", ClientTLS(isInsecure: true), from: server).hasPrefix(
        "POST"))
  }

  @Test("a client shows its certificate")
  func clientCertificate() throws {
    let server = try TestServer {
      $0.tls = certificates.identity
      $0.tls?.clientAuthority = .init(certificates: .file(certificates.authority), isRequired: true)
    }
    defer { server.stop() }
    var tls = ClientTLS(authority: .file(certificates.authority))
    #expect(try get("https://127.0.0.1:\(server.port)/peer", tls, from: server).hasPrefix("no answer from"))
    tls.certificateChain = .file(certificates.clientChain)
    tls.privateKey = .file(certificates.clientKey)
    #expect(
      try get("https://127.0.0.1:\(server.port)/peer", tls, from: server).hasPrefix(
        #"true 1.1 ["com.example.scores"]"#))
  }
}
