// The real program without descriptors, and what its clients do when it ends.

import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct ExhaustionTests {
  private struct Limited {
    let program: RunningProgram
    let port: UInt16
    let pid: Int32

    init(_ store: String) async throws {
      program = try Touchline.start(
        ["serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", store])
      let line = try await program.lines(1)[0]
      port = try #require(line.split(separator: ":").last.flatMap { UInt16($0) })
      pid = program.processIdentifier
    }

    var openFiles: Int {
      get throws { try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count }
    }

    func limit(openFiles count: Int) throws {
      _ = try run("/usr/bin/prlimit", ["--pid", "\(pid)", "--nofile=\(count):"])
    }

    /// Seconds of CPU, in user and kernel.
    var processorSeconds: Double {
      get throws {
        let text = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        let words = text[try #require(text.lastIndex(of: ")"))...].split(separator: " ")
        return (try #require(Double(words[12])) + #require(Double(words[13])))
          / Double(sysconf(Int32(_SC_CLK_TCK)))
      }
    }
  }

  private func ask(_ socket: RawSocket, _ request: String = "GET /healthz") -> String {
    socket.write("\(request) HTTP/1.1\r\nHost: x\r\n\r\n")
    let head = socket.read(until: "\r\n\r\n")
    let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
    _ = socket.read(length.flatMap { Int($0.dropFirst(16)) } ?? 0)
    return head
  }

  @Test("without descriptors a client is told so at once, the server rests, and those who are there go on")
  func noDescriptors() async throws {
    try await withFolder { folder in
      let server = try await Limited(folder.path("channels.sqlite"))
      let publisher = try RawSocket(port: server.port)
      let create = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
      publisher.write(
        "POST /1/apps/com.example.scores/channels HTTP/1.1\r\nHost: x\r\ncontent-length: \(create.utf8.count)\r\n\r\n"
          + create)
      let head = publisher.read(until: "\r\n\r\n")
      let id = try #require(
        head.split(separator: "\r\n").first { $0.hasPrefix("apns-channel-id: ") }.map { $0.dropFirst(17) })
      let subscriber = try RawSocket(port: server.port)
      subscriber.upgrade(
        path: "/v1/channels/\(id.replacing("+", with: "%2B").replacing("/", with: "%2F"))/events")
      _ = subscriber.readFrame()
      let room = 6
      try server.limit(openFiles: try server.openFiles + room)

      var inside: [RawSocket] = []
      var turnedAway = 0
      for _ in 0..<60 {
        let socket = try RawSocket(port: server.port)
        let answer = ask(socket)
        if answer.hasPrefix("HTTP/1.1 503 ") {
          turnedAway += 1
          #expect(answer.contains("retry-after: "))
        } else {
          #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
          inside.append(socket)
        }
      }
      #expect(turnedAway >= 60 - 2 * room && !inside.isEmpty)

      // Nothing happens meanwhile: a listener that was polled on would take a whole processor.
      let before = try server.processorSeconds
      try await Task.sleep(for: .seconds(1))
      #expect(try server.processorSeconds - before < 0.5)

      // A message is published, stored, and delivered.
      let body =
        #"{"aps":{"timestamp":\#(Int(Date().timeIntervalSince1970)),"event":"update","content-state":{"n":1}}}"#
      publisher.write(
        "POST /4/broadcasts/apps/com.example.scores HTTP/1.1\r\nHost: x\r\napns-channel-id: \(id)\r\n"
          + "apns-push-type: liveactivity\r\napns-priority: 10\r\napns-expiration: \(Int(Date().timeIntervalSince1970) + 600)\r\n"
          + "content-length: \(body.utf8.count)\r\n\r\n\(body)")
      #expect(publisher.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200 "))
      let frame = try #require(subscriber.readFrame())
      #expect(String(decoding: frame.payload, as: UTF8.self).contains(#""content-state":{"n":1}"#))

      // Whoever leaves makes room.
      inside.removeAll()
      try await eventually("room") {
        let socket = try RawSocket(port: server.port)
        return ask(socket).hasPrefix("HTTP/1.1 200 ") ? () : nil
      }
      server.program.signal(SIGTERM)
      let ending = try await server.program.ending()
      #expect(ending.code == 0)
      // Once, and how often it happened since.
      let told = ending.errors.split(separator: "\n").filter { $0.contains("there are no descriptors left") }
      #expect(told.count == 2 && told.last?.contains(" more in the last ") == true, "\(ending.errors)")
    }
  }

  @Test("watch comes back when the server said, and not before")
  func retryIn() async throws {
    let first = try await Server()
    try await first.succeed("channel", "create", "final")
    let watch = try await first.watch("final")
    try await first.stop()
    let line = try await watch.notice("come back in")
    let next = try await Server(port: first.port)
    try await next.succeed("channel", "create", "final")
    // One session: the server asks for half a second to one, and the client adds a quarter at most.
    let seconds = try #require(
      line.split(separator: " ").compactMap { Double($0.trimmingCharacters(in: .punctuationCharacters)) }.last
    )
    #expect((0.5...1.3).contains(seconds), "\(line)")
    watch.signal(SIGTERM)
    _ = try await watch.ending()
    try await next.stop()
  }

  @Test("who is one too many is told so, and not that there may be no server")
  func fullServer() async throws {
    let server = try await Server(["--max-connections", "1", "--unlimited-addresses", "none"])
    let first = try RawSocket(port: server.port)
    #expect(ask(first).hasPrefix("HTTP/1.1 200 "))
    let watch = try await server.run("watch", "final", "--format", "plain")
    #expect(
      watch.code == 1
        && watch.errors.hasSuffix("ServiceUnavailable: there are too many connections; come back later\n"),
      "\(watch.errors)")
    try await server.stop()
  }
}
