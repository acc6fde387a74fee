import BroadcastChannels
import Foundation
import LiveActivities
import SubscriberProtocol

/// A change of the device with all that a line tells of it.
struct WatchLine {
  let change: Device.Change
  /// The message that caused it, when one did.
  var arrival: Arrival?
  /// The channel's id; empty for an activity without one.
  let channel: String
  /// The activity, right after the change.
  let activity: DeviceActivity
  /// Messages missed so far.
  let missed: Int

  /// The line for a script; nil for what another line tells already.
  var json: String? {
    guard let cause, let state else { return nil }
    return JSONWriter.object([
      "at": JSONWriter.seconds(change.at.timeIntervalSince1970),
      "cause": JSONWriter.quoted(cause),
      "state": JSONWriter.quoted(state.rawValue),
      "content-state": contentState?.string ?? "null",
      "channel": JSONWriter.quoted(channel), "name": JSONWriter.quoted(change.name),
      "epoch": activity.position.map { JSONWriter.quoted($0.epoch) },
      "seq": activity.position.map { String($0.sequence) },
      "priority": arrival.map { String($0.priority.rawValue) },
      "unique-id": arrival.map { JSONWriter.quoted($0.uniqueID) },
      "by": arrival.flatMap { $0.isPush ? "\"push\"" : nil },
      "alert": arrival?.payload.alert.map(Self.json), "action": action.map { JSONWriter.quoted($0) },
      "latency": arrival.map { String(format: "%.6f", $0.latency) }, "missed": String(missed),
    ])
  }

  private var cause: String? {
    switch change.kind {
    case .activity(let data): data.cause.rawValue
    case .deferred: "deferred"
    case .confirmed: "confirmed"
    case .alert: nil
    }
  }

  private var state: LiveActivity.State? {
    if case .activity(let data) = change.kind { data.state } else { activity.activity.state }
  }

  private var contentState: JSONText? {
    if case .activity(let data) = change.kind { data.contentState } else { activity.activity.contentState }
  }

  private var action: String? { if case .confirmed(let action) = change.kind { action.name } else { nil } }

  private static func json(_ alert: Alert) -> String {
    JSONWriter.object([
      "title": alert.title.map { JSONWriter.quoted($0.plain) },
      "body": alert.body.map { JSONWriter.quoted($0.plain) },
      "sound": alert.sound.map(JSONWriter.quoted),
    ])
  }

  /// The line for a person; nil for what another line tells already.
  func plain(name: String?, locale: String) -> String? {
    let word: String
    let style: Console.Style
    switch change.kind {
    case .activity(let data): (word, style) = Self.word(data)
    case .deferred(_, let isOverBudget): (word, style) = (isOverBudget ? "over budget" : "grouped", .dim)
    case .confirmed: (word, style) = ("confirmed", .green)
    case .alert: return nil
    }
    var columns = [Self.clock(change.at), Console.styled(word.padded(to: 9), style)]
    if let name { columns.insert(name, at: 1) }
    if case .confirmed(let action) = change.kind {
      columns.append(action.title.printable)
    } else {
      columns.append(StateSummary.text(contentState, activity.definition, now: change.at))
    }
    if let alert = arrival?.payload.alert, isShown {
      let strings = activity.definition.strings
      let text = [alert.title, alert.body]
        .compactMap { $0?.localized(locale, strings: strings).printable }.joined(separator: ": ")
      columns.append(Console.styled("🔔 \(text)", .bold))
    }
    return columns.joined(separator: "  ")
  }

  /// Whether the change shows what the message says.
  var isShown: Bool {
    guard case .activity(let data) = change.kind else { return false }
    return [.start, .update, .end].contains(data.cause)
  }

  private static func word(_ data: LiveActivity.Change) -> (String, Console.Style) {
    switch data.cause {
    case .update where data.state == .pending: ("pending", .dim)
    case .update: data.state == .stale ? ("stale on arrival", .yellow) : ("live", .green)
    case .start: data.state == .stale ? ("stale on arrival", .yellow) : ("begun", .green)
    case .staleDate: ("stale", .yellow)
    case .end: ("final", .bold)
    case .lifetime: ("ended after 8 h", .bold)
    case .dismissal, .person: ("dismissed", .dim)
    case .orphan: ("over", .bold)
    case .ignoredOlder: ("too old", .dim)
    case .ignoredAfterEnd: ("too late", .dim)
    }
  }

  /// The time of day, as lines for a person begin.
  static func clock(_ date: Date) -> String {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.dateFormat = "HH:mm:ss"
    return formatter.string(from: date)
  }
}
