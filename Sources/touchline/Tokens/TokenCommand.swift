import BroadcastChannels
import Credentials
import Foundation
import MatchScripts

/// `touchline token`: makes keys and tokens, and explains tokens.
enum TokenCommand: Command {
  static let usage = CommandUsage(
    name: "token", synopsis: "new-key | mint --key FILE | show [TOKEN|-]  [OPTIONS]",
    summary: "Make signing keys and tokens, and explain a token.",
    options: [
      Option("--dir", "DIR", "new-key: the folder of keys (default keys), for 'serve --keys DIR'"),
      Option("--team", "TEAM", "new-key, mint: the team's id (default: the one of teams.json)"),
      Option("--app", "BUNDLE,…", "new-key: apps to add to the team (a new team's default: com.example.*)"),
      Option("--key", "FILE", "mint: the private key, such as keys/AuthKey_ABC123DEFG.p8"),
      Option("--key-id", "KID", "mint: the key's id (default: from the file's name)"),
      Option("--subscriber", nil, "mint: a token for subscribing instead of one for publishing"),
      Option(
        "--channel", "CHANNEL,…", "mint --subscriber: ids and aliases, or '*' for all of the team's apps"),
      Option("--for", "DURATION", "mint --subscriber: how long it is good, at most 30d (default 1h)"),
      Option("--at", "DATE", "mint: when it counts as made; show: the moment to judge it at (default now)"),
      Option("--keys", "DIR", "show: judge the token with this folder of keys"),
      Option("--strict", nil, "show: judge as 'serve --strict' does"),
      Option("--format", "plain|json", "show: for a person, or as JSON (default plain)"),
    ],
    operands: .words(["new-key", "mint", "show"]),
    notes: """
      'new-key' writes AuthKey_<key id>.p8 and adds it to teams.json; it overwrites nothing. 'mint' prints the token alone on
      standard output. 'show' reads standard input unless a token is given: what is typed as an argument stays in the
      shell's history. It exits 1 when the token would be refused.
      """,
    examples: [
      "touchline token new-key --team TEAM123456 --app com.example.scores",
      "token=$(touchline token mint --key keys/AuthKey_ABC123DEFG.p8)",
      "touchline token mint --key keys/AuthKey_ABC123DEFG.p8 --subscriber --channel final --for 4h",
      "echo \"$token\" | touchline token show --keys keys",
    ])

  /// The options of each verb.
  private static let options: [(verb: String, options: Set<String>)] = [
    ("new-key", ["--dir", "--team", "--app"]),
    ("mint", ["--key", "--key-id", "--team", "--subscriber", "--channel", "--for", "--at"]),
    ("show", ["--keys", "--strict", "--at", "--format"]),
  ]

  static func run(_ arguments: Arguments) throws -> Int32 {
    guard let verb = arguments.positional.first else {
      throw arguments.error("one of new-key, mint and show is missing")
    }
    guard let own = options.first(where: { $0.verb == verb })?.options else {
      let hint = Suggestion.phrase(for: verb, among: options.map(\.verb))
      throw arguments.error("there is no \"token \(verb)\"\(hint)")
    }
    if let option = usage.options.first(where: { arguments.has($0.name) && !own.contains($0.name) }) {
      let others = options.filter { $0.options.contains(option.name) }.map(\.verb)
      throw arguments.error("\(option.name) goes with \(others.joined(separator: " and ")) only")
    }
    switch verb {
    case "new-key": return try newKey(arguments)
    case "mint": return try mint(arguments)
    default: return try TokenExplanation.run(arguments)
    }
  }

  // MARK: new-key

  private static func newKey(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(1...1, "no further argument")
    let apps = try (arguments["--app"].map(list) ?? []).map { text throws(UsageError) in
      guard let app = AppPattern(text) else {
        throw arguments.error("--app has \"\(text)\"; \(AppPattern.rule) was expected")
      }
      return app
    }
    var generator = SystemRandomNumberGenerator()
    let key = try NewKey(
      folder: arguments["--dir"] ?? "keys", team: try ProviderKey.team(arguments), apps: apps,
      standardApps: AppPattern("com.example.*").map { [$0] } ?? [], using: &generator)
    Console.print(
      "key id      \(key.keyID)\nteam        \(key.team)\nkey         \(key.path)\nteams       \(key.teamsPath)"
    )
    return 0
  }

  private static func list(_ text: String) -> [String] {
    text.split(separator: ",", omittingEmptySubsequences: false)
      .map { $0.trimmingCharacters(in: .whitespaces) }
  }

  // MARK: mint

  private static func mint(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(1...1, "no further argument")
    guard let path = arguments["--key"] else { throw arguments.error("--key FILE is missing") }
    let isSubscriber = arguments.has("--subscriber")
    if !isSubscriber, let option = ["--channel", "--for"].first(where: { arguments.has($0) }) {
      throw arguments.error("\(option) goes with --subscriber")
    }
    let date = try arguments.value("--at", TimeText.rule) { TimeText.date($0) } ?? Date()
    let channels = isSubscriber ? try channels(arguments) : []
    let life = try life(arguments)
    let signer = try ProviderKey(file: path, arguments)
    let token =
      isSubscriber
      ? try SubscriberToken.mint(
        key: signer.key, keyID: signer.keyID, team: signer.team, channels: channels, issuedAt: date,
        expires: date.addingTimeInterval(life))
      : try ProviderToken.mint(key: signer.key, keyID: signer.keyID, team: signer.team, at: date)
    guard token.utf8.count <= Limits.tokenBytes else {
      throw CommandFailure(
        "the token has \(token.utf8.count) bytes, and a server takes \(Limits.tokenBytes); name fewer channels"
      )
    }
    Console.print(token)
    return 0
  }

  private static func channels(_ arguments: Arguments) throws(UsageError) -> [String] {
    guard let text = arguments["--channel"] else {
      throw arguments.error("--channel CHANNEL,… is missing; '*' means all channels of the team's apps")
    }
    let names = list(text)
    if names == ["*"] { return names }
    for name in names where ChannelID(name) == nil && ChannelAlias(name) == nil {
      throw arguments.error("--channel has \"\(name)\"; a channel's id or alias, or '*' alone, was expected")
    }
    return names
  }

  private static func life(_ arguments: Arguments) throws(UsageError) -> Double {
    try arguments.value("--for", "a duration from 1s to 30d, such as 90m or 4h,") { text in
      DurationText.seconds(text).flatMap { (1...Limits.subscriberTokenSeconds).contains($0) ? $0 : nil }
    } ?? 3_600
  }
}
