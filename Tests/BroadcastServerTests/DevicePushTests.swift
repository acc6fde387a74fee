import Foundation
import TestSupport
import Testing

/// Pushes to one device: from the sender's request to the device's connection, and back.
@Suite struct DevicePushTests {
  private func outcome(_ answer: Answer) throws -> String {
    try #require(answer.status == 200, "\(answer.status) \(answer.text)")
    return try #require(answer.headers["touchline-outcome"])
  }

  @Test(
    "a push reaches the device byte for byte, under the sender's and the server's ids", arguments: loopCounts)
  func delivery(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let aps = #"{ "timestamp":1700000000, "event" : "update","content-state":{"n":1.50,"e":"\u00e9"} }"#
      let request = Request.push(to: token.uppercased(), aps, id: Request.id)
      let answer = try server.send(request.header("apns-collapse-id", "goal").header("apns-priority", "10"))
      #expect(try outcome(answer) == "delivered")
      #expect(answer.headers["apns-id"] == Request.id && answer.body.isEmpty)
      let text = try device.socket.receiveText()
      #expect(text.contains(#""aps":\#(aps)"#))
      let frame = try JSONDecoder().decode(Frame.self, from: Data(text.utf8))
      #expect(frame.type == "push" && frame.token == token && frame.apnsID == Request.id)
      #expect(frame.uniqueID == answer.headers["apns-unique-id"] && frame.collapseID == "goal")
    }
  }

  @Test("an apns-id is made where there is none, as a canonical UUID in lower case", arguments: loopCounts)
  func madeID(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let answer = try server.send(.push(to: try PushDevice(server).token()))
      let id = try #require(answer.headers["apns-id"])
      #expect(UUID(uuidString: id)?.uuidString.lowercased() == id)
      #expect(answer.headers["apns-request-id"] == nil)
    }
  }

  @Test("a push goes to the device of its token, and to no other", arguments: loopCounts)
  func oneDevice(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let devices = try (PushDevice(server), PushDevice(server))
      let tokens = try (devices.0.token(), devices.1.token())
      #expect(tokens.0 != tokens.1)
      _ = try server.send(.push(to: tokens.1, Request.aps(home: 2)))
      _ = try server.send(.push(to: tokens.0, Request.aps(home: 1)))
      #expect(try devices.0.socket.receiveText().contains(#""home":1"#))
      #expect(try devices.1.socket.receiveText().contains(#""home":2"#))
    }
  }

  @Test("a repeated apns-id is answered as the first time and delivered once", arguments: loopCounts)
  func repetition(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let first = try server.send(.push(to: token, id: Request.id))
      let again = try server.send(.push(to: token, Request.aps(home: 9), id: Request.id))
      #expect(again.headers["apns-unique-id"] == first.headers["apns-unique-id"])
      #expect(again.headers["touchline-repeated"] == "true" && first.headers["touchline-repeated"] == nil)
      _ = try server.send(.push(to: token, Request.aps(home: 2)))
      #expect(try device.socket.receiveText().contains(#""home":1"#))
      #expect(try device.socket.receiveText().contains(#""home":2"#))
    }
  }

  @Test(
    "a repeated end is answered as the first time, although the token has ended with the activity",
    arguments: loopCounts)
  func repeatedEnd(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let first = try server.send(.push(to: token, Request.aps(event: "end"), id: Request.id))
      _ = try device.socket.receive("push")
      try device.unregister(token)
      let again = try server.send(.push(to: token, Request.aps(event: "end"), id: Request.id))
      #expect(again.status == 200 && again.headers["apns-unique-id"] == first.headers["apns-unique-id"])
      let other = try server.send(.push(to: token, Request.aps(event: "end")))
      #expect(other.status == 410 && other.reason == "ExpiredToken")
    }
  }

  @Test(
    "while the device is away the newest push waits, and comes when the device takes its token up again",
    arguments: loopCounts)
  func away(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let registered = try device.register()
      let token = try #require(registered.token)
      try device.leave(server)
      #expect(try outcome(server.send(.push(to: token))) == "undeliverable")
      let old = try server.send(.push(to: token, Request.aps(home: 1)).expiring(in: 100))
      let waiting = try server.send(.push(to: token, Request.aps(home: 2), id: Request.id).expiring(in: 100))
      #expect(try outcome(old) == "stored" && outcome(waiting) == "stored")
      #expect(try record(server, old).outcome == "superseded")

      let back = try PushDevice(server)
      let again = try back.register(kept: registered)
      #expect(again.token == token && again.secret == registered.secret && again.replaces == nil)
      let push = try back.socket.receive("push")
      #expect(push.uniqueID == waiting.headers["apns-unique-id"])
      #expect(try record(server, waiting).outcome == "delivered")
      // A sender that repeats it is answered as it was.
      let repeated = try server.send(.push(to: token, id: Request.id))
      #expect(try outcome(repeated) == "stored")

      // Not acknowledged, it comes again; acknowledged, it doesn't.
      try back.leave(server)
      let third = try PushDevice(server)
      _ = try third.register(kept: registered)
      #expect(try third.socket.receive("push").uniqueID == push.uniqueID)
      #expect(try third.acknowledge(push).type == "push-acknowledged")
      try third.leave(server)
      let fourth = try PushDevice(server)
      _ = try fourth.register(kept: registered)
      #expect(try fourth.socket.ask(#"{"type":"rotate","token":"\#(token)"}"#).type == "registered")
    }
  }

  @Test("a token is taken up with its secret only, and its former session is told", arguments: loopCounts)
  func takenUp(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let registered = try device.register()
      let token = try #require(registered.token)
      let other = try PushDevice(server)
      let fields = #""kind":"update","app":"com.example.scores","activity":"final","token":"\#(token)""#
      let guess = String(repeating: "0", count: 64)
      let refused = try other.socket.ask(#"{"type":"register",\#(fields),"secret":"\#(guess)"}"#)
      #expect(refused.reason == "WrongSecret")
      #expect(try other.socket.ask(#"{"type":"register",\#(fields)}"#).reason == "BadRequestParams")
      #expect(try other.socket.ask(#"{"type":"rotate","token":"\#(token)"}"#).reason == "UnknownToken")
      _ = try other.register(kept: registered)
      let told = try device.socket.receive("unregistered")
      #expect(told.token == token && told.reason == "elsewhere")
      _ = try server.send(.push(to: token))
      #expect(try other.socket.receive("push").token == token)
      // The former session's end takes nothing away.
      try device.leave(server)
      #expect(try outcome(server.send(.push(to: token))) == "delivered")
    }
  }

  @Test("a rotated token has expired, and what it led to goes on under the new one", arguments: loopCounts)
  func rotation(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let old = try device.token()
      let first = try server.send(.push(to: old, id: Request.id))
      _ = try device.socket.receive("push")
      let frame = try device.socket.ask(#"{"type":"rotate","token":"\#(old)"}"#)
      let new = try #require(frame.token)
      #expect(frame.type == "registered" && frame.replaces == old && new != old)
      let refused = try server.send(.push(to: old))
      #expect(refused.status == 410 && refused.reason == "ExpiredToken")
      let repeated = try server.send(.push(to: new, id: Request.id))
      #expect(repeated.headers["apns-unique-id"] == first.headers["apns-unique-id"])
      _ = try server.send(.push(to: new))
      #expect(try device.socket.receive("push").token == new)
    }
  }

  @Test("a server that doesn't know a token gives another one in its place", arguments: loopCounts)
  func forgotten(_ loops: Int) throws {
    let kept = Box<Frame?>(nil)
    try withServer(loops: loops) { kept.value = try PushDevice($0).register() }
    try withServer(loops: loops) { server in
      let old = try #require(kept.value)
      let frame = try PushDevice(server).register(kept: old)
      #expect(frame.token != old.token && frame.replaces == old.token)
    }
  }

  @Test(
    "410 tells since when, in milliseconds, and why",
    arguments: [
      ("ended", "ExpiredToken"), ("switched-off", "Unregistered"),
    ])
  func gone(reason: String, code: String) throws {
    struct Body: Decodable {
      let reason: String
      let timestamp: Double
    }
    try withServer { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let before = Date().timeIntervalSince1970 * 1_000 - 1
      try device.unregister(token, reason)
      let answer = try server.send(.push(to: token))
      let body = try answer.json(Body.self)
      #expect(answer.status == 410 && body.reason == code)
      #expect(body.timestamp >= before && body.timestamp <= Date().timeIntervalSince1970 * 1_000)
    }
  }

  struct Record: Decodable {
    let outcome, kind, event, app: String
    let written, acknowledged, displayed: Bool
  }

  private func record(_ server: ServerFixture, _ answer: Answer) throws -> Record {
    let id = try #require(answer.headers["apns-unique-id"])
    return try server.send(.get("/v1/pushes/\(id)")).json(Record.self)
  }

  @Test("written, acknowledged and displayed are told apart, and the token isn't told", arguments: loopCounts)
  func records(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token("start")
      let answer = try server.send(.push(to: token, Request.start()))
      let push = try device.socket.receive("push")
      var seen = try record(server, answer)
      #expect(seen.written && !seen.acknowledged && !seen.displayed)
      #expect(seen.kind == "start" && seen.event == "start" && seen.app == Request.app)
      _ = try device.acknowledge(push)
      seen = try record(server, answer)
      #expect(seen.acknowledged && !seen.displayed)
      _ = try device.acknowledge(push, displayed: true)
      #expect(try record(server, answer).displayed)
      let id = try #require(answer.headers["apns-unique-id"])
      #expect(try !server.send(.get("/v1/pushes/\(id)")).text.contains(token))
      #expect(try server.send(.get("/v1/pushes/\(UUID())")).reason == "PushNotKnown")
    }
  }

  @Test("a push is acknowledged with the token that it went to, also when that has rotated since")
  func acknowledgedElsewhere() throws {
    try withServer { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let other = try PushDevice(server)
      let wrong = try other.token()
      let answer = try server.send(.push(to: token))
      let push = try device.socket.receive("push")
      let id = try #require(push.uniqueID)
      let refused = try other.socket.ask(#"{"type":"ack-push","token":"\#(wrong)","unique-id":"\#(id)"}"#)
      #expect(refused.reason == "BadRequestParams")
      #expect(try !record(server, answer).acknowledged)
      let rotated = try device.socket.ask(#"{"type":"rotate","token":"\#(token)"}"#)
      let fresh = try #require(rotated.token)
      let taken = try device.socket.ask(#"{"type":"ack-push","token":"\#(fresh)","unique-id":"\#(id)"}"#)
      #expect(taken.type == "push-acknowledged")
      #expect(try record(server, answer).acknowledged)
    }
  }

  @Test("over budget a push waits like priority 5, and the answer tells what is left", arguments: loopCounts)
  func budget(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let token = try device.token()
      let connection = try ProviderConnection(server)
      var first: Answer?
      var last = ""
      // The burst of 40 is less than the budget of 60, so the rate is met on the way.
      try waitUntil("the budget to be spent") {
        let answer = try connection.send(.push(to: token))
        first = first ?? answer
        if answer.status == 429 {
          #expect(answer.reason == "TooManyRequests" && answer.headers["retry-after"] == "1")
        } else {
          last = try outcome(answer)
        }
        return last == "demoted"
      }
      #expect(first?.headers["ratelimit-policy"] == #""priority-10";q=60;w=900, "publish-rate";q=40;w=2"#)
      #expect(first?.headers["ratelimit"]?.hasPrefix(#""priority-10";r=59;"#) == true)
      // 60 at once, and the demoted one when its window ends.
      for _ in 0..<61 { _ = try device.socket.receive("push") }
    }
  }

  @Test("the log warns of what would go wrong on the device, and never has a token", arguments: loopCounts)
  func log(_ loops: Int) throws {
    try withServer(loops: loops) { server in
      let device = try PushDevice(server)
      let tokens = try (device.token(), device.token("start"))
      _ = try server.send(.push(to: tokens.0, Request.aps(more: #""state-date":1,"#)))
      _ = try server.send(.push(to: tokens.1, Request.start(#""input-push-channel":"nowhere","#)))
      let log = server.log.value
      #expect(log.contains { $0.contains("aps.state-date") && $0.contains("stale-date") })
      #expect(log.contains { $0.contains("input-push-channel names no channel of the app") })
      #expect(!log.contains { $0.contains(tokens.0) || $0.contains(tokens.1) })
    }
  }
}
