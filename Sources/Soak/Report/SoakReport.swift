import Foundation

/// What a run found and measured. Its JSON is `report.json`; docs/soak-report.schema.json describes it.
public struct SoakReport: Sendable, Codable {
  /// The version of the format.
  public var format = 1
  /// The program that made it, with its version.
  public var program: String
  /// When the run began, in Unix seconds.
  public var started: Double
  /// How long it ran, in seconds.
  public var seconds: Double
  /// The settings; with the same ones the plan is the same.
  public var settings: SoakSettings
  /// The profile's name, when one was chosen.
  public var profile: String?
  /// The script's name, when one was played.
  public var script: String?
  /// Processes that had the subscribers.
  public var processes: Int
  /// Whether the server spoke TLS.
  public var tls: Bool
  /// Whether it ended before its time.
  public var endedEarly: Bool
  /// Where the server was, and whether it was the soak's own.
  public var server: String
  /// The verdict.
  public var verdict: SoakVerdict
  /// Totals.
  public var totals: SoakTotals
  /// From when a message was due to its arrival: messages that were delivered at once.
  public var latency: LatencySummary
  /// The same from when it was really sent, which hides the time in which a publisher could not send.
  public var latencyFromSending: LatencySummary
  /// From the end of a delivery window to the arrival.
  public var windowLatency: LatencySummary
  /// From when a message was due to the server's answer; one that never came counts to the end of the run.
  public var publishLatency: LatencySummary
  /// What the server cost; nil when it is not on this machine.
  public var serverCost: ServerCost?
  /// What the soak cost, and whether it was the bottleneck.
  public var soakCost: SoakCost
  /// The course of the run.
  public var samples: [SoakSample]

  /// Makes a report.
  public init(
    program: String, started: Double, seconds: Double, settings: SoakSettings, profile: String?,
    script: String?, processes: Int, tls: Bool, endedEarly: Bool, server: String, verdict: SoakVerdict,
    totals: SoakTotals,
    latency: LatencySummary, latencyFromSending: LatencySummary, windowLatency: LatencySummary,
    publishLatency: LatencySummary, serverCost: ServerCost?, soakCost: SoakCost, samples: [SoakSample]
  ) {
    self.program = program
    self.started = started
    self.seconds = seconds
    self.settings = settings
    self.profile = profile
    self.script = script
    self.processes = processes
    self.tls = tls
    self.endedEarly = endedEarly
    self.server = server
    self.verdict = verdict
    self.totals = totals
    self.latency = latency
    self.latencyFromSending = latencyFromSending
    self.windowLatency = windowLatency
    self.publishLatency = publishLatency
    self.serverCost = serverCost
    self.soakCost = soakCost
    self.samples = samples
  }

  /// The report as JSON, the keys in their order.
  public func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return try encoder.encode(self)
  }
}

/// Whether the rules held.
public struct SoakVerdict: Sendable, Codable {
  /// Whether nothing failed.
  public var passed: Bool
  /// Each rule, how often it was held against something, and how often it did not hold.
  public var rules: [RuleCount]
  /// The first violations of each rule.
  public var violations: [Violation]
  /// What else is wrong, in words: conditions of `--fail-on` that were met, a run that broke off, or one that checked
  /// nothing.
  public var failedConditions: [String]
  /// Messages of which nothing can be said, because the server stopped or nobody reliable was connected.
  public var undecided: Int

  /// One rule's counts.
  public struct RuleCount: Sendable, Codable {
    /// The rule.
    public var rule: SoakRule
    /// How often it was checked.
    public var checks: Int
    /// How often it did not hold.
    public var violations: Int
  }

  /// Takes the verdict of a verifier.
  public init(_ verifier: Verifier, failedConditions: [String]) {
    rules = SoakRule.allCases.map {
      RuleCount(rule: $0, checks: verifier.checks[$0] ?? 0, violations: verifier.counts[$0] ?? 0)
    }
    violations = verifier.violations
    // That somebody was subscribed, or published, says nothing of what a subscription is for.
    let others: Set<SoakRule> = [.unreachable, .cutOff, .answered]
    let checked = rules.contains { !others.contains($0.rule) && $0.checks > 0 }
    self.failedConditions =
      failedConditions
      + (checked ? [] : ["nothing was checked: no message reached a subscriber"])
      + (verifier.isTooUndecided
        ? [
          "nothing can be said of \(verifier.undecided) of \(verifier.sent) messages, which is more than half"
        ]
        : [])
    undecided = verifier.undecided
    passed = verifier.violationCount == 0 && self.failedConditions.isEmpty
  }

  /// Something else went wrong, in words.
  public mutating func fail(_ condition: String) {
    failedConditions.append(condition)
    passed = false
  }

  /// How many violations there were.
  public var violationCount: Int { rules.reduce(0) { $0 + $1.violations } }

  /// How many violations there were, in words.
  public var violationsText: String { Self.text(violations: violationCount) }

  /// So many violations, in words.
  public static func text(violations: Int) -> String {
    violations == 1 ? "1 violation" : "\(violations == 0 ? "no" : Decimals.count(violations)) violations"
  }
}

/// Sums over a run.
public struct SoakTotals: Sendable, Codable, Hashable {
  /// Messages that publishers sent.
  public var published = 0
  /// Messages that were accepted, by outcome.
  public var outcomes: [String: Int] = [:]
  /// Messages that were refused, by reason.
  public var refusals: [String: Int] = [:]
  /// Messages that arrived at subscribers.
  public var deliveries = 0
  /// Bytes that arrived at subscribers.
  public var bytes = 0
  /// Messages that slow subscribers missed, rightly.
  public var conflated = 0
  /// Subscriptions that came to stand.
  public var subscriptions = 0
  /// Connections that came about.
  public var connections = 0
  /// Connections that did not, while the server could be reached.
  public var failedConnections = 0
  /// Connections that did not, because the soak had just stopped its server.
  public var failedWhileStopped = 0
  /// Connections that the server ended, by code, or by what ended them without one.
  public var closeCodes: [String: Int] = [:]
  /// Faults that were made, by kind.
  public var faults: [String: Int] = [:]
  /// Acknowledgements that were sent.
  public var acknowledgements = 0
  /// Flips from active to stale.
  public var staleFlips = 0

  /// Makes empty sums.
  public init() {}

  /// Adds other sums.
  public mutating func add(_ other: SoakTotals) {
    published += other.published
    outcomes.merge(other.outcomes, uniquingKeysWith: +)
    refusals.merge(other.refusals, uniquingKeysWith: +)
    deliveries += other.deliveries
    bytes += other.bytes
    conflated += other.conflated
    subscriptions += other.subscriptions
    connections += other.connections
    failedConnections += other.failedConnections
    failedWhileStopped += other.failedWhileStopped
    closeCodes.merge(other.closeCodes, uniquingKeysWith: +)
    faults.merge(other.faults, uniquingKeysWith: +)
    acknowledgements += other.acknowledgements
    staleFlips += other.staleFlips
  }
}

/// One moment of a run: what happened since the one before, and how things stand.
public struct SoakSample: Sendable, Codable, Hashable {
  /// Seconds from the start.
  public var at: Double = 0
  /// Messages published a second.
  public var published: Double = 0
  /// Deliveries a second.
  public var delivered: Double = 0
  /// Messages that waited in a window, or were demoted, a second.
  public var windowed: Double = 0
  /// Messages that were refused or dropped over budget, a second.
  public var overBudget: Double = 0
  /// Tokens that are left of the channels' budgets, in percent of all; nil before the first answer.
  public var budgetLeft: Double?
  /// Latency from when a message was due; nil without deliveries.
  public var latency: LatencySummary?
  /// Subscriptions that stand.
  public var subscribed = 0
  /// Subscribers that should stand, by plan.
  public var wanted = 0
  /// Activities whose state is current.
  public var fresh = 0
  /// Activities whose state is stale.
  public var stale = 0
  /// Activities that ended, or whose card is gone.
  public var ended = 0
  /// Resident memory of the server, in bytes; nil when it is not on this machine, or is restarting.
  public var serverResident: Int?
  /// CPU of the server, in percent of one core.
  public var serverCPU: Double?
  /// CPU of the soak, in percent of one core.
  public var soakCPU: Double = 0
  /// The most that the soak's own clock was late, in seconds.
  public var soakLag: Double = 0
  /// Violations so far.
  public var violations = 0
  /// What happened since the one before, for marks on the plots: a restart, a burst.
  public var events: [String] = []

  /// What ``events`` say of a server that was told to end and started again.
  public static let restarted = "server restarted"
  /// What they say of a server that was killed and started again.
  public static let killed = "server killed"
  /// What they say of a burst of alerts into every channel.
  public static let burst = "burst"

  /// Whether the server was restarted.
  public var restartsServer: Bool { events.contains { $0 == Self.restarted || $0 == Self.killed } }

  /// Makes an empty one.
  public init() {}
}
