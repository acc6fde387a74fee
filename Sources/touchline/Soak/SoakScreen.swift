import Foundation
import LiveActivities
import Soak

/// What a person sees while a soak runs: a few lines that stay where they are on a terminal, one line now and then elsewhere.
final class SoakScreen {
  private let isTerminal = Console.outputIsTerminal && ProcessInfo.processInfo.environment["TERM"] != "dumb"
  private var title = ""
  /// The lines that stand on the terminal, and its columns when they were drawn.
  private var drawn = (height: 0, columns: 0)
  private var shown: Double = -.infinity
  private var told = 0
  private let seed: UInt64

  /// - Parameter seed: the run's, which each violation is told with.
  init(seed: UInt64) { self.seed = seed }

  /// Violations that are told a second; the others of what is kept follow.
  private static let mostTold = 20

  /// Seconds between two lines where there is no terminal.
  private static let pace: Double = 5
  /// Rows below which lines that stay have no room: they would scroll out of reach.
  private static let leastRows = 12
  /// Columns below which they say nothing.
  private static let leastColumns = 20

  /// The terminal's size, if lines can stay where they are on it. It may change at any time.
  private var size: (columns: Int, rows: Int)? {
    guard isTerminal, let size = Console.outputSize, size.rows >= Self.leastRows,
      size.columns >= Self.leastColumns
    else { return nil }
    return size
  }

  func begin(_ title: String) {
    self.title = title
    guard let size else { return Console.print("soak: \(title)") }
    Console.print(heading(size.columns))
    drawn = (0, size.columns)
  }

  private func heading(_ columns: Int) -> String {
    let name = "Touchline soak"
    let rest = DisplayWidth.fitted("  \(title)", to: columns - 1 - name.count)
    return Console.styled(name, .bold) + rest
  }

  /// Shows how it stands: once a second.
  func show(_ sample: SoakSample, _ totals: SoakTotals, _ verifier: Verifier, _ latency: LatencySummary?) {
    guard let size else {
      // What stays of the lines stays above.
      drawn = (0, 0)
      return showLine(sample, verifier)
    }
    let lines = rows(sample, totals, verifier, latency, size.columns).map { row, style in
      text(row, style, size.columns)
    }
    var back = drawn.height > 0 ? "\u{1B}[\(drawn.height)A" : ""
    if drawn.columns != size.columns {
      // Some terminals wrap what they show when they get narrower, others cut it: where the lines stand now nobody knows.
      back = "\u{1B}[H\u{1B}[2J\(heading(size.columns))\n"
    }
    // Over the old ones, and away with what somebody typed below them.
    Console.printText(back + lines.map { "\u{1B}[2K\($0)\n" }.joined() + "\u{1B}[J")
    drawn = (lines.count, size.columns)
  }

  private func rows(
    _ sample: SoakSample, _ totals: SoakTotals, _ verifier: Verifier, _ latency: LatencySummary?,
    _ columns: Int
  ) -> [(LiveRow, Console.Style?)] {
    let last = verifier.violations.last
    return [
      (LiveRow("time", "\(Decimals.text(sample.at, 0)) s", sample.events.joined(separator: ", ")), nil),
      (
        LiveRow(
          "connections", "\(Decimals.count(sample.subscribed)) of \(Decimals.count(sample.wanted))",
          "\(Decimals.count(totals.connections)) so far, \(Decimals.count(totals.failedConnections)) failed"),
        nil
      ),
      (
        LiveRow(
          "deliveries", "\(Decimals.count(Int(sample.delivered)))/s",
          "\(Decimals.count(totals.deliveries)) so far"), nil
      ),
      (
        LiveRow(
          "latency", latency.map { "p50 \(Decimals.milliseconds($0.p50))" } ?? "–",
          latency.map { "p99 \(Decimals.milliseconds($0.p99)) · max \(Decimals.milliseconds($0.max))" } ?? ""),
        nil
      ),
      (
        LiveRow(
          "published", "\(Decimals.text(sample.published, 1))/s",
          "\(Decimals.text(sample.windowed, 1))/s in windows · \(Decimals.text(sample.overBudget, 1))/s refused or dropped"
        ), nil
      ),
      (
        LiveRow(
          "budget left", sample.budgetLeft.map { "\(Decimals.text($0, 0)) %" } ?? "–",
          bar(sample.budgetLeft, columns: min(20, LiveRow.roomForMore(columns)))), nil
      ),
      (
        LiveRow(
          "activities", "\(Decimals.count(sample.fresh)) fresh",
          "\(Decimals.count(sample.stale)) stale · \(Decimals.count(sample.ended)) ended"), nil
      ),
      (
        LiveRow(
          "server", sample.serverResident.map { "\(Decimals.text(Double($0) / 1_048_576, 1)) MB" } ?? "–",
          sample.serverCPU.map { "CPU \(Decimals.text($0, 0)) %" } ?? ""), nil
      ),
      (
        LiveRow(
          "soak", "CPU \(Decimals.text(sample.soakCPU, 0)) %",
          "late by \(Decimals.milliseconds(sample.soakLag)) at most"), nil
      ),
      (
        LiveRow(
          "violations",
          last.map { "\(verifier.violationCount), the last: \($0.description.printable)" } ?? "none"),
        last == nil ? .green : .red
      ),
    ]
  }

  /// Cut first and styled then: the sequences that style take no columns.
  private func text(_ row: LiveRow, _ style: Console.Style?, _ columns: Int) -> String {
    let row = row.cut(
      to: columns, width: { DisplayWidth.of($0) }, fitted: { DisplayWidth.fitted($0, to: $1) })
    let value = style.map { Console.styled(row.value, $0) } ?? row.value
    return Console.styled(row.name, .dim) + value + (row.more.isEmpty ? "" : Console.styled(row.more, .dim))
  }

  private func bar(_ percent: Double?, columns: Int) -> String {
    guard let percent else { return "" }
    let full = min(max(0, Int((percent / 100 * Double(columns)).rounded())), columns)
    return String(repeating: "█", count: full) + String(repeating: "░", count: columns - full)
  }

  private func showLine(_ sample: SoakSample, _ verifier: Verifier) {
    for violation in verifier.violations.dropFirst(told).prefix(Self.mostTold) {
      Console.note("violation: \(violation.line(seed: seed).printable)")
    }
    told = min(told + Self.mostTold, verifier.violations.count)
    guard sample.at - shown >= Self.pace || !sample.events.isEmpty else { return }
    shown = sample.at
    let latency = sample.latency.map {
      "p50 \(Decimals.milliseconds($0.p50)), p99 \(Decimals.milliseconds($0.p99)), max \(Decimals.milliseconds($0.max))"
    }
    let server = sample.serverResident.map {
      "; server \(Decimals.text(Double($0) / 1_048_576, 1)) MB, \(Decimals.text(sample.serverCPU ?? 0, 0)) %"
    }
    let events = sample.events.map { "; \($0)" }.joined()
    Console.print(
      "\(Decimals.text(sample.at, 0)) s: \(sample.subscribed) of \(sample.wanted) subscribed, \(Decimals.text(sample.delivered, 0)) deliveries/s, \(latency ?? "no latency")\(server ?? ""); \(SoakVerdict.text(violations: sample.violations))\(events)"
    )
  }

  /// Something else was written to the terminal: where the lines are is not known.
  func isDisturbed() { drawn.columns = 0 }

  /// Leaves what is shown where it is.
  func end() { drawn = (0, 0) }
}

extension SoakRun {
  /// What a person is told at the beginning.
  func title(_ last: Double) -> String {
    let processes = options.processes > 1 ? " in \(options.processes) processes" : ""
    return
      "\(Decimals.count(settings.subscribers)) activities\(processes) on \(settings.channels) channels for \(Decimals.text(last, 0)) s, \(own == nil ? "\(access)" : "a server of its own"), seed \(settings.seed)"
  }
}
