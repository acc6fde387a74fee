import Foundation
import TestSupport
import Testing

/// `watch` with push tokens, and curl as the sender.
@Suite("watch and pushes to one device")
struct WatchPushTests {
  /// A line that tells a token.
  struct TokenLine: Decodable {
    let cause, app, token: String
    let name, attributesType, replaces: String?
  }

  /// A line of a change, for states of numbers.
  struct Line: Decodable {
    let cause, state, name, channel: String
    let contentState: [String: Int]?
    let by: String?
  }

  struct Reply {
    let status: Int
    let body: String
  }

  private static let now = Int(Date().timeIntervalSince1970)

  /// Sends a push as a sender made for Apple does.
  private func push(_ server: Server, to token: String, _ aps: String, _ headers: String...) async throws
    -> Reply
  {
    let curl = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/curl"),
      [
        "-s", "-w", #"\n%{http_code}"#, "\(server.address)/3/device/\(token)", "-H",
        "apns-topic: com.example.scores.push-type.liveactivity", "-H", "apns-push-type: liveactivity", "-d",
        "{\"aps\":\(aps)}",
      ] + headers.flatMap { ["-H", $0] })
    let lines = try await curl.ending().output.components(separatedBy: "\n")
    return Reply(status: Int(lines.last ?? "") ?? 0, body: lines.dropLast().joined(separator: "\n"))
  }

  private func aps(_ event: String, _ n: Int, _ more: String = "") -> String {
    #"{"timestamp":\#(Self.now),"event":"\#(event)",\#(more)"content-state":{"n":\#(n)}}"#
  }

  private func start(_ more: String = "", type: String = "MatchAttributes") -> String {
    let parts = #""attributes-type":"\#(type)","attributes":{},"alert":{"title":"Kick-off","body":"Now"},"#
    return aps("start", 0, parts + more)
  }

  private func line<T: Decodable>(_ number: Int, of watch: RunningProgram, _ type: T.Type = T.self)
    async throws -> T
  {
    try decoded(try await watch.lines(number)[number - 1])
  }

  @Test("started by a push, updated by its channel and by its token, ended by a push, then 410")
  func life() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let channel = try await server.channel("final").id
      let watch = try server.start(
        "watch", "--push-to-start", "com.example.scores/MatchAttributes", "--push-token", "--format", "json",
        "--until", "ended")
      let starter: TokenLine = try await line(1, of: watch)
      #expect(starter.cause == "push-to-start-token" && starter.attributesType == "MatchAttributes")

      let started = try await push(
        server, to: starter.token, start(#""input-push-channel":"\#(channel)","#),
        "apns-collapse-id: kick-off")
      #expect(started.status == 200 && started.body.isEmpty)
      let begun: Line = try await line(2, of: watch)
      #expect(begun.cause == "start" && begun.name == "final" && begun.by == "push")
      #expect(begun.state == "active" && begun.contentState == ["n": 0])
      let token: TokenLine = try await line(3, of: watch)
      #expect(token.cause == "push-token" && token.name == "final" && token.token != starter.token)

      try await watch.notice("final: subscribed")
      try await server.succeed("publish", "final", "--state", #"{"n":1}"#)
      let byChannel: Line = try await line(4, of: watch)
      #expect(byChannel.cause == "update" && byChannel.contentState == ["n": 1] && byChannel.by == nil)
      #expect(byChannel.channel == channel)

      // What the channel said is newer than the start; a push of the same moment still comes after it.
      let later = aps("update", 2).replacingOccurrences(of: "\(Self.now)", with: "\(Self.now + 60)")
      #expect(try await push(server, to: token.token, later).status == 200)
      let byToken: Line = try await line(5, of: watch)
      #expect(byToken.cause == "update" && byToken.contentState == ["n": 2] && byToken.by == "push")
      #expect(try await push(server, to: token.token, aps("update", 3)).status == 200)
      let older: Line = try await line(6, of: watch)
      #expect(older.cause == "ignored-older" && older.contentState == ["n": 2])

      let wrong = try await push(server, to: token.token, start())
      #expect(wrong.status == 400 && wrong.body == #"{"reason":"BadDeviceToken"}"#)

      let end = later.replacingOccurrences(of: "update", with: "end")
      #expect(try await push(server, to: token.token, end).status == 200)
      let ended: Line = try await line(7, of: watch)
      #expect(ended.cause == "end" && ended.state == "ended")
      #expect(try await watch.ending().code == 0)
      let pushes = try await server.succeed("requests").lines.filter { $0.contains("200 ") }
      #expect(pushes.last?.hasSuffix("to 1, received 1, displayed 1") == true, "\(pushes)")
      let gone = try await push(server, to: token.token, end)
      #expect(gone.status == 410 && gone.body.hasPrefix(#"{"reason":"ExpiredToken","timestamp":"#))
      let off = try await push(server, to: starter.token, start())
      #expect(off.status == 410 && off.body.hasPrefix(#"{"reason":"Unregistered","timestamp":"#))
    }
  }

  @Test("a start with input-push-token gets a token without being asked, and needs no channel")
  func inputToken() async throws {
    try await withServer { server in
      let watch = try server.start("watch", "--push-to-start", "com.example.scores")
      let first = try await watch.lines(1)[0].split(separator: " ")
      #expect(first[0] == "push-to-start-token" && first[1] == "com.example.scores")
      #expect(try await push(server, to: String(first[2]), start(#""input-push-token":1,"#)).status == 200)
      let lines = try await watch.lines(3)
      #expect(lines[1].hasSuffix("  MatchAttributes-1  begun      n 0  🔔 Kick-off: Now"))
      let token = lines[2].split(separator: " ")
      #expect(token[0] == "push-token" && token[1] == "MatchAttributes-1")
      #expect(try await push(server, to: String(token[2]), aps("update", 4)).status == 200)
      #expect(try await watch.lines(4)[3].hasSuffix("  MatchAttributes-1  live       n 4"))
      watch.signal(SIGINT)
      #expect(try await watch.ending().code == 0)
    }
  }

  @Test("a start that the device can't follow is answered 200 and told on the device")
  func refusedStarts() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try server.start(
        "watch", "final", "--push-to-start", "com.example.scores/MatchAttributes", "--max-per-app", "1")
      try await watch.notice("final: subscribed")
      let token = try await watch.lines(1)[0].split(separator: " ")[2]
      for (aps, notice) in [
        (start(type: "TourAttributes"), "it is for TourAttributes, and the token for MatchAttributes"),
        (start(#""input-push-channel":"nowhere","#), "ChannelNotRegistered"),
        (start(#""input-push-channel":"final","#), "\"final\" is on this device already"),
        (start(), "com.example.scores has 1 activities on this device"),
      ] {
        #expect(try await push(server, to: String(token), aps).status == 200)
        #expect(try await watch.notice(notice).hasPrefix("a start by push was refused: "))
      }
      watch.signal(SIGINT)
      _ = try await watch.ending()
    }
  }

  @Test("--device keeps a token over runs, and what was pushed meanwhile comes then")
  func kept() async throws {
    try await withFolder { folder in
      try await withServer { server in
        try await server.succeed("channel", "create", "final")
        let file = folder.path("phone.json")
        let first = try server.start("watch", "final", "--push-token", "--device", file, "--format", "json")
        let token: TokenLine = try await line(1, of: first)
        first.signal(SIGINT)
        #expect(try await first.ending().code == 0)
        let permissions = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(permissions == 0o600)
        #expect(
          try await push(server, to: token.token, aps("update", 5), "apns-expiration: \(Self.now + 600)")
            .status
            == 200)

        let second = try server.start("watch", "--device", file, "--format", "json")
        let again: TokenLine = try await line(1, of: second)
        #expect(again.token == token.token && again.name == "final" && again.replaces == nil)
        let update: Line = try await line(2, of: second)
        #expect(update.cause == "update" && update.contentState == ["n": 5])
        second.signal(SIGINT)
        #expect(try await second.ending().code == 0)
      }
    }
  }

  @Test("a rotated token is printed again, and the old one has expired")
  func rotation() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      let watch = try server.start(
        "watch", "final", "--push-token", "--rotate-push-token", "100ms", "--format", "json")
      let first: TokenLine = try await line(1, of: watch)
      let second: TokenLine = try await line(2, of: watch)
      #expect(second.replaces == first.token && second.token != first.token)
      let reply = try await push(server, to: first.token, aps("update", 1))
      #expect(reply.status == 410 && reply.body.hasPrefix(#"{"reason":"ExpiredToken""#))
      watch.signal(SIGINT)
      _ = try await watch.ending()
    }
  }

  @Test("a new server gives new tokens, which are printed")
  func restart() async throws {
    let first = try await Server()
    let watch = try first.start("watch", "--push-to-start", "com.example.scores", "--format", "json")
    let old: TokenLine = try await line(1, of: watch)
    try await first.stop()
    try await watch.notice("trying again in ")
    let second = try await Server(port: first.port)
    let new: TokenLine = try await line(2, of: watch)
    #expect(new.replaces == old.token)
    #expect(try await push(second, to: new.token, start()).status == 200)
    let begun: Line = try await line(3, of: watch)
    #expect(begun.cause == "start" && begun.name == "MatchAttributes-1")
    watch.signal(SIGINT)
    _ = try await watch.ending()
    try await second.stop()
  }

  @Test(
    "options that make no sense are refused",
    arguments: [
      (["--push-to-start", "no_bundle"], "a bundle id such as com.example.scores"),
      (["--push-to-start", "com.example.scores/"], "com.example.scores/MatchAttributes"),
      (["--rotate-push-token", "1s", "final"], "goes with --push-token or --push-to-start"),
      (["--push-token"], "CHANNEL is missing"),
      (["final", "--push-token", "--rotate-push-token", "1ms"], "at least 100ms"),
    ])
  func usage(arguments: [String], expected: String) async throws {
    let ending = try await Touchline.run(["watch"] + arguments)
    #expect(ending.code == 2 && ending.errors.contains(expected), "\(ending.errors)")
  }
}
