/// What only a `start` says: which activity begins on the device, and where its updates come from.
///
/// Source: Apple, "Starting and updating Live Activities with ActivityKit push notifications".
public struct ActivityStart: Sendable, Hashable {
  /// Where the updates of a started activity come from.
  public enum Input: Sendable, Hashable {
    /// From nowhere: what it begins with is all it shows.
    case none
    /// From a channel, by its id or alias: the device subscribes to it.
    case channel(String)
    /// From pushes to an update token of its own, which the device registers.
    case token
  }

  /// The app's `ActivityAttributes` type.
  public let attributesType: String
  /// The attributes, which never change afterwards.
  public let attributes: JSONText
  /// Where its updates come from.
  public let input: Input

  /// Reads what an `aps` object with the event `start` has to have in addition.
  init(aps: JSONValue, in document: JSONDocument) throws(PayloadError) {
    func expected(_ key: String, _ what: String) -> PayloadError {
      let found = aps[key].map { "is \($0.described)" } ?? "is missing"
      return PayloadError(key: "aps.\(key)", problem: "\(found); \(what)", at: aps[key] ?? aps)
    }
    guard let type = aps["attributes-type"]?.string, !type.isEmpty else {
      throw expected(
        "attributes-type", "a start names the app's ActivityAttributes type, such as \"MatchAttributes\"")
    }
    guard let attributes = aps["attributes"], attributes.members != nil else {
      throw expected("attributes", "a start carries the attributes as an object, {} where there are none")
    }
    guard aps["alert"] != nil else {
      throw expected("alert", "a start needs one, by which the person learns of the activity")
    }
    attributesType = type
    self.attributes = JSONText(compacting: document.bytes[attributes.range])
    switch (aps["input-push-channel"], aps["input-push-token"]) {
    case (nil, nil): input = .none
    case (let channel?, nil):
      let name = channel.string ?? ""
      guard !PushToken.isLike(name) else {
        throw PayloadError(
          key: "aps.input-push-channel", problem: "is a push token; a channel's id was expected", at: channel)
      }
      guard ChannelID(name) != nil || ChannelAlias(name) != nil else {
        throw expected("input-push-channel", "a channel's id was expected")
      }
      input = .channel(name)
    case (nil, let token?):
      guard token.number?.int == 1 else {
        throw expected("input-push-token", "1 was expected: the device then registers an update token")
      }
      input = .token
    case (.some, .some):
      throw expected(
        "input-push-token", "a start takes its updates from a channel or a token; leave one of the two out")
    }
  }
}
