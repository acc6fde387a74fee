import BroadcastChannels
import Foundation

extension MatchScript {
  /// Reads a script's text.
  ///
  /// - Throws: everything that is wrong with it, each with its line and key and what was expected.
  public init(file bytes: [UInt8]) throws(Findings) {
    var reader = MatchScriptReader()
    for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      .enumerated()
    {
      reader.read(line: Array(line), number: index + 1)
    }
    guard reader.findings.isEmpty else { throw Findings(reader.findings) }
    guard !reader.steps.isEmpty else {
      let start = SourcePosition(line: 1, column: 1)
      throw Findings([Finding(.error, "empty", key: "", "the script has no message", position: start)])
    }
    self.init(target: reader.target, steps: reader.steps)
  }
}

/// Reads a script line by line and collects everything that is wrong with it.
private struct MatchScriptReader {
  var target: MatchScript.Target?
  var steps: [MatchScript.Step] = []
  var findings: [Finding] = []

  private static let keys = [
    "at", "event", "priority", "content-state", "relevance-score", "alert", "stale-in", "dismiss-in",
    "expires-in",
    "timestamp-shift",
  ]

  mutating func read(line: [UInt8], number: Int) {
    guard line.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return }
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(line, firstLine: number)
    } catch {
      findings.append(Finding(error))
      return
    }
    let isFirst = steps.isEmpty && target == nil
    if document.root["channel"] != nil, document.root["at"] == nil {
      readTarget(document, isFirst: isFirst)
    } else {
      readStep(document, number: number)
    }
  }

  private mutating func readTarget(_ document: JSONDocument, isFirst: Bool) {
    guard isFirst, let value = document.root["channel"], document.root.members?.count == 1 else {
      error(
        document, document.root, "channel",
        "stands alone on the first line: {\"channel\": \"alias\"} or {\"channel\": {a definition}}")
      return
    }
    if let text = value.string {
      if let alias = ChannelAlias(text) {
        target = .named(alias)
      } else {
        error(document, value, "channel", "is \"\(text)\"; \(ChannelAlias.rule)")
      }
      return
    }
    do throws(Findings) {
      target = .defined(try ChannelDefinition(value, alias: nil, in: document))
    } catch {
      findings += error.all
    }
  }

  private mutating func readStep(_ document: JSONDocument, number: Int) {
    let root = document.root
    guard let members = root.members else {
      error(document, root, "", "is \(root.described); a message as an object was expected")
      return
    }
    let before = findings.count
    for member in members where !Self.keys.contains(member.name) {
      findings.append(
        Finding(
          .error, "unknown-key", key: member.name,
          "is no key of a match script" + Suggestion.phrase(for: member.name, among: Self.keys),
          at: member.offset, in: document))
    }
    let at = moment(document)
    let event = event(document)
    let state = object("content-state", document)
    if event == .update, root["content-state"] == nil {
      error(document, root, "content-state", "is missing; an update carries the whole new state")
    }
    let step = MatchScript.Step(
      at: at ?? 0, event: event, priority: priority(document), contentState: state,
      relevanceScore: score(document), alert: object("alert", document),
      staleIn: span("stale-in", document), dismissIn: span("dismiss-in", document),
      expiresIn: span("expires-in", document), timestampShift: span("timestamp-shift", document) ?? 0,
      line: number)
    guard findings.count == before else { return }
    if let last = steps.last, last.at > step.at {
      error(document, root["at"] ?? root, "at", "is earlier than the line before it")
      return
    }
    steps.append(step)
  }

  private mutating func moment(_ document: JSONDocument) -> Double? {
    guard let value = document.root["at"] else {
      error(document, document.root, "at", "is missing; seconds from the start, or \"mm:ss\" or \"h:mm:ss\"")
      return nil
    }
    let seconds =
      value.number?.double ?? value.string.flatMap { DurationText.clock($0) ?? DurationText.seconds($0) }
    guard let seconds, seconds >= 0, seconds <= 30 * 86_400 else {
      error(
        document, value, "at",
        "is \(value.described); seconds from the start, or \"mm:ss\" or \"h:mm:ss\", was expected")
      return nil
    }
    return seconds
  }

  private mutating func event(_ document: JSONDocument) -> Payload.Event {
    guard let value = document.root["event"] else { return .update }
    if let text = value.string, let event = Payload.Destination.channel.event(text) { return event }
    error(document, value, "event", "is \(value.described); \"update\" or \"end\" was expected")
    return .update
  }

  private mutating func priority(_ document: JSONDocument) -> Priority {
    guard let value = document.root["priority"] else { return .immediate }
    if let number = value.number?.int, let priority = Priority(rawValue: Int(clamping: number)) {
      return priority
    }
    error(document, value, "priority", "is \(value.described); 10, 5 or 1 was expected")
    return .immediate
  }

  private mutating func score(_ document: JSONDocument) -> String? {
    guard let value = document.root["relevance-score"] else { return nil }
    if let number = value.number { return number.text }
    error(document, value, "relevance-score", "is \(value.described); a number was expected")
    return nil
  }

  private mutating func object(_ key: String, _ document: JSONDocument) -> JSONText? {
    guard let value = document.root[key] else { return nil }
    guard value.members != nil else {
      error(document, value, key, "is \(value.described); an object was expected")
      return nil
    }
    return JSONText(compacting: document.bytes[value.range])
  }

  private mutating func span(_ key: String, _ document: JSONDocument) -> Double? {
    guard let value = document.root[key] else { return nil }
    let seconds = value.number?.double ?? value.string.flatMap(DurationText.seconds)
    guard let seconds, abs(seconds) <= 366 * 86_400 else {
      error(document, value, key, "is \(value.described); \(DurationText.rule) was expected")
      return nil
    }
    return seconds
  }

  private mutating func error(_ document: JSONDocument, _ value: JSONValue, _ key: String, _ message: String)
  {
    findings.append(Finding(.error, "bad-value", key: key, message, at: value.range.lowerBound, in: document))
  }
}
