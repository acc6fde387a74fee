import Foundation

/// Durations as people write them: a number of seconds, or a number with a unit.
public enum DurationText {
  /// What is accepted, in words for a message.
  public static let rule = "a number of seconds, or a number with a unit such as \"90s\", \"2m\" or \"4h\""
  /// Seconds of the longest duration, either way: a hundred years.
  static let longest: Double = 100 * 365.25 * 86_400

  /// Reads `90`, `90s`, `1.5m`, `2h`, `1d`, `250ms`; a minus sign means into the past.
  ///
  /// - Returns: seconds; nil when the text is none of these.
  public static func seconds(_ text: String) -> Double? {
    let units: [(suffix: String, factor: Double)] = [
      ("ms", 0.001), ("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("", 1),
    ]
    for unit in units where text.hasSuffix(unit.suffix) {
      let digits = text.dropLast(unit.suffix.count)
      // Double alone would also take "0x10", "1e3" and "inf".
      guard digits.allSatisfy({ "0123456789.-".contains($0) }), let number = Double(digits),
        abs(number * unit.factor) <= longest
      else { continue }
      return number * unit.factor
    }
    return nil
  }

  /// Reads a moment of a script: seconds, `mm:ss` or `h:mm:ss`.
  public static func clock(_ text: String) -> Double? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard (2...3).contains(parts.count) else { return nil }
    var seconds: Double = 0
    for (index, part) in parts.enumerated() {
      guard let value = Double(part), value >= 0, part.allSatisfy({ $0.isNumber || $0 == "." }) else {
        return nil
      }
      guard index == 0 || value < 60 else { return nil }
      seconds = seconds * 60 + value
    }
    return seconds <= longest ? seconds : nil
  }

  /// A moment of a script as people read it: `1:23:45`, with tenths where there are any.
  public static func clock(_ seconds: Double) -> String {
    let seconds = min(max(seconds, -longest), longest)
    let total = Int(seconds)
    let tenths = Int(((seconds - Double(total)) * 10).rounded())
    let text = String(format: "%d:%02d:%02d", total / 3_600, total % 3_600 / 60, total % 60)
    return (1...9).contains(tenths) ? "\(text).\(tenths)" : text
  }

  /// A span as people read it: `42s`, `3m20s`, `2h05m`.
  public static func described(_ seconds: Double) -> String {
    let total = Int(min(max(seconds, -longest), longest).rounded())
    func two(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
    if total < 60 { return "\(total)s" }
    if total < 3_600 { return "\(total / 60)m\(two(total % 60))s" }
    return "\(total / 3_600)h\(two(total % 3_600 / 60))m"
  }
}
