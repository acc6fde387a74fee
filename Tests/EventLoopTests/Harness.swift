// A loop in a thread of its own. Nothing here sleeps to decide an outcome; waits end when the thing happens, or fail
// after a generous time. The far ends, raw sockets and subprocesses, are in TestSupport.

import Foundation
import TestSupport
import Testing

@testable import EventLoop

/// Runs an `EventLoop` in a background thread.
final class TestLoop: @unchecked Sendable {
  private(set) var loop: EventLoop?
  private let ended = DispatchSemaphore(value: 0)

  init() {
    let ready = DispatchSemaphore(value: 0)
    let thread = Thread { [self] in
      EventLoop.makeRoomForDescriptors()
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
  let requests = Box<[HTTPRequest]>([])
  var refusal: HTTPResponse?
  var pending: [HTTPExchange] = []
  var echoes = true

  func respond(to request: HTTPRequest, _ exchange: HTTPExchange) {
    requests.change { $0.append(request) }
    switch request.path {
    case "/error":
      exchange.answer(
        HTTPResponse(status: 400, headers: [("apns-id", "A-b")], body: Array("{\"reason\":\"x\"}".utf8)))
    case "/peer":
      let peer = request.peer
      let certificate = peer.clientCertificate.map {
        "\($0.userIDs) \($0.commonNames) \($0.alternativeNames)"
      }
      exchange.answer(
        HTTPResponse(
          status: 200, body: Array("\(peer.isSecure) \(peer.httpVersion) \(certificate ?? "-")".utf8)))
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

  init(gate: ConnectionGate = ConnectionGate(), _ configure: (inout ServerOptions) -> Void = { _ in }) throws
  {
    var options = ServerOptions()
    configure(&options)
    let service = self.service
    let boxed = Box<HTTPServer?>(nil)
    let chosen = options
    port = try loop.on { loop in
      let server = try HTTPServer(loop: loop, options: chosen, gate: gate, service: service)
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
