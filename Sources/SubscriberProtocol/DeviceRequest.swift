import BroadcastChannels

/// What a device asks for that is about its push tokens, and not about a channel.
public enum DeviceRequest: Sendable {
  /// To be given a token, or to take up one that it had.
  case register(PushRegistration)
  /// To be given another token in the place of one.
  case rotate(PushToken)
  /// To give a token up.
  case unregister(PushToken, UnregisterReason)
  /// A push was received, and perhaps displayed.
  case acknowledge(PushToken, uniqueID: String, isDisplayed: Bool)
}

/// What a device registers a token for.
public struct PushRegistration: Sendable, Hashable {
  /// What pushes to it can do.
  public var kind: PushToken.Kind
  /// The device's app.
  public var app: BundleID
  /// The device's own name for the activity, with ``PushToken/Kind/update``.
  public var activity: String?
  /// The app's `ActivityAttributes` type, where it is known.
  public var attributesType: String?
  /// Whether the app declares frequent updates.
  public var frequentUpdates: Bool
  /// The token that the device had, and the secret that came with it.
  public var kept: KeptPushToken?

  /// Makes a registration.
  public init(
    kind: PushToken.Kind, app: BundleID, activity: String? = nil, attributesType: String? = nil,
    frequentUpdates: Bool = false, kept: KeptPushToken? = nil
  ) {
    self.kind = kind
    self.app = app
    self.activity = activity
    self.attributesType = attributesType
    self.frequentUpdates = frequentUpdates
    self.kept = kept
  }
}

/// A token with what proves whose it is: senders know the token, so it alone proves nothing.
public struct KeptPushToken: Sendable, Hashable {
  /// The token.
  public let token: PushToken
  /// The secret that only the server and the device know.
  public let secret: String

  /// Makes a pair.
  public init(token: PushToken, secret: String) {
    self.token = token
    self.secret = secret
  }
}

/// Why a device gives a token up, which decides what a sender is told.
public enum UnregisterReason: String, Sendable, CaseIterable {
  /// The activity has ended: `ExpiredToken`.
  case ended
  /// The person has switched the app's activities off, or the device is no more: `Unregistered`.
  case switchedOff = "switched-off"
}

extension DeviceRequest {
  /// The fields of each frame.
  static let keys: [(type: String, keys: [String])] = [
    (
      "register",
      [
        "type", "kind", "app", "activity", "attributes-type", "frequent-updates", "token", "secret",
        "request-id",
      ]
    ),
    ("rotate", ["type", "token", "request-id"]),
    ("unregister", ["type", "token", "reason", "request-id"]),
    ("ack-push", ["type", "token", "unique-id", "displayed", "request-id"]),
  ]

  init(
    _ type: String, _ root: JSONValue, _ refuse: (RefusalReason, String) -> FrameError
  ) throws(FrameError) {
    func wrong(_ key: String, _ expected: String) -> FrameError {
      refuse(.badRequestParams, "\"\(key)\" is \(root[key]?.described ?? "missing"); \(expected)")
    }
    func flag(_ key: String) throws(FrameError) -> Bool {
      guard let value = root[key] else { return false }
      guard let bool = value.bool else { throw wrong(key, "true or false was expected") }
      return bool
    }
    func token() throws(FrameError) -> PushToken {
      // Not "described": a token isn't repeated where somebody may log it.
      guard let token = root["token"]?.string.flatMap({ PushToken($0) }) else {
        throw refuse(.badRequestParams, "a \(type) frame needs \"token\": one that registered answered")
      }
      return token
    }
    switch type {
    case "register": self = .register(try PushRegistration(root, flag, token, wrong))
    case "rotate": self = .rotate(try token())
    case "unregister":
      let token = try token()
      guard let reason = root["reason"]?.string.flatMap({ UnregisterReason(rawValue: $0) }) else {
        throw wrong("reason", "ended or switched-off was expected")
      }
      self = .unregister(token, reason)
    default:
      let token = try token()
      guard let id = root["unique-id"]?.string else {
        throw wrong("unique-id", "that of a push was expected")
      }
      self = .acknowledge(token, uniqueID: id, isDisplayed: try flag("displayed"))
    }
  }
}

extension PushRegistration {
  fileprivate init(
    _ root: JSONValue, _ flag: (String) throws(FrameError) -> Bool,
    _ token: () throws(FrameError) -> PushToken,
    _ wrong: (String, String) -> FrameError
  ) throws(FrameError) {
    guard let kind = root["kind"]?.string.flatMap({ PushToken.Kind(rawValue: $0) }) else {
      throw wrong("kind", "update, for one activity, or start was expected")
    }
    guard let app = root["app"]?.string.flatMap({ BundleID($0) }), !app.hasPushTypeSuffix else {
      throw wrong("app", "a bundle id such as com.example.scores was expected")
    }
    func name(_ key: String) throws(FrameError) -> String? {
      guard let value = root[key] else { return nil }
      guard let text = value.string, (1...Limits.activityNameCharacters).contains(text.count) else {
        throw wrong(key, "a name of at most \(Limits.activityNameCharacters) characters was expected")
      }
      return text
    }
    let activity = try name("activity")
    guard (activity != nil) == (kind == .update) else {
      throw wrong("activity", "an update token belongs to one activity, a start token to none")
    }
    self.init(
      kind: kind, app: app, activity: activity, attributesType: try name("attributes-type"),
      frequentUpdates: try flag("frequent-updates"))
    guard root["token"] != nil || root["secret"] != nil else { return }
    guard let secret = root["secret"]?.string else {
      throw wrong("secret", "a token is taken up only with the secret that came with it")
    }
    kept = KeptPushToken(token: try token(), secret: secret)
  }
}

// MARK: Writing

extension ClientFrame {
  /// A `register` frame.
  public static func register(_ registration: PushRegistration, requestID: RequestID) -> [UInt8] {
    text([
      "type": "\"register\"", "kind": JSONWriter.quoted(registration.kind.rawValue),
      "app": JSONWriter.quoted(registration.app.identifier),
      "activity": registration.activity.map(JSONWriter.quoted),
      "attributes-type": registration.attributesType.map(JSONWriter.quoted),
      "frequent-updates": registration.frequentUpdates ? "true" : nil,
      "token": registration.kept.map { JSONWriter.quoted($0.token.hex) },
      "secret": registration.kept.map { JSONWriter.quoted($0.secret) },
      "request-id": JSONWriter.quoted(requestID.text),
    ])
  }

  /// A `rotate` frame.
  public static func rotate(_ token: PushToken, requestID: RequestID) -> [UInt8] {
    text([
      "type": "\"rotate\"", "token": JSONWriter.quoted(token.hex),
      "request-id": JSONWriter.quoted(requestID.text),
    ])
  }

  /// An `unregister` frame.
  public static func unregister(_ token: PushToken, reason: UnregisterReason) -> [UInt8] {
    text([
      "type": "\"unregister\"", "token": JSONWriter.quoted(token.hex),
      "reason": JSONWriter.quoted(reason.rawValue),
    ])
  }

  /// An `ack-push` frame: a push was received, and perhaps displayed.
  public static func acknowledge(_ token: PushToken, uniqueID: String, isDisplayed: Bool) -> [UInt8] {
    text([
      "type": "\"ack-push\"", "token": JSONWriter.quoted(token.hex), "unique-id": JSONWriter.quoted(uniqueID),
      "displayed": isDisplayed ? "true" : nil,
    ])
  }
}
