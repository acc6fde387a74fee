import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts
import Testing

@testable import Rehearsal

/// A script and the changes that it must give, worked out by hand.
///
/// A step is written `AT n=N MORE`, where MORE are members of the script's line such as `"stale-in": 60`; the content
/// state is `{"n":N}`.
struct Timeline: Sendable, CustomTestStringConvertible {
  let testDescription: String
  /// Members of the definition that differ from ``standard``.
  let channel: [String: String]
  let steps: [String]
  /// `60 stale-date stale 1`: second, cause, state, and the number shown.
  let changes: [String]

  init(_ name: String, channel: [String: String] = [:], _ steps: [String], gives changes: [String]) {
    testDescription = name
    self.channel = channel
    self.steps = steps
    self.changes = changes
  }

  /// Nothing limits, so that each case names the limit it is about.
  static let standard = [
    "app": "\"com.example.scores\"", "content-state": #"{"n":"Int"}"#,
    "budget": #"{"capacity":null}"#, "windows": #"{"5":1,"1":5}"#,
    "publish-rate": #"{"per-second":null,"burst":null}"#,
  ]

  /// The causes of what the device shows; the others are the channel's.
  static let shown: Set = [
    "update", "stale-date", "end", "dismissal", "lifetime", "ignored-older", "ignored-after-end",
  ]

  static func rehearse(
    _ steps: [String], channel: [String: String] = [:], looks: [Double] = [],
    settings: (inout DeviceSettings) -> Void = { _ in }
  ) throws -> Rehearsal {
    let members = standard.merging(channel) { $1 }.sorted { $0.key < $1.key }
    let definition = "{\(members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ","))}"
    let text = ["{\"channel\":\(definition)}"] + steps.map(line)
    let script = try MatchScript(file: Array(text.joined(separator: "\n").utf8))
    guard case .defined(let own) = script.target else { throw CancellationError() }
    var device = DeviceSettings()
    settings(&device)
    return try Rehearsal(script, definition: own, settings: device, looks: looks)
  }

  private static func line(_ step: String) -> String {
    let words = step.split(separator: " ", maxSplits: 2).map(String.init)
    let state = words[1] == "-" ? "" : ",\"content-state\":{\"n\":\(words[1].dropFirst(2))}"
    let more = words.count > 2 ? ",\(words[2])" : ""
    return "{\"at\":\(words[0])\(state)\(more)}"
  }
}

extension Rehearsal {
  /// What happened, as ``Timeline/changes``.
  func log(of causes: Set<String>) -> [String] {
    events.filter { causes.contains($0.cause) }.map { event in
      let number = event.contentState?.string.filter { $0.isNumber } ?? "nil"
      return "\(JSONWriter.seconds(event.at)) \(event.cause) \(event.state.rawValue) \(number)"
    }
  }
}
