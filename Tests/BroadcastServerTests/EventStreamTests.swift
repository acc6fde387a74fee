import BroadcastChannels
import Foundation
import TestSupport
import Testing

@testable import BroadcastServer

@Suite struct EventStreamTests {
  private func curl(_ server: ServerFixture, _ channel: String, _ arguments: [String] = []) throws -> Program
  {
    try Program(
      "/usr/bin/curl",
      ["-sN", "--max-time", "20", "-H", "Accept: text/event-stream"] + arguments
        + ["http://127.0.0.1:\(server.port)/v1/channels/\(channel)/events"])
  }

  /// The events of a stream as their fields.
  private func events(_ text: String) -> [[String: String]] {
    text.components(separatedBy: "\n\n").dropLast().map { block in
      var fields: [String: String] = [:]
      for line in block.split(separator: "\n") {
        guard let colon = line.firstIndex(of: ":") else { continue }
        var value = line[line.index(after: colon)...]
        if value.first == " " { value.removeFirst() }
        let name = String(line[..<colon])
        // Several data lines are one text (WHATWG HTML, section 9.2.6).
        fields[name] = fields[name].map { "\($0)\n\(value)" } ?? String(value)
      }
      return fields
    }
  }

  private func frame(_ event: [String: String]?) throws -> Frame {
    try JSONDecoder().decode(Frame.self, from: Data(#require(event?["data"]).utf8))
  }

  @Test(arguments: loopCounts) func curlReadsEventsWithIdsUntilTheChannelIsDeleted(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
    } _: { server in
      let reader = try curl(server, "final", ["-i"])
      try server.waitForSubscribers(1, of: "final")
      let before = try server.report("final")
      let aps = [Request.aps(home: 1), "{\n \"timestamp\": 1, \"event\":\r\n\"end\" }"]
      for text in aps { #expect(try server.send(.broadcast(to: "final", text)).status == 200) }
      #expect(try server.send(.delete(before.id)).status == 204)

      let output = reader.output()
      let parts = output.components(separatedBy: "\r\n\r\n")
      try #require(parts.count == 2)
      #expect(parts[0].hasPrefix("HTTP/1.1 200 OK\r\n"))
      #expect(parts[0].contains("content-type: text/event-stream") && parts[0].contains("no-store"))
      let events = events(parts[1])
      try #require(events.count == 5)
      #expect(events[0] == ["retry": "1000"])
      #expect(events[1]["event"] == "subscribed" && events[1]["id"] == nil)
      #expect(try frame(events[1]).alias == "final")
      for (index, text) in aps.enumerated() {
        let event = events[2 + index]
        #expect(event["event"] == "message" && event["id"] == "\(before.epoch):\(index + 1)")
        #expect(try frame(event).seq == index + 1)
        // A line break between tokens becomes a line feed; everything else is as it was.
        let arrived = text.replacingOccurrences(of: "\r\n", with: "\n")
        #expect(event["data"]?.hasSuffix("\"aps\":\(arrived)}") == true)
      }
      #expect(events[4]["event"] == "unsubscribed")
      #expect(try frame(events[4]).reason == "deleted")
    }
  }

  @Test(arguments: [(1, true), (2, false), (0, true)])
  func lastEventIDResumes(_ seq: Int, isNewer: Bool) throws {
    try withServer {
      $0.definitions = [try unlimited("final", policy: 1)]
    } _: { server in
      for home in 1...2 {
        let request = Request.broadcast(to: "final", Request.aps(home: home), expiration: Request.now + 600)
        #expect(try server.send(request).status == 200)
      }
      let before = try server.report("final")
      let reader = try curl(server, "final", ["-H", "Last-Event-ID: \(before.epoch):\(seq)"])
      try server.waitForSubscribers(1, of: "final")
      #expect(try server.send(.delete(before.id)).status == 204)
      let names = events(reader.output()).map { $0["event"] ?? "retry" }
      #expect(names == ["retry", "subscribed"] + (isNewer ? ["message"] : []) + ["unsubscribed"])
    }
  }

  @Test(arguments: ["nonsense", ":3", "a:", "a:-1", "a:b", "a:99999999999999999999"])
  func aBadLastEventIDIsRefused(_ id: String) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let request = Request.get("/v1/channels/final/events").header("last-event-id", id)
      let answer = try server.send(request)
      #expect(answer.status == 400 && answer.reason == "BadRequestParams")
    }
  }

  @Test(arguments: [
    ("text/html", 406), ("text/html,application/xhtml+xml,*/*;q=0.8", 406), ("application/json", 406),
    ("text/event-stream", 200), ("text/html, text/event-stream", 200), ("*/*", 200),
  ])
  func onlyWhoTakesAStreamGetsOne(_ accept: String, _ status: Int) throws {
    try withServer {
      $0.definitions = [try definition("final")]
    } _: { server in
      let answer = try server.send(Request.get("/v1/channels/final/events").header("accept", accept))
      #expect(answer.status == status)
      #expect(answer.reason == (status == 406 ? "NotAcceptable" : nil))
      let head = Request(method: "HEAD", path: "/v1/channels/final/events", headers: ["accept": accept])
      #expect(try server.send(head).status == status)
    }
  }

  @Test(arguments: loopCounts) func anUnknownChannelHasNoStream(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let answer = try server.send(.get("/v1/channels/nothing/events"))
      #expect(answer.status == 404 && answer.reason == "ChannelNotRegistered")
    }
  }

  @Test(arguments: loopCounts) func aReaderThatLeavesIsFoundByTheKeepAliveComment(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = [try definition("final")]
      $0.keepAlive = KeepAlive(ping: 0.1, silence: 60)
    } _: { server in
      let connection = try ProviderConnection(server)
      connection.socket.write(Request.get("/v1/channels/final/events").bytes)
      #expect(connection.socket.read(until: ": keep-alive\n\n").contains("event: subscribed\n"))
      connection.socket.reset()
      try server.waitForSubscribers(0, of: "final")
    }
  }

  @Test(arguments: [
    ("{}", "data: {}\n\n"), ("{\n}", "data: {\ndata: }\n\n"), ("{\r\n}", "data: {\ndata: }\n\n"),
    ("{\r}", "data: {\ndata: }\n\n"), ("\n\n", "data: \ndata: \ndata: \n\n"),
  ])
  func aLineBreakInsideTheDataContinuesTheEvent(_ data: String, _ expected: String) {
    let text = EventStreamText.event("message", id: "e:1", data: Array(data.utf8))
    #expect(String(decoding: text, as: UTF8.self) == "id: e:1\nevent: message\n\(expected)")
  }
}
