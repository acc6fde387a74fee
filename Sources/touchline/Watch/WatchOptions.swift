import BroadcastChannels
import BroadcastClient
import Foundation
import LiveActivities
import SubscriberProtocol

/// The command line of `watch`, checked.
struct WatchOptions {
  /// How the device is shown.
  enum Format: String {
    case phone, plain, json
  }

  let names: [String]
  let server: ServerAccess
  let format: Format
  let span: Double?
  let spanText: String
  let plan: WatchController.Plan
  let tokens: DeviceTokens.Plan
  let file: String?
  private let locale: String?
  private let perApp: Int?
  private let onDevice: Int?
  private let budget: Int?

  init(_ arguments: Arguments) throws {
    names = arguments.positional
    file = arguments["--device"]
    tokens = try Self.tokens(arguments)
    guard !names.isEmpty || file != nil || tokens.start != nil else {
      throw arguments.error("CHANNEL is missing")
    }
    if let twice = Dictionary(grouping: names, by: { $0 }).first(where: { $1.count > 1 }) {
      throw arguments.error("the channel \"\(twice.key)\" was given twice")
    }
    server = try ClientOptions.server(arguments)
    format = try arguments.value("--format", "phone, plain or json") { Format(rawValue: $0) } ?? Self.usual
    span = try ClientOptions.duration("--for", arguments)
    spanText = arguments["--for"] ?? ""
    if let span, span <= 0 { throw arguments.error("--for is \"\(spanText)\"; more than 0 was expected") }
    let goal = try arguments.value("--until", "ended or dismissed") { WatchController.Goal(rawValue: $0) }
    let since = try arguments.value("--since", "EPOCH:SEQ, as the JSON lines carry it,") {
      StreamPosition($0)
    }
    if since != nil, names.count != 1 { throw arguments.error("--since goes with one channel") }
    if since != nil, file != nil {
      throw arguments.error("--since doesn't go with --device, which knows where each channel stood")
    }
    let startAt = try arguments.value("--start-at", TimeText.rule) { TimeText.date($0) }
    plan = WatchController.Plan(
      goal: goal, since: since, waits: arguments.has("--wait"), startAt: startAt)
    locale = arguments["--locale"]
    perApp = try Self.whole("--max-per-app", arguments)
    onDevice = try Self.whole("--max-on-device", arguments)
    budget = try Self.whole("--device-budget", arguments)
  }

  /// A phone where a person can see it and press its keys.
  private static var usual: Format {
    let isDumb = ["", "dumb"].contains(ProcessInfo.processInfo.environment["TERM"] ?? "")
    return Console.outputIsTerminal && isatty(STDIN_FILENO) == 1 && !isDumb ? .phone : .plain
  }

  private static func tokens(_ arguments: Arguments) throws(UsageError) -> DeviceTokens.Plan {
    let expected = "a bundle id such as com.example.scores, or com.example.scores/MatchAttributes,"
    let start = try arguments.value("--push-to-start", expected) { text -> PushRegistration? in
      let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard let app = BundleID(parts[0]), !app.hasPushTypeSuffix, parts.last?.isEmpty == false else {
        return nil
      }
      return PushRegistration(kind: .start, app: app, attributesType: parts.count == 2 ? parts[1] : nil)
    }
    let rotation = try ClientOptions.duration("--rotate-push-token", arguments)
    if let rotation, rotation < 0.1 {
      throw arguments.error(
        "--rotate-push-token is \"\(arguments["--rotate-push-token"] ?? "")\"; at least 100ms was expected")
    }
    let updates = arguments.has("--push-token")
    if rotation != nil, !updates, start == nil {
      throw arguments.error("--rotate-push-token goes with --push-token or --push-to-start")
    }
    return DeviceTokens.Plan(updates: updates, start: start, rotation: rotation)
  }

  private static func whole(_ name: String, _ arguments: Arguments) throws(UsageError) -> Int? {
    try arguments.value(name, "a whole number from 1 to 1000000") {
      Int($0).flatMap { (1...1_000_000).contains($0) ? $0 : nil }
    }
  }

  /// A new device's settings. Lines are for scripts, which want every message unless they ask for a budget.
  var standard: DeviceSettings {
    var settings = DeviceSettings()
    guard format != .phone, file == nil else { return settings }
    settings.hourlyBudget = 1_000_000
    settings.frequentHourlyBudget = 1_000_000
    return settings
  }

  /// Settings with what the command line says.
  func settings(over base: DeviceSettings) -> DeviceSettings {
    var settings = base
    if let locale { settings.locale = locale }
    if let perApp { settings.activitiesPerApp = perApp }
    if let onDevice { settings.activitiesOnDevice = onDevice }
    if let budget {
      settings.hourlyBudget = budget
      settings.frequentHourlyBudget = max(budget, settings.frequentHourlyBudget)
    }
    return settings
  }
}
