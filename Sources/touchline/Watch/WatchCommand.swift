import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import LiveActivities
import SubscriberProtocol
import Terminal

/// `touchline watch`: subscribes to channels and shows what a phone would.
enum WatchCommand: Command {
  static let usage = CommandUsage(
    name: "watch", synopsis: "[CHANNEL…] [OPTIONS]",
    summary: "Subscribe to channels and follow their Live Activities.",
    options: [
      Option("--format", "phone|plain|json", "a phone on the screen (default in a terminal), or lines"),
      Option("--for", "DURATION", "stop after this long"),
      Option("--until", "ended|dismissed", "stop when every activity has come this far"),
      Option("--since", "EPOCH:SEQ", "resume from a position, as the JSON lines carry it"),
      Option("--wait", nil, "wait for a server or a channel that isn't there yet"),
      Option("--device", "FILE", "keep the device's state there, and go on from it"),
      Option("--locale", "LANGUAGE", "the language of alerts, such as es (default en)"),
      Option("--max-per-app", "N", "activities that an app may have (default 5)"),
      Option("--max-on-device", "N", "activities that the device may have (default 16)"),
      Option(
        "--device-budget", "N", "updates at priority 10 an hour; more are merged (default 60, lines: all)"),
      Option("--start-at", "DATE", "schedule the activities: pending until then"),
      Option("--push-token", nil, "print each activity's push token, to update and end it alone"),
      Option("--push-to-start", "APP[/TYPE]", "print the app's push-to-start token, and wait to be started"),
      Option("--rotate-push-token", "DURATION", "get new push tokens each time this long has passed"),
    ] + ClientOptions.access,
    operands: .channels,
    environment: ClientOptions.environmentHelp,
    notes: """
      Keeps one Live Activity a channel: the newest timestamp wins, the state goes stale at its stale date, an ended card
      stays until its dismissal date. In a terminal it draws a phone: '?' shows the keys, 'q' quits. In a pipe, or with
      --format plain or json, it prints one line a change on standard output, and notices about the connection on
      standard error. Reconnects by itself and tells what it missed. A dismissed activity is unsubscribed; when all are
      dismissed the lines end.

      Push tokens take POST /3/device/<token>, as at Apple: an activity's own token updates and ends it, the app's
      push-to-start token starts one, which then follows the channel of its "input-push-channel". Needs no CHANNEL; it
      goes on until --until, --for or a signal. Without --device the tokens end with the command.
      """,
    examples: [
      "touchline watch world-cup-final-2022",
      "touchline watch final --wait --until ended --format plain",
      "touchline watch final semi-final --device ~/.touchline-phone.json",
      "touchline watch --push-to-start com.example.scores/MatchAttributes --push-token",
      "touchline watch final semi-final --format json --for 2h | jq .cause",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let options = try WatchOptions(arguments)
    let file = options.file.map { DeviceFile(path: $0) }
    let (device, kept) = try device(options, file)
    if options.names.isEmpty, options.tokens.start == nil, !device.activities.contains(where: \.isAlive) {
      throw arguments.error("CHANNEL is missing")
    }
    let client = try ClientRun()
    let display: any WatchDisplay
    let phone: PhoneWatch?
    var stop: () -> Void = {}
    switch options.format {
    case .phone:
      let terminal: Terminal
      do throws(TerminalError) {
        terminal = try Terminal(colour: Console.allowsColour) { DisplayWidth.of($0) }
      } catch {
        throw CommandFailure(error.description)
      }
      let screen = PhoneWatch(loop: client.loop, terminal: terminal) { stop() }
      (display, phone) = (screen, screen)
    case .plain:
      let count = Set(options.names + device.activities.filter(\.isAlive).map(\.name)).count
      let namesChannels = count > 1 || options.tokens.start != nil
      (display, phone) = (PlainWatch(namesChannels: namesChannels, locale: device.settings.locale), nil)
    case .json: (display, phone) = (JSONWatch(), nil)
    }
    let controller = WatchController(
      client, options.server, names: options.names, device: device, file: file, plan: options.plan,
      tokens: (options.tokens, kept), display: display)
    stop = {
      controller.stop()
      client.finish(0)
    }
    phone?.controller = controller
    defer { controller.stop() }
    try phone?.start()
    controller.start()
    if let span = options.span { end(after: span, options, controller, client) }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
      client.loop.onSignal(signal) {
        controller.stop()
        if options.plan.goal == nil { controller.finish() } else { client.finish(128 + signal) }
      }
    }
    return try client.run()
  }

  private static func end(
    after span: Double, _ options: WatchOptions, _ controller: WatchController, _ client: ClientRun
  ) {
    client.loop.schedule(after: span) {
      controller.stop()
      if let goal = options.plan.goal {
        client.fail("not \(goal.rawValue) after \(options.spanText)")
      } else {
        controller.finish()
      }
    }
  }

  /// The device and its push tokens as its file keeps them, with the settings of the command line.
  private static func device(
    _ options: WatchOptions, _ file: DeviceFile?
  ) throws -> (Device, [PushRegistration]) {
    let new = Device(settings: options.settings(over: options.standard))
    guard let file else { return (new, []) }
    guard let (kept, tokens) = try file.read() else {
      // Who can't keep anything is told now, not at the end.
      try file.save(new)
      return (new, [])
    }
    do throws(DeviceSnapshot.Problem) {
      let settings = options.settings(over: kept.settings)
      return (try Device(restoring: kept, settings: settings, at: Date()), tokens)
    } catch {
      throw file.refused(error)
    }
  }
}
