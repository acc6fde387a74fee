import BroadcastChannels
import Foundation

/// An accepted push to one device, with what explains later why its person didn't see it.
struct AcceptedPush {
  let answer: PushAnswer
  /// What becomes of it, live; nil once the first of a repetition is forgotten.
  let record: PushRecord?
  /// What would go wrong with it on the device.
  private(set) var findings: [Finding]

  init(_ answer: PushAnswer, _ record: PushRecord?, findings: [Finding]) {
    self.answer = answer
    self.record = record
    self.findings = findings
  }

  /// The same for a log that keeps the findings in its own form.
  var withoutFindings: AcceptedPush {
    var copy = self
    copy.findings = []
    return copy
  }

  /// What was done with it by now.
  var outcome: PushOutcome { record?.outcome ?? answer.outcome }

  /// What became of it, when that may not be what its sender meant.
  var fate: String? {
    if answer.isRepetition {
      return "a repetition: this apns-id was accepted before, so nothing was sent this time"
    }
    switch outcome {
    case .stored: return "accepted, but the device is away; it waits for the device until apns-expiration"
    case .undeliverable:
      return
        "accepted, but the device is away, and the push may not wait or something newer waits: it is lost"
    case .superseded: return "accepted, but a newer push took its place, so the device doesn't get this one"
    case .windowed: return "accepted, waits in a delivery window of a second (priority 5)"
    case .demoted: return "accepted, but over budget: demoted to priority 5, waits in a delivery window"
    case .delivered:
      guard let record, record.isAcknowledged, !record.isDisplayed else { return nil }
      return "delivered and received; the device has not said that it displayed it"
    }
  }
}

/// What the log tells of an accepted message, whichever way it went.
struct LoggedMessage {
  let uniqueID: UniqueID
  let priority: Priority?
  let outcome: String
  /// Devices that it was let out to, and what they said; nil before.
  let counts: (subscribers: Int, written: Int, acknowledged: Int, displayed: Int)?
  let fate: String?

  init(_ publication: Publication) {
    uniqueID = publication.result.uniqueID
    priority = publication.priority
    outcome = publication.result.isRepetition ? "repeated" : publication.outcome.rawValue
    // What waits or was dropped went to nobody: zeros would look like devices that don't answer.
    counts = publication.record.flatMap { record in
      record.position == nil
        ? nil : (record.subscribers, record.written, record.acknowledged, record.displayed)
    }
    fate = publication.fate
  }

  init(_ push: AcceptedPush) {
    uniqueID = push.answer.uniqueID
    priority = push.record?.message.priority
    outcome = push.answer.isRepetition ? "repeated" : push.outcome.rawValue
    counts = push.record.flatMap { record in
      record.sentAt == nil
        ? nil : (1, record.isWritten ? 1 : 0, record.isAcknowledged ? 1 : 0, record.isDisplayed ? 1 : 0)
    }
    fate = push.fate
  }
}
