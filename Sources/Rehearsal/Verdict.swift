import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts

/// What a publisher acts on after a rehearsal.
public struct Verdict: Sendable {
  /// A time and the script's line.
  public struct Place: Sendable, Hashable {
    /// Seconds from the start.
    public let at: Double
    /// The script's line.
    public let line: Int?
  }

  /// A stretch in which the card was stale.
  public struct Stretch: Sendable, Hashable {
    /// Seconds from the start.
    public let from: Double
    /// Seconds from the start.
    public let to: Double
  }

  /// How many messages the script has.
  public let messages: Int
  /// Messages at priority 10 that found no token, by what was done with them.
  public let overBudget: [String: [Place]]
  /// Updates that a newer one in the same window swallowed.
  public let swallowed: [Place]
  /// Updates that the device held back or merged for its own budget.
  public let deferred: [Place]
  /// Messages that a device ignored, as older or after the end.
  public let ignored: [Place]
  /// Whether a message came after the end, which no device shows.
  public let isSentAfterEnd: Bool
  /// When the card was stale.
  public let stale: [Stretch]
  /// When the screen lit up.
  public let alerts: [Place]
  /// When the activity ended, by whom; nil when only the system ended it.
  public let end: Place?
  /// Whether the system ended it after 8 hours.
  public let reachedLifetime: Bool
  /// Messages that were left when the card was gone.
  public let unsent: Int
  /// The largest payload.
  public let largest: (bytes: Int, line: Int)?
  /// What `check` finds.
  public let findings: [Finding]

  /// Judges a rehearsal.
  public init(_ rehearsal: Rehearsal) {
    let events = rehearsal.events
    func places(_ causes: String...) -> [Place] {
      events.filter { causes.contains($0.cause) }.map { Place(at: $0.at, line: $0.line) }
    }
    messages = rehearsal.script.steps.count
    overBudget = ["demoted", "dropped", "rejected"].reduce(into: [:]) { result, cause in
      let found = places(cause)
      if !found.isEmpty { result[cause] = found }
    }
    swallowed = places("superseded")
    deferred = places("deferred")
    ignored = places("ignored-older", "ignored-after-end")
    isSentAfterEnd = !places("ignored-after-end").isEmpty
    alerts = places("alert")
    end = places("end").first
    reachedLifetime = events.contains { $0.cause == "lifetime" }
    unsent = rehearsal.unsent
    largest = rehearsal.sizes.max { $0.bytes < $1.bytes }
    findings = rehearsal.findings
    stale = Self.stretches(events)
  }

  private static func stretches(_ events: [Rehearsal.Event]) -> [Stretch] {
    var stretches: [Stretch] = []
    var since: Double?
    for event in events {
      if event.state == .stale, since == nil { since = event.at }
      if event.state != .stale, let from = since {
        stretches.append(Stretch(from: from, to: event.at))
        since = nil
      }
    }
    return stretches
  }

  /// Whether something is lost or wrong: a message that no device shows, or one that check calls an error.
  public var isBad: Bool {
    overBudget["dropped"] != nil || overBudget["rejected"] != nil || unsent > 0 || end == nil
      || isSentAfterEnd
      || findings.contains { $0.severity == .error }
  }
}

extension Verdict {
  /// The verdict for a person, one line a fact.
  public var lines: [String] {
    func counted(_ count: Int, _ thing: String) -> String { "\(count) \(thing)\(count == 1 ? "" : "s")" }
    var lines = ["\(counted(messages, "message")), \(counted(alerts.count, "alert"))"]
    for (cause, words) in [
      ("demoted", "over budget, demoted to priority 5"), ("dropped", "over budget, dropped"),
      ("rejected", "rejected"),
    ] {
      guard let places = overBudget[cause] else { continue }
      lines.append("\(words): \(Self.list(places))")
    }
    if overBudget.isEmpty { lines.append("priority 10 stayed within the channel's budget") }
    if !swallowed.isEmpty { lines.append("swallowed by a window: \(Self.list(swallowed))") }
    if !deferred.isEmpty { lines.append("held back by the device's budget: \(Self.list(deferred))") }
    if !ignored.isEmpty { lines.append("ignored by the device: \(Self.list(ignored))") }
    if stale.isEmpty {
      lines.append("the card is never stale")
    } else {
      let spans = stale.map { "\(DurationText.clock($0.from)) to \(DurationText.clock($0.to))" }
      lines.append("the card is stale: \(spans.joined(separator: ", "))")
    }
    if let end {
      lines.append("the publisher ends it at \(DurationText.clock(end.at))")
    } else {
      lines.append("no end is ever shown: the card stays up to 12 hours; send one with event \"end\"")
    }
    if unsent > 0 {
      lines.append("\(unsent) \(unsent == 1 ? "message comes" : "messages come") after the card is gone")
    }
    if let largest {
      lines.append(
        "the largest payload has \(largest.bytes) of \(Limits.broadcastPayloadBytes) bytes (line \(largest.line))"
      )
    }
    return lines
      + findings.map { "check: line \($0.position.line): \($0.severity.rawValue): \($0.key) \($0.message)" }
  }

  private static func list(_ places: [Place]) -> String {
    let shown = places.prefix(8).map { place in
      DurationText.clock(place.at) + (place.line.map { " (line \($0))" } ?? "")
    }
    let more = places.count > 8 ? ", and \(places.count - 8) more" : ""
    return "\(places.count): \(shown.joined(separator: ", "))\(more)"
  }

  /// The verdict for a script.
  public var json: String {
    func list(_ places: [Place]) -> String {
      let items = places.map { place in
        JSONWriter.object(["at": JSONWriter.seconds(place.at), "line": place.line.map { String($0) }])
      }
      return "[\(items.joined(separator: ","))]"
    }
    let stretches = stale.map { stretch in
      JSONWriter.object(["from": JSONWriter.seconds(stretch.from), "to": JSONWriter.seconds(stretch.to)])
    }
    let found = findings.map { finding in
      JSONWriter.object([
        "line": String(finding.position.line), "severity": JSONWriter.quoted(finding.severity.rawValue),
        "kind": JSONWriter.quoted(finding.kind), "key": JSONWriter.quoted(finding.key),
        "message": JSONWriter.quoted(finding.message),
      ])
    }
    return JSONWriter.object([
      "messages": String(messages), "demoted": list(overBudget["demoted"] ?? []),
      "dropped": list(overBudget["dropped"] ?? []), "rejected": list(overBudget["rejected"] ?? []),
      "superseded": list(swallowed), "deferred": list(deferred), "ignored": list(ignored),
      "stale": "[\(stretches.joined(separator: ","))]", "alerts": list(alerts),
      "end": end.map { JSONWriter.seconds($0.at) } ?? "null", "unsent": String(unsent),
      "largest-payload": largest.map { String($0.bytes) } ?? "0",
      "findings": "[\(found.joined(separator: ","))]",
      "ok": String(!isBad),
    ])
  }
}
