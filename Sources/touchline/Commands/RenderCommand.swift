import BroadcastChannels
import BroadcastClient
import BroadcastServer
import Foundation
import LiveActivities

/// `touchline render`: one presentation as text.
enum RenderCommand: Command {
  static let usage = CommandUsage(
    name: "render", synopsis: "CHANNEL --presentation NAME [--state JSON] [OPTIONS]",
    summary: "Print one presentation of a channel's activity as text.",
    options: [
      Option(
        "--presentation", "NAME",
        Presentation.allCases.map(\.rawValue).joined(separator: ", ") + "; compact, expanded or all"),
      Option("--state", "JSON|@FILE|-", "the content state (default: empty)"),
      Option("--at", "DATE", "the moment for what ticks: Unix seconds or 2026-12-18T15:00:00Z (default now)"),
      Option("--stale", nil, "as the card looks when its state is stale"),
      Option("--locked", nil, "as on a locked device: sensitive values hidden"),
      Option("--spoken", nil, "the sentence that VoiceOver speaks instead"),
      Option("--width", "COLUMNS", "the Lock Screen's width, 20 to 200 (default 40)"),
    ] + ClientOptions.access,
    operands: .channels,
    environment: ClientOptions.environmentHelp,
    notes: """
      CHANNEL is an id or an alias on the server, or the path of a definition file, which needs no server.
      """,
    examples: [
      "touchline render Channels/world-cup-final-2022.json --presentation compact-trailing --state '{\"home\":1,\"away\":0}'",
      "touchline render final --presentation all --state @state.json --stale",
    ])

  private static let groups = ["compact", "expanded", "all"]

  static func run(_ arguments: Arguments) throws -> Int32 {
    let channel = try arguments.positional(1...1, "CHANNEL")[0]
    guard let name = arguments["--presentation"] else {
      throw arguments.error("--presentation NAME is missing")
    }
    // "compact" and "expanded" stand for all their parts.
    let presentations = Presentation.allCases.filter {
      name == "all" || $0.rawValue == name || $0.rawValue.hasPrefix("\(name)-") && groups.contains(name)
    }
    if presentations.isEmpty {
      let hint = Suggestion.phrase(for: name, among: Presentation.allCases.map(\.rawValue) + groups)
      throw arguments.error("there is no presentation \"\(name)\"\(hint)")
    }
    let width =
      try arguments.value("--width", "a number from 20 to 200") {
        Int($0).flatMap { (20...200).contains($0) ? $0 : nil }
      }
      ?? 40
    let now = try arguments.value("--at", TimeText.rule) { TimeText.date($0) } ?? Date()
    let state: JSONText? =
      if let text = arguments["--state"] { try StateArgument.read(text, arguments) } else { nil }
    let definition = try definition(channel, arguments)
    if name != "all", !arguments.has("--spoken") { try checkTemplate(presentations[0], definition) }
    let context = PresentationContext(
      state: state, attributes: definition.attributes,
      hidden: arguments.has("--locked") ? definition.sensitive : [], now: now)
    for presentation in presentations {
      if presentations.count > 1 { Console.print("\(presentation.rawValue):") }
      var lines = PresentationText.lines(presentation, definition, context)
      if arguments.has("--spoken") {
        lines = [PresentationText.sentence(presentation, definition, context)]
      } else {
        let limit = presentation.columns ?? width
        lines = lines.prefix(presentation.lines).map { DisplayWidth.fitted($0, to: limit) }
        if arguments.has("--stale"), presentation == .lockScreen || presentation == .standby {
          lines.append("out of date")
        }
      }
      for line in lines { Console.print(line.printable) }
    }
    return 0
  }

  /// Nothing to print would look like an empty card.
  private static func checkTemplate(
    _ presentation: Presentation, _ definition: ChannelDefinition
  ) throws(CommandFailure) {
    guard let text = definition.presentations[presentation] else {
      throw CommandFailure("the definition has no presentation \(presentation.rawValue)")
    }
    do throws(PresentationTemplate.Problem) {
      _ = try PresentationTemplate(text)
    } catch {
      throw CommandFailure("presentations.\(presentation.rawValue): \(error)")
    }
  }

  private static func definition(_ channel: String, _ arguments: Arguments) throws -> ChannelDefinition {
    if channel.hasSuffix(".json") { return try ChannelLibrary.load(file: channel) }
    let client = try ClientRun()
    let server = try ClientOptions.server(arguments)
    var definition: ChannelDefinition?
    ChannelAdministration(loop: client.loop, server: server).show(channel) { result in
      switch result {
      case .success(let information):
        definition = information.definition
        client.finish(0)
      case .failure(let failure): client.fail("\(failure)")
      }
    }
    _ = try client.run()
    guard let definition else { throw CommandFailure("the server gave no definition") }
    return definition
  }
}
