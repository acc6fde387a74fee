import Foundation
import Soak

/// What a person sees while a soak runs: a few lines that stay where they are on a terminal, one line now and then elsewhere.
final class SoakScreen {
  private let isLive = Console.outputIsTerminal && ProcessInfo.processInfo.environment["TERM"] != "dumb"
  private var title = ""
  private var height = 0
  private var shown: Double = -.infinity
  private var told = 0

  /// Seconds between two lines where there is no terminal.
  private static let pace: Double = 5

  func begin(_ title: String) {
    self.title = title
    Console.print(isLive ? Console.styled("Touchline soak", .bold) + "  \(title)" : "soak: \(title)")
  }

  func show(_ sample: SoakSample, _ totals: SoakTotals, _ verifier: Verifier, _ meter: SoakMeter) {
    guard isLive else { return showLine(sample, verifier) }
    let latency = meter.newestLatency
    let lines = [
      row("time", "\(Decimals.text(sample.at, 0)) s", sample.event ?? ""),
      row(
        "connections", "\(Decimals.count(sample.subscribed)) of \(Decimals.count(sample.wanted))",
        "\(Decimals.count(totals.connections)) so far, \(Decimals.count(totals.failedConnections)) failed"),
      row(
        "deliveries", "\(Decimals.count(Int(sample.delivered)))/s",
        "\(Decimals.count(totals.deliveries)) so far"),
      row(
        "latency",
        latency.map { "p50 \(Decimals.milliseconds($0.p50))" } ?? "–",
        latency.map { "p99 \(Decimals.milliseconds($0.p99)) · max \(Decimals.milliseconds($0.max))" } ?? ""),
      row(
        "published", "\(Decimals.text(sample.published, 1))/s",
        "\(Decimals.text(sample.windowed, 1))/s in windows · \(Decimals.text(sample.overBudget, 1))/s refused or dropped"
      ),
      row(
        "budget left", sample.budgetLeft.map { "\(Decimals.text($0, 0)) %" } ?? "–", bar(sample.budgetLeft)),
      row(
        "activities", "\(Decimals.count(sample.fresh)) fresh",
        "\(Decimals.count(sample.stale)) stale · \(Decimals.count(sample.ended)) ended"),
      row(
        "server", sample.serverResident.map { "\(Decimals.text(Double($0) / 1_048_576, 1)) MB" } ?? "–",
        sample.serverCPU.map { "CPU \(Decimals.text($0, 0)) %" } ?? ""),
      row(
        "soak", "CPU \(Decimals.text(sample.soakCPU, 0)) %",
        "late by \(Decimals.milliseconds(sample.soakLag)) at most"),
      row("violations", violations(verifier), ""),
    ]
    // Back to the first line, and over the old ones.
    let back = height > 0 ? "\u{1B}[\(height)A" : ""
    Console.printText(back + lines.map { "\u{1B}[2K\($0)\n" }.joined())
    height = lines.count
  }

  private func row(_ name: String, _ value: String, _ more: String) -> String {
    "  \(Console.styled(name.padded(to: 13), .dim))\(value.padded(to: 20))\(Console.styled(more, .dim))"
  }

  private func bar(_ percent: Double?) -> String {
    guard let percent else { return "" }
    let full = Int((percent / 5).rounded())
    return String(repeating: "█", count: full) + String(repeating: "░", count: max(0, 20 - full))
  }

  private func violations(_ verifier: Verifier) -> String {
    guard let last = verifier.violations.last else { return Console.styled("none", .green) }
    return Console.styled(
      "\(verifier.violationCount), the last: \(String(last.description.prefix(90)))", .red)
  }

  private func showLine(_ sample: SoakSample, _ verifier: Verifier) {
    for violation in verifier.violations.dropFirst(told).prefix(20) {
      Console.note("violation: \(violation)")
    }
    told = verifier.violations.count
    guard sample.at - shown >= Self.pace || sample.event != nil else { return }
    shown = sample.at
    let latency = sample.latency.map {
      "p50 \(Decimals.milliseconds($0.p50)), p99 \(Decimals.milliseconds($0.p99)), max \(Decimals.milliseconds($0.max))"
    }
    let server = sample.serverResident.map {
      "; server \(Decimals.text(Double($0) / 1_048_576, 1)) MB, \(Decimals.text(sample.serverCPU ?? 0, 0)) %"
    }
    Console.print(
      "\(Decimals.text(sample.at, 0)) s: \(sample.subscribed) of \(sample.wanted) subscribed, \(Decimals.text(sample.delivered, 0)) deliveries/s, \(latency ?? "no latency")\(server ?? ""); \(SoakVerdict.text(violations: sample.violations))\(sample.event.map { "; \($0)" } ?? "")"
    )
  }

  /// Leaves what is shown where it is.
  func end() { height = 0 }
}

/// What a soak leaves behind.
enum SoakOutput {
  /// Prints the summary.
  static func print(_ report: SoakReport) {
    func line(_ name: String, _ text: String) { Console.print("  \(name.padded(to: 14))\(text)") }
    func latency(_ summary: LatencySummary) -> String {
      guard summary.count > 0 else { return "–" }
      return [
        ("p50", summary.p50), ("p90", summary.p90), ("p99", summary.p99), ("p99.9", summary.p999),
        ("max", summary.max),
      ]
      .map { "\($0) \(Decimals.milliseconds($1))" }.joined(separator: ", ")
    }
    let totals = report.totals
    Console.print("")
    line(
      "deliveries",
      "\(Decimals.count(totals.deliveries)) of \(Decimals.count(totals.published)) messages, \(Decimals.count(totals.conflated)) conflated for slow readers"
    )
    line(
      "connections",
      "\(Decimals.count(totals.connections)), at most \(Decimals.count(report.samples.map(\.subscribed).max() ?? 0)) at a time, \(totals.failedConnections) failed"
    )
    line("latency", "\(latency(report.latency)), from when a message was due")
    line("windows", "\(latency(report.windowLatency)), from the window's end")
    line("publishing", "\(latency(report.publishLatency)), from due to answered")
    if let cost = report.serverCost {
      let perDelivery = cost.cpuMicrosPerDelivery.map { ", \(Decimals.text($0, 1)) µs a delivery" } ?? ""
      let slope = cost.residentSlopePerHour.map {
        ", growing by \(Decimals.text($0 / 1_048_576, 1)) MB an hour over its last \(Decimals.text((cost.residentSlopeSeconds ?? 0) / 60, 0)) min"
      }
      line(
        "server",
        "\(Decimals.text(cost.cpuSeconds, 1)) s of CPU\(perDelivery); \(Decimals.text(Double(cost.maxResidentBytes) / 1_048_576, 1)) MB at most, \(Decimals.text(Double(cost.firstResidentBytes) / 1_048_576, 1)) MB at first\(slope ?? "")"
      )
    }
    let soak = report.soakCost
    line(
      "soak",
      "\(Decimals.text(soak.cpuSeconds, 1)) s of CPU\(soak.cpuMicrosPerDelivery.map { ", \(Decimals.text($0, 1)) µs a delivery" } ?? ""); \(Decimals.text(Double(soak.maxResidentBytes) / 1_048_576, 1)) MB; late by \(Decimals.milliseconds(soak.lagP99)) at p99, \(Decimals.milliseconds(soak.lagMax)) at most"
    )
    for process in soak.processes where soak.processes.count > 1 {
      line(
        "",
        "\(process.name): \(Decimals.text(process.share * 100, 0)) % of a core, \(Decimals.text(Double(process.maxResidentBytes) / 1_048_576, 1)) MB"
      )
    }
    if let bottleneck = soak.bottleneck {
      Console.print("  \(Console.styled("note", .yellow))          \(bottleneck)")
    }
    let faults = totals.faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)×" }
    if !faults.isEmpty { line("faults", faults.joined(separator: ", ")) }
    if report.verdict.undecided > 0 {
      line(
        "undecided",
        "\(Decimals.count(report.verdict.undecided)) of the messages: the server stopped, or nobody reliable was connected"
      )
    }
    verdict(report)
  }

  private static func verdict(_ report: SoakReport) {
    let checks = report.verdict.rules.reduce(0) { $0 + $1.checks }
    Console.print("")
    if report.verdict.passed {
      let early = report.endedEarly ? ", as far as it ran" : ""
      Console.print(
        "\(Console.styled("passed", .green))\(early): \(Decimals.count(checks)) checks of \(report.verdict.rules.count) rules, no violation (seed \(report.settings.seed))"
      )
      return
    }
    for violation in report.verdict.violations.prefix(20) { Console.print("  \(violation)") }
    if report.verdict.violationCount > 20 {
      Console.print("  and \(report.verdict.violationCount - 20) more")
    }
    for failure in report.verdict.failedConditions { Console.print("  \(failure)") }
    Console.print(
      "\(Console.styled("failed", .red)): \(report.verdict.violationsText); again with the same options and --seed \(report.settings.seed)"
    )
  }

  private static let names = ["report.json", "report.html"]

  /// Finds out before the run whether its report can be written; makes the folder.
  static func prepare(_ folder: String) throws(CommandFailure) {
    let url = URL(fileURLWithPath: folder)
    do {
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
      let trial = url.appendingPathComponent(".touchline-soak-\(ProcessInfo.processInfo.processIdentifier)")
      try Data("trial".utf8).write(to: trial)
      try FileManager.default.removeItem(at: trial)
    } catch {
      throw CommandFailure(
        "a report can't be written to \(folder): \(error.localizedDescription); name another folder as --report"
      )
    }
    for name in names {
      var isFolder: ObjCBool = false
      let path = url.appendingPathComponent(name).path
      if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
        throw CommandFailure("\(path) is a folder; the report would be written there")
      }
    }
  }

  /// Writes `report.json` and `report.html`.
  static func write(_ report: SoakReport, to folder: String) throws {
    let url = URL(fileURLWithPath: folder)
    try report.json().write(to: url.appendingPathComponent(names[0]), options: .atomic)
    try Data(ReportPage(report).html.utf8).write(to: url.appendingPathComponent(names[1]), options: .atomic)
    Console.note("report: \(url.appendingPathComponent(names[1]).path)")
  }
}
