import BroadcastChannels
import BroadcastClient
import BroadcastServer
import Foundation

/// `touchline channel`: creates, lists, shows and deletes channels.
enum ChannelCommand: Command {
  static let usage = CommandUsage(
    name: "channel", synopsis: "create [ALIAS] | list | show CHANNEL | delete CHANNEL  [OPTIONS]",
    summary: "Create, list, show and delete channels.",
    options: creating + [ClientOptions.format] + ClientOptions.access,
    operands: .words(["create", "list", "show", "delete"]),
    environment: ClientOptions.environmentHelp,
    notes: """
      'create' prints the id alone on standard output. CHANNEL is an id or an alias.
      """,
    examples: [
      "id=$(touchline channel create final --app com.example.scores --frequent-updates)",
      "touchline channel create --definition Channels/wimbledon-final-2008.json",
      "touchline channel list",
      "touchline channel show final --format json",
      "touchline channel delete \"$id\"",
    ])

  private static let creating = [
    Option("--app", "BUNDLE", "create: the app's bundle id (default com.example.scores)"),
    Option("--storage", "none|latest", "create: whether the newest message is kept (default none)"),
    Option(
      "--frequent-updates", nil, "create: the app declares frequent updates; doubles the default budget"),
    Option("--definition", "FILE", "create: take everything from a definition file"),
    Option("--budget", "N|none", "create: messages at priority 10 that may come at once"),
    Option("--refill-per-hour", "N", "create: how many of them come back in an hour"),
    Option("--over-budget", "POLICY", "create: demote, drop or reject what is over budget"),
    Option("--window-5", "SECONDS", "create: delivery window of priority 5"),
    Option("--window-1", "SECONDS", "create: delivery window of priority 1"),
    Option("--publish-rate", "N|none", "create: publishes a second, any priority"),
    Option("--burst", "N", "create: publishes that may come at once"),
  ]

  static func run(_ arguments: Arguments) throws -> Int32 {
    guard let verb = arguments.positional.first else {
      throw arguments.error("one of create, list, show and delete is missing")
    }
    let server = try ClientOptions.server(arguments)
    let isJSON = try ClientOptions.isJSON(arguments)
    if verb != "create", let option = creating.map(\.name).first(where: arguments.has) {
      throw arguments.error("\(option) goes with create only")
    }
    switch verb {
    case "create":
      let name = try arguments.positional(1...2, "ALIAS").dropFirst().first
      let definition = try definition(arguments, alias: name)
      return try request(server) {
        $0.create(definition, $1)
      } print: { channel in
        Console.print(isJSON ? channel.json : channel.id.printable)
      }
    case "list":
      _ = try arguments.positional(1...1, "no further argument")
      return try request(server) {
        $0.list($1)
      } print: {
        list($0, isJSON: isJSON)
      }
    case "show":
      let name = try arguments.positional(2...2, "CHANNEL")[1]
      return try request(server) {
        $0.show(name, $1)
      } print: { channel in
        Console.print(isJSON ? channel.json : described(channel))
      }
    case "delete":
      let name = try arguments.positional(2...2, "CHANNEL")[1]
      return try request(server) {
        $0.delete(name, $1)
      } print: { _ in
        Console.note("deleted \(name)")
      }
    default:
      let hint = Suggestion.phrase(for: verb, among: ["create", "list", "show", "delete"])
      throw arguments.error("there is no \"channel \(verb)\"\(hint)")
    }
  }

  private static func request<T>(
    _ server: ServerAccess,
    _ send: (ChannelAdministration, @escaping (Result<T, RequestFailure>) -> Void) -> Void,
    print: @escaping (T) -> Void
  ) throws -> Int32 {
    let client = try ClientRun()
    send(ChannelAdministration(loop: client.loop, server: server)) { result in
      switch result {
      case .success(let value):
        print(value)
        client.finish(0)
      case .failure(let failure): client.fail(failure.description)
      }
    }
    return try client.run()
  }

  // MARK: Create

  private static func definition(_ arguments: Arguments, alias name: String?) throws -> ChannelDefinition {
    var alias: ChannelAlias?
    if let name {
      alias = ChannelAlias(name)
      if alias == nil { throw arguments.error("\"\(name)\" can't be an alias: \(ChannelAlias.rule)") }
    }
    if let path = arguments["--definition"] {
      let others = creating.map(\.name).filter { $0 != "--definition" && arguments.has($0) }
      guard others.isEmpty else {
        throw arguments.error("\(others[0]) doesn't go together with --definition")
      }
      var definition = try ChannelLibrary.load(file: path)
      if let alias { definition.alias = alias }
      return definition
    }
    return ChannelDefinition(alias: alias, settings: try settings(arguments))
  }

  private static func settings(_ arguments: Arguments) throws(UsageError) -> ChannelSettings {
    let app = try arguments.value("--app", "a bundle id such as com.example.scores") { text in
      BundleID(text).flatMap { $0.hasPushTypeSuffix ? nil : $0 }
    }
    var settings = ChannelSettings(
      app: app ?? .scores,
      storagePolicy: try arguments.value("--storage", "none or latest") {
        ["none": StoragePolicy.none, "latest": .latest][$0]
      } ?? .none,
      frequentUpdates: arguments.has("--frequent-updates"))
    let expected = "a whole number, or none for no limit,"
    if let capacity = try arguments.value("--budget", expected, { limit($0) }) {
      settings.budget.capacity = capacity
    }
    if let refill = try arguments.value("--refill-per-hour", "a number", { number($0, from: 0) }) {
      settings.budget.refillPerHour = refill
    }
    if let policy = try arguments.value(
      "--over-budget", "demote, drop or reject", { FrequencyBudget.OverBudget(rawValue: $0) })
    {
      settings.budget.overBudget = policy
    }
    let window = "a number of seconds from 0 to \(Int(Limits.windowSeconds))"
    func seconds(_ text: String) -> Double? {
      number(text, from: 0).flatMap { $0 <= Limits.windowSeconds ? $0 : nil }
    }
    if let five = try arguments.value("--window-5", window, seconds) { settings.windows.considerate = five }
    if let one = try arguments.value("--window-1", window, seconds) { settings.windows.passive = one }
    if let rate = try arguments.value(
      "--publish-rate", "a number, or none for no limit,",
      { text -> Double?? in text == "none" ? .some(nil) : number(text, from: 0.001).map { .some($0) } })
    {
      settings.publishRate.perSecond = rate
    }
    if let burst = try arguments.value(
      "--burst", "a whole number from 1", { Int($0).flatMap { $0 >= 1 ? $0 : nil } })
    {
      settings.publishRate.burst = burst
    }
    return settings
  }

  /// `none` as no limit, a whole number as itself.
  private static func limit(_ text: String) -> Int?? {
    if text == "none" { return .some(nil) }
    return Int(text).flatMap { (0...1_000_000).contains($0) ? .some($0) : nil }
  }

  private static func number(_ text: String, from lowest: Double) -> Double? {
    Double(text).flatMap { $0.isFinite && $0 >= lowest && $0 <= 3_600_000 ? $0 : nil }
  }

  // MARK: Printing

  private static func list(_ document: JSONDocument, isJSON: Bool) {
    guard let channels = document.root["channels"]?.elements else { return }
    if isJSON {
      for channel in channels { Console.print(JSONText(compacting: document.bytes[channel.range]).string) }
      return
    }
    if channels.isEmpty { Console.note("no channels yet; create one with: touchline channel create NAME") }
    for channel in channels {
      let policy = channel["message-storage-policy"]?.number?.int == 1 ? "latest stored" : "nothing stored"
      let columns = [
        (channel["id"]?.string ?? "").padded(to: 26), (channel["alias"]?.string ?? "-").padded(to: 24),
        (channel["app"]?.string ?? "").padded(to: 24), policy.padded(to: 16),
        "\(channel["subscribers"]?.number?.text ?? "0") subscribed",
      ]
      Console.print(columns.joined(separator: " ").printable)
    }
  }

  private static func described(_ channel: ChannelInformation) -> String {
    let root = try? JSONDocument(Array(channel.json.utf8)).root
    let settings = channel.definition.settings
    func count(_ name: String) -> String { root?["counts"]?[name]?.number?.text ?? "0" }
    func quota(_ name: String) -> String {
      guard let quota = root?["budget"]?[name], !quota.isNull else { return "no limit" }
      let left = "\(quota["remaining"]?.number?.text ?? "?") of \(quota["limit"]?.number?.text ?? "?") left"
      return left + (quota["reset"]?.number.map { ", one more in \($0.text) s" } ?? "")
    }
    let lines: [(String, String)] = [
      ("id", channel.id), ("alias", channel.alias ?? "-"), ("app", settings.app.identifier),
      ("storage", settings.storagePolicy == .latest ? "most recent message (1)" : "nothing (0)"),
      ("frequent updates", settings.frequentUpdates ? "yes" : "no"),
      (
        "priority 10",
        "\(quota("priority-10")); \(JSONWriter.seconds(settings.budget.refillPerHour)) an hour, then \(settings.budget.overBudget.rawValue)"
      ),
      ("publish rate", quota("publish-rate")),
      (
        "windows",
        "priority 5: \(JSONWriter.seconds(settings.windows.considerate)) s, priority 1: \(JSONWriter.seconds(settings.windows.passive)) s"
      ),
      ("subscribers", root?["subscribers"]?.number?.text ?? "0"),
      ("position", "\(root?["epoch"]?.string ?? ""):\(root?["seq"]?.number?.text ?? "0")"),
      (
        "messages",
        "\(count("accepted")) accepted, \(count("delivered")) delivered, \(count("windowed")) windowed, \(count("superseded")) superseded, \(count("demoted")) demoted, \(count("dropped")) dropped, \(count("rejected")) rejected"
      ),
      ("deliveries", "\(count("written")) written, \(count("acknowledged")) acknowledged"),
    ]
    return lines.map { "\($0.0.padded(to: 18))\($0.1.printable)" }.joined(separator: "\n")
  }
}
