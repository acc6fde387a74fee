/// Numbers as people read them, without a locale.
public enum Decimals {
  /// A number with so many digits behind the point.
  public static func text(_ value: Double, _ digits: Int) -> String {
    guard value.isFinite else { return "–" }
    let scale = (0..<digits).reduce(1.0) { power, _ in power * 10 }
    guard abs(value) * scale < 9e15 else { return "\(value)" }
    let scaled = Int64((abs(value) * scale).rounded())
    let sign = value < 0 && scaled > 0 ? "-" : ""
    guard digits > 0 else { return sign + String(scaled) }
    let whole = scaled / Int64(scale)
    let part = String(scaled % Int64(scale))
    return "\(sign)\(whole).\(String(repeating: "0", count: digits - part.count))\(part)"
  }

  /// A count with blanks between thousands.
  public static func count(_ value: Int) -> String {
    var digits = Array(String(value.magnitude))
    var place = digits.count - 3
    while place > 0 {
      digits.insert("\u{202F}", at: place)
      place -= 3
    }
    return (value < 0 ? "-" : "") + String(digits)
  }

  /// Seconds as milliseconds, with as many digits as matter.
  public static func milliseconds(_ seconds: Double) -> String {
    let value = seconds * 1_000
    return text(value, value < 10 ? 2 : value < 100 ? 1 : 0) + " ms"
  }
}
