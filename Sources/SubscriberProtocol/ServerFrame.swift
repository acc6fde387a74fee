import BroadcastChannels
import Foundation

/// What the server says on a `touchline.v1` connection. The prose is in docs/subscriber-protocol.md.
public enum ServerFrame: Sendable {
  /// A subscription stands; what follows comes after this position.
  case subscribed(SubscribedFrame)
  /// A message of a channel.
  case message(MessageFrame)
  /// A published message was accepted.
  case published(PublishedFrame)
  /// An acknowledgement was counted.
  case acknowledged(channel: String, sequence: Int, requestID: String?)
  /// The session hears of the channel's pressed buttons from now on.
  case listening(channel: String, requestID: String?)
  /// A pressed button is on its way to the publisher.
  case intentAccepted(channel: String, intentID: String, isRepetition: Bool)
  /// A person pressed a button: what a listening publisher hears.
  case intent(IntentFrame)
  /// A request was refused.
  case error(ErrorFrame)
  /// A subscription ended.
  case unsubscribed(channel: String, reason: String, requestID: String?)
  /// A push token stands.
  case registered(RegisteredFrame)
  /// A push to one of the device's tokens.
  case push(PushFrame)
  /// A push was acknowledged.
  case pushAcknowledged(token: PushToken, uniqueID: String, requestID: String?)
  /// The server ends: come back in so many seconds.
  case goodbye(retryIn: Double)
  /// A push token is no longer this session's.
  case unregistered(token: PushToken, reason: UnregisteredReason, requestID: String?)
}

/// A pressed button, as it reaches the publisher.
public struct IntentFrame: Sendable, Hashable {
  /// The channel's id.
  public let channel: String
  /// The action's name.
  public let action: String
  /// The property of the content state that the action sets.
  public let property: String
  /// The value that it sets, as JSON: a state that has it confirms the action.
  public let value: JSONText
  /// The id by which a repetition is known.
  public let intentID: String

  /// Makes the frame.
  public init(channel: String, action: String, property: String, value: JSONText, intentID: String) {
    self.channel = channel
    self.action = action
    self.property = property
    self.value = value
    self.intentID = intentID
  }
}

/// The answer to a subscription.
public struct SubscribedFrame: Sendable, Hashable {
  /// The channel's id.
  public let channel: String
  /// Its alias, if it has one.
  public let alias: String?
  /// The place of its newest delivery.
  public let position: StreamPosition
  /// Whether it stores its newest message.
  public let storagePolicy: StoragePolicy
  /// The request's name, when it had one.
  public let requestID: String?

  /// Makes the frame.
  public init(
    channel: String, alias: String?, position: StreamPosition, storagePolicy: StoragePolicy,
    requestID: String? = nil
  ) {
    self.channel = channel
    self.alias = alias
    self.position = position
    self.storagePolicy = storagePolicy
    self.requestID = requestID
  }
}

/// A message as it reaches a subscriber.
public struct MessageFrame: Sendable {
  /// The channel's id.
  public let channel: String
  /// The message's place.
  public let position: StreamPosition
  /// The message's name.
  public let uniqueID: String
  /// The priority that it was published with.
  public let priority: Priority
  /// When the channel let it out, in Unix seconds.
  public let sent: Double
  /// What it says.
  public let payload: Payload
}

/// The answer to an accepted publish.
public struct PublishedFrame: Sendable, Hashable {
  /// The channel's id.
  public let channel: String
  /// The request's name, when it had one.
  public let requestID: String?
  /// The message's name.
  public let uniqueID: String
  /// What was done with it.
  public let outcome: Outcome
  /// The `budget` object.
  public let budget: JSONText
  /// Whether the request repeated an earlier one.
  public let isRepetition: Bool

  /// Makes the frame.
  public init(
    channel: String, requestID: String?, uniqueID: String, outcome: Outcome, budget: JSONText,
    isRepetition: Bool
  ) {
    self.channel = channel
    self.requestID = requestID
    self.uniqueID = uniqueID
    self.outcome = outcome
    self.budget = budget
    self.isRepetition = isRepetition
  }
}

/// A refused request.
public struct ErrorFrame: Sendable, Hashable {
  /// The API's code, or one of the protocol's own.
  public let reason: String
  /// What was wrong and what to do.
  public let message: String
  /// The channel, as the client named it.
  public let channel: String?
  /// The request's name, when it had one.
  public let requestID: String?
  /// Seconds after which trying again can succeed.
  public let retryAfter: Double?

  /// Makes the frame.
  public init(
    reason: String, message: String, channel: String? = nil, requestID: String? = nil,
    retryAfter: Double? = nil
  ) {
    self.reason = reason
    self.message = message
    self.channel = channel
    self.requestID = requestID
    self.retryAfter = retryAfter
  }

  /// Makes the frame for a refusal.
  public init(_ refusal: Refusal, channel: String?, requestID: String?) {
    self.init(
      reason: refusal.reason.rawValue, message: refusal.detail, channel: channel, requestID: requestID,
      retryAfter: refusal.retryAfter)
  }
}

// MARK: Writing

extension ServerFrame {
  /// The frame's JSON.
  public var text: [UInt8] { Array(json.utf8) }

  private var json: String {
    switch self {
    case .subscribed(let frame):
      JSONWriter.object([
        "type": "\"subscribed\"", "channel": JSONWriter.quoted(frame.channel),
        "alias": frame.alias.map(JSONWriter.quoted), "epoch": JSONWriter.quoted(frame.position.epoch),
        "seq": String(frame.position.sequence),
        "message-storage-policy": String(frame.storagePolicy.rawValue),
        "request-id": frame.requestID.map(JSONWriter.quoted),
      ])
    case .message(let frame):
      JSONWriter.object([
        "type": "\"message\"", "channel": JSONWriter.quoted(frame.channel),
        "epoch": JSONWriter.quoted(frame.position.epoch), "seq": String(frame.position.sequence),
        "unique-id": JSONWriter.quoted(frame.uniqueID), "priority": String(frame.priority.rawValue),
        "sent": String(format: "%.6f", frame.sent), "aps": String(decoding: frame.payload.aps, as: UTF8.self),
      ])
    case .published(let frame):
      JSONWriter.object([
        "type": "\"published\"", "channel": JSONWriter.quoted(frame.channel),
        "request-id": frame.requestID.map(JSONWriter.quoted), "unique-id": JSONWriter.quoted(frame.uniqueID),
        "outcome": JSONWriter.quoted(frame.outcome.rawValue), "repeated": frame.isRepetition ? "true" : nil,
        "budget": frame.budget.string,
      ])
    case .acknowledged(let channel, let sequence, let requestID):
      JSONWriter.object([
        "type": "\"acknowledged\"", "channel": JSONWriter.quoted(channel), "seq": String(sequence),
        "request-id": requestID.map(JSONWriter.quoted),
      ])
    case .listening(let channel, let requestID):
      JSONWriter.object([
        "type": "\"listening\"", "channel": JSONWriter.quoted(channel),
        "request-id": requestID.map(JSONWriter.quoted),
      ])
    case .intentAccepted(let channel, let intentID, let isRepetition):
      JSONWriter.object([
        "type": "\"intent-accepted\"", "channel": JSONWriter.quoted(channel),
        "request-id": JSONWriter.quoted(intentID), "repeated": isRepetition ? "true" : nil,
      ])
    case .intent(let frame):
      JSONWriter.object([
        "type": "\"intent\"", "channel": JSONWriter.quoted(frame.channel),
        "action": JSONWriter.quoted(frame.action),
        "sets": "{\(JSONWriter.quoted(frame.property)):\(frame.value.string)}",
        "request-id": JSONWriter.quoted(frame.intentID),
      ])
    case .error(let frame):
      JSONWriter.object([
        "type": "\"error\"", "reason": JSONWriter.quoted(frame.reason),
        "message": JSONWriter.quoted(frame.message),
        "channel": frame.channel.map(JSONWriter.quoted), "request-id": frame.requestID.map(JSONWriter.quoted),
        "retry-after": frame.retryAfter.map(JSONWriter.seconds),
      ])
    case .unsubscribed(let channel, let reason, let requestID):
      JSONWriter.object([
        "type": "\"unsubscribed\"", "channel": JSONWriter.quoted(channel),
        "reason": JSONWriter.quoted(reason), "request-id": requestID.map(JSONWriter.quoted),
      ])
    case .goodbye(let retryIn):
      JSONWriter.object(["type": "\"goodbye\"", "retry-in": JSONWriter.seconds(retryIn)])
    case .registered(let frame): frame.json
    case .push(let frame): frame.json
    case .pushAcknowledged(let token, let uniqueID, let requestID):
      JSONWriter.object([
        "type": "\"push-acknowledged\"", "token": JSONWriter.quoted(token.hex),
        "unique-id": JSONWriter.quoted(uniqueID), "request-id": requestID.map(JSONWriter.quoted),
      ])
    case .unregistered(let token, let reason, let requestID):
      JSONWriter.object([
        "type": "\"unregistered\"", "token": JSONWriter.quoted(token.hex),
        "reason": JSONWriter.quoted(reason.rawValue), "request-id": requestID.map(JSONWriter.quoted),
      ])
    }
  }

  /// The close reason that follows ``goodbye(retryIn:)``.
  public static func goodbyeReason(retryIn: Double) -> String {
    "\(goodbyeReason); come back in \(JSONWriter.seconds(retryIn)) s"
  }

  /// How that reason begins.
  static let goodbyeReason = "the server is shutting down"

  /// A delivery as a frame.
  public static func message(_ delivery: Delivery, channel: ChannelID) -> ServerFrame {
    .message(
      MessageFrame(
        channel: channel.base64, position: delivery.position, uniqueID: delivery.message.uniqueID.text,
        priority: delivery.message.priority, sent: delivery.sent.timeIntervalSince1970,
        payload: delivery.message.payload))
  }
}

// MARK: Reading

extension ServerFrame {
  /// Reads a frame as a subscriber does.
  ///
  /// - Returns: nil for a type that this version doesn't know, which a client passes over.
  /// - Throws: ``FrameError/broken(_:)`` for anything else that can't be read.
  public static func read(_ text: [UInt8]) throws(FrameError) -> ServerFrame? {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(text)
    } catch {
      throw .broken("the server sent a frame that is not JSON: \(error)")
    }
    let root = document.root
    let channel = root["channel"]?.string
    let requestID = root["request-id"]?.string
    switch root["type"]?.string {
    case "subscribed":
      guard let channel, let position = position(root),
        let number = root["message-storage-policy"]?.number?.int,
        let policy = StoragePolicy(rawValue: Int(clamping: number))
      else { throw incomplete("subscribed") }
      return .subscribed(
        SubscribedFrame(
          channel: channel, alias: root["alias"]?.string, position: position, storagePolicy: policy,
          requestID: requestID))
    case "message": return .message(try message(root, document))
    case "published":
      guard let channel, let uniqueID = root["unique-id"]?.string,
        let outcome = root["outcome"]?.string.flatMap({ Outcome(rawValue: $0) })
      else { throw incomplete("published") }
      let budget = root["budget"].map { JSONText(compacting: document.bytes[$0.range]) }
      return .published(
        PublishedFrame(
          channel: channel, requestID: requestID, uniqueID: uniqueID, outcome: outcome,
          budget: budget ?? JSONText(compacting: "null".utf8), isRepetition: root["repeated"]?.bool ?? false))
    case "acknowledged":
      guard let channel, let sequence = root["seq"]?.number?.int else { throw incomplete("acknowledged") }
      return .acknowledged(channel: channel, sequence: Int(sequence), requestID: requestID)
    case "listening":
      guard let channel else { throw incomplete("listening") }
      return .listening(channel: channel, requestID: requestID)
    case "intent-accepted":
      guard let channel, let requestID else { throw incomplete("intent-accepted") }
      return .intentAccepted(
        channel: channel, intentID: requestID, isRepetition: root["repeated"]?.bool ?? false)
    case "intent":
      guard let channel, let requestID, let action = root["action"]?.string,
        let member = root["sets"]?.members?.first
      else { throw incomplete("intent") }
      return .intent(
        IntentFrame(
          channel: channel, action: action, property: member.name,
          value: JSONText(compacting: document.bytes[member.value.range]), intentID: requestID))
    case "error":
      guard let reason = root["reason"]?.string else { throw incomplete("error") }
      return .error(
        ErrorFrame(
          reason: reason, message: root["message"]?.string ?? "", channel: channel,
          requestID: requestID, retryAfter: root["retry-after"].flatMap(finite)))
    case "unsubscribed":
      guard let channel else { throw incomplete("unsubscribed") }
      return .unsubscribed(channel: channel, reason: root["reason"]?.string ?? "", requestID: requestID)
    case "goodbye":
      guard let retryIn = root["retry-in"].flatMap(finite), retryIn >= 0 else { throw incomplete("goodbye") }
      return .goodbye(retryIn: retryIn)
    case "registered":
      guard let frame = RegisteredFrame(root, requestID: requestID) else { throw incomplete("registered") }
      return .registered(frame)
    case "push": return .push(try PushFrame(root, document))
    case "push-acknowledged":
      guard let token = token(root), let uniqueID = root["unique-id"]?.string else {
        throw incomplete("push-acknowledged")
      }
      return .pushAcknowledged(token: token, uniqueID: uniqueID, requestID: requestID)
    case "unregistered":
      guard let token = token(root),
        let reason = root["reason"]?.string.flatMap({ UnregisteredReason(rawValue: $0) })
      else { throw incomplete("unregistered") }
      return .unregistered(token: token, reason: reason, requestID: requestID)
    case .some: return nil
    case nil: throw .broken("the server sent a frame without a type")
    }
  }

  private static func token(_ root: JSONValue) -> PushToken? {
    root["token"]?.string.flatMap { PushToken($0) }
  }

  /// A number that can be written again: JSON has larger ones than a Double.
  private static func finite(_ value: JSONValue) -> Double? {
    value.number.flatMap { $0.double.isFinite ? $0.double : nil }
  }

  private static func position(_ root: JSONValue) -> StreamPosition? {
    guard let epoch = root["epoch"]?.string,
      let sequence = root["seq"]?.number?.int.flatMap({ Int(exactly: $0) })
    else { return nil }
    return StreamPosition(epoch: epoch, sequence: sequence)
  }

  private static func message(_ root: JSONValue, _ document: JSONDocument) throws(FrameError) -> MessageFrame
  {
    guard let channel = root["channel"]?.string, let position = position(root),
      let uniqueID = root["unique-id"]?.string,
      let priority = root["priority"]?.number?.int.flatMap({ Priority(rawValue: Int(clamping: $0)) }),
      let sent = root["sent"].flatMap(finite), let aps = root["aps"]
    else { throw incomplete("message") }
    let payload: Payload
    do throws(PayloadError) {
      payload = try Payload(aps: aps, in: document)
    } catch {
      throw .broken("the server sent a message whose payload can't be read: \(error)")
    }
    return MessageFrame(
      channel: channel, position: position, uniqueID: uniqueID, priority: priority, sent: sent,
      payload: payload)
  }

  static func incomplete(_ type: String) -> FrameError {
    .broken("the server sent an incomplete \(type) frame")
  }
}
