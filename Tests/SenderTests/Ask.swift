import Foundation

/// One request of the table, before the names in braces are filled in: `{live}`, `{ended}` and `{gone}` are device tokens.
struct Ask: Encodable {
  /// What the client puts into `authorization`, or signs for it.
  struct Token: Encodable {
    /// The header's whole value; the other properties don't count then.
    var text: String?
    var keyID = ""
    var team = ""
    var algorithm = "ES256"
    /// Seconds since it was issued; negative for the future.
    var age = 0
    /// Signed by a key that nobody registered.
    var stranger = false
  }

  var method: String
  var path: String
  var headers: [String: String] = [:]
  var body: String?
  /// nil leaves it to the test to sign with the server's own key.
  var token: Token?
  var isWithoutToken = false

  init(_ method: String, _ path: String, _ headers: [String: String] = [:], body: String? = nil) {
    (self.method, self.path, self.headers, self.body) = (method, path, headers, body)
  }

  private enum CodingKeys: CodingKey { case method, path, headers, body, token }

  // MARK: Requests that are right

  static let create = Ask(
    "POST", "/1/apps/com.example.scores/channels",
    body: #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
  static let read = Ask("GET", "/1/apps/com.example.scores/channels", ["apns-channel-id": "final"])
  static let delete = Ask("DELETE", "/1/apps/com.example.scores/channels", ["apns-channel-id": "final"])
  static let list = Ask("GET", "/1/apps/com.example.scores/all-channels")

  static let broadcast = Ask(
    "POST", "/4/broadcasts/apps/com.example.scores",
    [
      "apns-channel-id": "final", "apns-push-type": "liveactivity", "apns-priority": "10",
      "apns-expiration": "0",
    ], body: update)
  static let push = Ask(
    "POST", "/3/device/{live}",
    [
      "apns-topic": "com.example.scores.push-type.liveactivity", "apns-push-type": "liveactivity",
      "apns-priority": "10", "apns-expiration": "0",
    ], body: update)

  private static let update =
    #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{"home":1,"away":0}}}"#

  // MARK: What a row changes

  func with(_ header: String, _ value: String) -> Ask {
    var changed = self
    changed.headers[header] = value
    return changed
  }

  func without(_ header: String) -> Ask {
    var changed = self
    changed.headers[header] = nil
    return changed
  }

  func body(_ text: String) -> Ask {
    var changed = self
    changed.body = text
    return changed
  }

  /// A payload of exactly so many bytes.
  func padded(to bytes: Int) -> Ask {
    let head = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{"pad":""#
    let tail = #""}}}"#
    return body(head + String(repeating: "x", count: bytes - head.utf8.count - tail.utf8.count) + tail)
  }

  func at(_ path: String) -> Ask {
    var changed = self
    changed.path = path
    return changed
  }

  func method(_ name: String) -> Ask {
    var changed = self
    changed.method = name
    return changed
  }

  func token(_ token: Token) -> Ask {
    var changed = self
    changed.token = token
    return changed
  }

  var withoutToken: Ask {
    var changed = self
    changed.isWithoutToken = true
    return changed
  }
}
