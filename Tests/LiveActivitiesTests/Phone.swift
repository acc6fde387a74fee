import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// A device with a log of its changes. Times are seconds of the test; a content state is `{"n":…}` with more members
/// where a test needs them.
///
/// A class, because `#expect` takes its operands as constants and a device changes with time.
final class Phone {
  var device: Device
  /// `60 final stale-date stale`: second, activity, and what happened.
  private(set) var log: [String] = []

  init(_ change: (inout DeviceSettings) -> Void = { _ in }) {
    var settings = DeviceSettings()
    change(&settings)
    device = Device(settings: settings)
  }

  /// A definition of an app, with `follow`, `mute` and `unmute` as actions.
  static func definition(
    app: String = "com.example.scores", frequent: Bool = false, attributes: String = "{}"
  ) throws -> ChannelDefinition {
    let text = JSONWriter.object([
      "app": JSONWriter.quoted(app), "frequent-updates": String(frequent), "attributes": attributes,
      "content-state": #"{"n":"Int","followed":"Bool?","muted":"Bool?"}"#,
      "actions":
        #"{"follow":{"sets":{"followed":true}},"mute":{"sets":{"muted":true}},"unmute":{"sets":{"muted":false}}}"#,
    ])
    return try ChannelDefinition(file: Array(text.utf8), alias: nil)
  }

  @discardableResult
  func start(
    _ name: String, app: String = "com.example.scores", frequent: Bool = false, scheduled: Double? = nil,
    at seconds: Double
  ) throws -> Bool {
    let definition = try Self.definition(app: app, frequent: frequent)
    return try device.start(
      name, definition: definition, scheduled: scheduled.map(moment), at: moment(seconds))
  }

  /// Why a start fails; nil when it doesn't.
  func startError(_ name: String, app: String = "com.example.scores", at seconds: Double) throws
    -> StartError?
  {
    do throws(StartError) {
      try device.start(name, definition: Self.unchecked(app), at: moment(seconds))
      return nil
    } catch { return error }
  }

  private static func unchecked(_ app: String) -> ChannelDefinition {
    ChannelDefinition(settings: ChannelSettings(app: BundleID(app) ?? .scores))
  }

  func receive(
    _ number: Int?, for name: String = "final", at seconds: Double, timestamp: Int? = nil,
    event: Payload.Event = .update, priority: Priority = .immediate, stale: Int? = nil, dismissal: Int? = nil,
    score: Double? = nil, alert: String? = nil, more: String = ""
  ) throws {
    func date(_ second: Int?) -> String? { second.map { String(1_700_000_000 + $0) } }
    let aps = JSONWriter.object([
      "timestamp": date(timestamp ?? Int(seconds)), "event": JSONWriter.quoted(event.rawValue),
      "content-state": number.map { "{\"n\":\($0)\(more)}" }, "stale-date": date(stale),
      "dismissal-date": date(dismissal), "relevance-score": score.map { "\($0)" },
      "alert": alert.map { "{\"title\":\(JSONWriter.quoted($0))}" },
    ])
    let payload = try Payload(body: Array("{\"aps\":\(aps)}".utf8))
    record(device.receive(payload, priority: priority, for: name, at: moment(seconds)))
  }

  func run(to seconds: Double) { record(device.advance(to: moment(seconds))) }
  func dismiss(_ name: String, at seconds: Double) { record(device.dismiss(name, at: moment(seconds))) }
  func endOrphan(_ name: String, at seconds: Double) { record(device.endOrphan(name, at: moment(seconds))) }
  func press(_ action: String, of name: String = "final", intent: String, at seconds: Double) -> String? {
    device.press(action, of: name, intent: intent, at: moment(seconds))?.id
  }
  func setFrequentUpdates(_ isOn: Bool, app: String = "com.example.scores", at seconds: Double) {
    record(device.setFrequentUpdates(isOn, app: app, at: moment(seconds)))
  }

  /// The number in the content state.
  func shown(_ name: String = "final") -> Int? {
    device[name]?.activity.contentState.flatMap { state in
      (try? JSONDocument(state.bytes))?.root["n"]?.number?.int.map { Int($0) }
    }
  }

  var island: [String] { device.island.map(\.name) }
  var lockScreen: [String] { device.lockScreen.map(\.name) }

  private func record(_ changes: [Device.Change]) {
    log += changes.map { change in
      let what =
        switch change.kind {
        case .activity(let data): "\(data.cause.rawValue) \(data.state.rawValue)"
        case .deferred(let until, let isOverBudget):
          "\(isOverBudget ? "over budget" : "grouped") until \(Self.text(until))"
        case .alert(let alert): "alert \(alert.title?.plain ?? "")"
        case .confirmed(let action): "confirmed \(action.name)"
        }
      return "\(Self.text(change.at)) \(change.name) \(what)"
    }
  }

  private static func text(_ date: Date) -> String {
    date == .distantFuture ? "ever" : JSONWriter.seconds(date.timeIntervalSince(moment(0)))
  }
}
