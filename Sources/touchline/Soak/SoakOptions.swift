import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import MatchScripts
import Soak

/// What a soak was asked to do.
struct SoakOptions {
  var settings = SoakSettings()
  var profile: SoakProfile?
  var script: (name: String, script: MatchScript, definition: ChannelDefinition?)?
  /// The server, and how to get in; nil for one of the soak's own.
  var server: ServerAccess?
  /// Whether the soak's own server speaks TLS.
  var usesTLS = false
  /// Processes that have the subscribers: 1 for the soak's own.
  var processes = 1
  /// The options that say what is shown, for those processes.
  var credential: [String] = []
  var report: String?
  var conditions: [FailCondition] = []

  init(_ arguments: Arguments) throws {
    _ = try arguments.positional(0...0, "no argument")
    profile = try arguments.value("--profile", SoakProfile.allCases.map(\.rawValue).joined(separator: ", ")) {
      SoakProfile(rawValue: $0)
    }
    settings = profile?.settings ?? SoakSettings()
    try readNumbers(arguments)
    try readScript(arguments)
    try readServer(arguments)
    processes =
      try arguments.value("--processes", "how many, from 1 to \(Self.mostProcesses),") { text in
        Int(text).flatMap { (1...Self.mostProcesses).contains($0) ? $0 : nil }
      } ?? 1
    report = arguments["--report"]
    conditions = try arguments.value("--fail-on", FailCondition.rule, FailCondition.read) ?? []
    if server != nil, conditions.contains(where: { $0.name == "rss" }) {
      throw arguments.error(
        "--fail-on rss is for the soak's own server: the memory of another one isn't known; leave out rss, or --server"
      )
    }
    if let problem = settings.problem { throw arguments.error(problem) }
  }

  private static let mostProcesses = 64

  /// Subscribers of one process.
  var share: Int { (settings.subscribers + processes - 1) / processes }

  private mutating func readNumbers(_ arguments: Arguments) throws(UsageError) {
    func count(_ name: String) throws(UsageError) -> Int? {
      try arguments.value(name, "a whole number") { Int($0) }
    }
    func number(_ name: String) throws(UsageError) -> Double? {
      try arguments.value(name, "a number") { text in Double(text).flatMap { $0.isFinite ? $0 : nil } }
    }
    func percent(_ name: String) throws(UsageError) -> Double? {
      try arguments.value(name, "percent, such as 5 or 5%,") { text in
        Double(text.hasSuffix("%") ? text.dropLast() : text[...])
      }
    }
    settings.seed =
      try arguments.value("--seed", "a whole number") { UInt64($0) } ?? UInt64.random(in: 1...999_999)
    settings.channels = try count("--channels") ?? settings.channels
    settings.subscribers = try count("--subscribers") ?? settings.subscribers
    settings.rate = try number("--rate") ?? settings.rate
    settings.speed = try number("--speed") ?? settings.speed
    settings.duration = try ClientOptions.duration("--duration", arguments) ?? settings.duration
    settings.ramp =
      try ClientOptions.duration("--ramp", arguments) ?? min(settings.ramp, settings.duration / 2)
    settings.staleIn = try ClientOptions.duration("--stale-in", arguments) ?? settings.staleIn
    settings.mix =
      try arguments.value("--mix", "weights such as 10=6,5=3,1=1", { PriorityMix($0) }) ?? settings.mix
    settings.churn = try percent("--churn") ?? settings.churn
    settings.slow = try percent("--slow") ?? settings.slow
    settings.offline = try percent("--offline") ?? settings.offline
    if arguments.has("--no-faults") { settings.faults = false }
    settings.restarts =
      try arguments.value("--restart-server", "how many times, from 0 to 100,") { text in
        Int(text).flatMap { (0...100).contains($0) ? $0 : nil }
      } ?? settings.restarts
  }

  private mutating func readScript(_ arguments: Arguments) throws {
    guard let path = arguments["--script"] ?? (profile == .match ? Self.shippedScript : nil) else {
      if profile == .match {
        throw arguments.error("the profile match needs --script FILE, such as one of Channels/")
      }
      if arguments.has("--speed") {
        throw arguments.error("--speed is for a script; name one as --script FILE")
      }
      return
    }
    for name in ["--rate", "--mix", "--stale-in"] where arguments.has(name) {
      throw arguments.error("\(name) and a script don't go together: the script says what is sent, and when")
    }
    if arguments.has("--duration"), arguments.has("--speed") {
      throw arguments.error("a script has its own length: name --speed, or the --duration that it is to take")
    }
    let (loaded, definition, _) = try ScriptSource.load(path: path)
    guard !loaded.steps.isEmpty else { throw CommandFailure("\(path) has no message") }
    script = (URL(fileURLWithPath: path).lastPathComponent, loaded, definition)
    // A script has its own end, unless a duration says at which speed it fits.
    if arguments.has("--duration") {
      settings.speed = max(0.1, loaded.duration / settings.duration)
    }
    settings.duration = max(2, loaded.duration / settings.speed)
    let most = settings.duration / 2
    if arguments.has("--ramp"), settings.ramp > most {
      throw arguments.error(
        "--ramp is \(Decimals.text(settings.ramp, 1)) s, and at this speed the script takes \(Decimals.text(settings.duration, 1)) s; half of that is the most"
      )
    }
    settings.ramp = min(settings.ramp, most)
  }

  /// The script that the profile `match` plays where it is at hand: in a clone of the repository.
  private static var shippedScript: String? {
    let path = "Channels/world-cup-final-2022.match.jsonl"
    return FileManager.default.fileExists(atPath: path) ? path : nil
  }

  private mutating func readServer(_ arguments: Arguments) throws {
    usesTLS = arguments.has("--tls")
    guard arguments.has("--server") else {
      for name in ["--allow-remote", "--ca", "--key", "--team", "--token-file"] where arguments.has(name) {
        throw arguments.error("\(name) goes with --server")
      }
      return
    }
    guard !usesTLS else {
      throw arguments.error("--tls is for the soak's own server; name another one as --server https://…")
    }
    guard !arguments.has("--restart-server") else {
      throw arguments.error("--restart-server restarts the soak's own server; leave out --server")
    }
    settings.restarts = 0
    // Before the credential is looked at: whose server it is comes first.
    let address = try ClientOptions.address(arguments)
    if let host = arguments["--allow-remote"] {
      guard host == address.host else {
        throw arguments.error(
          "--allow-remote names \(host), and --server \(address.host); name the same host")
      }
    } else if !Self.isLoopback(address.host) {
      throw arguments.error(
        "\(address.host) is not this machine; a soak is a load, and whoever runs that server must want it: add --allow-remote \(address.host)"
      )
    }
    server = try ClientOptions.server(arguments)
    credential = ["--key", "--team", "--token-file"].flatMap { name in
      arguments[name].map { [name, $0] } ?? []
    }
  }

  static func isLoopback(_ host: String) -> Bool {
    host == "localhost" || NetworkAddress(host.trimmingCharacters(in: ["[", "]"]))?.isLoopback == true
  }
}

/// A condition of `--fail-on`.
struct FailCondition {
  static let rule = "conditions such as p99=50ms,max=1s,rss=300 (MB),failed-connections=0"
  private static let names = ["p50", "p90", "p99", "p99.9", "max", "rss", "failed-connections", "bottleneck"]

  let name: String
  let most: Double

  private static func isTime(_ name: String) -> Bool { name.hasPrefix("p") || name == "max" }

  static func read(_ text: String) -> [FailCondition]? {
    var conditions: [FailCondition] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
      guard let name = pair.first, names.contains(name) else { return nil }
      if name == "bottleneck", pair.count == 1 {
        conditions.append(FailCondition(name: name, most: 0))
        continue
      }
      guard pair.count == 2 else { return nil }
      guard let most = isTime(name) ? DurationText.seconds(pair[1]) : Double(pair[1]), most >= 0 else {
        return nil
      }
      conditions.append(FailCondition(name: name, most: most))
    }
    return conditions
  }

  /// What was found, in words, when the condition is met; nil otherwise.
  func failure(
    _ latency: LatencySummary, _ totals: SoakTotals, _ server: ServerCost?, _ soak: SoakCost
  ) -> String? {
    func beyond(_ value: Double, _ show: (Double) -> String) -> String? {
      value > most ? "\(name) is \(show(value)); --fail-on allows \(show(most))" : nil
    }
    if Self.isTime(name), latency.count == 0 { return "\(name) is not known: nothing was delivered" }
    switch name {
    case "p50": return beyond(latency.p50, Decimals.milliseconds)
    case "p90": return beyond(latency.p90, Decimals.milliseconds)
    case "p99": return beyond(latency.p99, Decimals.milliseconds)
    case "p99.9": return beyond(latency.p999, Decimals.milliseconds)
    case "max": return beyond(latency.max, Decimals.milliseconds)
    case "rss":
      return server.flatMap { cost in
        beyond(Double(cost.maxResidentBytes) / 1_048_576) { "\(Decimals.text($0, 1)) MB" }
      }
    case "failed-connections": return beyond(Double(totals.failedConnections)) { Decimals.text($0, 0) }
    default: return soak.bottleneck
    }
  }
}
