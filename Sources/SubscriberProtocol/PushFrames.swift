import BroadcastChannels
import Foundation

/// The answer to `register` and `rotate`: a token, and what proves that it is this device's.
public struct RegisteredFrame: Sendable, Hashable {
  /// The token and its secret.
  public let kept: KeptPushToken
  /// What pushes to it can do.
  public let kind: PushToken.Kind
  /// The app.
  public let app: BundleID
  /// The device's own name for the activity, with ``PushToken/Kind/update``.
  public let activity: String?
  /// The token in whose place it comes, which is answered with 410 from now on.
  public let replaces: PushToken?
  /// The request's name, when it had one.
  public let requestID: String?

  /// Makes the frame.
  public init(
    kept: KeptPushToken, kind: PushToken.Kind, app: BundleID, activity: String?, replaces: PushToken?,
    requestID: String?
  ) {
    self.kept = kept
    self.kind = kind
    self.app = app
    self.activity = activity
    self.replaces = replaces
    self.requestID = requestID
  }

  init?(_ root: JSONValue, requestID: String?) {
    guard let token = root["token"]?.string.flatMap({ PushToken($0) }), let secret = root["secret"]?.string,
      let kind = root["kind"]?.string.flatMap({ PushToken.Kind(rawValue: $0) }),
      let app = root["app"]?.string.flatMap({ BundleID($0) })
    else { return nil }
    self.init(
      kept: KeptPushToken(token: token, secret: secret), kind: kind, app: app,
      activity: root["activity"]?.string, replaces: root["replaces"]?.string.flatMap { PushToken($0) },
      requestID: requestID)
  }

  var json: String {
    JSONWriter.object([
      "type": "\"registered\"", "token": JSONWriter.quoted(kept.token.hex),
      "secret": JSONWriter.quoted(kept.secret), "kind": JSONWriter.quoted(kind.rawValue),
      "app": JSONWriter.quoted(app.identifier), "activity": activity.map(JSONWriter.quoted),
      "replaces": replaces.map { JSONWriter.quoted($0.hex) }, "request-id": requestID.map(JSONWriter.quoted),
    ])
  }
}

/// A push as it reaches the device.
public struct PushFrame: Sendable {
  /// The token that it was sent to.
  public let token: PushToken
  /// The server's name for the message.
  public let uniqueID: String
  /// The sender's name for it, when it gave one.
  public let apnsID: String?
  /// What the sender collapses it by.
  public let collapseID: String?
  /// The priority that it was sent with.
  public let priority: Priority
  /// When the server let it out, in Unix seconds.
  public let sent: Double
  /// What it says.
  public let payload: Payload

  /// A delivery as a frame.
  public init(_ delivery: Delivery, token: PushToken) {
    self.token = token
    collapseID = delivery.message.collapseID
    uniqueID = delivery.message.uniqueID.text
    apnsID = delivery.message.requestID?.text
    priority = delivery.message.priority
    sent = delivery.sent.timeIntervalSince1970
    payload = delivery.message.payload
  }

  init(_ root: JSONValue, _ document: JSONDocument) throws(FrameError) {
    guard let token = root["token"]?.string.flatMap({ PushToken($0) }),
      let uniqueID = root["unique-id"]?.string,
      let priority = root["priority"]?.number?.int.flatMap({ Priority(rawValue: Int(clamping: $0)) }),
      let sent = root["sent"]?.number?.double, let aps = root["aps"]
    else { throw ServerFrame.incomplete("push") }
    do throws(PayloadError) {
      payload = try Payload(aps: aps, in: document, to: .device)
    } catch {
      throw .broken("the server sent a push whose payload can't be read: \(error)")
    }
    self.token = token
    self.uniqueID = uniqueID
    self.priority = priority
    self.sent = sent
    apnsID = root["apns-id"]?.string
    collapseID = root["collapse-id"]?.string
  }

  var json: String {
    JSONWriter.object([
      "type": "\"push\"", "token": JSONWriter.quoted(token.hex), "unique-id": JSONWriter.quoted(uniqueID),
      "apns-id": apnsID.map(JSONWriter.quoted), "collapse-id": collapseID.map(JSONWriter.quoted),
      "priority": String(priority.rawValue), "sent": String(format: "%.6f", sent),
      "aps": String(decoding: payload.aps, as: UTF8.self),
    ])
  }
}

/// Why a token is no longer a session's.
public enum UnregisteredReason: String, Sendable, CaseIterable {
  /// The device asked for it.
  case requested
  /// Another connection of the device has taken it up.
  case elsewhere
}
