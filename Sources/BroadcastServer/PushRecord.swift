import BroadcastChannels
import Foundation

/// What became of one push to a device. The token is left out: whoever may ask for a push may not send one.
final class PushRecord {
  let message: Message
  /// What it went to, whatever tokens lead there.
  let inbox: ChannelID
  let kind: PushToken.Kind
  let app: BundleID
  let acceptedAt: Date
  /// What its sender was answered, and is answered again when it repeats the request.
  let answered: PushOutcome
  /// What was done with it until now.
  var outcome: PushOutcome
  /// When it was let out.
  var sentAt: Date?
  /// Whether the device's socket took it.
  var isWritten = false
  /// Whether the device said that it received it.
  var isAcknowledged = false
  /// Whether the device said that it showed it.
  var isDisplayed = false

  init(_ message: Message, to inbox: PushInbox, outcome: PushOutcome, acceptedAt: Date) {
    self.message = message
    self.inbox = inbox.id
    kind = inbox.kind
    app = inbox.app
    self.acceptedAt = acceptedAt
    answered = outcome
    self.outcome = outcome
  }

  /// The record as `GET /v1/pushes/<unique-id>` answers it.
  var json: String {
    JSONWriter.object([
      "unique-id": JSONWriter.quoted(message.uniqueID.text),
      "apns-id": message.requestID.map { JSONWriter.quoted($0.text) },
      "app": JSONWriter.quoted(app.identifier), "kind": JSONWriter.quoted(kind.rawValue),
      "event": JSONWriter.quoted(message.payload.event.rawValue),
      "priority": String(message.priority.rawValue),
      "collapse-id": message.collapseID.map(JSONWriter.quoted),
      "outcome": JSONWriter.quoted(outcome.rawValue),
      "accepted": JSONWriter.seconds(acceptedAt.timeIntervalSince1970),
      "sent": sentAt.map { JSONWriter.seconds($0.timeIntervalSince1970) }, "written": String(isWritten),
      "acknowledged": String(isAcknowledged), "displayed": String(isDisplayed),
    ])
  }
}
