import BroadcastChannels
import BroadcastClient
import Foundation

/// `touchline intents`: the buttons that people press on a channel's cards.
enum IntentsCommand: Command {
  static let usage = CommandUsage(
    name: "intents", synopsis: "CHANNEL [--for DURATION] [--format plain|json]",
    summary: "Hear the buttons that people press on a channel's cards.",
    options: [
      Option("--for", "DURATION", "stop after this long"),
      ClientOptions.format,
    ] + ClientOptions.access,
    operands: .channels,
    environment: ClientOptions.environmentHelp,
    notes: """
      One line an intent: its id, the action, and the property and value that the next state must have to confirm it. Each
      intent comes once, however often the button was pressed; what was pressed while nobody listened comes first.
      """,
    examples: [
      "touchline intents final",
      "touchline intents final --format json | while read -r intent; do my-feed confirm \"$intent\"; done",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let channel = try arguments.positional(1...1, "CHANNEL")[0]
    let server = try ClientOptions.server(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    let span = try ClientOptions.duration("--for", arguments)
    let client = try ClientRun()
    let listener = IntentListener(loop: client.loop, server: server, channel: channel) { event in
      switch event {
      case .listening: Console.note("\(channel): listening")
      case .intent(let intent):
        let sets = "{\(JSONWriter.quoted(intent.property)):\(intent.value.string)}"
        Console.print(
          isJSON
            ? JSONWriter.object([
              "request-id": JSONWriter.quoted(intent.intentID), "channel": JSONWriter.quoted(intent.channel),
              "action": JSONWriter.quoted(intent.action), "sets": sets,
            ]) : "\(intent.intentID) \(intent.action) \(sets)".printable)
      case .disconnected(let problem, let wait):
        Console.note("\(problem); trying again in \(String(format: "%.1f", wait)) s")
      case .failed(let failure): client.fail(failure.description)
      }
    }
    let end = {
      listener.close()
      client.finish(0)
    }
    if let span { client.loop.schedule(after: span, end) }
    for signal in [SIGINT, SIGTERM] { client.loop.onSignal(signal, end) }
    return try client.run()
  }
}
