import Testing

/// One row: what a sender does wrong, and what it must be told.
struct Refused: CustomTestStringConvertible {
  let name: String
  let status: Int
  let reason: String
  /// Sent over one connection, one after the other; the last one is refused.
  let asks: [Ask]

  init(_ name: String, _ status: Int, _ reason: String, _ asks: Ask...) {
    (self.name, self.status, self.reason, self.asks) = (name, status, reason, asks)
  }

  var testDescription: String { "\(name): \(status) \(reason)" }

  // Sources: Apple, "Handling error responses from APNs", "Sending channel management requests to APNs", "Sending
  // broadcast push notification requests to APNs", "Establishing a token-based connection to APNs".

  static let channels: [Refused] = [
    .init("creating without a body", 400, "PayloadEmpty", .create.body("")),
    .init(
      "creating from what is no JSON", 400, "BadRequestPayload", .create.body("message-storage-policy=1")),
    .init(
      "creating with an attribute that is none", 400, "BadRequestParams",
      .create.body(#"{"message-storage-policy":0,"push-type":"LiveActivity","name":"final"}"#)),
    .init(
      "creating with storage policy 2", 400, "BadRequestParams",
      .create.body(#"{"message-storage-policy":2,"push-type":"LiveActivity"}"#)),
    .init(
      "creating without a push type", 400, "MissingPushType", .create.body(#"{"message-storage-policy":0}"#)),
    .init(
      "creating for alerts", 400, "InvalidPushType",
      .create.body(#"{"message-storage-policy":0,"push-type":"Alert"}"#)),
    .init(
      "a topic in the place of the bundle id", 400, "TopicDisallowed",
      .create.at("/1/apps/com.example.scores.push-type.liveactivity/channels")),
    .init("a request id that is no UUID", 400, "BadMessageId", .create.with("apns-request-id", "goal-1")),
    .init("reading without a channel id", 400, "MissingChannelId", .read.without("apns-channel-id")),
    .init("reading with an id that is no base64", 400, "BadChannelId", .read.with("apns-channel-id", "***")),
    .init(
      "reading a channel that isn't there", 400, "ChannelNotRegistered",
      .read.with("apns-channel-id", "dHN0LXNyY2gtY2hubA==")),
    .init("deleting without a channel id", 400, "MissingChannelId", .delete.without("apns-channel-id")),
    .init(
      "deleting a channel that isn't there", 400, "ChannelNotRegistered",
      .delete.with("apns-channel-id", "dHN0LXNyY2gtY2hubA==")),
    .init("a path that is none", 404, "BadPath", .list.at("/1/apps/com.example.scores/chanels")),
    .init("a version that is none", 404, "BadPath", .broadcast.at("/9/broadcasts/apps/com.example.scores")),
    .init("a method that is none", 405, "MethodNotAllowed", .create.method("PUT")),
    .init("reading a broadcast", 405, "MethodNotAllowed", .broadcast.method("GET")),
  ]

  static let broadcasts: [Refused] = [
    .init("no channel id", 400, "MissingChannelId", .broadcast.without("apns-channel-id")),
    .init("a channel id that is no base64", 400, "BadChannelId", .broadcast.with("apns-channel-id", "***")),
    .init(
      "a channel that isn't there", 400, "ChannelNotRegistered",
      .broadcast.with("apns-channel-id", "dHN0LXNyY2gtY2hubA==")),
    .init(
      "another app's channel", 400, "ChannelNotRegistered",
      .broadcast.with("apns-channel-id", "rivals")),
    .init("no push type", 400, "MissingPushType", .broadcast.without("apns-push-type")),
    .init("another push type", 400, "InvalidPushType", .broadcast.with("apns-push-type", "voip")),
    .init(
      "an expiration that is no time", 400, "BadExpirationDate", .broadcast.with("apns-expiration", "1h")),
    .init(
      "an expiration for a channel that stores nothing", 400, "BadExpirationDate",
      .broadcast.with("apns-expiration", "4000000000")),
    .init("priority 7", 400, "BadPriority", .broadcast.with("apns-priority", "7")),
    .init(
      "a topic in the place of the bundle id", 400, "TopicDisallowed",
      .broadcast.at("/4/broadcasts/apps/com.example.scores.push-type.liveactivity")),
    .init("no payload", 400, "PayloadEmpty", .broadcast.body("")),
    .init("a payload that is no JSON", 400, "BadRequestPayload", .broadcast.body("home=1")),
    .init("5,121 bytes", 413, "PayloadTooLarge", .broadcast.padded(to: 5_121)),
    .init(
      "more than the publish rate", 429, "TooManyRequests",
      .broadcast.with("apns-channel-id", "slow"), .broadcast.with("apns-channel-id", "slow")),
  ]

  /// Pushes to one activity. `server` has the keys.
  static func devices(_ server: ProviderServer) -> [Refused] {
    [
      .init("no token in the path", 400, "BadDeviceToken", .push.at("/3/device/nonsense")),
      .init(
        "a token that nobody was given", 400, "BadDeviceToken",
        .push.at("/3/device/" + String(repeating: "ab", count: 32))),
      .init("no topic", 400, "MissingTopic", .push.without("apns-topic")),
      .init("a topic without its suffix", 400, "BadTopic", .push.with("apns-topic", "com.example.scores")),
      .init("no push type", 400, "MissingPushType", .push.without("apns-push-type")),
      .init("another push type", 400, "InvalidPushType", .push.with("apns-push-type", "alert")),
      .init("priority 7", 400, "BadPriority", .push.with("apns-priority", "7")),
      .init("an expiration that is no time", 400, "BadExpirationDate", .push.with("apns-expiration", "1h")),
      .init("an id that is no UUID", 400, "BadMessageId", .push.with("apns-id", "goal-1")),
      .init(
        "a collapse id of 65 bytes", 400, "BadCollapseId",
        .push.with("apns-collapse-id", String(repeating: "x", count: 65))),
      .init("no payload", 400, "PayloadEmpty", .push.body("")),
      .init("4,097 bytes", 413, "PayloadTooLarge", .push.padded(to: 4_097)),
      .init("a method that is none", 405, "MethodNotAllowed", .push.method("GET")),
      .init("the token of an activity that has ended", 410, "ExpiredToken", .push.at("/3/device/{ended}")),
      .init("the token of a device that was switched off", 410, "Unregistered", .push.at("/3/device/{gone}")),
      .init(
        "the topic of another app of the team", 400, "DeviceTokenNotForTopic",
        .push.with("apns-topic", "com.example.tables.push-type.liveactivity")),
      .init(
        "another team's topic", 403, "TopicMismatch",
        .push.token(.init(keyID: server.otherKey.id, team: server.otherKey.team))),
    ]
  }

  /// What only `serve --strict` refuses.
  static func strict(_ server: ProviderServer) -> [Refused] {
    let (first, second) = (
      Ask.Token(keyID: server.key.id, team: server.key.team, age: 60),
      Ask.Token(keyID: server.key.id, team: server.key.team)
    )
    return [
      .init("a broadcast without a priority", 400, "BadPriority", .broadcast.without("apns-priority")),
      .init(
        "a broadcast without an expiration", 400, "BadExpirationDate", .broadcast.without("apns-expiration")),
      .init(
        "another token a minute later", 429, "TooManyProviderTokenUpdates", .list.token(first),
        .list.token(second)),
    ]
  }

  /// Provider tokens. `server` has the keys.
  static func tokens(_ server: ProviderServer) -> [Refused] {
    let (own, other) = (server.key, server.otherKey)
    let right = Ask.Token(keyID: own.id, team: own.team)
    func wrong(_ change: (inout Ask.Token) -> Void) -> Ask {
      var token = right
      change(&token)
      return .list.token(token)
    }
    let others = Ask.Token(keyID: other.id, team: other.team)
    return [
      .init("no token", 403, "MissingProviderToken", .list.withoutToken),
      .init("a token that is none", 403, "InvalidProviderToken", .list.token(.init(text: "bearer abc"))),
      .init("another scheme", 403, "InvalidProviderToken", .list.token(.init(text: "basic YTpi"))),
      .init("the algorithm none", 403, "InvalidProviderToken", wrong { $0.algorithm = "none" }),
      .init("the algorithm HS256", 403, "InvalidProviderToken", wrong { $0.algorithm = "HS256" }),
      .init("the algorithm ES384", 403, "InvalidProviderToken", wrong { $0.algorithm = "ES384" }),
      .init(
        "an unknown key", 403, "InvalidProviderToken",
        wrong { ($0.keyID, $0.stranger) = ("ZZZZZZZZZZ", true) }),
      .init("a stranger's signature", 403, "InvalidProviderToken", wrong { $0.stranger = true }),
      .init("a key of another team", 403, "InvalidProviderToken", wrong { $0.team = other.team }),
      .init("a token of two hours ago", 403, "ExpiredProviderToken", wrong { $0.age = 7_200 }),
      .init("a token of the next hour", 403, "InvalidProviderToken", wrong { $0.age = -3_600 }),
      .init("another team's app", 403, "TopicMismatch", .list.token(others)),
      .init(
        "a second team on the connection", 403, "InvalidProviderToken", .list.token(right),
        .list.at("/1/apps/\(other.app)/all-channels").token(others)),
    ]
  }
}
