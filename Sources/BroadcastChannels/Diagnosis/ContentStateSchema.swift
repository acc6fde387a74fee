import Foundation

/// The properties of an app's `ContentState` and their Swift types, as a channel definition declares them.
///
/// A device decodes a content state with Swift's default strategies. A state that lacks a property or has another type
/// fails there although the push was answered 200; this type finds out beforehand.
public struct ContentStateSchema: Sendable, Hashable {
  /// A property's type.
  public indirect enum PropertyType: Sendable, Hashable {
    case int, double, string, bool, date, url, uuid
    case optional(PropertyType)
    case array(PropertyType)
    case dictionary(PropertyType)
    case structure([Property])
  }

  /// A property.
  public struct Property: Sendable, Hashable {
    /// The key in the JSON.
    public let name: String
    /// The type.
    public let type: PropertyType

    /// Makes a property.
    public init(name: String, type: PropertyType) {
      self.name = name
      self.type = type
    }
  }

  /// The properties, in the order of the definition.
  public let properties: [Property]

  /// Makes a schema.
  public init(properties: [Property]) { self.properties = properties }
}

extension ContentStateSchema.PropertyType {
  /// The type names that a definition may use, in words for a message.
  public static let names = "Int, Double, String, Bool, Date, URL, UUID, [T], [String: T], each also as T?"

  /// Reads a Swift type such as `[String]` or `Date?`.
  ///
  /// - Returns: nil for another type, and for one of more than ``Limits/nestedTypes`` levels.
  public init?(swift text: String) { self.init(text.filter { $0 != " " }[...], depth: 0) }

  private init?(_ text: Substring, depth: Int) {
    guard depth <= Limits.nestedTypes else { return nil }
    if text.hasSuffix("?") {
      guard let wrapped = Self(text.dropLast(), depth: depth + 1) else { return nil }
      self = .optional(wrapped)
    } else if text.hasPrefix("[String:"), text.hasSuffix("]") {
      guard let value = Self(text.dropFirst(8).dropLast(), depth: depth + 1) else { return nil }
      self = .dictionary(value)
    } else if text.hasPrefix("["), text.hasSuffix("]") {
      guard let element = Self(text.dropFirst().dropLast(), depth: depth + 1) else { return nil }
      self = .array(element)
    } else {
      switch text {
      case "Int", "Int64", "Int32", "UInt": self = .int
      case "Double", "Float": self = .double
      case "String": self = .string
      case "Bool": self = .bool
      case "Date": self = .date
      case "URL": self = .url
      case "UUID": self = .uuid
      default: return nil
      }
    }
  }

  /// The type as Swift writes it.
  public var swift: String {
    switch self {
    case .int: "Int"
    case .double: "Double"
    case .string: "String"
    case .bool: "Bool"
    case .date: "Date"
    case .url: "URL"
    case .uuid: "UUID"
    case .optional(let wrapped): "\(wrapped.swift)?"
    case .array(let element): "[\(element.swift)]"
    case .dictionary(let value): "[String: \(value.swift)]"
    case .structure: "struct"
    }
  }
}

extension ContentStateSchema {
  /// What would go wrong when a device decodes a content state.
  ///
  /// - Parameters:
  ///   - state: the `content-state` object.
  ///   - key: its own key, such as `aps.content-state`, the start of each finding's key.
  public func findings(for state: JSONValue, key: String, in document: JSONDocument) -> [Finding] {
    Self.structure(properties, state, key: key, in: document)
  }

  private static func structure(
    _ properties: [Property], _ value: JSONValue, key: String, in document: JSONDocument
  ) -> [Finding] {
    guard let members = value.members else {
      return [
        Finding(
          .error, "state-type", key: key, "is \(value.described); an object was expected",
          at: value.range.lowerBound, in: document)
      ]
    }
    var findings: [Finding] = []
    for property in properties {
      let path = "\(key).\(property.name)"
      if let member = members.first(where: { $0.name == property.name }) {
        findings += check(property.type, member.value, key: path, in: document)
      } else if case .optional = property.type {
        continue
      } else {
        findings.append(
          Finding(
            .error, "state-missing", key: path,
            "is missing; it is declared \(property.type.swift), not optional, so the device can't decode the state",
            at: value.range.lowerBound, in: document))
      }
    }
    let names = properties.map(\.name)
    for member in members where !names.contains(member.name) {
      findings.append(
        Finding(
          .warning, "state-unknown", key: "\(key).\(member.name)",
          "is not declared; the device ignores it" + Suggestion.phrase(for: member.name, among: names),
          at: member.offset, in: document))
    }
    return findings
  }

  private static func check(
    _ type: PropertyType, _ value: JSONValue, key: String, in document: JSONDocument
  ) -> [Finding] {
    let wrong = [
      Finding(
        .error, "state-type", key: key, "is \(value.described); \(type.swift) was expected",
        at: value.range.lowerBound, in: document)
    ]
    switch type {
    case .int: return value.number?.int == nil ? wrong : []
    case .double: return value.number == nil ? wrong : []
    case .string: return value.string == nil ? wrong : []
    case .bool: return value.bool == nil ? wrong : []
    case .url: return value.string.flatMap { URL(string: $0) } == nil ? wrong : []
    case .uuid: return value.string.map(UUID.isCanonical) == true ? [] : wrong
    case .date:
      guard let seconds = value.number?.double else {
        let iso =
          value.string != nil ? "; Swift's default strategy takes seconds since 2001-01-01, not text" : ""
        return [
          Finding(
            .error, "state-type", key: key, "is \(value.described); Date was expected\(iso)",
            at: value.range.lowerBound, in: document)
        ]
      }
      return DateReading.finding(seconds: seconds, key: key, at: value, in: document).map { [$0] } ?? []
    case .optional(let wrapped): return value.isNull ? [] : check(wrapped, value, key: key, in: document)
    case .array(let element):
      guard let elements = value.elements else { return wrong }
      return elements.enumerated().flatMap { check(element, $1, key: "\(key)[\($0)]", in: document) }
    case .dictionary(let element):
      guard let members = value.members else { return wrong }
      return members.flatMap { check(element, $0.value, key: "\(key).\($0.name)", in: document) }
    case .structure(let properties): return structure(properties, value, key: key, in: document)
    }
  }
}

/// Tells apart the two ways to count a date inside a content state.
///
/// The `aps` keys are Unix seconds; Swift's default strategy decodes a `Date` inside the content state as seconds since
/// 2001-01-01. Unix seconds of a live event, read that way, are a date about 31 years later.
enum DateReading {
  /// Unix seconds of live events: 2015 to 2050. As seconds since 2001 the same numbers mean 2046 to 2081.
  private static let unixOfLiveEvents: ClosedRange<Double> = 1_420_070_400...2_524_608_000

  static func finding(seconds: Double, key: String, at value: JSONValue, in document: JSONDocument)
    -> Finding?
  {
    let asSwift = text(Date(timeIntervalSinceReferenceDate: seconds))
    let asUnix = text(Date(timeIntervalSince1970: seconds))
    let message: String
    if unixOfLiveEvents.contains(seconds) {
      message =
        "is \(JSONWriter.seconds(seconds)): as Unix seconds that is \(asUnix), but Swift decodes a Date here as seconds since 2001-01-01, which is \(asSwift); subtract 978307200"
    } else if abs(seconds) > 31_536_000_000 {
      message =
        "is \(JSONWriter.seconds(seconds)): these look like milliseconds; Swift decodes seconds since 2001-01-01"
    } else {
      return nil
    }
    return Finding(
      .warning, "state-date", key: key, message, at: value.range.lowerBound, in: document)
  }

  static func text(_ date: Date) -> String {
    date.formatted(.iso8601)
  }
}
