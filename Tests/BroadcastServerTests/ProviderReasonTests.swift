import BroadcastChannels
import ChannelStore
import Foundation
import TestSupport
import Testing

/// One thing that is wrong with a request, and what the API says to it.
struct Fault: Sendable, CustomTestStringConvertible {
  let name: String
  let status: Int
  let reason: String
  /// The parts of the request that it changes: two faults of one part can't be had at once.
  let part: String
  let apply: @Sendable (inout Request) -> Void

  init(
    _ name: String, _ status: Int, _ reason: String, in part: String,
    _ apply: @escaping @Sendable (inout Request) -> Void
  ) {
    (self.name, self.status, self.reason, self.part, self.apply) = (name, status, reason, part, apply)
  }

  static func header(_ name: String, _ value: String?, _ status: Int, _ reason: String) -> Fault {
    Fault("\(name) \(value ?? "missing")", status, reason, in: name) { $0.headers[name] = value }
  }

  static func body(_ name: String, _ text: String, _ status: Int, _ reason: String) -> Fault {
    Fault("a body \(name)", status, reason, in: "body") { $0.body = Array(text.utf8) }
  }

  static let path = Fault("a path that is none", 404, "BadPath", in: "path") { $0.path = "/4/broadcast" }
  static let method = Fault("a method that is none", 405, "MethodNotAllowed", in: "method") {
    $0.method = "PUT"
  }

  var testDescription: String { name }
}

@Suite struct ProviderReasonTests {
  private static let unknownChannel = "dHN0LXNyY2gtY2hubA=="

  /// The faults of a broadcast, in the documented order of the checks.
  static let broadcastFaults: [Fault] = [
    .path, .method,
    .header("apns-channel-id", nil, 400, "MissingChannelId"),
    .header("apns-channel-id", "***", 400, "BadChannelId"),
    .header("apns-push-type", nil, 400, "MissingPushType"),
    .header("apns-push-type", "voip", 400, "InvalidPushType"),
    .header("apns-expiration", "tomorrow", 400, "BadExpirationDate"),
    .header("apns-priority", "7", 400, "BadPriority"),
    .header("apns-channel-id", unknownChannel, 400, "ChannelNotRegistered"),
    .header("apns-expiration", "4000000000", 400, "BadExpirationDate"),
    .body("that is empty", "", 400, "PayloadEmpty"),
    Fault("a body of 5,121 bytes that is no JSON", 413, "PayloadTooLarge", in: "body") {
      $0.body = [UInt8](repeating: 0x78, count: 5_121)
    },
    .body("that is no JSON", "home=1", 400, "BadRequestPayload"),
  ]

  /// The faults of reading or deleting a channel, in the same order.
  static let channelFaults: [Fault] = [
    .path, .method,
    .header("apns-channel-id", nil, 400, "MissingChannelId"),
    .header("apns-channel-id", "***", 400, "BadChannelId"),
    .header("apns-channel-id", unknownChannel, 400, "ChannelNotRegistered"),
  ]

  private func expectRefusal(
    _ answer: Answer, _ fault: Fault, _ comment: Comment? = nil, _ location: SourceLocation = #_sourceLocation
  ) {
    #expect(answer.status == fault.status && answer.reason == fault.reason, comment, sourceLocation: location)
    #expect(answer.text == #"{"reason":"\#(fault.reason)"}"#, comment, sourceLocation: location)
    #expect(answer.headers["content-type"] == "application/json", comment, sourceLocation: location)
    #expect(
      answer.headers["apns-request-id"].flatMap { UUID(uuidString: $0) } != nil, comment,
      sourceLocation: location)
    #expect(answer.headers["touchline-detail"]?.isEmpty == false, comment, sourceLocation: location)
  }

  /// Sends a request with one fault, and with that fault and each later one.
  private func expectOrder(
    _ fault: Fault, of faults: [Fault], _ request: Request, _ connection: ProviderConnection
  ) throws {
    var wrong = request
    fault.apply(&wrong)
    expectRefusal(try connection.send(wrong), fault)
    let index = try #require(faults.firstIndex { $0.name == fault.name })
    for later in faults[(index + 1)...] where later.part != fault.part {
      var both = wrong
      later.apply(&both)
      expectRefusal(try connection.send(both), fault, "with \(later.name) as well")
    }
  }

  @Test(arguments: broadcastFaults)
  func aBroadcastIsRefusedForItsFirstFaultInTheDocumentedOrder(_ fault: Fault) throws {
    try withServer { server in
      let channel = try server.createChannel()
      let connection = try ProviderConnection(server)
      try expectOrder(fault, of: Self.broadcastFaults, .broadcast(to: channel), connection)
      #expect(try connection.send(.broadcast(to: channel)).status == 200)
      #expect(try server.report(channel).counts.accepted == 1)
    }
  }

  @Test(arguments: channelFaults)
  func aChannelIsNotReadOrDeletedForItsFirstFaultInTheDocumentedOrder(_ fault: Fault) throws {
    try withServer { server in
      let channel = try server.createChannel()
      let connection = try ProviderConnection(server)
      for request in [Request.read(channel), .delete(channel)] {
        try expectOrder(fault, of: Self.channelFaults, request, connection)
      }
      #expect(try connection.send(.read(channel)).status == 200)
    }
  }

  @Test(arguments: [
    Fault.body("that is empty", "", 400, "PayloadEmpty"),
    .body("that is no JSON", "{", 400, "BadRequestPayload"),
    .body("that is an array", "[]", 400, "BadRequestPayload"),
    .body("with a name twice", #"{"push-type":"alert","push-type":"alert"}"#, 400, "BadRequestPayload"),
    .body(
      "with an unknown attribute", #"{"message-storage-policy":0,"push-type":"LiveActivity","name":"x"}"#,
      400,
      "BadRequestParams"),
    .body("without a policy", #"{"push-type":"LiveActivity"}"#, 400, "BadRequestParams"),
    .body(
      "with policy 2", #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#, 400, "BadRequestParams"),
    .body(
      "with a policy in quotes", #"{"message-storage-policy":"0","push-type":"LiveActivity"}"#, 400,
      "BadRequestParams"),
    .body("without a push type", #"{"message-storage-policy":0}"#, 400, "MissingPushType"),
    .body(
      "with another push type", #"{"message-storage-policy":0,"push-type":"alert"}"#, 400, "InvalidPushType"),
    Fault("a suffix in the bundle id", 400, "TopicDisallowed", in: "path") {
      $0.path = "/1/apps/com.example.scores.push-type.liveactivity/channels"
    },
    Fault("a bundle id that is none", 404, "BadPath", in: "path") { $0.path = "/1/apps/a%20b/channels" },
    Fault("a body of 5,121 bytes", 413, "PayloadTooLarge", in: "body") {
      $0.body = [UInt8](repeating: 0x20, count: 5_121)
    },
    .header("apns-request-id", "goal-1", 400, "BadMessageId"),
  ])
  func aChannelIsNotCreatedFrom(_ fault: Fault) throws {
    try withServer { server in
      var request = Request.create()
      fault.apply(&request)
      expectRefusal(try server.send(request), fault)
      #expect(try server.send(.list()).text == #"{"channels":[]}"#)
    }
  }

  @Test(arguments: [
    Fault.header("apns-request-id", "goal-1", 400, "BadMessageId"),
    .header("apns-request-id", "{11111111-2222-4333-8444-555555555555}", 400, "BadMessageId"),
    .header("apns-push-type", "", 400, "MissingPushType"),
    .header("apns-channel-id", "", 400, "MissingChannelId"),
    .header("apns-channel-id", "YWJj ", 400, "ChannelNotRegistered"),
    .header("apns-channel-id", "YWI", 400, "BadChannelId"),
    .header("apns-expiration", "-1", 400, "BadExpirationDate"),
    .header("apns-expiration", "1700000000.5", 400, "BadExpirationDate"),
    .header("apns-expiration", "99999999999999999999", 400, "BadExpirationDate"),
    .header("apns-priority", "10.0", 400, "BadPriority"),
    .header("apns-priority", "", 400, "BadPriority"),
    .body("without aps", #"{"home":1}"#, 400, "BadRequestPayload"),
    .body("that is only a number", "1", 400, "BadRequestPayload"),
    .body(
      "with a start", #"{"aps":{"timestamp":1,"event":"start","content-state":{}}}"#, 400, "BadRequestPayload"
    ),
    .body("without an event", #"{"aps":{"timestamp":1,"content-state":{}}}"#, 400, "BadRequestPayload"),
    .body("without a timestamp", #"{"aps":{"event":"update","content-state":{}}}"#, 400, "BadRequestPayload"),
    .body("without a state", #"{"aps":{"event":"update","timestamp":1}}"#, 400, "BadRequestPayload"),
    .body(
      "with milliseconds", #"{"aps":{"event":"update","timestamp":1700000000000,"content-state":{}}}"#, 400,
      "BadRequestPayload"),
    .body(
      "nested 65 levels deep",
      #"{"aps":{"event":"update","timestamp":1,"content-state":{"a":"#
        + String(repeating: "[", count: 62) + String(repeating: "]", count: 62) + "}}}", 400,
      "BadRequestPayload"),
    Fault("a body with a NUL byte", 400, "BadRequestPayload", in: "body") { $0.body.insert(0, at: 20) },
    Fault("a body that is not UTF-8", 400, "BadRequestPayload", in: "body") {
      $0.body = Array(#"{"aps":{"event":"update","timestamp":1,"content-state":{"a":""#.utf8) + [0xC3, 0x28]
      $0.body += Array(#""}}}"#.utf8)
    },
    Fault("a suffix in the bundle id", 400, "TopicDisallowed", in: "path") {
      $0.path = "/4/broadcasts/apps/com.example.scores.push-type.liveactivity"
    },
    Fault("a slash at the end", 404, "BadPath", in: "path") { $0.path += "/" },
  ])
  func aBroadcastIsRefusedFor(_ fault: Fault) throws {
    try withServer { server in
      let channel = try server.createChannel()
      var request = Request.broadcast(to: channel)
      fault.apply(&request)
      expectRefusal(try server.send(request), fault)
      #expect(try server.report(channel).counts.accepted == 0)
    }
  }

  @Test(arguments: [
    ("/1/apps/com.example.scores/channels", "PATCH", "GET, POST, DELETE"),
    ("/1/apps/com.example.scores/all-channels", "POST", "GET"),
    ("/4/broadcasts/apps/com.example.scores", "GET", "POST"), ("/healthz", "POST", "GET, HEAD"),
    ("/v1/channels", "DELETE", "GET, HEAD, POST"), ("/v1/channels/x", "PUT", "GET, HEAD, DELETE"),
  ])
  func aMethodThatIsNotAllowedIsToldWhichAre(_ path: String, _ method: String, _ allowed: String) throws {
    try withServer { server in
      let answer = try server.send(Request(method: method, path: path))
      #expect(answer.status == 405 && answer.reason == "MethodNotAllowed")
      #expect(answer.headers["allow"] == allowed)
    }
  }

  @Test func anotherAppsChannelIsNotRegistered() throws {
    try withServer { server in
      let theirs = try server.createChannel(app: "com.example.other")
      for request in [Request.read(theirs), .delete(theirs), .broadcast(to: theirs)] {
        #expect(try server.send(request).reason == "ChannelNotRegistered")
      }
      #expect(try server.send(.list()).text == #"{"channels":[]}"#)
      #expect(try server.send(.read(theirs, app: "com.example.other")).status == 200)
    }
  }

  @Test func aDeletedChannelIsNotRegisteredAnyMore() throws {
    try withServer { server in
      let channel = try server.createChannel()
      #expect(try server.send(.delete(channel)).status == 204)
      for request in [Request.read(channel), .delete(channel), .broadcast(to: channel)] {
        #expect(try server.send(request).reason == "ChannelNotRegistered")
      }
    }
  }

  @Test func theTenThousandAndFirstChannelOfAnAppIsRefused() throws {
    try withServer {
      $0.store = { FullStore(count: 9_999) }
    } _: { server in
      let connection = try ProviderConnection(server)
      let last = try connection.send(.create())
      #expect(last.status == 201)
      let refused = try connection.send(.create())
      #expect(refused.status == 400 && refused.reason == "CannotCreateChannelConfig")
      #expect(try connection.send(.create(app: "com.example.other")).status == 201)
      let channel = try #require(last.headers["apns-channel-id"])
      #expect(try connection.send(.delete(channel)).status == 204)
      #expect(try connection.send(.create()).status == 201)
    }
  }

  @Test func aStoreThatFailsIsUnavailableAndNothingHasHappened() throws {
    let isBroken = Box(false)
    try withServer {
      $0.store = { BreakableStore(isBroken) }
    } _: { server in
      let channel = try server.createChannel(policy: 1)
      let subscriber = try SubscriberSocket(server, streamOf: channel)
      _ = try subscriber.receive("subscribed")
      let broadcast = Request.broadcast(to: channel, Request.aps(home: 1), expiration: Request.now + 600)
      isBroken.value = true
      for request in [Request.create(), .delete(channel), broadcast] {
        let answer = try server.send(request)
        #expect(answer.status == 503 && answer.reason == "ServiceUnavailable")
        #expect(answer.headers["retry-after"] == "1")
      }
      #expect(try server.report(channel).seq == 0)
      isBroken.value = false
      #expect(try server.send(broadcast).status == 200)
      #expect(try subscriber.receive("message").seq == 1)
      #expect(server.log.value.contains { $0.hasPrefix("error the store failed to write a change") })
    }
  }
}

/// A store that holds many channels of one app already.
private final class FullStore: ChannelStore {
  private let channels: [StoredChannel]

  init(count: Int) {
    var random = SystemRandomNumberGenerator()
    channels = (0..<count).map { _ in
      StoredChannel(
        id: ChannelID.random(using: &random),
        definition: ChannelDefinition(settings: ChannelSettings(app: .scores)),
        state: ChannelState(position: StreamPosition(epoch: "e", sequence: 0)))
    }
  }

  let isDurable = true
  let place = "a store of many channels"

  func load() -> [StoredChannel] { channels }
  func write(_ batch: StoreBatch) {}
  func probe() {}
}

/// A store that fails while a switch is on.
private final class BreakableStore: ChannelStore {
  private let isBroken: Box<Bool>

  init(_ isBroken: Box<Bool>) { self.isBroken = isBroken }

  let isDurable = true
  let place = "a disk that breaks"

  private func attempt() throws(StoreError) {
    if isBroken.value { throw .failed(operation: "write a change", problem: "the disk is full") }
  }

  func load() -> [StoredChannel] { [] }
  func write(_ batch: StoreBatch) throws(StoreError) { try attempt() }
  func probe() throws(StoreError) { try attempt() }
}
