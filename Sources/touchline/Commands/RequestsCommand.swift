import BroadcastChannels
import BroadcastClient
import Foundation

/// `touchline requests`: what providers asked a server, what it answered, and what came of it.
enum RequestsCommand: Command {
  static let usage = CommandUsage(
    name: "requests", synopsis: "[--follow] [--limit N] [--channel C] [--app A] [--failed] [OPTIONS]",
    summary: "Show what providers asked the server, what it answered, and what came of it.",
    options: [
      Option("--follow", nil, "go on with requests as they come"),
      Option("--limit", "N", "how many of the last requests to show (default \(standardLimit))"),
      Option("--channel", "CHANNEL", "only those for a channel, by its id or alias"),
      Option("--app", "BUNDLE", "only those of an app"),
      Option("--failed", nil, "only those that were refused"),
      ClientOptions.format,
    ] + ClientOptions.access,
    environment: ClientOptions.environmentHelp,
    notes: """
      Where to look when the server said 200 and nothing happened. One line a request: time, status with the reason or
      what was done with the message, request, channel, and how many subscribers the message went to, how many received
      it, and how many displayed it. Below it stands what is likely wrong.

      Each message is shown with the numbers of that moment; with --follow half a second after it went out.
      """,
    examples: [
      "touchline requests --follow",
      "touchline requests --failed --limit 5",
      "touchline requests --channel final --format json | jq -r .verdict",
    ])

  private static let standardLimit = 20

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(0...0, "no argument")
    let server = try ClientOptions.server(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    let follows = arguments.has("--follow")
    let lowest = follows ? 0 : 1
    let limit = try arguments.value(
      "--limit", "a whole number from \(lowest) to \(Limits.requestLogEntries)",
      { Int($0).flatMap { (lowest...Limits.requestLogEntries).contains($0) ? $0 : nil } })
    var selection = RequestSelection()
    selection.channel = arguments["--channel"]
    selection.app = arguments["--app"]
    selection.refusedOnly = arguments.has("--failed")

    let client = try ClientRun()
    var count = 0
    let reader = RequestLogReader(
      loop: client.loop, server: server, selection: selection, limit: limit ?? standardLimit,
      follows: follows
    ) { event in
      switch event {
      case .entry(let entry):
        count += 1
        Console.print(isJSON ? JSONText(compacting: entry.bytes).string : RequestLine(entry.root).plain)
      case .missed(let count): Console.note("\(count) requests were forgotten before they could be shown")
      case .disconnected(let problem, let wait):
        Console.note("\(problem); trying again in \(String(format: "%.1f", wait)) s")
      case .failed(let failure): client.fail(failure.description)
      case .finished:
        if count == 0, !isJSON { Console.note("no such requests yet") }
        client.finish(0)
      }
    }
    for signal in [SIGINT, SIGTERM] {
      client.loop.onSignal(signal) {
        reader.close()
        client.finish(0)
      }
    }
    return try client.run()
  }
}

/// A request as a person reads it: a line, and a second one where something is wrong.
struct RequestLine {
  private let entry: JSONValue

  init(_ entry: JSONValue) { self.entry = entry }

  var plain: String {
    let status = Int(clamping: entry["status"]?.number?.int ?? 0)
    let problem = text("detail") ?? text("verdict")
    let style: Console.Style = status >= 400 ? .red : problem == nil ? .green : .yellow
    let result = "\(status) \(text("reason") ?? text("outcome") ?? "")"
    let request = "\(text("method") ?? "") \(Self.elided(text("path") ?? "", to: 40))"
    let columns = [
      WatchLine.clock(Date(timeIntervalSince1970: entry["time"]?.number?.double ?? 0)),
      Console.styled(result.padded(to: 22), style), request.padded(to: 48),
      Self.elided(text("alias") ?? text("channel") ?? "", to: 24).padded(to: 24), counts,
    ]
    var line = columns.joined(separator: "  ")
    while line.hasSuffix(" ") { line.removeLast() }
    let notes = [problem, defaults].compactMap { $0 }.map { "\n          \(Console.styled($0, style))" }
    return line + notes.joined()
  }

  /// Control characters come from clients.
  private func text(_ name: String) -> String? { entry[name]?.string?.printable }

  private var counts: String {
    func count(_ name: String) -> String? { entry[name]?.number?.text }
    guard let subscribers = count("subscribers"), let received = count("acknowledged"),
      let displayed = count("displayed")
    else { return "" }
    return "to \(subscribers), received \(received), displayed \(displayed)"
  }

  private var defaults: String? {
    let headers = (entry["defaults"]?.members ?? []).map {
      "\($0.name) (taken as \($0.value.string ?? ""))"
    }
    return headers.isEmpty ? nil : "without \(headers.joined(separator: ", "))".printable
  }

  /// A text with its middle left out, so that columns stay columns.
  static func elided(_ text: String, to width: Int) -> String {
    guard text.count > width else { return text }
    let end = (width - 1) * 2 / 3
    return "\(text.prefix(width - 1 - end))…\(text.suffix(end))"
  }
}
