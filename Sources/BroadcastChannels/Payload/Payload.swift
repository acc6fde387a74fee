import Foundation

/// The body of a broadcast, or of a push to one device: one `aps` object, checked and otherwise untouched.
///
/// The bytes of the object are kept as the publisher wrote them. Subscribers get these bytes, so that a number, a key
/// order or an escape that matters to somebody's decoder is what they test with.
public struct Payload: Sendable {
  /// What the message does to an activity.
  public enum Event: String, Sendable {
    /// Starts one. Only a push to a device can (Apple).
    case start
    case update
    case end
  }

  /// Where a payload goes, which decides what it may say.
  public enum Destination: Sendable {
    /// To everybody who is subscribed to a channel.
    case channel
    /// To one device, by its push token.
    case device

    /// Bytes of a whole body (Apple).
    public var payloadBytes: Int {
      self == .channel ? Limits.broadcastPayloadBytes : Limits.devicePayloadBytes
    }

    /// Reads an event; nil for text that is none, or none for this destination.
    public func event(_ text: String) -> Event? {
      Event(rawValue: text).flatMap { $0 == .start && self == .channel ? nil : $0 }
    }

    fileprivate var expectedEvents: String {
      self == .channel
        ? "a broadcast is an \"update\" or an \"end\""
        : "a push is a \"start\", an \"update\" or an \"end\""
    }
  }

  /// The `aps` object, byte for byte.
  public let aps: [UInt8]
  /// When the state was true, in Unix seconds: devices order updates by it.
  public let timestamp: Int64
  /// What the message does.
  public let event: Event
  /// The dynamic state, compacted to one line. Always there with `update` and `start`.
  public let contentState: JSONText?
  /// From when on the state is out of date, in Unix seconds.
  public let staleDate: Int64?
  /// With `end`: when the card leaves the Lock Screen, in Unix seconds.
  public let dismissalDate: Int64?
  /// Orders activities; the highest gets the Dynamic Island.
  public let relevanceScore: Double?
  /// What lights the screen. Always there with `start`.
  public let alert: Alert?
  /// With `start`: which activity begins, and how it is updated.
  public let start: ActivityStart?

  /// Whether the message may never be replaced by a newer one: it carries an alert, or ends the activity.
  public var isIrreplaceable: Bool { alert != nil || event == .end }

  /// Checks a body of the form `{"aps":{…}}`.
  ///
  /// - Throws: what is wrong, at which key and byte.
  public init(body: [UInt8], to destination: Destination = .channel) throws(PayloadError) {
    let document: JSONDocument
    do throws(JSONSyntaxError) { document = try JSONDocument(body) } catch {
      throw PayloadError(syntax: error)
    }
    try self.init(document, to: destination)
  }

  /// Checks a body that was read already.
  init(_ document: JSONDocument, to destination: Destination = .channel) throws(PayloadError) {
    guard document.root.members != nil else {
      throw PayloadError(
        key: "", problem: "the body is \(document.root.described); an object with \"aps\" was expected",
        at: document.root)
    }
    guard let aps = document.root["aps"] else {
      throw PayloadError(
        key: "aps", problem: "is missing; a payload has the form {\"aps\":{…}}", at: document.root)
    }
    try self.init(aps: aps, in: document, to: destination)
  }

  /// Checks an `aps` object inside a larger document.
  public init(
    aps: JSONValue, in document: JSONDocument, to destination: Destination = .channel
  ) throws(PayloadError) {
    guard aps.members != nil else {
      throw PayloadError(key: "aps", problem: "is \(aps.described); an object was expected", at: aps)
    }
    self.aps = document.bytes(of: aps)
    guard let event = aps["event"] else {
      throw PayloadError(key: "aps.event", problem: "is missing; \(destination.expectedEvents)", at: aps)
    }
    self.event = try Self.event(event, to: destination)
    guard let timestamp = try Self.date("timestamp", in: aps) else {
      throw PayloadError(
        key: "aps.timestamp", problem: "is missing; Unix seconds, by which devices order updates", at: aps)
    }
    self.timestamp = timestamp
    self.contentState = try Self.contentState(in: aps, event: self.event, document: document)
    self.staleDate = try Self.date("stale-date", in: aps)
    self.dismissalDate = try Self.date("dismissal-date", in: aps)
    if let score = aps["relevance-score"] {
      guard let number = score.number, number.double.isFinite else {
        throw PayloadError(
          key: "aps.relevance-score", problem: "is \(score.described); a number was expected", at: score)
      }
      self.relevanceScore = number.double
    } else {
      self.relevanceScore = nil
    }
    if let alert = aps["alert"] { self.alert = try Alert.read(alert) } else { self.alert = nil }
    start = self.event == .start ? try ActivityStart(aps: aps, in: document) : nil
  }

  private static func event(_ value: JSONValue, to destination: Destination) throws(PayloadError) -> Event {
    if let text = value.string, let event = destination.event(text) { return event }
    if value.string == "start" {
      throw PayloadError(
        key: "aps.event", problem: "is \"start\"; a broadcast can update or end activities, never start one",
        at: value)
    }
    throw PayloadError(
      key: "aps.event", problem: "is \(value.described); \(destination.expectedEvents)", at: value)
  }

  private static func contentState(
    in aps: JSONValue, event: Event, document: JSONDocument
  ) throws(PayloadError) -> JSONText? {
    guard let state = aps["content-state"] else {
      if event == .end { return nil }
      throw PayloadError(
        key: "aps.content-state",
        problem:
          "is missing; \(event == .start ? "a start carries the first" : "an update carries the whole new") state",
        at: aps)
    }
    guard state.members != nil else {
      throw PayloadError(
        key: "aps.content-state", problem: "is \(state.described); an object was expected", at: state)
    }
    return JSONText(compacting: document.bytes[state.range])
  }

  private static func date(_ name: String, in aps: JSONValue) throws(PayloadError) -> Int64? {
    guard let value = aps[name] else { return nil }
    guard let seconds = value.number?.int else {
      throw PayloadError(
        key: "aps.\(name)", problem: "is \(value.described); Unix seconds as a whole number were expected",
        at: value)
    }
    guard (0...Limits.latestUnixSeconds).contains(seconds) else {
      let hint = seconds > 0 ? "milliseconds? The API takes seconds" : "dates before 1970 can't be meant"
      throw PayloadError(key: "aps.\(name)", problem: "is \(seconds); \(hint)", at: value)
    }
    return seconds
  }
}

/// What is wrong with a payload.
public struct PayloadError: Error, Sendable, Hashable {
  /// The key, such as `aps.timestamp`; empty for the whole body.
  public let key: String
  /// What is wrong and what was expected.
  public let problem: String
  /// Offset of the value in the body.
  public let offset: Int

  init(key: String, problem: String, at value: JSONValue) {
    self.key = key
    self.problem = problem
    self.offset = value.range.lowerBound
  }

  init(syntax: JSONSyntaxError) {
    self.key = ""
    self.problem = "the body is not JSON: \(syntax)"
    self.offset = syntax.offset
  }

  /// The refusal that the API gives for it.
  public var refusal: Refusal { Refusal(.badRequestPayload, description) }
}

extension PayloadError: CustomStringConvertible {
  /// Key and problem.
  public var description: String { key.isEmpty ? problem : "\(key) \(problem)" }
}
