// Why: the API answers 200 to many a request that shows nothing on a phone. Here is what a developer who looks for the
// message is told: only what the numbers and the payload show, most telling first.

import BroadcastChannels

extension RequestEntry {
  /// In plain words what is likely wrong with an accepted request; nil when nothing seems to be.
  ///
  /// A refused request has its ``detail`` instead.
  var verdict: String? {
    guard let message else { return nil }
    let fate = message.fate
    guard let finding = findings.first(where: { $0.severity == .error }) ?? findings.first else {
      return fate
    }
    let more = findings.count - 1 + furtherFindings
    let others = more > 0 ? " (and \(more) more finding\(more == 1 ? "" : "s"))" : ""
    return (fate.map { "\($0); " } ?? "accepted, but ") + "\(finding.key) \(finding.message)\(others)"
  }
}

extension Publication {
  /// What became of the message, when that may not be what its publisher meant.
  var fate: String? {
    if result.isRepetition {
      return "a repetition: this request id was accepted before, so nothing was published this time"
    }
    let window = "a delivery window of \(JSONWriter.seconds(windowSeconds)) s"
    switch outcome {
    case .dropped: return "accepted, but over budget: dropped, so nobody gets it"
    case .superseded where result.outcome == .superseded:
      return "accepted, but a newer message waits in the delivery window already, so nobody gets this one"
    case .superseded:
      return "accepted, but a newer message took its place in the delivery window, so nobody gets this one"
    case .windowed: return "accepted, waits in \(window) (priority \(priority.rawValue))"
    case .demoted where waits: return "accepted, but over budget: demoted to priority 5, waits in \(window)"
    case .demoted:
      let demotion = "accepted, but over budget: demoted to priority 5"
      return delivery.map { "\(demotion), \($0)" } ?? demotion
    case .delivered: return delivery.map { "accepted, \($0)" }
    }
  }

  /// What subscribers made of a message that was let out.
  private var delivery: String? {
    guard let record, record.displayed == 0 else { return nil }
    guard record.subscribers > 0 else {
      let nobody = "but nobody was subscribed to the channel"
      if record.written > 0 { return "\(nobody); \(record.written) got it later as the stored message" }
      return isStored ? "\(nobody); it is stored for who subscribes later" : nobody
    }
    let delivered = "delivered to \(record.subscribers)"
    if let obstacle {
      return record.acknowledged > 0
        ? "\(delivered); no device displayed it: \(obstacle)" : "\(delivered), but \(obstacle)"
    }
    if record.acknowledged > 0 {
      return "\(delivered) and received by \(record.acknowledged); no device has said that it displayed it"
    }
    guard record.written < record.subscribers else { return nil }
    return "\(delivered), but \(record.subscribers - record.written) connections have not taken it yet"
  }

  /// Why devices that follow the channel for some time don't show it.
  private var obstacle: String? {
    if followsEnd {
      return "the channel was sent an end before, and an activity that has ended takes no more"
    }
    return olderBy.map {
      "its timestamp is \($0) s older than that of a message before it, and devices ignore what is older than what they show"
    }
  }
}
