import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import LiveActivities
import SubscriberProtocol

/// `touchline watch`: subscribes to channels and shows what a Live Activity would.
enum WatchCommand: Command {
  static let usage = CommandUsage(
    name: "watch", synopsis: "CHANNEL… [OPTIONS]",
    summary: "Subscribe to channels and follow their Live Activities.",
    options: [
      ClientOptions.format,
      Option("--for", "DURATION", "stop after this long"),
      Option("--until", "ended|dismissed", "stop when every activity has come this far"),
      Option("--since", "EPOCH:SEQ", "resume from a position, as the JSON lines carry it"),
      Option("--wait", nil, "wait for a server or a channel that isn't there yet"),
      ClientOptions.server,
    ],
    notes: """
      Keeps one Live Activity a channel: the newest timestamp wins, the state goes stale at its stale date, an ended card
      stays until its dismissal date. One line a change on standard output; notices about the connection on standard
      error. Reconnects by itself and tells what it missed. A dismissed activity is unsubscribed; when all are dismissed
      the command ends.
      """,
    examples: [
      "touchline watch world-cup-final-2022",
      "touchline watch final --wait --until ended",
      "touchline watch final semi-final --format json --for 2h | jq .cause",
    ])

  enum Goal: String {
    case ended, dismissed
  }

  static func run(_ arguments: Arguments) throws -> Int32 {
    guard !arguments.positional.isEmpty else { throw arguments.error("CHANNEL is missing") }
    let names = arguments.positional
    if let twice = Dictionary(grouping: names, by: { $0 }).first(where: { $1.count > 1 }) {
      throw arguments.error("the channel \"\(twice.key)\" was given twice")
    }
    let server = try ClientOptions.server(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    let span = try ClientOptions.duration("--for", arguments)
    if let span, span <= 0 {
      throw arguments.error("--for is \"\(arguments["--for"] ?? "")\"; more than 0 was expected")
    }
    let goal = try arguments.value("--until", "ended or dismissed") { Goal(rawValue: $0) }
    let since = try arguments.value("--since", "EPOCH:SEQ, as the JSON lines carry it,") {
      StreamPosition($0)
    }
    if since != nil, names.count > 1 { throw arguments.error("--since goes with one channel") }

    let client = try ClientRun()
    let watcher = Watcher(client, server, names, goal: goal, isJSON: isJSON)
    watcher.start(since: since, waits: arguments.has("--wait"))
    if let span {
      client.loop.schedule(after: span) {
        watcher.stop()
        if let goal {
          client.fail("not \(goal.rawValue) after \(arguments["--for"] ?? "")")
        } else {
          watcher.finish()
        }
      }
    }
    for signal in [SIGINT, SIGTERM] {
      client.loop.onSignal(signal) {
        watcher.stop()
        if goal == nil { watcher.finish() } else { client.finish(128 + signal) }
      }
    }
    return try client.run()
  }
}

/// Keeps the activities of one `watch`, on the loop's time.
private final class Watcher {
  /// One channel's activity and what its lines need.
  private struct Card {
    let name: String
    var activity: LiveActivity
    var deadline: LoopTimer?
    var definition: ChannelDefinition?
    /// Lines that wait for the definition, which says how a state reads.
    var held: [WatchLine]? = []
    var id = ""
    var position: StreamPosition?
    var missed = 0
  }

  private let client: ClientRun
  private let server: ServerAddress
  private let goal: WatchCommand.Goal?
  private let isJSON: Bool
  private var cards: [Card]
  private var started: Set<String> = []
  private var subscriber: ChannelSubscriber?
  private var isWaiting = false
  private var failures: [String: RequestFailure] = [:]

  init(
    _ client: ClientRun, _ server: ServerAddress, _ names: [String], goal: WatchCommand.Goal?, isJSON: Bool
  ) {
    self.client = client
    self.server = server
    self.goal = goal
    self.isJSON = isJSON
    let now = Date()
    cards = names.map { Card(name: $0, activity: LiveActivity(startedAt: now)) }
  }

  func start(since: StreamPosition?, waits: Bool) {
    subscriber = ChannelSubscriber(
      loop: client.loop, server: server, channels: cards.map(\.name), since: since, waits: waits
    ) { [self] event in handle(event) }
  }

  func stop() {
    subscriber?.close()
    subscriber = nil
    for card in cards { card.deadline?.cancel() }
  }

  // MARK: Events

  private func handle(_ event: SubscriberEvent) {
    switch event {
    case .subscribed(let frame, let missed, let isResumed):
      subscribed(frame, missed: missed, isResumed: isResumed)
    case .message(let frame, let missed):
      if let index = cards.firstIndex(where: { $0.id == frame.channel }) {
        message(frame, missed: missed, index)
      }
    case .disconnected(let problem, let wait):
      Console.note("\(problem); trying again in \(String(format: "%.1f", wait)) s")
    case .waiting(let channel):
      if !isWaiting { Console.note("waiting for the channel \"\(channel)\"") }
      isWaiting = true
    case .finished(let channel, let failure):
      failures[channel] = failure
      if cards.count > 1 { Console.note("\(channel): \(failure)") }
      if let index = cards.firstIndex(where: { $0.name == channel }) { cards[index].deadline?.cancel() }
      finishIfDone()
    case .failed(let failure):
      stop()
      client.fail(failure.description)
    }
  }

  private func subscribed(_ frame: SubscribedFrame, missed: Int?, isResumed: Bool) {
    guard let index = cards.firstIndex(where: { $0.name == frame.channel || $0.name == frame.alias }) else {
      return
    }
    let name = cards[index].name
    cards[index].id = frame.channel
    cards[index].position = frame.position
    switch missed {
    case nil: Console.note("\(name): the server counts anew; messages may have been missed")
    case 0?: Console.note(isResumed ? "\(name): resumed, nothing missed" : "\(name): subscribed")
    case let count?:
      cards[index].missed += count
      Console.note("\(name): resumed, \(count) \(count == 1 ? "message" : "messages") missed")
    }
    guard started.insert(name).inserted else { return }
    cards[index].activity = LiveActivity(startedAt: Date())
    schedule(index)
    guard !isJSON else {
      cards[index].held = nil
      return
    }
    ChannelAdministration(loop: client.loop, server: server).show(name) { [self] result in
      cards[index].definition = try? result.get().definition
      for line in cards[index].held ?? [] { print(line, index) }
      cards[index].held = nil
    }
  }

  private func message(_ frame: MessageFrame, missed: Int, _ index: Int) {
    let now = Date()
    cards[index].position = frame.position
    cards[index].missed += missed
    if missed > 0 {
      Console.note(
        "\(cards[index].name): \(missed) \(missed == 1 ? "message" : "messages") missed before this one")
    }
    let before = cards[index].activity.advance(to: now)
    let changes = cards[index].activity.receive(frame.payload, at: now)
    show(before.map { WatchLine(change: $0) }, index)
    show(
      changes.map { WatchLine(change: $0, frame: frame, latency: now.timeIntervalSince1970 - frame.sent) },
      index)
    schedule(index)
  }

  // MARK: Time

  private func schedule(_ index: Int) {
    cards[index].deadline?.cancel()
    guard let deadline = cards[index].activity.nextDeadline else { return }
    // Rounded up to the timer's millisecond, so that it never fires before the date.
    let seconds = max(0, (deadline.timeIntervalSinceNow * 1_000).rounded(.up) / 1_000)
    cards[index].deadline = client.loop.schedule(after: seconds) { [self] in
      show(cards[index].activity.advance(to: Date()).map { WatchLine(change: $0) }, index)
      schedule(index)
    }
  }

  private func show(_ lines: [WatchLine], _ index: Int) {
    for line in lines {
      if cards[index].held != nil { cards[index].held?.append(line) } else { print(line, index) }
    }
    if cards[index].activity.state == .dismissed { subscriber?.unsubscribe(cards[index].name) }
    finishIfDone()
  }

  private func finishIfDone() {
    let open = cards.filter { failures[$0.name] == nil }
    let isDone = open.allSatisfy { card in
      switch card.activity.state {
      case .dismissed: card.held == nil
      case .ended: goal == .ended && card.held == nil
      case .pending, .active, .stale: false
      }
    }
    guard isDone else { return }
    stop()
    finish()
  }

  /// Ends the command: with a failure when a channel could not be followed to the end.
  func finish() {
    let failed = cards.map(\.name).filter { failures[$0] != nil }
    if cards.count > 1, !failed.isEmpty {
      client.fail("\(failed.count) of \(cards.count) channels failed: \(failed.joined(separator: ", "))")
    } else if let name = failed.first, let failure = failures[name] {
      client.fail("\(name): \(failure)")
    } else {
      client.finish(0)
    }
  }

  private func print(_ line: WatchLine, _ index: Int) {
    let card = cards[index]
    if isJSON {
      Console.print(
        line.json(channel: card.id, name: card.name, position: card.position, missed: card.missed))
    } else {
      let name = cards.count > 1 ? card.name : nil
      Console.print(line.plain(name: name, definition: card.definition))
    }
  }
}

/// One line of `watch`: a change, and the message that caused it.
struct WatchLine {
  let change: LiveActivity.Change
  var frame: MessageFrame?
  var latency: Double?

  init(change: LiveActivity.Change, frame: MessageFrame? = nil, latency: Double? = nil) {
    self.change = change
    self.frame = frame
    self.latency = latency
  }

  /// The line for a script.
  func json(channel: String, name: String, position: StreamPosition?, missed: Int) -> String {
    JSONWriter.object([
      "at": JSONWriter.seconds(change.at.timeIntervalSince1970),
      "cause": JSONWriter.quoted(change.cause.rawValue),
      "state": JSONWriter.quoted(change.state.rawValue),
      "content-state": change.contentState?.string ?? "null",
      "channel": JSONWriter.quoted(channel), "name": JSONWriter.quoted(name),
      "epoch": position.map { JSONWriter.quoted($0.epoch) }, "seq": position.map { String($0.sequence) },
      "priority": frame.map { String($0.priority.rawValue) },
      "unique-id": frame.map { JSONWriter.quoted($0.uniqueID) },
      "alert": frame?.payload.alert.map(Self.json),
      "latency": latency.map { String(format: "%.6f", $0) }, "missed": String(missed),
    ])
  }

  private static func json(_ alert: Alert) -> String {
    JSONWriter.object([
      "title": alert.title.map { JSONWriter.quoted($0.plain) },
      "body": alert.body.map { JSONWriter.quoted($0.plain) },
      "sound": alert.sound.map(JSONWriter.quoted),
    ])
  }

  /// The line for a person.
  func plain(name: String?, definition: ChannelDefinition?) -> String {
    let (word, style): (String, Console.Style) =
      switch change.cause {
      case .update: change.state == .stale ? ("stale on arrival", .yellow) : ("live", .green)
      case .start: ("begun", .green)
      case .staleDate: ("stale", .yellow)
      case .end: ("final", .bold)
      case .lifetime: ("ended after 8 h", .bold)
      case .dismissal, .person: ("dismissed", .dim)
      case .orphan: ("over", .bold)
      case .ignoredOlder: ("older, ignored", .dim)
      case .ignoredAfterEnd: ("after end, ignored", .dim)
      }
    var columns = [Self.clock(change.at), Console.styled(word.padded(to: 9), style)]
    if let name { columns.insert(name, at: 1) }
    columns.append(StateSummary.text(change.contentState, definition, now: change.at))
    if let alert = frame?.payload.alert, change.cause == .update || change.cause == .end {
      let text = [alert.title, alert.body].compactMap { $0?.plain.printable }.joined(separator: ": ")
      columns.append(Console.styled("🔔 \(text)", .bold))
    }
    return columns.joined(separator: "  ")
  }

  private static func clock(_ date: Date) -> String {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.dateFormat = "HH:mm:ss"
    return formatter.string(from: date)
  }
}
