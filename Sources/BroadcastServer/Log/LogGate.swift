import BroadcastChannels
import Foundation

/// Lets the first of equal lines through and counts the others, so that a flood is one line a minute.
struct LogGate {
  private struct Kind: Hashable {
    let event: LogEvent
    let key: String
  }

  private struct Held {
    var since: Date
    var count = 0
    /// The newest that was held back.
    var last: ServerLog.Entry?
  }

  private var kinds: [Kind: Held] = [:]

  /// Whether a line is written now.
  mutating func admits(_ entry: ServerLog.Entry, key: String) -> Bool {
    var kind = Kind(event: entry.event, key: key)
    // Who makes up new keys all the time is held back by the event alone.
    if kinds[kind] == nil, kinds.count >= Limits.logKinds { kind = Kind(event: entry.event, key: "") }
    guard kinds[kind] != nil else {
      kinds[kind] = Held(since: entry.time)
      return true
    }
    kinds[kind]?.count += 1
    kinds[kind]?.last = entry
    return false
  }

  /// The counts of what was held back for a minute.
  mutating func due(at now: Date) -> [ServerLog.Entry] {
    // A clock that was set back must not hold lines back for as long.
    counts(at: now) { abs(now.timeIntervalSince($0)) >= Limits.logRepetitionSeconds }
  }

  /// The counts of everything that is held back.
  mutating func all(at now: Date) -> [ServerLog.Entry] { counts(at: now) { _ in true } }

  private mutating func counts(at now: Date, _ isDue: (Date) -> Bool) -> [ServerLog.Entry] {
    var entries: [ServerLog.Entry] = []
    for (kind, held) in kinds where isDue(held.since) {
      kinds[kind] = held.last == nil ? nil : Held(since: now)
      if let last = held.last {
        entries.append(Self.summary(of: held.count, last, since: held.since, at: now))
      }
    }
    return entries.sorted { $0.message < $1.message }
  }

  private static func summary(
    of count: Int, _ last: ServerLog.Entry, since: Date, at now: Date
  ) -> ServerLog.Entry {
    let seconds = Int(now.timeIntervalSince(since).rounded())
    let span =
      switch seconds {
      case ..<0: "before the clock was set back"
      case ..<Int(Limits.logRepetitionSeconds): "in the last \(max(1, seconds)) s"
      default: "in the last minute"
      }
    return ServerLog.Entry(
      time: now, level: last.level, event: last.event,
      message: "… \(grouped(count)) more \(span): \(last.message)",
      fields: last.fields + [("repeated", String(count))])
  }

  /// `4211` as `4,211`.
  private static func grouped(_ count: Int) -> String {
    var text = ""
    for (place, digit) in String(count).reversed().enumerated() {
      if place > 0, place.isMultiple(of: 3) { text.append(",") }
      text.append(digit)
    }
    return String(text.reversed())
  }
}
