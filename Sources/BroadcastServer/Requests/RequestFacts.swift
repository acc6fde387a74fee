import BroadcastChannels
import EventLoop
import Foundation

/// An answer of the provider API, with what is known of the request beyond it.
struct ProviderAnswer {
  var response: HTTPResponse
  var facts: RequestFacts
}

/// What whoever answers a provider request finds out about it, for the request log. Filled in as the checks go on, so
/// that a refused request tells as much as was known when it was refused.
struct RequestFacts {
  /// The bundle id in the path, or that of the channel.
  var app: String?
  /// Whose token or certificate it came with, by its name; nil when that was not good, or nothing is checked.
  var provider: String?
  /// The channel's id; what the client wrote when there is no such channel.
  var channel: String?
  var alias: String?
  /// The id that the answer carries: the client's, or the server's own.
  var requestID: String?
  /// The reason of a refusal, and what was wrong and what to do.
  private(set) var refusal: (reason: String, detail: String)?
  /// Headers that were missing, with what was taken in their place.
  var defaults: [(name: String, value: String)] = []
  /// The message, when one was accepted.
  var publication: Publication?
  /// The push, when one to a device was accepted.
  var push: AcceptedPush?

  /// The channel was found.
  mutating func found(_ room: ChannelRoom) {
    app = room.channel.settings.app.identifier
    channel = room.channel.id.base64
    alias = room.channel.alias?.name
  }

  /// The request is refused.
  mutating func refused(_ error: AnswerError) { refusal = (error.reason, error.message) }

  /// The request is refused with a frame.
  mutating func refused(_ reason: String, _ detail: String) { refusal = (reason, detail) }
}

/// An accepted message, with what explains later why somebody didn't see it.
struct Publication {
  let result: PublishResult
  /// What was left when it was accepted.
  let budget: BudgetReport
  /// The priority that it was published with.
  let priority: Priority
  /// Seconds of the delivery window that it went through, if it did.
  let windowSeconds: Double
  /// Whether it waits for who subscribes later.
  let isStored: Bool
  /// Seconds by which something that was delivered before is newer.
  let olderBy: Int64?
  /// Whether an `end` was delivered before.
  let followsEnd: Bool
  /// What becomes of it, live; nil once the channel has forgotten the first of a repetition.
  let record: MessageRecord?
  /// What would go wrong with the payload on a device.
  private(set) var findings: [Finding]

  /// - Parameter before: what the channel had let out before this message came.
  init(
    _ message: Message, _ result: PublishResult, in room: ChannelRoom, before: SentSoFar,
    budget: BudgetReport, findings: [Finding]
  ) {
    // Without what was let out: the log would keep a thousand payloads.
    self.result = result.withoutEffects
    self.budget = budget
    self.findings = findings
    priority = message.priority
    let windows = room.channel.settings.windows
    // Over budget a message waits as at priority 5.
    windowSeconds = message.priority == .passive ? windows.passive : windows.considerate
    isStored = room.seen.stored?.message.uniqueID == result.uniqueID
    record = room.messages[result.uniqueID.text]
    let age = before.newestTimestamp.map { $0 - message.payload.timestamp }
    olderBy = age.flatMap { $0 > 0 ? $0 : nil }
    followsEnd = before.hasEnded
  }

  /// The same for a log that keeps the findings in its own form.
  var withoutFindings: Publication {
    var copy = self
    copy.findings = []
    return copy
  }

  /// What was done with it; a message that waited becomes `delivered` or `superseded` later.
  var outcome: Outcome { record?.outcome ?? result.outcome }
  /// Whether it waits in a delivery window.
  var waits: Bool { outcome == .windowed || (outcome == .demoted && record?.position == nil) }
}

/// What a channel's devices may have been sent already: it decides what they make of the next message.
struct SentSoFar {
  /// The newest timestamp, in Unix seconds: devices ignore what is older than what they show.
  private(set) var newestTimestamp: Int64?
  /// Whether an `end` was the newest of all when it was let out: an activity that has ended takes no more.
  private(set) var hasEnded = false

  init(stored: Delivery?) {
    if let stored { sent(stored.message.payload) }
  }

  mutating func sent(_ payload: Payload) {
    if let newestTimestamp, payload.timestamp < newestTimestamp { return }
    newestTimestamp = payload.timestamp
    if payload.event == .end { hasEnded = true }
  }
}
