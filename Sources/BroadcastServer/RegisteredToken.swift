import BroadcastChannels
import EventLoop
import Foundation
import SubscriberProtocol

/// The connection of a device that has registered push tokens.
protocol RegisteredDevice: AnyObject {
  /// Takes a push, now or when the connection has room again.
  func push(_ push: OutgoingPush)
  /// A token was taken up over another connection.
  func tokenMoved(_ token: PushToken)
}

/// One push on its way to its device.
struct OutgoingPush: Sendable {
  let uniqueID: UniqueID
  /// What it is conflated by while the connection is slow.
  let inbox: ChannelID
  /// Alerts, starts and ends are never conflated away.
  let isIrreplaceable: Bool
  let frame: OutgoingBytes

  init(_ delivery: Delivery, token: PushToken, inbox: ChannelID) {
    uniqueID = delivery.message.uniqueID
    self.inbox = inbox
    isIrreplaceable = delivery.message.payload.isIrreplaceable
    frame = OutgoingBytes(webSocketText: ServerFrame.push(PushFrame(delivery, token: token)).text)
  }
}

/// A token with what it leads to: its inbox, its device's connection, and its place in time.
final class RegisteredToken {
  let secret: String
  let registration: PushRegistration
  /// The name under which senders know it; it changes when the device rotates it. This and what follows only the
  /// registry writes.
  var token: PushToken
  /// The rules.
  var inbox: PushInbox
  weak var device: (any RegisteredDevice)?
  /// Ends the window's timer.
  var window: (deadline: Date, cancel: () -> Void)?
  /// Ends the wait for the device.
  var absence: (() -> Void)?

  private var noted: Set<String> = []

  init(_ registration: PushRegistration, _ kept: KeptPushToken, inbox: PushInbox) {
    self.registration = registration
    self.inbox = inbox
    token = kept.token
    secret = kept.secret
  }

  /// Whether a kind of note is new for this token. The keys of a payload are the sender's, so there is a bound.
  func isFirst(_ kind: String) -> Bool {
    noted.count < Limits.notesPerChannel && noted.insert(kind).inserted
  }

  /// Whether a finding is the first of its kind and key.
  func isFirst(_ finding: Finding) -> Bool { isFirst("\(finding.kind) \(finding.key)") }
}

/// A token of the past.
struct PastToken {
  let app: BundleID
  /// What its senders are told.
  let reason: RefusalReason
  let detail: String
  let since: Date
  let lastAnswer: LastAnswer?
}
