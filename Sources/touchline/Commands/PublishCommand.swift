import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import MatchScripts
import SubscriberProtocol

/// `touchline publish`: one message from flags, or a feed's lines from standard input.
enum PublishCommand: Command {
  static let usage = CommandUsage(
    name: "publish", synopsis: "CHANNEL --state JSON [OPTIONS]   or   CHANNEL --lines [OPTIONS]",
    summary: "Publish a message, or a feed's lines, into a channel.",
    options: [
      Option("--state", "JSON|@FILE|-", "the content state, as text, from a file or from standard input"),
      Option("--lines", nil, "read one JSON object a line: a content state, or a whole {\"aps\":{…}}"),
      Option("--fail-fast", nil, "with --lines: stop at the first line that is refused"),
      Option("--event", "update|end", "what the message does (default update)"),
      Option("--priority", "10|5|1", "how urgently (default 10)"),
      Option("--stale-in", "DURATION", "the state is out of date after this long, such as 90s, 2m, 4h"),
      Option("--stale-at", "TIME", "the same as a date: Unix seconds, or 2026-12-18T15:00:00Z"),
      Option("--expires-in", "DURATION", "a storing channel keeps the message this long"),
      Option("--dismiss-in", "DURATION", "with end: the card leaves after this long"),
      Option("--relevance", "NUMBER", "the relevance score"),
      Option("--alert-title", "TEXT", "an alert's title"),
      Option("--alert-body", "TEXT", "an alert's body"),
      Option("--sound", "NAME", "an alert's sound, such as default"),
      Option("--retry-for", "DURATION", "how long a message is tried again (default 60s)"),
      ClientOptions.format,
    ] + ClientOptions.access,
    operands: .channels,
    environment: ClientOptions.environmentHelp,
    notes: """
      CHANNEL is an id or an alias. Answers with one line a message, in order: what was done with it and its id. 429 (as
      long as the server asks), 503 and a lost connection are tried again; no line is published twice.
      """,
    examples: [
      "touchline publish final --state '{\"home\":1,\"away\":0,\"clock\":\"23′\"}' --stale-in 2m",
      "touchline publish final --state @state.json --alert-title 'Goal!' --alert-body 'Messi, 23′' --sound default",
      "touchline publish final --event end --dismiss-in 15m --state '{\"home\":3,\"away\":3}'",
      "my-feed | touchline publish final --lines",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let channel = try arguments.positional(1...1, "CHANNEL")[0]
    let server = try ClientOptions.server(arguments)
    let options = try Options(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    let isFeed = arguments.has("--lines")
    guard isFeed != arguments.has("--state") || (!isFeed && options.event == .end) else {
      throw arguments.error(
        isFeed ? "--lines and --state don't go together" : "--state JSON, or --lines, is missing")
    }
    if !isFeed, arguments.has("--fail-fast") { throw arguments.error("--fail-fast goes with --lines") }
    let state: JSONText? =
      if let text = arguments["--state"] { try StateArgument.read(text, arguments) } else { nil }
    let client = try ClientRun()
    let publisher = Publisher(
      loop: client.loop, server: server, channel: channel,
      patience: try ClientOptions.patience(arguments), notice: { Console.note($0) })
    if isFeed {
      let feed = Feed(client, publisher, options, failFast: arguments.has("--fail-fast"), isJSON: isJSON)
      try feed.start()
      return try client.run()
    }
    publisher.publish(options.message(state: state, now: Date())) { answer in
      switch answer {
      case .success(let frame):
        Console.print(
          isJSON ? PublishAnswer.json(frame, line: nil) : "\(frame.outcome.rawValue) \(frame.uniqueID)")
        publisher.close()
        client.finish(0)
      case .failure(let failure): client.fail(failure.description)
      }
    }
    return try client.run()
  }

  /// What the flags say about every message.
  struct Options {
    let event: Payload.Event
    let priority: Priority
    let staleIn: Double?
    let staleAt: Int64?
    let expiresIn: Double?
    let dismissIn: Double?
    let relevance: String?
    let alert: JSONText?

    init(_ arguments: Arguments) throws(UsageError) {
      event =
        try arguments.value("--event", "update or end (a broadcast can't start an activity)") {
          Payload.Destination.channel.event($0)
        } ?? .update
      priority =
        try arguments.value("--priority", "10, 5 or 1") { Int($0).flatMap { Priority(rawValue: $0) } }
        ?? .immediate
      if event == .update, arguments.has("--dismiss-in") {
        throw arguments.error("--dismiss-in goes with --event end")
      }
      staleIn = try ClientOptions.duration("--stale-in", arguments)
      staleAt = try arguments.value("--stale-at", TimeText.rule) { TimeText.date($0) }
        .map { Int64($0.timeIntervalSince1970) }
      if staleIn != nil, staleAt != nil {
        throw arguments.error("--stale-in and --stale-at don't go together")
      }
      expiresIn = try ClientOptions.duration("--expires-in", arguments)
      dismissIn = try ClientOptions.duration("--dismiss-in", arguments)
      relevance = try arguments.value("--relevance", "a number") {
        Double($0).map { $0.isFinite } == true ? $0 : nil
      }
      let title = arguments["--alert-title"]
      let body = arguments["--alert-body"]
      let sound = arguments["--sound"]
      guard title != nil || body != nil || sound != nil else {
        alert = nil
        return
      }
      guard let title, let body else {
        throw arguments.error("an alert needs both --alert-title and --alert-body")
      }
      let text = JSONWriter.object([
        "title": JSONWriter.quoted(title), "body": JSONWriter.quoted(body),
        "sound": sound.map(JSONWriter.quoted),
      ])
      alert = JSONText(compacting: text.utf8)
    }

    /// The message with a content state, as it is sent now.
    func message(state: JSONText?, now: Date) -> OutgoingMessage {
      let stale = staleIn ?? staleAt.map { Double($0) - now.timeIntervalSince1970 }
      let step = MatchScript.Step(
        at: 0, event: event, priority: priority, contentState: state, relevanceScore: relevance, alert: alert,
        staleIn: stale, dismissIn: dismissIn, expiresIn: expiresIn, line: 0)
      return message(aps: step.aps(sentAt: now), now: now)
    }

    /// The message with a whole `aps` object.
    func message(aps: [UInt8], now: Date) -> OutgoingMessage {
      let expiration = expiresIn.map { max(1, Int64((now.timeIntervalSince1970 + $0).rounded(.up))) } ?? 0
      return OutgoingMessage(aps: aps, priority: priority, expiration: expiration)
    }
  }
}

/// How an answer to a published message is printed.
enum PublishAnswer {
  static func json(_ frame: PublishedFrame, line: Int?) -> String {
    JSONWriter.object([
      "line": line.map(String.init), "outcome": JSONWriter.quoted(frame.outcome.rawValue),
      "unique-id": JSONWriter.quoted(frame.uniqueID), "channel": JSONWriter.quoted(frame.channel),
      "budget": frame.budget.string,
    ])
  }

  static func json(_ failure: RequestFailure, line: Int) -> String {
    JSONWriter.object([
      "line": String(line), "outcome": "\"refused\"", "reason": failure.reason.map(JSONWriter.quoted),
      "message": JSONWriter.quoted(failure.description),
    ])
  }
}

/// A feed on standard input: its lines go into the publisher as fast as that takes them.
private final class Feed {
  private let client: ClientRun
  private let publisher: Publisher
  private let options: PublishCommand.Options
  private let failFast: Bool
  private let isJSON: Bool

  private var watch: DescriptorWatch?
  private var buffer: [UInt8] = []
  private var line = 0
  private var waiting = 0
  private var refused = 0
  private var hasEnded = false
  /// Why the feed could not be read to its end.
  private var problem: String?
  private var isSkippingLongLine = false
  /// Answers in the order of the lines: those that were refused here wait for those before them.
  private var answers: [Int: Result<PublishedFrame, RequestFailure>] = [:]
  private var order: [Int] = []

  /// Lines under way at most, so that a feed is not read faster than it can be published.
  private static let lead = 512

  init(
    _ client: ClientRun, _ publisher: Publisher, _ options: PublishCommand.Options, failFast: Bool,
    isJSON: Bool
  ) {
    self.client = client
    self.publisher = publisher
    self.options = options
    self.failFast = failFast
    self.isJSON = isJSON
  }

  func start() throws {
    publisher.onRoom = { [self] in resume() }
    if failFast { publisher.maximumDepth = 1 }
    try listen()
  }

  private func listen() throws {
    guard watch == nil, !hasEnded else { return }
    do {
      watch = try client.loop.watchReadable(STDIN_FILENO) { [self] in read() }
    } catch {
      throw CommandFailure("standard input can't be read; is it closed?")
    }
  }

  private func resume() {
    guard publisher.backlog < Self.lead / 2, !hasEnded else { return }
    do { try listen() } catch { client.fail("\(error)") }
  }

  private func read() {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    let count = chunk.withUnsafeMutableBytes { Foundation.read(STDIN_FILENO, $0.baseAddress, $0.count) }
    if count < 0 {
      guard errno != EAGAIN, errno != EINTR else { return }
      problem = "standard input can't be read: \(String(cString: strerror(errno)))"
      return end()
    }
    buffer += chunk[..<count]
    takeLines()
    if count == 0 {
      if !buffer.isEmpty, !isSkippingLongLine { take(buffer) }
      end()
    } else if publisher.backlog > Self.lead {
      watch?.cancel()
      watch = nil
    }
  }

  private func takeLines() {
    var start = buffer.startIndex
    while let end = buffer[start...].firstIndex(of: UInt8(ascii: "\n")) {
      if isSkippingLongLine { isSkippingLongLine = false } else { take(Array(buffer[start..<end])) }
      start = buffer.index(after: end)
    }
    buffer.removeFirst(start)
    if buffer.count > Limits.feedLineBytes {
      if !isSkippingLongLine {
        line += 1
        refuse(line, RequestFailure("the line has more than \(Limits.feedLineBytes) bytes"))
      }
      isSkippingLongLine = true
      buffer = []
    }
  }

  private func take(_ text: [UInt8]) {
    line += 1
    guard !hasEnded, text.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return }
    let number = line
    do throws(JSONSyntaxError) {
      let document = try JSONDocument(text, firstLine: number)
      guard document.root.members != nil else {
        refuse(number, RequestFailure("the line is \(document.root.described); an object was expected"))
        return
      }
      let message: OutgoingMessage
      if let aps = document.root["aps"] {
        message = options.message(aps: document.bytes(of: aps), now: Date())
      } else {
        message = options.message(state: JSONText(compacting: text), now: Date())
      }
      order.append(number)
      waiting += 1
      publisher.publish(message) { [self] answer in
        waiting -= 1
        answers[number] = answer
        report()
      }
    } catch {
      refuse(number, RequestFailure("not JSON: column \(error.position.column): \(error.message)"))
    }
  }

  private func refuse(_ number: Int, _ failure: RequestFailure) {
    order.append(number)
    answers[number] = .failure(failure)
    report()
  }

  private func report() {
    while let number = order.first, let answer = answers.removeValue(forKey: number) {
      order.removeFirst()
      switch answer {
      case .success(let frame):
        Console.print(
          isJSON
            ? PublishAnswer.json(frame, line: number)
            : "\(number) \(frame.outcome.rawValue) \(frame.uniqueID)")
      case .failure(let failure):
        refused += 1
        Console.print(
          isJSON
            ? PublishAnswer.json(failure, line: number) : "\(number) refused \(failure.description.printable)"
        )
        if failFast {
          watch?.cancel()
          watch = nil
          hasEnded = true
          publisher.close()
          client.fail("line \(number) was refused: \(failure.description)")
          return
        }
      }
    }
    finishIfDone()
  }

  private func end() {
    watch?.cancel()
    watch = nil
    hasEnded = true
    finishIfDone()
  }

  private func finishIfDone() {
    guard hasEnded, waiting == 0, order.isEmpty else { return }
    publisher.close()
    if let problem {
      client.fail("\(problem); \(line) lines were read")
    } else if refused > 0 {
      client.fail("\(refused) of \(line) lines refused")
    } else {
      client.finish(0)
    }
  }
}
