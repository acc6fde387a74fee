import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct HTTP2Tests {
  private func secureServer(_ configure: (inout ServerOptions) -> Void = { _ in }) throws -> TestServer {
    let identity = try Certificates.shared.get().identity
    return try TestServer { options in
      options.tls = identity
      configure(&options)
    }
  }

  private func curl(_ arguments: String...) throws -> String {
    try run(
      "/usr/bin/curl",
      ["-s", "--max-time", "20", "--cacert", Certificates.shared.get().authority] + arguments)
  }

  @Test("curl gets HTTP/2 by ALPN, with every kind of answer")
  func curlByALPN() throws {
    let server = try secureServer()
    defer { server.stop() }
    let url = "https://localhost:\(server.port)"
    #expect(
      try curl("--http2", "-w", " %{http_version}", url + "/a%2Fb?x=1&y=a+b%26c")
        == "GET|/a/b|x=1&y=a b&c||false|- 2")
    #expect(try curl("-X", "PUT", "-H", "X-Test: yes", "-d", "body", url + "/p") == "PUT|/p||body|false|yes")
    #expect(try curl("-X", "BREW", url + "/pot") == "BREW|/pot|||false|-")
    let head = try curl("-I", url + "/h")
    #expect(head.hasPrefix("HTTP/2 200") && head.contains("content-length: 17\r\n"))
    let empty = try curl("-i", url + "/empty")
    #expect(empty.hasPrefix("HTTP/2 204") && !empty.contains("content-length"))
    #expect(try curl(url + "/big").utf8.count == 900_000)
    #expect(
      try curl("-w", " %{num_connects}", url + "/1", url + "/2").hasSuffix("GET|/2|||false|- 0"))
  }

  @Test("without h2 in the offer the same port speaks HTTP/1.1")
  func curlHTTP1() throws {
    let server = try secureServer()
    defer { server.stop() }
    let url = "https://localhost:\(server.port)"
    #expect(try curl("--http1.1", "-w", " %{http_version}", url + "/x") == "GET|/x|||false|- 1.1")
    #expect(
      try curl("--http1.1", "--no-alpn", "-w", " %{http_version}", url + "/x") == "GET|/x|||false|- 1.1")
    #expect(try curl("--http1.1", url + "/big").utf8.count == 900_000)
    #expect(
      try curl("--http1.1", "-w", " %{num_connects}", url + "/1", url + "/2").hasSuffix("GET|/2|||false|- 0"))
  }

  @Test("a plain port speaks HTTP/2 to who opens with its preface")
  func priorKnowledge() throws {
    let server = try TestServer()
    defer { server.stop() }
    let url = "http://127.0.0.1:\(server.port)"
    #expect(
      try curl("--http2-prior-knowledge", "-w", " %{http_version}", "-d", "body", url + "/x")
        == "POST|/x||body|false|- 2")
    #expect(try curl("--http2", "-w", " %{http_version}", url + "/x") == "GET|/x|||false|- 1.1")
  }

  @Test("nghttp, which begins at stream 13 and sends PRIORITY, is answered")
  func nghttp() throws {
    let server = try secureServer()
    defer { server.stop() }
    let output = try run(
      "/usr/bin/nghttp", ["-nv", "https://127.0.0.1:\(server.port)/a", "https://127.0.0.1:\(server.port)/b"])
    #expect(output.contains("recv (stream_id=13) :status: 200"))
    #expect(output.contains("recv (stream_id=15) :status: 200"))
    #expect(!output.contains("RST_STREAM"))
  }

  @Test("h2load gets every answer, over TLS and in the clear", arguments: [true, false])
  func h2load(secure: Bool) throws {
    let server = secure ? try secureServer() : try TestServer()
    defer { server.stop() }
    let output = try run(
      "/usr/bin/h2load",
      ["-n", "4000", "-c", "4", "-m", "100", "\(secure ? "https" : "http")://127.0.0.1:\(server.port)/x"])
    #expect(
      output.contains("4000 total, 4000 started, 4000 done, 4000 succeeded, 0 failed, 0 errored, 0 timeout"))
    #expect(output.contains("4000 2xx"))
  }
}
