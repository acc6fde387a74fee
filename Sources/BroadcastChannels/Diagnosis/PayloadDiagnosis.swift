import Foundation

/// Reads a body the way a device would, and tells what would go wrong there.
///
/// The API answers 200 to many a payload that shows nothing on a phone: a misspelt key is ignored, a state that
/// doesn't decode is dropped. `touchline check`, a rehearsal and the server's log all take their findings from here.
public enum PayloadDiagnosis {
  static let apsKeys = [
    "timestamp", "event", "content-state", "stale-date", "dismissal-date", "relevance-score", "alert",
  ]
  static let startKeys = ["attributes-type", "attributes", "input-push-channel", "input-push-token"]
  static let alertKeys = ["title", "body", "sound"]

  /// Finds what is wrong with a body.
  ///
  /// - Parameters:
  ///   - body: the request's body, or a bare `aps` object's bytes wrapped as `{"aps":…}`.
  ///   - destination: whether it is a broadcast or a push to one device.
  ///   - definition: the channel's definition, when there is one: its content state is checked then.
  ///   - now: the time of sending, which tells whether a date is past.
  ///   - firstLine: the number of the body's first line in its file.
  public static func findings(
    body: [UInt8], to destination: Payload.Destination = .channel, definition: ChannelDefinition?, now: Date,
    firstLine: Int = 1
  ) -> [Finding] {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(body, firstLine: firstLine)
    } catch {
      return [Finding(error)]
    }
    var findings: [Finding] = []
    do throws(PayloadError) {
      _ = try Payload(document, to: destination)
    } catch {
      findings.append(
        Finding(.error, "refused", key: error.key, error.problem, at: error.offset, in: document))
    }
    if body.count > destination.payloadBytes {
      findings.append(
        Finding(
          .error, "too-large", key: "",
          "the payload is \(body.count) bytes; the API refuses more than \(destination.payloadBytes) (PayloadTooLarge)",
          at: 0, in: document))
    }
    for member in document.root.members ?? [] where member.name != "aps" {
      findings.append(
        unknown(
          member, path: member.name, among: ["aps"], "is outside of aps; a Live Activity ignores it", document
        ))
    }
    if let aps = document.root["aps"], aps.members != nil {
      let isStart = destination == .device && aps["event"]?.string == "start"
      findings += keys(of: aps, isStart: isStart, in: document)
      findings += dates(of: aps, now: now, in: document)
      findings += state(of: aps, definition: definition, in: document)
      findings += strings(of: aps, definition: definition, in: document)
    }
    return findings.sorted { ($0.position.line, $0.position.column) < ($1.position.line, $1.position.column) }
  }

  private static func keys(of aps: JSONValue, isStart: Bool, in document: JSONDocument) -> [Finding] {
    let known = isStart ? apsKeys + startKeys : apsKeys
    var findings: [Finding] = []
    for member in aps.members ?? [] where !known.contains(member.name) {
      if startKeys.contains(member.name) {
        findings.append(
          Finding(
            .warning, "start-key", key: "aps.\(member.name)",
            "belongs to a start, which only a push to a device can carry; anything else ignores it",
            at: member.offset, in: document))
      } else {
        findings.append(
          unknown(
            member, path: "aps.\(member.name)", among: known,
            "is no key of aps; the system ignores it silently", document))
      }
    }
    if let alert = aps["alert"], let members = alert.members {
      for member in members where !alertKeys.contains(member.name) {
        findings.append(
          unknown(
            member, path: "aps.alert.\(member.name)", among: alertKeys,
            "is no key of an alert here; it is ignored", document))
      }
      if alert["title"] == nil || alert["body"] == nil {
        findings.append(
          Finding(
            .warning, "alert-text", key: "aps.alert",
            "has no \(alert["title"] == nil ? "title" : "body"); an alert shows both",
            at: alert.range.lowerBound, in: document))
      }
    }
    return findings
  }

  /// Keys that a language's table lacks: a phone in that language shows another one's text, or the bare key.
  private static func strings(
    of aps: JSONValue, definition: ChannelDefinition?, in document: JSONDocument
  ) -> [Finding] {
    // An app without tables here may have them elsewhere.
    guard let tables = definition?.strings, !tables.isEmpty else { return [] }
    return ["title", "body"].flatMap { part -> [Finding] in
      guard let value = aps["alert"]?[part]?["loc-key"], let key = value.string else { return [] }
      return tables.sorted { $0.key < $1.key }.filter { $0.value[key] == nil }.map { language, table in
        Finding(
          .warning, "loc-key", key: "aps.alert.\(part).loc-key",
          "is \"\(key)\", and strings.\(language) has no such key"
            + Suggestion.phrase(for: key, among: table.keys.sorted()),
          at: value.range.lowerBound, in: document)
      }
    }
  }

  private static func unknown(
    _ member: JSONMember, path: String, among words: [String], _ message: String, _ document: JSONDocument
  ) -> Finding {
    // A key that is nearly a known one was meant to do something, and does nothing.
    let isMisspelt = Suggestion.nearest(to: member.name, among: words) != nil
    return Finding(
      isMisspelt ? .error : .warning, "unknown-key", key: path,
      message + Suggestion.phrase(for: member.name, among: words), at: member.offset, in: document)
  }

  private static func dates(of aps: JSONValue, now: Date, in document: JSONDocument) -> [Finding] {
    var findings: [Finding] = []
    let nowSeconds = now.timeIntervalSince1970
    func seconds(_ name: String) -> (Int64, Int)? {
      aps[name].flatMap { value in value.number?.int.map { ($0, value.range.lowerBound) } }
    }
    if let (stale, offset) = seconds("stale-date"), Double(stale) <= nowSeconds {
      findings.append(
        Finding(
          .warning, "stale-past", key: "aps.stale-date",
          "is \(ago(nowSeconds - Double(stale))) before the sending; the card is stale on arrival",
          at: offset, in: document))
    }
    if let (timestamp, offset) = seconds("timestamp") {
      if Double(timestamp) > nowSeconds + 60 {
        findings.append(
          Finding(
            .warning, "timestamp-future", key: "aps.timestamp",
            "is \(ago(Double(timestamp) - nowSeconds)) ahead; devices ignore every update until that time, because theirs are older",
            at: offset, in: document))
      } else if Double(timestamp) < nowSeconds - Limits.activityLifetimeSeconds {
        findings.append(
          Finding(
            .warning, "timestamp-past", key: "aps.timestamp",
            "is \(ago(nowSeconds - Double(timestamp))) old; devices that show anything newer ignore this update",
            at: offset, in: document))
      }
    }
    if let (dismissal, offset) = seconds("dismissal-date") {
      if aps["event"]?.string == "update" {
        findings.append(
          Finding(
            .warning, "dismissal-update", key: "aps.dismissal-date",
            "has no effect on an update; it goes with an end",
            at: offset, in: document))
      } else if Double(dismissal) > nowSeconds + Limits.endedCardSeconds {
        findings.append(
          Finding(
            .warning, "dismissal-late", key: "aps.dismissal-date",
            "is \(ago(Double(dismissal) - nowSeconds)) after the sending; the card leaves after 4 hours at the latest",
            at: offset, in: document))
      }
    }
    return findings
  }

  private static func state(
    of aps: JSONValue, definition: ChannelDefinition?, in document: JSONDocument
  ) -> [Finding] {
    guard let state = aps["content-state"], state.members != nil else { return [] }
    var findings =
      definition?.contentState?.findings(for: state, key: "aps.content-state", in: document) ?? []
    // Both compact, as ActivityKit encodes them: a publisher's white space is not in the 4 KB.
    let encoded = JSONText(compacting: document.bytes[state.range]).bytes.count
    let together = encoded + (definition?.attributes?.bytes.count ?? 0)
    if together > Limits.activityStateBytes {
      findings.append(
        Finding(
          .error, "state-too-large", key: "aps.content-state",
          "attributes and content state are \(together) bytes together; an activity holds \(Limits.activityStateBytes)",
          at: state.range.lowerBound, in: document))
    }
    return findings
  }

  private static func ago(_ seconds: Double) -> String {
    switch seconds {
    case ..<120: "\(Int(seconds.rounded())) s"
    case ..<7_200: "\(Int((seconds / 60).rounded())) min"
    case ..<172_800: "\(Int((seconds / 3_600).rounded())) h"
    default: "\(Int((seconds / 86_400).rounded())) days"
    }
  }
}
