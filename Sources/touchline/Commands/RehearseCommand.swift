import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts
import Rehearsal

/// `touchline rehearse`: a whole match on virtual time, and a verdict.
enum RehearseCommand: Command {
  static let usage = CommandUsage(
    name: "rehearse", synopsis: "SCRIPT | --openfootball FILE --match WORDS  [OPTIONS]",
    summary: "Run a match script on virtual time, and tell what would go wrong.",
    options: ScriptSource.options + [
      Option("--at", "TIMES", "show every presentation at these moments, such as 24:30,1:03:00"),
      Option(
        "--start", "DATE",
        "when it begins, for dates inside the state: 2020-09-19T15:05:00Z or Unix seconds (default 2027)"),
      Option("--locale", "LANGUAGE", "the language of alerts, such as es (default en)"),
      Option("--strict", nil, "exit 1 when something would be lost or refused"),
      ClientOptions.format,
    ],
    operands: .files,
    notes: """
      No server: the script goes through its channel's rules and one device, as fast as they run. Prints every change with
      its time and cause, then a verdict: what is over budget, what a window swallows, when the card is stale, what is
      ignored, sizes, and what 'check' finds. --format json prints one object a change, one a moment of --at ({"moment":…}),
      and {"verdict":…} last.
      """,
    examples: [
      "touchline rehearse Channels/world-cup-final-2022.match.jsonl",
      "touchline rehearse Channels/nba-finals-2016.match.jsonl --at 2:16:45 --locale es",
      "touchline rehearse match.jsonl --format json --strict | jq .cause",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let isJSON = try ClientOptions.isJSON(arguments)
    let looks = try arguments.value("--at", "moments such as 24:30,1:03:00, or seconds,", moments) ?? []
    let start = try arguments.value("--start", TimeText.rule) { TimeText.date($0) } ?? Rehearsal.standardStart
    let (script, known, _) = try ScriptSource.load(arguments)
    let definition = known ?? ChannelDefinition(settings: ChannelSettings(app: .scores))
    let locale = arguments["--locale"] ?? "en"
    let language = locale.split { $0 == "-" || $0 == "_" }.first.map(String.init) ?? locale
    if !definition.strings.isEmpty, definition.strings[locale] == nil, definition.strings[language] == nil {
      let known = definition.strings.keys.sorted().joined(separator: ", ")
      Console.note("there are no strings in \"\(locale.printable)\"; there are \(known)")
    }
    let rehearsal: Rehearsal
    do throws(StartError) {
      rehearsal = try Rehearsal(script, definition: definition, looks: looks, start: start)
    } catch {
      throw CommandFailure("the activity can't start: \(error)")
    }
    let verdict = Verdict(rehearsal)
    if isJSON {
      for event in rehearsal.events { Console.print(json(event, rehearsal, locale)) }
      for moment in rehearsal.moments { Console.print("{\"moment\":\(json(moment, rehearsal))}") }
      Console.print("{\"verdict\":\(verdict.json)}")
    } else {
      for event in rehearsal.events { Console.print(plain(event, rehearsal, locale)) }
      for moment in rehearsal.moments { show(moment, rehearsal) }
      Console.print("\nVerdict")
      for line in verdict.lines { Console.print("  \(line)".printable) }
    }
    return arguments.has("--strict") && verdict.isBad ? 1 : 0
  }

  private static func moments(_ text: String) -> [Double]? {
    let words = text.split(separator: ",").map(String.init)
    let moments = words.compactMap { DurationText.clock($0) ?? DurationText.seconds($0) }
    return moments.count == words.count && !moments.isEmpty && moments.allSatisfy { $0 >= 0 } ? moments : nil
  }

  private static func json(_ event: Rehearsal.Event, _ rehearsal: Rehearsal, _ locale: String) -> String {
    JSONWriter.object([
      "at": JSONWriter.seconds(event.at), "cause": JSONWriter.quoted(event.cause),
      "state": JSONWriter.quoted(event.state.rawValue), "content-state": event.contentState?.string ?? "null",
      "line": event.line.map { String($0) }, "note": event.note.map(JSONWriter.quoted),
      "alert": event.alert.map { alert in
        func text(_ text: Alert.Text?) -> String? {
          text.map { JSONWriter.quoted($0.localized(locale, strings: rehearsal.definition.strings)) }
        }
        return JSONWriter.object(["title": text(alert.title), "body": text(alert.body)])
      },
    ])
  }

  private static func json(_ moment: Rehearsal.Moment, _ rehearsal: Rehearsal) -> String {
    let activity = moment.activity.activity
    let shown = presentations(moment, rehearsal).map { presentation, lines in
      "\(JSONWriter.quoted(presentation.rawValue)):[\(lines.map(JSONWriter.quoted).joined(separator: ","))]"
    }
    return JSONWriter.object([
      "at": JSONWriter.seconds(moment.at), "state": JSONWriter.quoted(activity.state.rawValue),
      "content-state": activity.contentState?.string ?? "null",
      "presentations": "{\(shown.joined(separator: ","))}",
    ])
  }

  private static func presentations(
    _ moment: Rehearsal.Moment, _ rehearsal: Rehearsal
  ) -> [(Presentation, [String])] {
    let context = PresentationContext(
      state: moment.activity.activity.contentState, attributes: rehearsal.definition.attributes,
      now: rehearsal.date(at: moment.at))
    return Presentation.allCases.map {
      ($0, PresentationText.lines($0, rehearsal.definition, context))
    }
  }

  private static func plain(_ event: Rehearsal.Event, _ rehearsal: Rehearsal, _ locale: String) -> String {
    let styles: [String: Console.Style] = [
      "update": .green, "stale-date": .yellow, "end": .bold, "alert": .bold, "dropped": .red,
      "rejected": .red,
      "demoted": .yellow,
    ]
    let cause = event.cause.padded(to: 18)
    var text = "\(DurationText.clock(event.at).padded(to: 10)) "
    text += styles[event.cause].map { Console.styled(cause, $0) } ?? Console.styled(cause, .dim)
    text += " \(event.state.rawValue.padded(to: 9)) "
    if let alert = event.alert {
      let strings = rehearsal.definition.strings
      let parts = [alert.title, alert.body].compactMap { $0?.localized(locale, strings: strings) }
      text += "🔔 \(parts.joined(separator: " — "))".printable
    } else if let note = event.note {
      text += note.printable
    } else {
      text += StateSummary.text(
        event.contentState, rehearsal.definition, now: rehearsal.date(at: event.at))
    }
    return text
  }

  private static func show(_ moment: Rehearsal.Moment, _ rehearsal: Rehearsal) {
    Console.print("\nAt \(DurationText.clock(moment.at)), \(moment.activity.activity.state.rawValue)")
    for (presentation, lines) in presentations(moment, rehearsal) {
      for (index, line) in lines.enumerated() {
        Console.print("  \((index == 0 ? presentation.rawValue : "").padded(to: 18)) \(line)".printable)
      }
    }
  }
}

/// A content state in one line: as the app's banner reads, or its properties one after the other.
enum StateSummary {
  static func text(_ state: JSONText?, _ definition: ChannelDefinition?, now: Date) -> String {
    guard let state else { return "(no content yet)" }
    if let definition, definition.presentations[.banner] != nil {
      let context = PresentationContext(state: state, attributes: definition.attributes, now: now)
      return PresentationText.lines(.banner, definition, context).joined(separator: " ").printable
    }
    guard let members = (try? JSONDocument(state.bytes))?.root.members else { return state.string.printable }
    return members.map { member in
      "\(member.name) \(member.value.string ?? JSONText(compacting: state.bytes[member.value.range]).string)"
    }.joined(separator: ", ").printable
  }
}
