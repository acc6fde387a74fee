import Foundation
import Testing

@testable import BroadcastChannels

/// 2023-11-14 22:13:20 UTC, second 0 of every test.
let epochSeconds: Int64 = 1_700_000_000

/// The moment a number of seconds after second 0.
func moment(_ seconds: Double) -> Date { Date(timeIntervalSince1970: Double(epochSeconds) + seconds) }

func document(_ text: String, comments: Bool = false) throws -> JSONDocument {
  try JSONDocument(Array(text.utf8), comments: comments)
}

/// An `aps` object; the timestamp counts from second 0.
func aps(_ timestamp: Int, _ event: Payload.Event = .update, alert: Bool = false) -> String {
  let text = alert ? #","alert":{"title":"Goal","body":"1–0"}"# : ""
  let time = epochSeconds + Int64(timestamp)
  return #"{"timestamp":\#(time),"event":"\#(event.rawValue)","content-state":{"n":1}\#(text)}"#
}

let app = BundleID("com.example.scores")

func settings(
  policy: StoragePolicy = .none, capacity: Int? = nil, perHour: Double = 0,
  over: FrequencyBudget.OverBudget = .demote, windows: DeliveryWindows = DeliveryWindows(),
  rate: PublishRate = PublishRate(perSecond: nil, burst: nil)
) throws -> ChannelSettings {
  ChannelSettings(
    app: try #require(app), storagePolicy: policy,
    budget: FrequencyBudget(capacity: capacity, refillPerHour: perHour, overBudget: over), windows: windows,
    publishRate: rate)
}

/// A channel with a log of what it did, so that a test reads as a script and its outcome.
///
/// A class, because `#expect` takes its operands as constants and a channel changes when it is published to.
final class Stage {
  var channel: Channel
  /// `goal #1 at 1.5` for a delivery with its sequence number, `tick superseded` for a replaced message.
  private(set) var log: [String] = []
  private(set) var deliveries: [Delivery] = []

  init(_ settings: ChannelSettings, sequence: Int = 0) throws {
    channel = Channel(
      id: try #require(ChannelID("AAAAAAAAAAAAAAAAAAAAAA==")), alias: nil, settings: settings,
      position: StreamPosition(epoch: "e", sequence: sequence), now: moment(0))
  }

  /// Publishes at a second, after the deadlines before it. The timestamp is that second unless given.
  @discardableResult
  func publish(
    _ name: String, _ priority: Priority = .immediate, at seconds: Double, timestamp: Int? = nil,
    event: Payload.Event = .update, alert: Bool = false, request: RequestID? = nil, expires: Int64? = nil
  ) throws -> PublishResult {
    run(to: seconds)
    let body = #"{"aps":\#(aps(timestamp ?? Int(seconds), event, alert: alert))}"#
    let message = Message(
      uniqueID: UniqueID(text: name), requestID: request, priority: priority,
      expiration: expires.map { .at(epochSeconds + $0) } ?? .once,
      payload: try Payload(body: Array(body.utf8)))
    let result = try channel.publish(message, at: moment(seconds))
    record(result.effects)
    return result
  }

  /// Passes every deadline up to a second, each at its own time.
  func run(to seconds: Double) {
    while let deadline = channel.nextDeadline, deadline <= moment(seconds) {
      record(channel.advance(to: deadline))
    }
  }

  /// Who gets what on subscribing.
  func stored(after sequence: Int? = nil, epoch: String = "e", at seconds: Double) -> String? {
    let position = sequence.map { StreamPosition(epoch: epoch, sequence: $0) }
    return channel.newest(after: position, at: moment(seconds))?.message.uniqueID.text
  }

  private func record(_ effects: [ChannelEffect]) {
    for effect in effects {
      switch effect {
      case .deliver(let delivery):
        let seconds = JSONWriter.seconds(delivery.sent.timeIntervalSince(moment(0)))
        deliveries.append(delivery)
        log.append("\(delivery.message.uniqueID) #\(delivery.position.sequence) at \(seconds)")
      case .supersede(let message): log.append("\(message.uniqueID) superseded")
      }
    }
  }
}

/// The refusal that a publish must end in.
func refusal(_ body: () throws -> Void) throws -> Refusal {
  try #require(#expect(throws: Refusal.self) { try body() })
}

extension Finding {
  /// Severity, kind, key and line: what a test compares; the message is checked apart.
  var brief: String { "\(severity.rawValue) \(kind) \(key) line \(position.line)" }
}
