import Foundation

/// A plot over time as inline SVG, drawn by us: axes, grid, lines, areas, and a legend. Colours are classes, so that the
/// page's style sheet decides them for light and dark.
struct Plot {
  /// One line or area.
  struct Series {
    let name: String
    /// The class that gives its colour: `c1` to `c6`.
    let colour: String
    /// Points in time; nil breaks the line.
    let points: [(at: Double, value: Double?)]
    var isArea = false
  }

  /// What the values are.
  enum Unit {
    case count, seconds, bytes, percent, perSecond

    /// The labels of ticks: all with the same unit, and as many digits as tell them apart.
    func labels(_ ticks: [Double]) -> [String] {
      let high = ticks.last ?? 1
      let (divisor, suffix): (Double, String) =
        switch self {
        case .count: high >= 10_000 ? (1_000, "k") : (1, "")
        case .perSecond: high >= 10_000 ? (1_000, "k/s") : (1, "/s")
        case .bytes: (1_048_576, " MB")
        case .percent: (1, " %")
        case .seconds: (1, " s")
        }
      // Powers of ten of seconds, on a logarithmic axis.
      guard self != .seconds else { return ticks.map(Self.time) }
      let step = zip(ticks, ticks.dropFirst()).map { ($1 - $0) / divisor }.min() ?? 1
      let digits = (0...3).first { digits in
        let scaled = step * [1, 10, 100, 1_000][digits]
        return abs(scaled - scaled.rounded()) < 1e-6
      }
      return ticks.map { $0 == 0 ? "0" : Decimals.text($0 / divisor, digits ?? 3) + suffix }
    }

    private static func time(_ seconds: Double) -> String {
      seconds >= 1
        ? "\(Decimals.text(seconds, 0)) s"
        : seconds >= 0.001
          ? "\(Decimals.text(seconds * 1_000, 0)) ms" : "\(Decimals.text(seconds * 1e6, 0)) µs"
    }
  }

  let title: String
  let unit: Unit
  let seconds: Double
  let series: [Series]
  /// Moments that are marked.
  var marks: [(at: Double, name: String)] = []
  /// Whether values are drawn on a logarithmic axis.
  var isLogarithmic = false

  private static let size = (width: 720.0, height: 250.0)
  /// Above the axis there is room for two rows of the marks' names.
  private static let inset = (left: 62.0, right: 14.0, top: 34.0, bottom: 26.0)

  /// The figure.
  var html: String {
    let legend = series.map { "<span><i class=\"key \($0.colour)\"></i>\($0.name)</span>" }.joined()
    return """
      <figure><figcaption><b>\(title)</b><span class="legend">\(legend)</span></figcaption>
      <svg viewBox="0 0 \(number(Self.size.width)) \(number(Self.size.height))" role="img" aria-label="\(title)\(spokenMarks)">
      \(grid)\(markLines)\(series.map(draw).joined())</svg></figure>

      """
  }

  // MARK: Scales

  private var values: [Double] { series.flatMap { $0.points.compactMap(\.value) } }

  private var range: (low: Double, high: Double) {
    let high = values.max() ?? 1
    guard isLogarithmic else { return (0, ticksLinear(high).last ?? 1) }
    let low = max(values.filter { $0 > 0 }.min() ?? 0.001, 1e-5)
    return (power(below: low), max(power(above: high), power(below: low) * 10))
  }

  private func power(below value: Double) -> Double {
    var power = 1e-5
    while power * 10 <= value { power *= 10 }
    return power
  }

  private func power(above value: Double) -> Double {
    var power = 1e-5
    while power < value { power *= 10 }
    return power
  }

  private func ticksLinear(_ high: Double) -> [Double] {
    let high = max(high, unit == .bytes ? 1_048_576 : 1)
    let base = unit == .bytes ? 1_048_576.0 : 1
    var step = base * 1e-2
    for factor in [1.0, 2, 5].cycled(count: 40) where high / step > 5 {
      step = base * 1e-2 * factor
    }
    let count = Int((high / step).rounded(.up))
    return (0...max(1, count)).map { Double($0) * step }
  }

  private var ticks: [Double] {
    guard isLogarithmic else { return ticksLinear(values.max() ?? 1) }
    var ticks = [range.low]
    while let last = ticks.last, last * 5 < range.high { ticks.append(last * 10) }
    return ticks
  }

  private func x(_ at: Double) -> Double {
    let width = Self.size.width - Self.inset.left - Self.inset.right
    return Self.inset.left + width * min(1, max(0, at / max(seconds, 1e-9)))
  }

  private func y(_ value: Double) -> Double {
    let height = Self.size.height - Self.inset.top - Self.inset.bottom
    let (low, high) = range
    let share =
      isLogarithmic
      ? log10(max(value, low) / low) / log10(high / low) : (value - low) / (high - low)
    return Self.inset.top + height * (1 - min(1, max(0, share)))
  }

  // MARK: Drawing

  private var grid: String {
    let (left, right) = (number(Self.inset.left), number(Self.size.width - Self.inset.right))
    let ticks = ticks
    let lines = zip(ticks, unit.labels(ticks)).map { tick, label in
      """
      <line class="grid" x1="\(left)" x2="\(right)" y1="\(number(y(tick)))" y2="\(number(y(tick)))"/>\
      <text x="\(number(Self.inset.left - 8))" y="\(number(y(tick) + 4))" text-anchor="end">\(label)</text>
      """
    }
    let bottom = Self.size.height - Self.inset.bottom
    let step = timeStep
    let times = stride(from: 0, through: seconds + 1e-9, by: step).map { time in
      let anchor = time == 0 ? "start" : x(time) > Self.size.width - 30 ? "end" : "middle"
      return
        "<text x=\"\(number(x(time)))\" y=\"\(number(bottom + 18))\" text-anchor=\"\(anchor)\">\(Self.time(time))</text>"
    }
    return (lines + times).joined()
  }

  private var timeStep: Double {
    let steps: [Double] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400]
    return steps.first { seconds / $0 <= 8 } ?? 86_400
  }

  private static func time(_ seconds: Double) -> String {
    let total = Int(seconds)
    func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
    return total >= 3_600
      ? "\(total / 3_600):\(two(total / 60 % 60)):\(two(total % 60))" : "\(total / 60):\(two(total % 60))"
  }

  /// The dashed lines, each with its name above the axis where there is room for it; a pointer that rests on a line is told
  /// its name in any case.
  private var markLines: String {
    let bottom = number(Self.size.height - Self.inset.bottom)
    return labels.map { label in
      let mark = marks[label.mark]
      let at = number(x(mark.at))
      let line =
        "<line class=\"mark\" x1=\"\(at)\" x2=\"\(at)\" y1=\"\(number(label.row.map(Self.baseline) ?? Self.inset.top))\" y2=\"\(bottom)\"><title>\(mark.name)</title></line>"
      guard let row = label.row else { return line }
      let place = number(x(mark.at) + (label.isLeft ? -Self.gap : Self.gap))
      return line
        + "<text class=\"mark-name\" x=\"\(place)\" y=\"\(number(Self.baseline(row)))\" text-anchor=\"\(label.isLeft ? "end" : "start")\">\(mark.name)</text>"
    }.joined()
  }

  private static func baseline(_ row: Int) -> Double { 12 + 12 * Double(row) }

  /// Pixels of a letter.
  private static let letter = 6.4
  /// Pixels between a line and its name.
  private static let gap = 3.0

  /// Where the marks' names stand: in the first row in which none is in the way. What is rare is placed first, so that a
  /// burst every minute leaves no restart without its name.
  private var labels: [(mark: Int, row: Int?, isLeft: Bool)] {
    var counts: [String: Int] = [:]
    for mark in marks { counts[mark.name, default: 0] += 1 }
    let order = marks.indices.sorted { left, right in
      (counts[marks[left].name] ?? 0, marks[left].at, left) < (
        counts[marks[right].name] ?? 0, marks[right].at, right
      )
    }
    var taken: [[ClosedRange<Double>]] = [[], []]
    return order.map { index in
      let at = x(marks[index].at)
      let width = Double(marks[index].name.count) * Self.letter + 2 * Self.gap
      let isLeft = at + width > Self.size.width
      let span = isLeft ? at - width...at : at...at + width
      let row = taken.firstIndex { $0.allSatisfy { !$0.overlaps(span) } }
      if let row { taken[row].append(span) }
      return (index, row, isLeft)
    }
  }

  /// The marks for who hears the page: each name once, with how often it is there.
  private var spokenMarks: String {
    var names: [String] = []
    for mark in marks where !names.contains(mark.name) { names.append(mark.name) }
    let spoken = names.map { name in
      let count = marks.count { $0.name == name }
      return count == 1 ? name : "\(name) \(count)×"
    }
    return spoken.isEmpty ? "" : "; marked: \(spoken.joined(separator: ", "))"
  }

  private func draw(_ series: Series) -> String {
    var pieces: [[(Double, Double)]] = [[]]
    for point in series.points {
      if let value = point.value {
        pieces[pieces.count - 1].append((x(point.at), y(value)))
      } else if !(pieces.last?.isEmpty ?? true) {
        pieces.append([])
      }
    }
    let bottom = number(Self.size.height - Self.inset.bottom)
    return pieces.filter { !$0.isEmpty }.map { piece in
      let path = piece.map { "\(number($0.0)),\(number($0.1))" }.joined(separator: " ")
      guard series.isArea, let first = piece.first, let last = piece.last else {
        return "<polyline class=\"line \(series.colour)\" points=\"\(path)\"/>"
      }
      return
        "<polygon class=\"area \(series.colour)\" points=\"\(number(first.0)),\(bottom) \(path) \(number(last.0)),\(bottom)\"/><polyline class=\"line \(series.colour)\" points=\"\(path)\"/>"
    }.joined()
  }

  private func number(_ value: Double) -> String { Decimals.text(value, 1) }
}

extension [Double] {
  /// 1, 2, 5, 10, 20, 50 …
  fileprivate func cycled(count: Int) -> [Double] {
    (0..<count).map { self[$0 % self.count] * (0..<($0 / self.count)).reduce(1.0) { power, _ in power * 10 } }
  }
}
