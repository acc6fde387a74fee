// How many connections there may be, and what a client learns that is one too many.

import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite struct NetworkAddressTests {
  @Test(arguments: [
    ("127.0.0.1", true), ("127.255.0.7", true), ("::1", true), ("::ffff:127.0.0.1", true), ("0:0::1", true),
    ("128.0.0.1", false), ("::ffff:10.0.0.1", false), ("0.0.0.0", false), ("::", false),
  ])
  func loopback(_ text: String, _ isLoopback: Bool) throws {
    #expect(try #require(NetworkAddress(text)).isLoopback == isLoopback)
  }

  @Test("both spellings of an IPv4 address are one, and an IPv6 client is its /64")
  func clients() throws {
    let address = { (text: String) in try #require(NetworkAddress(text)) }
    #expect(try address("192.0.2.7") == address("::ffff:192.0.2.7"))
    #expect(try address("192.0.2.7").client == address("192.0.2.7"))
    #expect(try address("2001:db8:0:1::7").client == address("2001:db8:0:1:ffff::").client)
    #expect(try address("2001:db8:0:1::7").client != address("2001:db8:0:2::7").client)
    #expect(try address("fe80::1%eth0") == address("fe80::1"))
    for text in ["", "localhost", "1.2.3", "1.2.3.4.5", "::g", "1.2.3.4/8"] {
      #expect(NetworkAddress(text) == nil, "\(text)")
    }
  }

  @Test(
    "a range has the addresses with its first bits",
    arguments: [
      ("127.0.0.0/8", "127.255.0.1", true), ("127.0.0.0/8", "128.0.0.1", false),
      ("127.0.0.0/8", "::ffff:127.0.0.1", true), ("192.0.2.7", "192.0.2.7", true),
      ("192.0.2.7", "192.0.2.6", false), ("0.0.0.0/0", "203.0.113.9", true), ("0.0.0.0/0", "::1", false),
      ("::1", "::1", true), ("::/0", "192.0.2.7", true), ("2001:db8::/32", "2001:db8:ffff::1", true),
      ("2001:db8::/32", "2001:db9::", false), ("10.0.0.0/30", "10.0.0.3", true),
      ("10.0.0.0/30", "10.0.0.4", false),
    ])
  func ranges(_ range: String, _ address: String, _ isIn: Bool) throws {
    let (range, address) = (try #require(AddressRange(range)), try #require(NetworkAddress(address)))
    #expect(range.contains(address) == isIn)
  }

  @Test(
    "what is no range is refused",
    arguments: ["", "x", "127.0.0.1/33", "::1/129", "127.0.0.1/", "1.2.3.4/-1"])
  func noRanges(_ text: String) { #expect(AddressRange(text) == nil) }
}

@Suite(.serialized) struct ConnectionLimitTests {
  private func gate(_ connections: Int = .max, perAddress: Int = .max) -> ConnectionGate {
    ConnectionGate(ConnectionGate.Limits(connections: connections, perAddress: perAddress))
  }

  private func ask(_ socket: RawSocket, _ path: String = "/x") -> String {
    socket.write("GET \(path) HTTP/1.1\r\nHost: x\r\n\r\n")
    return socket.read(until: "\r\n\r\n")
  }

  @Test("one too many is answered 503 with retry-after, whatever it asks, and one that leaves makes room")
  func total() throws {
    let gate = gate(2)
    let server = try TestServer(gate: gate)
    defer { server.stop() }
    let first = try RawSocket(port: server.port)
    first.upgrade()
    let second = try FrameClient(port: server.port)
    second.send(FrameClient.head(1))
    #expect(try second.answer(1).fields[":status"] == "200")
    for _ in 0..<40 {
      let more = try RawSocket(port: server.port)
      let head = ask(more)
      #expect(head.hasPrefix("HTTP/1.1 503 ") && head.contains("retry-after: 5\r\n"), "\(head)")
      #expect(more.readAll().contains("\"ServiceUnavailable\""))
      let socket = try RawSocket(port: server.port)
      #expect(socket.upgrade().hasPrefix("HTTP/1.1 503 "))
    }
    #expect(gate.count == 2)
    first.write(clientFrame(1, Array("still here".utf8)))
    #expect(first.readFrame()?.payload == Array("still here".utf8))
    first.reset()
    try waitUntil("room") { gate.count == 1 }
    #expect(ask(try RawSocket(port: server.port)).hasPrefix("HTTP/1.1 200 "))
  }

  @Test("a secure port counts from the first byte on, and ends what is too much without a handshake")
  func secure() throws {
    let certificates = try Certificates.shared.get()
    let gate = gate(1)
    let server = try TestServer(gate: gate) { $0.tls = certificates.identity }
    defer { server.stop() }
    let silent = try RawSocket(port: server.port)
    try waitUntil("it to be counted") { gate.count == 1 }
    let more = try RawSocket(port: server.port)
    #expect(more.read(1).isEmpty)
    silent.reset()
    try waitUntil("room") { gate.count == 0 }
    let answer = try run(
      "/usr/bin/curl", ["-s", "--cacert", certificates.authority, "https://127.0.0.1:\(server.port)/ok"])
    #expect(answer.hasPrefix("GET|/ok"))
  }

  @Test("one address has its own limit; others, and unlimited ones, have theirs")
  func perAddress() throws {
    let gate = ConnectionGate(
      ConnectionGate.Limits(
        connections: 100, perAddress: 2, unlimited: [try #require(AddressRange("127.0.0.9"))]))
    let server = try TestServer(gate: gate)
    defer { server.stop() }
    let two = try (0..<2).map { _ in try RawSocket(port: server.port, from: "127.0.0.2") }
    for socket in two { #expect(ask(socket).hasPrefix("HTTP/1.1 200 ")) }
    #expect(ask(try RawSocket(port: server.port, from: "127.0.0.2")).hasPrefix("HTTP/1.1 503 "))
    let other = try RawSocket(port: server.port, from: "127.0.0.3")
    #expect(ask(other).hasPrefix("HTTP/1.1 200 "))
    let proxied = try (0..<5).map { _ in try RawSocket(port: server.port, from: "127.0.0.9") }
    for socket in proxied { #expect(ask(socket).hasPrefix("HTTP/1.1 200 ")) }
    two[0].reset()
    try waitUntil("room") { gate.count == 7 }
    #expect(ask(try RawSocket(port: server.port, from: "127.0.0.2")).hasPrefix("HTTP/1.1 200 "))
  }

  @Test("when there are too many, the reserve is for unlimited addresses, and has an end")
  func reserve() throws {
    let gate = ConnectionGate(
      ConnectionGate.Limits(connections: 2, unlimited: [try #require(AddressRange("127.0.0.9"))], reserve: 1))
    let (client, probe) = (NetworkAddress("127.0.0.2"), NetworkAddress("127.0.0.9"))
    #expect(gate.enter(1, from: client) == nil && gate.enter(2, from: client) == nil)
    #expect(gate.enter(3, from: client) == .tooMany)
    #expect(gate.enter(3, from: probe) == nil)
    #expect(gate.enter(4, from: probe) == .tooMany)
    gate.leave(3)
    #expect(gate.enter(3, from: client) == .tooMany && gate.enter(3, from: nil) == .tooMany)
    gate.leave(2)
    gate.leave(1)
    #expect(gate.enter(1, from: client) == nil)
    let endless = ConnectionGate(ConnectionGate.Limits(unlimited: AddressRange.loopback, reserve: 8))
    #expect(endless.enter(1, from: probe) == nil)
  }

  @Test("however a connection ends, it is counted out")
  func leaving() throws {
    let certificates = try Certificates.shared.get()
    let gate = gate()
    let server = try TestServer(gate: gate) { $0.handshakeTimeout = 0.3 }
    let secure = try TestServer(gate: gate) {
      $0.tls = certificates.identity
      $0.handshakeTimeout = 0.3
    }
    for round in 0..<4 {
      let sockets = try (0..<8).map { _ in try RawSocket(port: server.port) }
      sockets[0].upgrade()
      sockets[0].write(clientFrame(8, [3, 0xe8]))
      sockets[1].upgrade()
      sockets[2].write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
      _ = sockets[2].read(until: "\r\n\r\n")
      sockets[3].write("GET /x HT")
      sockets[4].write(FrameClient.preface)
      sockets[5].write("nonsense\r\n\r\n")
      sockets[6].upgrade()
      sockets[6].write([0x83, 0x80, 0, 0, 0, 0])
      let late = try RawSocket(port: secure.port)
      late.write([0x16, 3, 1, 2, 0, 1])
      let plain = try RawSocket(port: secure.port)
      plain.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
      if round % 2 == 0 { for socket in sockets + [late, plain] { socket.reset() } }
    }
    try waitUntil("all to be counted out") { gate.count == 0 }
    server.stop()
    secure.stop()
    #expect(gate.count == 0)
  }

  @Test("the end of a loop counts everybody out")
  func loopEnd() throws {
    let gate = gate()
    let server = try TestServer(gate: gate)
    let sockets = try (0..<3).map { _ in try RawSocket(port: server.port) }
    sockets[0].upgrade()
    #expect(ask(sockets[1]).hasPrefix("HTTP/1.1 200 "))
    try waitUntil("three") { gate.count == 3 }
    server.stop()
    #expect(gate.count == 0)
  }
}

@Suite(.serialized) struct InboundRateTests {
  private func server(_ change: @escaping (inout InboundRate) -> Void) throws -> TestServer {
    try TestServer { change(&$0.inbound) }
  }

  /// The close frame that comes, whatever is echoed before it.
  private func close(_ socket: RawSocket) -> (code: Int, reason: String)? {
    while let frame = socket.readFrame() {
      guard frame.opcode == 8 else { continue }
      return (
        frame.payload.prefix(2).reduce(0) { $0 << 8 | Int($1) },
        String(decoding: frame.payload.dropFirst(2), as: UTF8.self)
      )
    }
    return nil
  }

  @Test(
    "too many frames end with 1008, also when they are pings, pongs or empty fragments",
    arguments: [
      clientFrame(1, Array("x".utf8)), clientFrame(9, []), clientFrame(10, []),
      clientFrame(0, [], final: false),
    ])
  func frames(_ frame: [UInt8]) throws {
    let server = try server {
      $0.framesPerSecond = 0.001
      $0.frameBurst = 50
    }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    if frame[0] & 15 == 0 { socket.write(clientFrame(1, [], final: false)) }
    for _ in 0..<200 { socket.write(frame) }
    let end = close(socket)
    #expect(end?.code == 1008 && end?.reason == "too many frames a second")
    try expectWell(server)
  }

  @Test("too many bytes end with 1008")
  func bytes() throws {
    let server = try server {
      $0.bytesPerSecond = 1
      $0.byteBurst = 100_000
    }
    defer { server.stop() }
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    Thread { for _ in 0..<100 { socket.write(clientFrame(1, [UInt8](repeating: 0x61, count: 10_000))) } }
      .start()
    let end = close(socket)
    #expect(end?.code == 1008 && end?.reason == "too many bytes a second")
    try expectWell(server)
  }

  @Test("what was used comes back with time, up to the burst")
  func refill() {
    var rate = InboundRate()
    (rate.framesPerSecond, rate.frameBurst, rate.bytesPerSecond, rate.byteBurst) = (10, 20, 1_000, 5_000)
    var left = InboundAllowance(rate)
    left.frames -= 25
    left.bytes -= 6_000
    #expect(left.isExceeded)
    left.refill(after: 0.5, rate)
    #expect(left.isExceeded && left.frames == 0 && left.bytes == -500)
    left.refill(after: 0.5, rate)
    #expect(!left.isExceeded && left.frames == 5 && left.bytes == 0)
    left.refill(after: 100, rate)
    #expect(left.frames == 20 && left.bytes == 5_000)
    left.refill(after: -1, rate)
    #expect(left.frames == 20)
  }

  private func expectWell(_ server: TestServer) throws {
    let well = try RawSocket(port: server.port)
    well.upgrade()
    well.write(clientFrame(1, Array("still here".utf8)))
    #expect(well.readFrame()?.payload == Array("still here".utf8))
  }
}
