import BroadcastChannels
import Foundation
import SubscriberProtocol
import TestSupport
import Testing

@testable import BroadcastServer

@Suite struct IntentTests {
  private static let json = #"""
    {"app":"com.example.scores","content-state":{"followed":"Bool?","muted":"Bool?"},
     "actions":{"follow":{"title":"Follow","sets":{"followed":true}},"mute":{"sets":{"muted":true}}}}
    """#

  private func withChannel(_ body: (ServerFixture) throws -> Void) throws {
    try withServer({ $0.definitions = [try definition("final", Self.json), try definition("plain")] }, body)
  }

  private func listener(_ server: ServerFixture, _ channel: String = "final") throws -> SubscriberSocket {
    let socket = try SubscriberSocket(sessionOn: server)
    let answer = try socket.ask(#"{"type":"listen","channel":"\#(channel)"}"#)
    try #require(answer.type == "listening", "\(answer)")
    return socket
  }

  private func press(_ id: String, _ action: String = "follow") -> String {
    #"{"type":"intent","channel":"final","action":"\#(action)","request-id":"\#(id)"}"#
  }

  @Test func aPressedButtonReachesEveryPublisherThatListensOnce() throws {
    try withChannel { server in
      let channel = try server.report("final").id
      let publishers = [try listener(server), try listener(server, channel)]
      let phone = try SubscriberSocket(sessionOn: server)
      let ids = (0..<2).map { _ in UUID().uuidString }
      let accepted = try phone.ask(press(ids[0]))
      #expect(accepted.type == "intent-accepted" && accepted.channel == channel)
      #expect(accepted.requestID == ids[0] && accepted.repeated == nil)
      // Pressed again before the state confirmed it, also by another way.
      let again = try phone.ask(press(ids[0]))
      #expect(again.type == "intent-accepted" && again.repeated == true && again.requestID == ids[0])
      #expect(try SubscriberSocket(sessionOn: server).ask(press(ids[0])).repeated == true)
      #expect(try phone.ask(press(ids[1], "mute")).repeated == nil)
      for publisher in publishers {
        let frames = [try publisher.receive("intent"), try publisher.receive("intent")]
        #expect(frames.map(\.action) == ["follow", "mute"] && frames.map(\.requestID) == ids)
        #expect(frames.map(\.sets) == [["followed": true], ["muted": true]])
        #expect(frames.allSatisfy { $0.channel == channel })
      }
    }
  }

  @Test func aSessionHearsItsOwnIntentAndStillSubscribes() throws {
    try withChannel { server in
      let session = try SubscriberSocket(server, streamOf: "final")
      _ = try session.receive("subscribed")
      let request = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
      let answer = try session.ask(#"{"type":"listen","channel":"final","request-id":"\#(request)"}"#)
      #expect(answer.type == "listening" && answer.requestID == request)
      session.send(press(UUID().uuidString))
      let types = [try session.receive().type, try session.receive().type]
      #expect(types.sorted() == ["intent", "intent-accepted"])
      // Who listens and doesn't subscribe gets no messages.
      let publisher = try listener(server)
      _ = try publisher.receive("intent")
      try server.publish()
      #expect(try session.receive("message").seq == 1)
      session.send(press(UUID().uuidString, "mute"))
      #expect(try publisher.receive("intent").action == "mute")
    }
  }

  @Test func whatWasPressedBeforeIsHeardFirstAndAgainAfterReconnecting() throws {
    try withChannel { server in
      let phone = try SubscriberSocket(sessionOn: server)
      let ids = (0..<3).map { _ in UUID().uuidString }
      for id in ids { #expect(try phone.ask(press(id)).type == "intent-accepted") }
      for _ in 0..<2 {
        let publisher = try listener(server)
        for id in ids { #expect(try publisher.receive("intent").requestID == id) }
      }
      // Both are gone; nobody minds.
      try waitUntil("the publishers to be forgotten") { try server.health().sessions == 1 }
      #expect(try phone.ask(press(UUID().uuidString)).type == "intent-accepted")
    }
  }

  @Test func onlyTheNewest256Wait() throws {
    try withChannel { server in
      let phone = try SubscriberSocket(sessionOn: server)
      let ids = (0...Limits.intentsPerChannel).map { _ in UUID().uuidString }
      // A session passes on so many at once.
      let share = Int(Limits.intentBurst)
      for first in stride(from: 0, to: ids.count, by: share) {
        let crowd = try SubscriberSocket(sessionOn: server)
        for id in ids[first..<min(ids.count, first + share)] { _ = try crowd.ask(press(id)) }
      }
      let publisher = try listener(server)
      for id in ids.dropFirst() { #expect(try publisher.receive("intent").requestID == id) }
      // The one that was pushed out is new again.
      #expect(try phone.ask(press(ids[0])).repeated == nil)
      #expect(try publisher.receive("intent").requestID == ids[0])
    }
  }

  @Test(arguments: [
    ("final", "folow", "UnknownAction", #"did you mean "follow"?"#), ("final", "", "UnknownAction", "action"),
    ("plain", "follow", "UnknownAction", "it declares none"),
    ("nothing", "follow", "ChannelNotRegistered", "no channel"),
  ])
  func anActionThatIsNotDeclaredIsRefused(
    _ channel: String, _ action: String, _ reason: String, _ text: String
  ) throws {
    try withChannel { server in
      let publisher = try listener(server)
      let phone = try SubscriberSocket(sessionOn: server)
      let id = UUID().uuidString
      let error = try phone.ask(
        #"{"type":"intent","channel":"\#(channel)","action":"\#(action)","request-id":"\#(id)"}"#)
      #expect(error.type == "error" && error.reason == reason && error.channel == channel)
      #expect(error.requestID == id && error.message?.contains(text) == true, "\(error)")
      // It was not taken: the same id, rightly spelt, is new.
      #expect(try phone.ask(press(id)).repeated == nil)
      #expect(try publisher.receive("intent").requestID == id)
    }
  }

  @Test(arguments: [
    (#"{"type":"intent","channel":"final","action":"follow"}"#, "BadMessageId"),
    (#"{"type":"intent","channel":"final","action":"follow","request-id":"7"}"#, "BadMessageId"),
    (
      #"{"type":"intent","channel":"final","request-id":"2288cf3f-70d8-46a6-97d7-dd5d00867127"}"#,
      "BadRequestParams"
    ),
    (
      #"{"type":"intent","channel":"final","action":1,"request-id":"2288cf3f-70d8-46a6-97d7-dd5d00867127"}"#,
      "BadRequestParams"
    ),
    (#"{"type":"listen"}"#, "MissingChannelId"), (#"{"type":"listen","channel":"*"}"#, "BadChannelId"),
    (#"{"type":"listen","channel":"nothing"}"#, "ChannelNotRegistered"),
    (#"{"type":"listen","channel":"final","action":"follow"}"#, "BadRequestParams"),
  ])
  func aFrameThatIsWrongIsRefusedAndTheSessionGoesOn(_ frame: String, _ reason: String) throws {
    try withChannel { server in
      let session = try SubscriberSocket(sessionOn: server)
      let error = try session.ask(frame)
      #expect(error.type == "error" && error.reason == reason && error.message?.isEmpty == false)
      #expect(try session.ask(#"{"type":"listen","channel":"final"}"#).type == "listening")
    }
  }

  @Test func whoListensToADeletedChannelIsToldOnce() throws {
    try withChannel { server in
      let channel = try server.report("final").id
      let publisher = try listener(server)
      let both = try listener(server)
      _ = try both.ask(#"{"type":"subscribe","channel":"final"}"#)
      let stream = try SubscriberSocket(server, streamOf: "final")
      _ = try stream.receive("subscribed")
      _ = try stream.ask(#"{"type":"listen","channel":"final"}"#)
      #expect(try server.send(.delete(channel)).status == 204)
      for session in [publisher, both, stream] {
        let frame = try session.receive("unsubscribed")
        #expect(frame.channel == channel && frame.reason == "deleted")
      }
      #expect(try stream.closeCode() == 4004)
      // Nothing more comes of it, and the sessions go on.
      for session in [publisher, both] {
        #expect(try session.ask(#"{"type":"listen","channel":"final"}"#).reason == "ChannelNotRegistered")
        #expect(try session.ask(#"{"type":"listen","channel":"plain"}"#).type == "listening")
      }
    }
  }

  @Test(arguments: loopCounts) func aSessionListensToAtMost1024Channels(_ loops: Int) throws {
    try withServer(loops: loops) {
      $0.definitions = try (0...1_024).map { try definition("c\($0)") }
    } _: { server in
      let session = try SubscriberSocket(sessionOn: server)
      for number in 0..<1_024 {
        try #require(session.ask(#"{"type":"listen","channel":"c\#(number)"}"#).type == "listening")
      }
      #expect(try session.ask(#"{"type":"listen","channel":"c1024"}"#).reason == "TooManySubscriptions")
      #expect(try session.ask(#"{"type":"listen","channel":"c7"}"#).type == "listening")
      #expect(try session.ask(#"{"type":"subscribe","channel":"c1024"}"#).type == "subscribed")
    }
  }
}

@Suite struct IntentBoardTests {
  /// A board and the seconds that pass on it.
  private final class Stage {
    private var board = IntentBoard()

    private func at(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_700_000_000 + seconds) }

    func take(_ id: String, at seconds: Double) -> Bool {
      let value = JSONText(compacting: "true".utf8)
      let frame = IntentFrame(
        channel: "c", action: "follow", property: "followed", value: value, intentID: id)
      return board.take(frame, at: at(seconds))
    }

    func recent(at seconds: Double) -> [String] { board.recent(at: at(seconds)).map(\.intentID) }
  }

  private let stage = Stage()

  @Test func anIntentIsKnownForTenMinutes() {
    #expect(stage.take("a", at: 0))
    #expect(!stage.take("a", at: 599.9))
    #expect(stage.recent(at: 599.9) == ["a"])
    // A repetition doesn't make it younger.
    #expect(stage.recent(at: 600) == [])
    #expect(stage.take("a", at: 600))
  }

  @Test func theNewest256AreKept() {
    for number in 0..<1_000 { #expect(stage.take("\(number)", at: Double(number))) }
    #expect(stage.recent(at: 1_000) == (744..<1_000).map { "\($0)" })
    #expect(!stage.take("999", at: 1_000))
    #expect(stage.take("0", at: 1_000))
    #expect(stage.recent(at: 1_350.5).first == "751")
  }
}
