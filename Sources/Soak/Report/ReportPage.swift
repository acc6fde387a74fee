import Foundation

/// The report as one HTML page that needs nothing else: the style and the plots are in it, there is no script.
public struct ReportPage {
  private let report: SoakReport

  /// Makes the page of a report.
  public init(_ report: SoakReport) { self.report = report }

  /// The page.
  public var html: String {
    let title = "Touchline soak\(report.profile.map { " · \($0)" } ?? "")"
    return """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
      <title>\(escaped(title))</title><style>\(Self.style)</style></head><body>
      <header><div><h1>\(escaped(title))</h1><p>\(escaped(subtitle))</p></div>\(badge)</header>
      <main>\(cards)\(bottleneck)\(violations)<section class="plots">\(plots.map(\.html).joined())</section>
      <section class="tables">\(latencies)\(costs)\(rules)\(totals)\(faults)</section></main>
      <footer>\(escaped(report.program)) · seed \(report.settings.seed) · \(escaped(report.server))</footer>
      </body></html>

      """
  }

  private func escaped(_ text: String) -> String {
    text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
      .replacingOccurrences(of: "\"", with: "&quot;")
  }

  private var subtitle: String {
    let settings = report.settings
    let date = Date(timeIntervalSince1970: report.started).formatted(.iso8601)
    let feed =
      report.script.map { "\($0) at \(Decimals.text(settings.speed, 0))×" }
      ?? "\(Decimals.text(settings.rate, settings.rate < 10 ? 1 : 0)) messages a second each"
    return
      "\(Decimals.count(settings.subscribers)) activities on \(settings.channels) channels, \(feed), \(Decimals.text(report.seconds, 0)) s from \(date)\(report.endedEarly ? " · ended early" : "")"
  }

  private var badge: String {
    report.verdict.passed
      ? "<strong class=\"badge good\">passed</strong>"
      : "<strong class=\"badge bad\">\(report.verdict.violationCount == 0 ? "failed" : report.verdict.violationsText)</strong>"
  }

  // MARK: Figures

  private var cards: String {
    var cards = [
      ("Latency p50", Decimals.milliseconds(report.latency.p50), "from when a message was due"),
      (
        "Latency p99", Decimals.milliseconds(report.latency.p99),
        "max \(Decimals.milliseconds(report.latency.max))"
      ),
      (
        "Deliveries", Decimals.count(report.totals.deliveries),
        "\(Decimals.count(Int(Double(report.totals.deliveries) / max(1, report.seconds)))) a second"
      ),
      (
        "Connections", Decimals.count(report.totals.connections),
        "\(Decimals.count(report.samples.map(\.subscribed).max() ?? 0)) at a time"
      ),
    ]
    if let cost = report.serverCost {
      cards.append(
        (
          "Server memory", "\(Decimals.text(Double(cost.maxResidentBytes) / 1_048_576, 0)) MB",
          cost.residentSlopePerHour.map { slope in
            "\(slope >= 0 ? "+" : "")\(Decimals.text(slope / 1_048_576, 1)) MB an hour over the last \(Decimals.text((cost.residentSlopeSeconds ?? 0) / 60, 0)) min"
          } ?? "at most"
        ))
      cards.append(
        (
          "Server CPU", cost.cpuMicrosPerDelivery.map { "\(Decimals.text($0, 1)) µs" } ?? "–",
          "a delivery, everything included"
        ))
    }
    let html = cards.map { name, value, note in
      "<div class=\"card\"><span>\(name)</span><b>\(value)</b><small>\(note)</small></div>"
    }
    return "<section class=\"cards\">\(html.joined())</section>"
  }

  private var bottleneck: String {
    report.soakCost.bottleneck.map { "<p class=\"note\">\(escaped($0))</p>" } ?? ""
  }

  private var violations: String {
    let conditions = report.verdict.failedConditions.map { "<li>\(escaped($0))</li>" }
    let shown = report.verdict.shown(atMost: 50).map { "<li>\(escaped($0.description))</li>" }
    guard !(conditions + shown).isEmpty else { return "" }
    let more = report.verdict.violationCount - shown.count
    return
      "<section class=\"violations\"><h2>What did not hold</h2><ul>\((conditions + shown).joined())</ul>\(more > 0 ? "<p>and \(more) more</p>" : "")<p>Again: the same settings with <code>--seed \(report.settings.seed)</code></p></section>"
  }

  private var plots: [Plot] {
    let samples = report.samples
    let seconds = max(report.seconds, samples.last?.at ?? 0)
    let marks = samples.flatMap { sample in sample.events.map { (at: sample.at, name: escaped($0)) } }
    func line(
      _ name: String, _ colour: String, area: Bool = false, _ value: (SoakSample) -> Double?
    ) -> Plot.Series {
      Plot.Series(
        name: name, colour: colour, points: samples.map { (at: $0.at, value: value($0)) }, isArea: area)
    }
    func plot(_ title: String, _ unit: Plot.Unit, log: Bool = false, _ series: [Plot.Series]) -> Plot {
      Plot(title: title, unit: unit, seconds: seconds, series: series, marks: marks, isLogarithmic: log)
    }
    var plots = [
      plot(
        "Latency from when a message was due", .seconds, log: true,
        [
          line("max", "c4") { $0.latency?.max }, line("p99.9", "c3") { $0.latency?.p999 },
          line("p99", "c2") { $0.latency?.p99 }, line("p50", "c1") { $0.latency?.p50 },
        ]),
      plot("Deliveries", .perSecond, [line("delivered", "c1", area: true) { $0.delivered }]),
      plot(
        "Subscribers", .count,
        [
          line("by plan", "c6") { Double($0.wanted) },
          line("subscribed", "c1", area: true) { Double($0.subscribed) },
        ]),
      plot(
        "Fresh and stale activities", .count,
        [
          line("fresh", "c1", area: true) { Double($0.fresh) }, line("stale", "c3") { Double($0.stale) },
          line("ended", "c6") { Double($0.ended) },
        ]),
      plot(
        "Publishing", .perSecond,
        [
          line("published", "c1") { $0.published }, line("in a window", "c2") { $0.windowed },
          line("refused or dropped", "c4") { $0.overBudget },
        ]),
      plot("Budget left", .percent, [line("of all channels", "c5", area: true) { $0.budgetLeft }]),
    ]
    if report.serverCost != nil {
      plots.append(
        plot(
          "Memory of the server", .bytes,
          [line("resident", "c5", area: true) { $0.serverResident.map(Double.init) }]))
      plots.append(
        plot(
          "CPU, in percent of a core", .percent,
          [line("server", "c1", area: true) { $0.serverCPU }, line("soak", "c6") { $0.soakCPU }]))
    }
    return plots
  }

  // MARK: Tables

  private var latencies: String {
    let rows = [
      ("Delivery, from when it was due", report.latency),
      ("Delivery, from when it was sent", report.latencyFromSending),
      ("Delivery, from the window's end", report.windowLatency),
      ("Answer to the publisher", report.publishLatency),
    ].map { name, summary in
      let cells = [summary.p50, summary.p90, summary.p99, summary.p999, summary.max].map {
        "<td>\(summary.count == 0 ? "–" : Decimals.milliseconds($0))</td>"
      }
      return "<tr><th>\(name)</th>\(cells.joined())</tr>"
    }
    return
      "<div class=\"wide\"><h2>Latency</h2><table><tr><td></td><td>p50</td><td>p90</td><td>p99</td><td>p99.9</td><td>max</td></tr>\(rows.joined())</table></div>"
  }

  private var rules: String {
    let rows = report.verdict.rules.map { rule in
      "<tr class=\"\(rule.violations > 0 ? "bad" : "")\"><th>\(rule.rule.rawValue)</th><td>\(Decimals.count(rule.checks))</td><td>\(Decimals.count(rule.violations))</td></tr>"
    }
    return
      "<div><h2>Rules</h2><table><tr><td></td><td>checked</td><td>violated</td></tr>\(rows.joined())</table></div>"
  }

  private var totals: String {
    let totals = report.totals
    var rows = [
      ("published", totals.published), ("conflated for slow readers", totals.conflated),
      ("undecided messages", report.verdict.undecided),
      ("subscriptions", totals.subscriptions), ("failed connections", totals.failedConnections),
      ("failed while the server was stopped", totals.failedWhileStopped),
      ("acknowledgements", totals.acknowledgements), ("went stale", totals.staleFlips),
    ]
    rows += totals.outcomes.sorted { $0.key < $1.key }.map { ("outcome \($0.key)", $0.value) }
    rows += totals.refusals.sorted { $0.key < $1.key }.map { ("refused \($0.key)", $0.value) }
    return "<div><h2>Totals</h2>\(counts(rows))</div>"
  }

  private var faults: String {
    let made = report.totals.faults.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    let closed = report.totals.closeCodes.sorted { $0.key < $1.key }.map { ("closed: \($0.key)", $0.value) }
    return made.isEmpty && closed.isEmpty
      ? "" : "<div><h2>Faults and their traces</h2>\(counts(made + closed))</div>"
  }

  private func counts(_ rows: [(name: String, count: Int)]) -> String {
    let html = rows.map { "<tr><th>\(escaped($0.name))</th><td>\(Decimals.count($0.count))</td></tr>" }
    return "<table>\(html.joined())</table>"
  }

  private var costs: String {
    func row(
      _ name: String, _ cpu: Double, _ micros: Double?, _ share: Double?, _ busiest: Double?, _ memory: Int
    ) -> String {
      func percent(_ share: Double?) -> String { share.map { "\(Decimals.text($0 * 100, 0)) %" } ?? "" }
      let cells: [String] = [
        "\(Decimals.text(cpu, 1)) s", micros.map { "\(Decimals.text($0, 1)) µs" } ?? "",
        percent(share), percent(busiest), "\(Decimals.text(Double(memory) / 1_048_576, 1)) MB",
      ]
      return "<tr><th>\(escaped(name))</th>\(cells.map { "<td>\($0)</td>" }.joined())</tr>"
    }
    let soak = report.soakCost
    let server = report.serverCost.map { cost in
      [
        row(
          "server", cost.cpuSeconds, cost.cpuMicrosPerDelivery,
          report.seconds > 0 ? cost.cpuSeconds / report.seconds : nil, nil, cost.maxResidentBytes)
      ]
    }
    let rows =
      (server ?? [])
      + soak.processes.map { process in
        row(
          process.name, process.cpuSeconds, soak.processes.count == 1 ? soak.cpuMicrosPerDelivery : nil,
          process.share, process.busiestShare, process.maxResidentBytes)
      }
    return
      "<div class=\"wide\"><h2>Costs</h2><table><tr><td></td><td>CPU</td><td>a delivery</td><td>of a core</td><td>busiest 10 s</td><td>memory</td></tr>\(rows.joined())</table></div>"
  }

  private static let style = """
    :root{color-scheme:light dark;--bg:#f6f7f9;--panel:#fff;--text:#1b1f24;--dim:#667080;--edge:#e3e6ea;--grid:#e9ecf0;\
    --c1:#2f6fed;--c2:#12a594;--c3:#e5940c;--c4:#d6409f;--c5:#7c5cd6;--c6:#8a94a3;--good:#14804a;--bad:#c62a2f}
    @media(prefers-color-scheme:dark){:root{--bg:#0f1216;--panel:#171b21;--text:#e6e9ee;--dim:#93a0b1;--edge:#272d36;\
    --grid:#232932;--c1:#6ea0ff;--c2:#3ccdb9;--c3:#f5b454;--c4:#f07cc4;--c5:#a893f0;--c6:#7b8798;--good:#3dd68c;--bad:#ff6369}}
    *{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
    header,main,footer{max-width:1180px;margin:0 auto;padding:0 24px}
    header{display:flex;justify-content:space-between;align-items:center;padding-top:28px}
    h1{font-size:24px;margin:0;letter-spacing:-.01em}header p{margin:2px 0 0;color:var(--dim)}h2{font-size:15px;margin:0 0 8px}
    .badge{padding:6px 16px;border-radius:99px;color:var(--panel);font-size:15px}.good{background:var(--good)}.badge.bad{background:var(--bad)}
    .cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:14px;margin:22px 0}
    .card,figure,.tables>div,.violations,.note{background:var(--panel);border:1px solid var(--edge);border-radius:12px}
    .card{padding:14px 16px}.card span,.card small{display:block;color:var(--dim);font-size:13px}.card b{font-size:23px;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
    .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:14px}
    figure{margin:0;padding:14px 14px 6px}figcaption{display:flex;justify-content:space-between;flex-wrap:wrap;gap:4px 16px;font-size:14px;padding:0 4px 6px}
    .legend{display:flex;gap:14px;color:var(--dim);font-size:13px}.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px;background:currentColor}
    svg{display:block;width:100%;height:auto}svg text{fill:var(--dim);font-size:12px;font-variant-numeric:tabular-nums}
    .grid{stroke:var(--grid)}.mark{stroke:var(--c4);stroke-dasharray:3 4;stroke-width:1.5;opacity:.8}svg .mark-name{fill:var(--c4);font-size:11px}
    .line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}.area{fill:currentColor;opacity:.13}
    .c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}
    .tables{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:14px;margin-top:14px;align-items:start}
    .tables>div{padding:16px;overflow-x:auto}.tables>.wide{grid-column:1/-1}table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
    th{font-weight:400;text-align:left;white-space:nowrap}td{text-align:right;padding:3px 0 3px 14px;white-space:nowrap}td:first-child,td:first-child~td{color:var(--dim)}
    tr.bad{color:var(--bad)}.violations,.note{padding:14px 18px;margin:0 0 14px}.violations{border-color:var(--bad)}.violations li{font-size:13.5px}
    .note{border-color:var(--c3)}footer{color:var(--dim);font-size:13px;padding-top:18px;padding-bottom:28px}
    """
}
