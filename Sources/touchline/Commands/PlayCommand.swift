import BroadcastChannels
import BroadcastClient
import BroadcastServer
import EventLoop
import Foundation
import MatchScripts
import SubscriberProtocol

/// `touchline play`: plays a match script into a channel at speed.
enum PlayCommand: Command {
  static let usage = CommandUsage(
    name: "play", synopsis: "SCRIPT | --openfootball FILE --match WORDS  [--speed N] [--channel NAME]",
    summary: "Play a match script into a channel, at speed.",
    options: ScriptSource.options + [
      Option("--speed", "N", "how many times faster than real (default 60)"),
      Option("--channel", "NAME", "the channel to play into: an id or an alias (default: the script's)"),
      Option("--retry-for", "DURATION", "how long a message is tried again (default 60s)"),
      ClientOptions.format,
    ] + ClientOptions.access,
    operands: .files,
    environment: ClientOptions.environmentHelp,
    notes: """
      Timestamps, stale and dismissal dates are computed from the moment of sending; spans shrink with the speed. A
      channel that the server doesn't know is created with the script's definition (its own, or <alias>.json beside it,
      or a football default), and its budget and windows run at the same speed. Prints one line a message.
      """,
    examples: [
      "touchline play Channels/world-cup-final-2022.match.jsonl --speed 300",
      "touchline play Channels/nba-finals-2016.match.jsonl --channel rehearsal --speed 60",
      "touchline play --openfootball worldcup.json --match 'Argentina France' --speed 300",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let speed =
      try arguments.value("--speed", "a number from 0.01 to 100000") { text in
        Double(text).flatMap { (0.01...100_000).contains($0) ? $0 : nil }
      } ?? 60
    let server = try ClientOptions.server(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    let patience = try ClientOptions.patience(arguments)
    let (script, definition, proposal) = try ScriptSource.load(arguments)
    guard let name = arguments["--channel"] ?? proposal else {
      throw arguments.error("the script names no channel; say --channel NAME")
    }

    let client = try ClientRun()
    let player = Player(client, server, script, speed: speed, patience: patience, isJSON: isJSON)
    player.start(channel: name, definition: definition)
    return try client.run()
  }
}

/// Plays one script.
private final class Player {
  private let client: ClientRun
  private let server: ServerAccess
  private let script: MatchScript
  private let speed: Double
  private let patience: Double
  private let isJSON: Bool

  private var publisher: Publisher?
  private var storagePolicy = StoragePolicy.none
  private var startedAt: Double = 0
  private var next = 0
  private var answered = 0
  private var refused = 0
  private var endIsDropped = false
  private var outcomes: [Outcome: Int] = [:]

  init(
    _ client: ClientRun, _ server: ServerAccess, _ script: MatchScript, speed: Double, patience: Double,
    isJSON: Bool
  ) {
    self.client = client
    self.server = server
    self.script = script
    self.speed = speed
    self.patience = patience
    self.isJSON = isJSON
  }

  // MARK: Channel

  func start(channel name: String, definition: ChannelDefinition?) {
    let administration = ChannelAdministration(loop: client.loop, server: server)
    administration.show(name) { [self] result in
      switch result {
      case .success(let channel):
        if speed != 1 {
          Console.note(
            "the channel \(name) is there already: its budget and windows run in real time, the match at \(JSONWriter.seconds(speed))×; play into a new one (--channel NAME) for the match's own decisions"
          )
        }
        begin(channel)
      case .failure(let failure) where failure.reason == RefusalReason.channelNotRegistered.rawValue:
        guard let alias = ChannelAlias(name), ChannelID(name)?.base64.hasSuffix("=") != true else {
          client.fail("\(failure)")
          return
        }
        var definition = definition ?? ChannelDefinition(settings: ChannelSettings(app: .scores))
        definition.alias = alias
        administration.create(definition.running(at: speed)) { [self] result in
          switch result {
          case .success(let channel):
            Console.note(
              "created the channel \(name), its rules running at \(JSONWriter.seconds(speed))× speed")
            // Those who wait for it (`watch --wait`) ask four times a second: none misses the kick-off.
            client.loop.schedule(after: 0.5) { [self] in begin(channel) }
          case .failure(let failure): client.fail("\(failure)")
          }
        }
      case .failure(let failure): client.fail("\(failure)")
      }
    }
  }

  private func begin(_ channel: ChannelInformation) {
    storagePolicy = channel.definition.settings.storagePolicy
    publisher = Publisher(
      loop: client.loop, server: server, channel: channel.id, patience: patience, notice: { Console.note($0) }
    )
    startedAt = client.loop.now
    Console.note(
      "playing \(messageCount), \(DurationText.described(script.duration)) at \(JSONWriter.seconds(speed))×, about \(DurationText.described(script.duration / speed))"
    )
    if Console.showsProgress {
      client.loop.schedule(after: 0.1, every: 0.1) { [self] in showProgress() }
    }
    sendDue()
  }

  // MARK: Playing

  private func sendDue() {
    let elapsed = (client.loop.now - startedAt) * speed
    while next < script.steps.count, script.steps[next].at <= elapsed + 1e-9 {
      send(script.steps[next])
      next += 1
    }
    guard next < script.steps.count else { return }
    client.loop.schedule(after: max(0, (script.steps[next].at - elapsed) / speed)) { [self] in sendDue() }
  }

  private func send(_ step: MatchScript.Step) {
    let now = Date()
    let message = OutgoingMessage(
      aps: step.aps(sentAt: now, speed: speed), priority: step.priority,
      expiration: step.expiration(sentAt: now, speed: speed, storagePolicy: storagePolicy))
    publisher?.publish(message) { [self] answer in
      answered += 1
      if Console.showsProgress { Console.endProgress() }
      switch answer {
      case .success(let frame):
        outcomes[frame.outcome, default: 0] += 1
        if frame.outcome == .dropped, step.event == .end { endIsDropped = true }
        Console.print(
          isJSON ? PublishAnswer.json(frame, line: step.line) : plain(step, frame.outcome.rawValue))
      case .failure(let failure):
        refused += 1
        Console.print(isJSON ? PublishAnswer.json(failure, line: step.line) : plain(step, "refused"))
        Console.note("line \(step.line): \(failure)")
        if failure.reason == RefusalReason.channelNotRegistered.rawValue {
          publisher?.close()
          client.fail(
            "the channel is gone; stopped after \(answered - refused) of \(script.steps.count) messages")
        }
      }
      if answered == script.steps.count { finish() }
    }
  }

  private func plain(_ step: MatchScript.Step, _ outcome: String) -> String {
    let title = step.alert.flatMap { try? JSONDocument($0.bytes).root["title"]?.string }
    return
      "\(DurationText.clock(step.at))  \(outcome.padded(to: 10))  priority \(String(step.priority.rawValue).padded(to: 2))  \(step.event.rawValue)"
      + (title.map { "  \($0.printable)" } ?? "")
  }

  private func showProgress() {
    let elapsed = min((client.loop.now - startedAt) * speed, script.duration)
    let width = 30
    let done = script.duration > 0 ? Int(elapsed / script.duration * Double(width)) : width
    let bar = String(repeating: "█", count: done) + String(repeating: "░", count: width - done)
    Console.progress(
      "\(DurationText.clock(elapsed)) \(bar) \(DurationText.clock(script.duration))  \(answered) of \(script.steps.count) sent"
    )
  }

  private var messageCount: String {
    script.steps.count == 1 ? "1 message" : "\(script.steps.count) messages"
  }

  private func finish() {
    if Console.showsProgress { Console.endProgress() }
    publisher?.close()
    let parts = Outcome.allCases.compactMap { outcome in outcomes[outcome].map { "\($0) \(outcome.rawValue)" }
    }
    let summary = (parts + (refused > 0 ? ["\(refused) refused"] : [])).joined(separator: ", ")
    Console.note("played \(messageCount): \(summary)")
    if endIsDropped {
      client.fail("the end was dropped, over the channel's budget: cards stay until the system ends them")
    } else if refused > 0 {
      client.fail("\(refused) of \(messageCount) refused")
    } else {
      client.finish(0)
    }
  }
}

extension ChannelDefinition {
  /// The same rules for a match that is played faster than real: what takes an hour there takes less here.
  func running(at speed: Double) -> ChannelDefinition {
    var definition = self
    definition.settings.budget.refillPerHour = min(3_600_000, settings.budget.refillPerHour * speed)
    definition.settings.windows.considerate = min(Limits.windowSeconds, settings.windows.considerate / speed)
    definition.settings.windows.passive = min(Limits.windowSeconds, settings.windows.passive / speed)
    if let perSecond = settings.publishRate.perSecond {
      definition.settings.publishRate.perSecond = min(1_000_000, max(0.001, perSecond * speed))
    }
    return definition
  }
}
