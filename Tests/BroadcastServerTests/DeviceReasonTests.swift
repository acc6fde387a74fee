import Foundation
import TestSupport
import Testing

/// Every reason of `POST /3/device/<token>`, in the documented order of the checks.
@Suite struct DeviceReasonTests {
  static let faults: [Fault] = [
    Fault("a path that is none", 404, "BadPath", in: "path") { $0.path += "/x" },
    Fault("a method that is none", 405, "MethodNotAllowed", in: "method") { $0.method = "GET" },
    .header("apns-id", "7", 400, "BadMessageId"),
    Fault("a token that is none", 400, "BadDeviceToken", in: "path") { $0.path = "/3/device/xyz" },
    .header("apns-topic", nil, 400, "MissingTopic"),
    .header("apns-topic", "com.example.scores", 400, "BadTopic"),
    .header("apns-topic", "com.example.other.push-type.liveactivity", 400, "DeviceTokenNotForTopic"),
    .header("apns-push-type", nil, 400, "MissingPushType"),
    .header("apns-push-type", "voip", 400, "InvalidPushType"),
    .header("apns-expiration", "tomorrow", 400, "BadExpirationDate"),
    .header("apns-priority", "1", 400, "BadPriority"),
    .header("apns-collapse-id", String(repeating: "x", count: 65), 400, "BadCollapseId"),
    .body("that is empty", "", 400, "PayloadEmpty"),
    Fault("a body of 4,097 bytes that is no JSON", 413, "PayloadTooLarge", in: "body") {
      $0.body = [UInt8](repeating: 0x78, count: 4_097)
    },
    .body("that is no JSON", "home=1", 400, "BadRequestPayload"),
  ]

  private func expectRefusal(_ answer: Answer, _ fault: Fault, _ comment: Comment? = nil) {
    #expect(answer.status == fault.status && answer.reason == fault.reason, comment)
    #expect(answer.text == #"{"reason":"\#(fault.reason)"}"#, comment)
    #expect(answer.headers["touchline-detail"]?.isEmpty == false, comment)
    let id = answer.headers[fault.reason == "BadPath" ? "apns-request-id" : "apns-id"]
    #expect(id.flatMap { UUID(uuidString: $0) } != nil, comment)
  }

  @Test(arguments: faults)
  func `a push is refused for its first fault in the documented order`(_ fault: Fault) throws {
    try withServer { server in
      let device = try PushDevice(server)
      let right = Request.push(to: try device.token())
      let connection = try ProviderConnection(server)
      var wrong = right
      fault.apply(&wrong)
      expectRefusal(try connection.send(wrong), fault)
      let index = try #require(Self.faults.firstIndex { $0.name == fault.name })
      for later in Self.faults[(index + 1)...] where later.part != fault.part {
        var both = wrong
        later.apply(&both)
        expectRefusal(try connection.send(both), fault, "with \(later.name) as well")
      }
      #expect(try connection.send(right).status == 200)
    }
  }

  /// The token has ended: what is checked before that is refused for itself, and what comes after it is not looked at.
  @Test(arguments: faults)
  func `a token that is gone is told between its headers and its payload`(_ fault: Fault) throws {
    try withServer { server in
      let device = try PushDevice(server)
      let token = try device.token()
      try device.unregister(token)
      var request = Request.push(to: token)
      fault.apply(&request)
      let answer = try server.send(request)
      #expect(answer.reason == (fault.part == "body" ? "ExpiredToken" : fault.reason))
    }
  }

  /// The three kinds that look alike or are taken for each other; what the detail says names the mistake.
  @Test func `one kind of token in another's place is refused, and the mistake is named`() throws {
    try withServer({ $0.definitions = [try definition("final")] }) { server in
      let device = try PushDevice(server)
      let tokens = try (update: device.token(), start: device.token("start"))
      let channel = try server.report("final").id
      func detail(_ request: Request, _ reason: String) throws -> String {
        let answer = try server.send(request)
        #expect(answer.reason == reason, "\(request.path)")
        return answer.headers["touchline-detail"] ?? ""
      }
      #expect(
        try detail(.push(to: tokens.update, Request.start()), "BadDeviceToken").contains("update token"))
      for event in ["update", "end"] {
        let aps = Request.aps(event: event)
        let said = try detail(.push(to: tokens.start, aps), "BadDeviceToken")
        #expect(said.contains("push-to-start token") && said.contains(event))
      }
      for name in [pathSegment(channel), "final"] {
        #expect(try detail(.push(to: name), "BadDeviceToken").contains("names a channel"))
      }
      let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJBQkNERTEyMzQ1In0.c2lnbmF0dXJl"
      let said = try detail(.push(to: jwt), "BadDeviceToken")
      #expect(said.contains("JWT") && !said.contains(jwt))
      // And a push token where a channel's id belongs.
      #expect(try detail(.broadcast(to: tokens.update), "ChannelNotRegistered").contains("push token"))
    }
  }

  @Test func `a start needs its parts, and its channel's id`() throws {
    try withServer { server in
      let token = try PushDevice(server).token("start")
      let wrong = Request.start(#""input-push-channel":"\#(token)","#)
      let answer = try server.send(.push(to: token, wrong))
      #expect(answer.reason == "BadRequestPayload")
      #expect(answer.headers["touchline-detail"]?.contains("is a push token") == true)
      let missing = try server.send(.push(to: token, Request.aps(event: "start")))
      #expect(missing.reason == "BadRequestPayload")
      #expect(missing.headers["touchline-detail"]?.hasPrefix("aps.attributes-type is missing") == true)
    }
  }
}
