import BroadcastChannels
import Foundation

/// What a presentation is rendered from.
public struct PresentationContext: Sendable {
  let state: JSONValue?
  let attributes: JSONValue?
  /// Properties that are not shown now, because the device is locked.
  public var hidden: Set<String>
  /// What time it is, for what ticks by itself.
  public var now: Date

  /// Makes a context.
  public init(state: JSONText?, attributes: JSONText?, hidden: Set<String> = [], now: Date) {
    self.state = state.flatMap { try? JSONDocument($0.bytes).root }
    self.attributes = attributes.flatMap { try? JSONDocument($0.bytes).root }
    self.hidden = hidden
    self.now = now
  }

  fileprivate func value(_ path: [String]) -> JSONValue? {
    let isAttribute = path.first == "attributes"
    var value = isAttribute ? attributes : state
    for name in isAttribute ? path[1...] : path[...] { value = value?[name] }
    return value.flatMap { $0.isNull ? nil : $0 }
  }
}

extension PresentationTemplate {
  /// The text in a context, one element a line.
  public func lines(in context: PresentationContext) -> [String] {
    lines.compactMap { pieces in
      var holdsPlace = false
      var hasValue = false
      let line = Self.render(pieces, context, &holdsPlace, &hasValue)
      return holdsPlace && !hasValue ? nil : line
    }
  }

  /// The text in a context.
  public func render(in context: PresentationContext) -> String { lines(in: context).joined(separator: "\n") }

  private static func render(
    _ pieces: [Piece], _ context: PresentationContext, _ holdsPlace: inout Bool, _ hasValue: inout Bool
  ) -> String {
    var text = ""
    for piece in pieces {
      switch piece {
      case .text(let plain): text += plain
      case .value(let path, let format):
        holdsPlace = true
        let value = context.value(path).map { value in
          context.hidden.contains(path[0]) ? Self.mask : Self.text(value, format, context.now)
        }
        if let value, !value.isEmpty { hasValue = true }
        text += value ?? ""
      case .condition(let path, let then, let otherwise):
        holdsPlace = true
        let value = context.value(path)
        let isThere = value.map(Self.isThere) ?? false
        if isThere { hasValue = true }
        // Which part is shown would tell a hidden yes from a hidden no.
        if value?.bool != nil, context.hidden.contains(path[0]) {
          hasValue = true
          text += Self.mask
          continue
        }
        var places = false
        var values = false
        let part = render(isThere ? then : otherwise, context, &places, &values)
        if !part.isEmpty { hasValue = hasValue || values || !places }
        text += part
      }
    }
    return text
  }

  /// What stands for a value that is hidden, whatever its length.
  private static let mask = "•••"

  private static func isThere(_ value: JSONValue) -> Bool { value.bool ?? !plain(value).isEmpty }

  private static func text(_ value: JSONValue, _ format: Format, _ now: Date) -> String {
    switch format {
    case .plain: plain(value)
    case .number(let width): padded(grouped(value.number) ?? plain(value), to: width)
    case .timer: date(value).map { timer($0.timeIntervalSince(now)) } ?? plain(value)
    case .relative: date(value).map { relative($0.timeIntervalSince(now)) } ?? plain(value)
    }
  }

  private static func plain(_ value: JSONValue) -> String {
    switch value.content {
    case .null: ""
    case .bool(let bool): bool ? "yes" : "no"
    case .number(let number): number.text
    case .string(let text): text
    case .array(let elements): elements.map(plain).joined(separator: ", ")
    case .object(let members): members.map { "\($0.name) \(plain($0.value))" }.joined(separator: ", ")
    }
  }

  /// Digits in groups of three, with a narrow no-break space between them (SI's rule, the same in every language).
  private static func grouped(_ number: JSONNumber?) -> String? {
    guard let number else { return nil }
    guard let whole = number.int else { return number.text }
    let digits = String(whole.magnitude)
    var grouped = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index).isMultiple(of: 3) { grouped += "\u{202F}" }
      grouped.append(digit)
    }
    return (whole < 0 ? "-" : "") + grouped
  }

  /// A figure space is as wide as a digit.
  private static func padded(_ text: String, to width: Int) -> String {
    String(repeating: "\u{2007}", count: max(0, width - DisplayWidth.of(text))) + text
  }

  /// A `Date` inside a content state is seconds since 2001-01-01: Swift's default strategy.
  private static func date(_ value: JSONValue) -> Date? {
    value.number.map { Date(timeIntervalSinceReferenceDate: $0.double) }
  }

  /// `4:05`, `1:02:09`: what is left, or what has passed.
  private static func timer(_ seconds: Double) -> String {
    let total = Int(min(abs(seconds), 359_999).rounded(seconds > 0 ? .up : .down))
    func two(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
    let (hours, minutes) = (total / 3_600, total % 3_600 / 60)
    return hours > 0 ? "\(hours):\(two(minutes)):\(two(total % 60))" : "\(minutes):\(two(total % 60))"
  }

  /// `now`, `3 min ago`, `in 2 h`.
  public static func relative(_ seconds: Double) -> String {
    let span = abs(seconds)
    let text: String
    switch span {
    case ..<1: return "now"
    case ..<60: text = "\(Int(span)) s"
    case ..<3_600: text = "\(Int(span / 60)) min"
    case ..<86_400: text = "\(Int(span / 3_600)) h"
    default: text = "\(Int(span / 86_400)) d"
    }
    return seconds > 0 ? "in \(text)" : "\(text) ago"
  }
}
