// A loop in a thread of its own, and the far ends the tests need: raw sockets and subprocesses. Nothing here
// sleeps to decide an outcome; waits end when the thing happens, or fail after a generous time.

import Foundation
import Testing

@testable import EventLoop

/// Runs an `EventLoop` in a background thread.
final class TestLoop: @unchecked Sendable {
  private(set) var loop: EventLoop?
  private let ended = DispatchSemaphore(value: 0)

  init() {
    let ready = DispatchSemaphore(value: 0)
    let thread = Thread { [self] in
      EventLoop.raiseDescriptorLimit()
      loop = try? EventLoop()
      ready.signal()
      loop?.run()
      loop = nil
      ended.signal()
    }
    thread.stackSize = 4 << 20
    thread.start()
    ready.wait()
  }

  /// Does `body` on the loop's thread and waits for its result.
  func on<T>(_ body: @escaping (EventLoop) throws -> T) throws -> T {
    let done = DispatchSemaphore(value: 0)
    let box = Box<Result<T, any Error>?>(nil)
    let work = Unchecked { [self] in
      box.value = Result { try body(#require(loop)) }
      done.signal()
    }
    try #require(loop).remote.post { work.value() }
    try #require(done.wait(timeout: .now() + 20) == .success, "the loop hangs")
    return try #require(box.value).get()
  }

  func stop() {
    let work = Unchecked { [self] in loop?.stop() }
    loop?.remote.post { work.value() }
    if ended.wait(timeout: .now() + 20) != .success { Issue.record("the loop did not end") }
    ended.signal()
  }
}

struct Unchecked<T>: @unchecked Sendable {
  let value: T
  init(_ value: T) { self.value = value }
}

/// A value that one thread sets and another waits for.
final class Box<T>: @unchecked Sendable {
  private let condition = NSCondition()
  private var stored: T

  init(_ value: T) { stored = value }

  var value: T {
    get { condition.withLock { stored } }
    set { change { $0 = newValue } }
  }

  func change(_ body: (inout T) -> Void) {
    condition.withLock {
      body(&stored)
      condition.broadcast()
    }
  }

  @discardableResult
  func wait(
    _ what: String = "condition", seconds: Double = 20, until isTrue: (T) -> Bool
  ) throws -> T {
    let end = Date(timeIntervalSinceNow: seconds)
    condition.lock()
    defer { condition.unlock() }
    while !isTrue(stored) {
      try #require(condition.wait(until: end) || isTrue(stored), "waited in vain for \(what): \(stored)")
    }
    return stored
  }
}

/// Everything that happened to a connection, in order.
final class Recorder: StreamHandler, @unchecked Sendable {
  let events = Box<[String]>([])
  var connection: Connection?
  var echoes = true
  var onWritable: ((Connection) -> Void)?

  func opened(_ connection: Connection) {
    self.connection = connection
    events.change { $0.append("opened \(connection.subprotocol ?? "-")") }
  }

  func received(text: [UInt8], _ connection: Connection) {
    if echoes { connection.send(OutgoingBytes(webSocketText: text)) }
    events.change { $0.append("text \(String(decoding: text, as: UTF8.self))") }
  }

  func writable(_ connection: Connection) {
    onWritable?(connection)
    if onWritable == nil { events.change { $0.append("writable") } }
  }

  func ponged(_ connection: Connection) { events.change { $0.append("ponged") } }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    self.connection = nil
    events.change { $0.append("closed \(code.map(String.init) ?? "-") \(reason)") }
  }
}

/// Echoes requests, and has a few paths that do more.
final class TestService: HTTPService, @unchecked Sendable {
  let recorders = Box<[Recorder]>([])
  var refusal: HTTPResponse?
  var pending: [HTTPExchange] = []
  var echoes = true

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    switch request.path {
    case "/later": pending.append(exchange)
    case "/events":
      let recorder = newRecorder()
      exchange.stream(
        status: 200, headers: [("content-type", "text/event-stream")], handler: recorder)
    case "/empty": exchange.answer(HTTPResponse(status: 204))
    case "/big": exchange.answer(HTTPResponse(status: 200, body: [UInt8](repeating: 0x61, count: 900_000)))
    default:
      let query = request.query.map { "\($0.name)=\($0.value)" }.joined(separator: "&")
      let text =
        "\(request.method)|\(request.path)|\(query)|\(String(decoding: request.body, as: UTF8.self))"
        + "|\(request.bodyTruncated)|\(request.header("x-test") ?? "-")"
      exchange.answer(
        HTTPResponse(
          status: 200, headers: [("content-type", "text/plain"), ("apns-unique-id", "u-1")],
          body: Array(text.utf8)))
    }
  }

  func upgrade(_ request: HTTPRequest) -> UpgradeDecision {
    if let refusal { return .refuse(refusal) }
    return .accept(newRecorder())
  }

  func newRecorder() -> Recorder {
    let recorder = Recorder()
    recorder.echoes = echoes
    recorders.change { $0.append(recorder) }
    return recorder
  }

  func recorder(_ index: Int) throws -> Recorder {
    try recorders.wait("connection \(index)") { $0.count > index }[index]
  }
}

/// A loop with a server on a free port.
final class TestServer: @unchecked Sendable {
  let loop = TestLoop()
  let service = TestService()
  let port: UInt16
  private(set) var server: HTTPServer?

  init(_ configure: (inout ServerOptions) -> Void = { _ in }) throws {
    var options = ServerOptions()
    configure(&options)
    let service = self.service
    let boxed = Box<HTTPServer?>(nil)
    let chosen = options
    port = try loop.on { loop in
      let server = try HTTPServer(loop: loop, options: chosen, service: service)
      boxed.value = server
      return server.port
    }
    server = boxed.value
  }

  var count: Int { get throws { try loop.on { [self] _ in server?.connectionCount ?? -1 } } }

  func waitForCount(_ wanted: Int) throws {
    for _ in 0..<2_000 {
      if try count == wanted { return }
      Thread.sleep(forTimeInterval: 0.01)
    }
    try #require(try count == wanted)
  }

  func stop() { loop.stop() }
}

/// A blocking TCP connection.
final class RawSocket: @unchecked Sendable {
  let descriptor: Int32

  init(port: UInt16, receiveBuffer: Int32? = nil) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    if var size = receiveBuffer {
      setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4)
    }
    var seconds = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &seconds, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let connected = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard connected == 0 else { throw POSIXError(.ECONNREFUSED) }
  }

  deinit { close(descriptor) }

  func write(_ text: String) { write(Array(text.utf8)) }

  func write(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  func endWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Closes with RST.
  func reset() {
    var off = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &off, socklen_t(MemoryLayout<linger>.size))
    dup2(open("/dev/null", O_RDONLY), descriptor)
  }

  /// Reads up to `count` bytes; fewer only at the end or after the timeout.
  func read(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var have = 0
    while have < count {
      let got = bytes.withUnsafeMutableBytes {
        recv(descriptor, $0.baseAddress?.advanced(by: have), count - have, 0)
      }
      if got <= 0 { break }
      have += got
    }
    return Array(bytes.prefix(have))
  }

  func readAll() -> String { String(decoding: read(8 << 20), as: UTF8.self) }

  /// Reads up to and with `marker`, and no byte more.
  func read(until marker: String) -> String {
    var text: [UInt8] = []
    let wanted = Array(marker.utf8)
    var peeked = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = peeked.withUnsafeMutableBytes {
        recv(descriptor, $0.baseAddress, $0.count, Int32(MSG_PEEK))
      }
      guard count > 0 else { break }
      var taken = 0
      for byte in peeked.prefix(count) {
        text.append(byte)
        taken += 1
        if text.suffix(wanted.count).elementsEqual(wanted) {
          _ = read(taken)
          return String(decoding: text, as: UTF8.self)
        }
      }
      _ = read(taken)
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Does the WebSocket handshake and gives the answer's head.
  @discardableResult
  func upgrade(headers: String = "") -> String {
    write(
      "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\(headers)\r\n")
    return read(until: "\r\n\r\n")
  }

  /// Reads one unmasked server frame: opcode and payload.
  func readFrame() -> (opcode: UInt8, payload: [UInt8])? {
    let head = read(2)
    guard head.count == 2 else { return nil }
    var length = Int(head[1])
    if length == 126 { length = read(2).reduce(0) { $0 << 8 | Int($1) } }
    if length == 127 { length = read(8).reduce(0) { $0 << 8 | Int($1) } }
    return (head[0] & 0x0f, read(length))
  }
}

/// A client's frame, masked with zeros.
func clientFrame(_ opcode: UInt8, _ payload: [UInt8], final: Bool = true) -> [UInt8] {
  var frame: [UInt8] = [final ? 0x80 | opcode : opcode]
  if payload.count < 126 {
    frame.append(0x80 | UInt8(payload.count))
  } else {
    frame += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
  }
  return frame + [0, 0, 0, 0] + payload
}

/// Runs a program to its end and gives what it wrote.
func run(_ program: String, _ arguments: [String]) throws -> String {
  let process = Process()
  process.executableURL = URL(fileURLWithPath: program)
  process.arguments = arguments
  let pipe = Pipe()
  process.standardOutput = pipe
  process.standardError = pipe
  process.standardInput = FileHandle.nullDevice
  try process.run()
  let data = pipe.fileHandleForReading.readDataToEndOfFile()
  process.waitUntilExit()
  return String(decoding: data, as: UTF8.self)
}

func python(_ script: String) throws -> String { try run("/usr/bin/python3", ["-c", script]) }
