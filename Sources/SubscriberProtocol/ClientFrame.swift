import BroadcastChannels

/// What a client says on a `touchline.v1` connection. The prose is in docs/subscriber-protocol.md.
public struct ClientFrame: Sendable {
  /// What is asked for.
  public enum Request: Sendable {
    /// To receive a channel; `since` resumes.
    case subscribe(since: StreamPosition?)
    /// To receive it no longer.
    case unsubscribe
    /// Everything up to a sequence number was received, these were displayed, and what `stale` brought has become stale on
    /// the device since.
    case acknowledge(sequence: Int, displayed: [Int], stale: Int?)
    /// A person pressed an action's button.
    case intent(action: String)
    /// To hear of pressed buttons, as the channel's publisher does.
    case listen
    /// To send a message into it.
    case publish(Publish)
  }

  /// A message to publish, checked as far as it can be without knowing the channel.
  public struct Publish: Sendable {
    /// How urgently.
    public let priority: Priority
    /// Whether and until when it is stored.
    public let expiration: Expiration
    /// The payload, or what is wrong with it, which is said only after the channel was found.
    public let payload: Result<Payload, Refusal>
  }

  /// Whom a frame is about.
  public enum Subject: Sendable {
    /// A channel, by the id or alias as the client wrote it.
    case channel(String, Request)
    /// The device itself and its push tokens.
    case device(DeviceRequest)
  }

  /// The client's name for the request, echoed in the answer.
  public let requestID: RequestID?
  /// What is asked for.
  public let subject: Subject
}

/// Why a frame can't be carried out.
public enum FrameError: Error, Sendable {
  /// The frame is no JSON object: the connection is closed after it.
  case broken(String)
  /// The frame is understood and wrong: an error is answered and the connection goes on. `type` is the frame's, as far as
  /// it has one.
  case refused(ErrorFrame, type: String?)
}

extension ClientFrame {
  static let types =
    ["subscribe", "unsubscribe", "ack", "publish", "intent", "listen"] + DeviceRequest.keys.map(\.type)

  private static let keys: [String: [String]] = [
    "subscribe": ["type", "channel", "epoch", "seq", "request-id"],
    "unsubscribe": ["type", "channel", "request-id"],
    "ack": ["type", "channel", "seq", "displayed", "stale", "request-id"],
    "intent": ["type", "channel", "action", "request-id"],
    "listen": ["type", "channel", "request-id"],
    "publish": ["type", "channel", "priority", "expiration", "request-id", "aps"],
  ]

  /// Reads a frame.
  ///
  /// - Throws: ``FrameError/broken(_:)`` for text that is no JSON object, ``FrameError/refused(_:)`` for an unknown
  ///   type, a missing or unknown field, or a value that can't be.
  public init(_ text: [UInt8]) throws(FrameError) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(text)
    } catch {
      throw .broken("the frame is not JSON: \(error)")
    }
    let root = document.root
    guard let members = root.members else {
      throw .broken("the frame is \(root.described); an object was expected")
    }

    let id = root["request-id"]
    let requestID = id?.string.flatMap { RequestID($0) }
    let channel = root["channel"]?.string
    func refuse(_ reason: String, _ message: String) -> FrameError {
      .refused(
        ErrorFrame(reason: reason, message: message, channel: channel, requestID: id?.string),
        type: root["type"]?.string)
    }
    if let id, requestID == nil {
      throw refuse(RefusalReason.badMessageID.rawValue, "request-id is \(id.described); a UUID was expected")
    }
    guard let type = root["type"] else {
      throw refuse(
        "MissingType", "the frame has no \"type\"; one of \(Self.types.joined(separator: ", ")) was expected")
    }
    let deviceKeys = DeviceRequest.keys.first { $0.type == type.string }?.keys
    guard let name = type.string, let allowed = Self.keys[name] ?? deviceKeys else {
      let hint = type.string.map { Suggestion.phrase(for: $0, among: Self.types) } ?? ""
      throw refuse(
        "UnknownType",
        "type is \(type.described); one of \(Self.types.joined(separator: ", ")) was expected\(hint)")
    }
    if let unknown = members.first(where: { !allowed.contains($0.name) }) {
      throw refuse(
        RefusalReason.badRequestParams.rawValue,
        "\"\(unknown.name)\" is no field of a \(name) frame\(Suggestion.phrase(for: unknown.name, among: allowed))"
      )
    }
    self.requestID = requestID
    if deviceKeys != nil {
      subject = .device(try DeviceRequest(name, root) { refuse($0.rawValue, $1) })
      return
    }
    guard let channel else {
      throw refuse(
        RefusalReason.missingChannelID.rawValue,
        "a \(name) frame needs \"channel\": an id or an alias, as a string")
    }
    let request: Request
    switch name {
    case "subscribe": request = .subscribe(since: try Self.position(root, refuse))
    case "unsubscribe": request = .unsubscribe
    case "ack":
      request = .acknowledge(
        sequence: try Self.sequence(root, refuse), displayed: try Self.displayed(root, refuse),
        stale: try Self.stale(root, refuse))
    case "intent":
      guard requestID != nil else {
        throw refuse(
          RefusalReason.badMessageID.rawValue,
          "an intent needs \"request-id\": a UUID by which a repetition is known")
      }
      guard let action = root["action"]?.string else {
        throw refuse(
          RefusalReason.badRequestParams.rawValue, "an intent needs \"action\": one of the definition's")
      }
      request = .intent(action: action)
    case "listen": request = .listen
    default: request = .publish(try Self.publish(root, document, refuse))
    }
    subject = .channel(channel, request)
  }

  private static func position(
    _ root: JSONValue, _ refuse: (String, String) -> FrameError
  ) throws(FrameError) -> StreamPosition? {
    guard let epoch = root["epoch"] else {
      if root["seq"] == nil { return nil }
      throw refuse(RefusalReason.badRequestParams.rawValue, "\"seq\" resumes only together with \"epoch\"")
    }
    guard let text = epoch.string, !text.isEmpty else {
      throw refuse(
        RefusalReason.badRequestParams.rawValue, "\"epoch\" is \(epoch.described); a string was expected")
    }
    return StreamPosition(epoch: text, sequence: try sequence(root, refuse))
  }

  private static func sequence(
    _ root: JSONValue, _ refuse: (String, String) -> FrameError
  ) throws(FrameError) -> Int {
    guard let value = root["seq"], let number = value.number?.int.flatMap({ Int(exactly: $0) }), number >= 0
    else {
      throw refuse(
        RefusalReason.badRequestParams.rawValue,
        "\"seq\" is \(root["seq"]?.described ?? "missing"); a sequence number of the channel was expected")
    }
    return number
  }

  private static func displayed(
    _ root: JSONValue, _ refuse: (String, String) -> FrameError
  ) throws(FrameError) -> [Int] {
    guard let value = root["displayed"] else { return [] }
    let numbers = value.elements?.compactMap { $0.number?.int.flatMap { Int(exactly: $0) } } ?? []
    guard let elements = value.elements, elements.count == numbers.count,
      numbers.count <= Limits.displayedPerAcknowledgement
    else {
      throw refuse(
        RefusalReason.badRequestParams.rawValue,
        "\"displayed\" is \(value.described); an array of at most \(Limits.displayedPerAcknowledgement) sequence numbers was expected"
      )
    }
    return numbers
  }

  private static func stale(
    _ root: JSONValue, _ refuse: (String, String) -> FrameError
  ) throws(FrameError) -> Int? {
    guard let value = root["stale"] else { return nil }
    guard let number = value.number?.int.flatMap({ Int(exactly: $0) }), number >= 0 else {
      throw refuse(
        RefusalReason.badRequestParams.rawValue,
        "\"stale\" is \(value.described); the sequence number of a message was expected")
    }
    return number
  }

  private static func publish(
    _ root: JSONValue, _ document: JSONDocument, _ refuse: (String, String) -> FrameError
  ) throws(FrameError) -> Publish {
    var expiration = Expiration.once
    if let value = root["expiration"] {
      guard let seconds = value.number?.int, let read = Expiration(unixSeconds: seconds) else {
        throw refuse(
          RefusalReason.badExpirationDate.rawValue,
          "\"expiration\" is \(value.described); Unix seconds, or 0 to store nothing, were expected")
      }
      expiration = read
    }
    var priority = Priority.immediate
    if let value = root["priority"] {
      guard let number = value.number?.int, let read = Priority(rawValue: Int(clamping: number)) else {
        throw refuse(
          RefusalReason.badPriority.rawValue, "\"priority\" is \(value.described); 10, 5 or 1 was expected")
      }
      priority = read
    }
    return Publish(priority: priority, expiration: expiration, payload: payload(root["aps"], document))
  }

  private static func payload(_ aps: JSONValue?, _ document: JSONDocument) -> Result<Payload, Refusal> {
    guard let aps else {
      return .failure(Refusal(.payloadEmpty, "the frame has no \"aps\"; the payload's object was expected"))
    }
    let size = aps.range.count + #"{"aps":}"#.utf8.count
    guard size <= Limits.broadcastPayloadBytes else {
      return .failure(
        Refusal(
          .payloadTooLarge,
          "the payload is \(size) bytes; at most \(Limits.broadcastPayloadBytes) are allowed"))
    }
    do throws(PayloadError) {
      return .success(try Payload(aps: aps, in: document))
    } catch {
      return .failure(error.refusal)
    }
  }
}

// MARK: Writing

extension ClientFrame {
  /// A `subscribe` frame.
  public static func subscribe(_ channel: String, since position: StreamPosition?) -> [UInt8] {
    text([
      "type": "\"subscribe\"", "channel": JSONWriter.quoted(channel),
      "epoch": position.map { JSONWriter.quoted($0.epoch) }, "seq": position.map { String($0.sequence) },
    ])
  }

  /// An `unsubscribe` frame.
  public static func unsubscribe(_ channel: String) -> [UInt8] {
    text(["type": "\"unsubscribe\"", "channel": JSONWriter.quoted(channel)])
  }

  /// An `ack` frame: everything up to the number was received, some of it displayed, and one of these is stale by now.
  public static func acknowledge(
    _ channel: String, sequence: Int, displayed: [Int] = [], stale: Int? = nil
  ) -> [UInt8] {
    text([
      "type": "\"ack\"", "channel": JSONWriter.quoted(channel), "seq": String(sequence),
      "displayed": displayed.isEmpty ? nil : "[\(displayed.map(String.init).joined(separator: ","))]",
      "stale": stale.map(String.init),
    ])
  }

  /// An `intent` frame: a person pressed an action's button.
  public static func intent(_ channel: String, action: String, intentID: String) -> [UInt8] {
    text([
      "type": "\"intent\"", "channel": JSONWriter.quoted(channel), "action": JSONWriter.quoted(action),
      "request-id": JSONWriter.quoted(intentID),
    ])
  }

  /// A `listen` frame: to hear of pressed buttons.
  public static func listen(_ channel: String) -> [UInt8] {
    text(["type": "\"listen\"", "channel": JSONWriter.quoted(channel)])
  }

  /// A `publish` frame around the bytes of an `aps` object.
  public static func publish(
    _ channel: String, aps: [UInt8], priority: Priority, expiration: Int64, requestID: RequestID
  ) -> [UInt8] {
    text([
      "type": "\"publish\"", "channel": JSONWriter.quoted(channel), "priority": String(priority.rawValue),
      "expiration": String(expiration), "request-id": JSONWriter.quoted(requestID.text),
      "aps": String(decoding: aps, as: UTF8.self),
    ])
  }

  static func text(_ members: KeyValuePairs<String, String?>) -> [UInt8] {
    Array(JSONWriter.object(members).utf8)
  }
}
