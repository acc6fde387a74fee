import Foundation
import Soak

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
      "\(Decimals.count(totals.connections)), at most \(Decimals.count(report.samples.map(\.subscribed).max() ?? 0)) at a time, \(totals.failedConnections) failed\(totals.failedWhileStopped == 0 ? "" : ", and \(totals.failedWhileStopped) while the server was stopped")"
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
        "\(process.name): \(Decimals.text(process.share * 100, 0)) % of a core, \(Decimals.text(process.busiestShare * 100, 0)) % in its busiest 10 s, \(Decimals.text(Double(process.maxResidentBytes) / 1_048_576, 1)) MB"
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
    let shown = report.verdict.shown(atMost: mostShown)
    for violation in shown { Console.print("  \(violation.line(seed: report.settings.seed).printable)") }
    if report.verdict.violationCount > shown.count {
      Console.print("  and \(report.verdict.violationCount - shown.count) more")
    }
    for failure in report.verdict.failedConditions { Console.print("  \(failure)") }
    Console.print(
      "\(Console.styled("failed", .red)): \(report.verdict.violationsText); again with the same options and --seed \(report.settings.seed)"
    )
  }

  /// Violations that are printed, when there are not many rules that don't hold.
  private static let mostShown = 20
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
