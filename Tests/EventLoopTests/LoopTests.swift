import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.serialized) struct LoopTests {
  @Test func timersFireInOrderRepeatAndStop() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let events = Box<[String]>([])
    try loop.on { loop in
      let start = loop.now
      loop.schedule(after: 0.05) { events.change { $0.append(loop.now - start >= 0.05 ? "late" : "early") } }
      loop.schedule(after: 0.01) { events.change { $0.append("first") } }
      loop.schedule(after: 0.02) { events.change { $0.append("never") } }.cancel()
      var count = 0
      var timer: LoopTimer?
      timer = loop.schedule(after: 0.1, every: 0.01) {
        count += 1
        events.change { $0.append("tick \(count)") }
        if count == 3 { timer?.cancel() }
      }
    }
    try events.wait("ticks") { $0 == ["first", "late", "tick 1", "tick 2", "tick 3"] }
  }

  /// proc(5): `FDSize` is how many slots the kernel's table has. It would be 64 with so few descriptors open.
  @Test func theKernelHasRoomForEveryDescriptorBeforeItIsOpened() throws {
    EventLoop.makeRoomForDescriptors()
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("FDSize:") })
    let slots = try #require(line.split(separator: "\t").last.flatMap { Int($0) })
    #expect(slots >= min(EventLoop.descriptorLimit, 262_144))
  }

  @Test func remoteJobsRunInOrderAndNotAfterTheEnd() throws {
    let loop = TestLoop()
    let seen = Box<[Int]>([])
    let remote = try #require(loop.loop).remote
    for number in 0..<1_000 { remote.post { seen.change { $0.append(number) } } }
    try seen.wait("jobs") { $0.count == 1_000 }
    #expect(seen.value == Array(0..<1_000))
    loop.stop()
    remote.post { seen.change { $0.append(-1) } }
    #expect(seen.value.count == 1_000)
  }

  @Test func signalsReachTheLoop() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let count = Box(0)
    _ = try loop.on { $0.onSignal(SIGUSR2) { count.change { $0 += 1 } } }
    kill(getpid(), SIGUSR2)
    try count.wait("signal") { $0 == 1 }
  }

  @Test func pipesAndFilesCanBeWatched() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let got = Box<[String]>([])
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    let file = open("/etc/hostname", O_RDONLY)
    let null = open("/dev/null", O_RDONLY)
    for (name, descriptor) in [("pipe", ends[0]), ("file", file), ("null", null)] {
      try loop.on { loop in
        var watch: DescriptorWatch?
        watch = try loop.watchReadable(descriptor) {
          var byte: UInt8 = 0
          let count = read(descriptor, &byte, 1)
          if count == 0 {
            watch?.cancel()
            got.change { $0.append(name) }
          }
        }
      }
    }
    #expect(write(ends[1], "ab", 2) == 2)
    close(ends[1])
    try got.wait("ends") { Set($0) == ["pipe", "file", "null"] }
    #expect(throws: EventLoopError.self) { try loop.on { _ = try $0.watchReadable(9_999) {} } }
    for descriptor in [ends[0], file, null] { close(descriptor) }
  }

  @Test func anOccupiedPortIsAnErrorThatNamesIt() throws {
    let server = try TestServer()
    defer { server.stop() }
    let port = server.port
    #expect(throws: EventLoopError.portInUse(address: "127.0.0.1:\(port)")) {
      try server.loop.on { loop in
        var options = ServerOptions()
        options.port = port
        _ = try HTTPServer(loop: loop, options: options, service: TestService())
      }
    }
    for host in ["not.numeric", "203.0.113.7"] {
      #expect {
        try server.loop.on { loop in
          _ = try HTTPServer(loop: loop, options: ServerOptions(host: host), service: TestService())
        }
      } throws: { error in
        if case EventLoopError.badAddress? = error as? EventLoopError { true } else { false }
      }
    }
  }

  @Test func serversListenOnIPv6() throws {
    let server = try TestServer { $0.host = "::1" }
    defer { server.stop() }
    #expect(try run("/usr/bin/curl", ["-sg", "http://[::1]:\(server.port)/six"]).hasPrefix("GET|/six"))
  }

  @Test func twoHundredLoopsLeaveNoDescriptor() throws {
    /// Loops of other tests hold /dev/null many times over, see LibwebsocketsContext.beginDestruction(); those are
    /// counted apart.
    func descriptors() throws -> (open: Int, null: Int) {
      let folder = "/proc/self/fd"
      let targets = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
      }
      let null = targets.count { $0 == "/dev/null" }
      return (targets.count - null, null)
    }
    for _ in 0..<5 { try roundTrip() }
    let before = try descriptors()
    for number in 0..<200 {
      switch number % 3 {
      case 0: try roundTrip()
      case 1: _ = try EventLoop()
      default:
        let loop = try EventLoop()
        loop.schedule(after: 0) { [unowned loop] in loop.stop() }
        loop.run()
      }
    }
    // Other tests open and close some meanwhile; one left behind a loop would be 200.
    let after = try descriptors()
    #expect(after.open < before.open + 60)
    #expect(after.null < before.null + 6_400)
  }

  private func roundTrip() throws {
    let server = try TestServer()
    let socket = try RawSocket(port: server.port)
    socket.upgrade()
    socket.write(clientFrame(1, Array("x".utf8)))
    #expect(socket.readFrame()?.payload == Array("x".utf8))
    server.stop()
  }

  @Test func loopsLiveAndDieConcurrently() throws {
    let done = Box(0)
    for _ in 0..<8 {
      Thread {
        for _ in 0..<10 { try? self.roundTrip() }
        done.change { $0 += 1 }
      }.start()
    }
    try done.wait("threads", seconds: 60) { $0 == 8 }
  }

  @Test func stoppingClosesEverythingThatIsLive() throws {
    let server = try TestServer { $0.sendBufferBytes = 16_384 }
    let client = ClientRecorder()
    var sockets: [RawSocket] = []
    for number in 0..<30 {
      let socket = try RawSocket(port: server.port, receiveBuffer: 4_096)
      switch number % 5 {
      case 0: socket.upgrade()
      case 1:
        socket.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = socket.read(until: "\r\n\r\n")
      case 2: socket.write("GET /later HTTP/1.1\r\nHost: x\r\n\r\n")
      case 3: socket.write("GET / HT")
      default:
        socket.upgrade()
        socket.write(clientFrame(1, [0x61], final: false))
      }
      sockets.append(socket)
    }
    let recorders = try server.service.recorders.wait { $0.count == 18 }
    try server.loop.on { loop in
      // Some have output pending, some are closing.
      for (number, recorder) in recorders.enumerated() {
        let big = OutgoingBytes(webSocketText: [UInt8](repeating: 0x61, count: 60_000))
        if number % 2 == 0 { while recorder.connection?.send(big) == true {} }
        if number % 4 < 2 { recorder.connection?.close(code: 1001, reason: "") }
      }
      client.client = WebSocketClient(
        loop: loop, url: "ws://127.0.0.1:\(server.port)/", handler: client)
      HTTPClient(loop: loop).send(url: "http://127.0.0.1:\(server.port)/later") { _ in }
    }
    try client.events.wait { !$0.isEmpty }
    server.stop()
    for recorder in recorders {
      #expect(recorder.events.value.filter { $0.hasPrefix("closed") }.count == 1)
    }
    #expect(client.events.value.filter { $0.hasPrefix("closed") || $0.hasPrefix("failed") }.count == 1)
  }

  @Test func twoThousandConnectionsOpenAndClose() throws {
    let server = try TestServer()
    defer { server.stop() }
    var sockets: [RawSocket] = []
    let start = Date()
    for _ in 0..<2_000 {
      let socket = try RawSocket(port: server.port)
      socket.upgrade()
      sockets.append(socket)
    }
    let opened = Date()
    try server.waitForCount(2_000)
    let cost = try server.loop.on { loop in
      let message = OutgoingBytes(webSocketText: [UInt8](repeating: 0x61, count: 300))
      let connections = server.service.recorders.value.compactMap { $0.connection }
      let start = loop.now
      var taken = 0
      for connection in connections where connection.send(message) { taken += 1 }
      let end = loop.now
      #expect(taken == 2_000)
      return (end - start) / 2_000
    }
    for socket in sockets { #expect(socket.readFrame()?.payload.count == 300) }
    sockets = []
    try server.waitForCount(0)
    print("opened \(Int(2_000 / opened.timeIntervalSince(start)))/s, one send \(cost * 1e6) µs")
  }

  @Test func stopAcceptingLetsRequestsFinish() throws {
    let server = try TestServer()
    defer { server.stop() }
    let resting = try RawSocket(port: server.port)
    resting.write("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = resting.read(until: "false|-")
    let busy = try RawSocket(port: server.port)
    busy.write("GET /later HTTP/1.1\r\nHost: x\r\n\r\n")
    while try server.loop.on({ _ in server.service.pending.isEmpty }) {}
    try server.loop.on { _ in server.server?.stopAccepting() }
    #expect(resting.readAll() == "")
    #expect(throws: (any Error).self) { try RawSocket(port: server.port) }
    try server.loop.on { _ in server.service.pending[0].answer(HTTPResponse(status: 200)) }
    #expect(busy.readAll().contains("connection: close"))
    try server.waitForCount(0)
  }
}
