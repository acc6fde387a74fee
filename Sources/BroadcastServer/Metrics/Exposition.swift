/// Prometheus' text format, version 0.0.4 (Prometheus, "Exposition formats").
struct Exposition {
  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  private(set) var text = ""

  /// Writes a family with one number and no labels.
  mutating func add(_ family: MetricFamily, _ value: Double) { add(family, [([], value)]) }

  /// Writes a family with one number and no labels.
  mutating func add(_ family: MetricFamily, _ value: Int) { add(family, Double(value)) }

  /// Writes a family; each sample has a value for each of the family's labels.
  mutating func add(_ family: MetricFamily, _ samples: [(labels: [String], value: Double)]) {
    begin(family)
    for sample in samples { line(family.name, Array(zip(family.labels, sample.labels)), sample.value) }
  }

  /// Writes a family with one label, in the order of its values.
  mutating func add(_ family: MetricFamily, _ samples: [String: Int]) {
    add(family, samples.sorted { $0.key < $1.key }.map { ([$0.key], Double($0.value)) })
  }

  /// Writes a family with one histogram and no labels.
  mutating func add(_ family: MetricFamily, _ histogram: Histogram) { add(family, [([], histogram)]) }

  /// Writes a family of histograms; each has a value for each of the family's labels.
  mutating func add(_ family: MetricFamily, _ samples: [(labels: [String], histogram: Histogram)]) {
    begin(family)
    for sample in samples {
      let labels = Array(zip(family.labels, sample.labels))
      let histogram = sample.histogram
      var count = 0
      for (bound, inBucket) in zip(histogram.bounds + [.infinity], histogram.counts) {
        count += inBucket
        line(family.name + "_bucket", labels + [("le", Self.number(bound))], Double(count))
      }
      line(family.name + "_sum", labels, histogram.sum)
      line(family.name + "_count", labels, Double(count))
    }
  }

  private mutating func begin(_ family: MetricFamily) {
    text += "# HELP \(family.name) \(family.help)\n# TYPE \(family.name) \(family.kind.rawValue)\n"
  }

  private mutating func line(_ name: String, _ labels: [(String, String)], _ value: Double) {
    let pairs = labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
    text += "\(name)\(pairs.isEmpty ? "" : "{\(pairs)}") \(Self.number(value))\n"
  }

  /// A label's value: only these three have to be escaped.
  private static func escaped(_ value: String) -> String {
    value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
  }

  private static func number(_ value: Double) -> String {
    if let whole = Int(exactly: value) { return String(whole) }
    return value == .infinity ? "+Inf" : "\(value)"
  }
}
