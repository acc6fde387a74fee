import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts
import Testing

@testable import Rehearsal

/// A channel of `Channels/` with its script.
struct ShippedChannel: Sendable, CustomTestStringConvertible {
  let alias: String
  /// When the match began, for dates inside its states; nil where nothing counts.
  var start: String?
  /// A moment of play, one at which the card is stale, and one after the end, in seconds.
  let fresh: Double
  let stale: Double
  let ended: Double

  var testDescription: String { alias }

  static let football = ShippedChannel(
    alias: "world-cup-final-2022", fresh: 2 * 3_600 + 47 * 60, stale: 3_900, ended: 2 * 3_600 + 50 * 60)
  static let basketball = ShippedChannel(
    alias: "nba-finals-2016", fresh: 2 * 3_600 + 18 * 60 + 54, stale: 4_200, ended: 2 * 3_600 + 25 * 60)
  static let tennis = ShippedChannel(
    alias: "wimbledon-final-2008", fresh: 4 * 3_600 + 55 * 60 + 10, stale: 9_000, ended: 6 * 3_600 + 46 * 60)
  static let cycling = ShippedChannel(
    alias: "tour-time-trial-2020", start: "2020-09-19T15:05:00Z", fresh: 3_830, stale: 3_960, ended: 4_560)
  static let all = [football, basketball, tennis, cycling]

  private static let folder = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("Channels")

  func definition() throws -> ChannelDefinition {
    let file = Self.folder.appendingPathComponent("\(alias).json")
    return try ChannelDefinition(file: Array(try Data(contentsOf: file)), alias: ChannelAlias(alias))
  }

  func script() throws -> MatchScript {
    try MatchScript(
      file: Array(try Data(contentsOf: Self.folder.appendingPathComponent("\(alias).match.jsonl"))))
  }

  func rehearsal() throws -> Rehearsal {
    let start = try start.map { try Date($0, strategy: .iso8601) } ?? Rehearsal.standardStart
    return try Rehearsal(script(), definition: definition(), looks: [fresh, stale, ended], start: start)
  }
}
