import BroadcastChannels
import Foundation
import LiveActivities
import Testing

@testable import Rehearsal

/// Every presentation of every shipped channel as text: fresh, stale and ended, in 40, 80 and 120 columns.
///
/// The files of `Snapshots/` were read by eye. After a wanted change, `TOUCHLINE_SNAPSHOTS=write swift test --filter
/// SnapshotTests` writes them anew; read the difference before it is committed.
@Suite struct SnapshotTests {
  static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("Snapshots")
  static let isWriting = ProcessInfo.processInfo.environment["TOUCHLINE_SNAPSHOTS"] == "write"

  @Test(arguments: ShippedChannel.all)
  func `the presentations look as they did`(channel: ShippedChannel) throws {
    let file = Self.folder.appendingPathComponent("\(channel.alias).txt")
    let shown = try Self.snapshot(of: channel)
    if Self.isWriting { try Data(shown.utf8).write(to: file) }
    let expected = String(decoding: try Data(contentsOf: file), as: UTF8.self)
    let differences = shown.split(separator: "\n", omittingEmptySubsequences: false)
      .difference(from: expected.split(separator: "\n", omittingEmptySubsequences: false))
    #expect(differences.isEmpty, "\(channel.alias).txt")
  }

  private static func snapshot(of channel: ShippedChannel) throws -> String {
    let rehearsal = try channel.rehearsal()
    var lines: [String] = []
    for (name, at) in [("fresh", channel.fresh), ("stale", channel.stale), ("ended", channel.ended)] {
      let moment = try #require(rehearsal.moments.first { $0.at == at })
      lines.append("== \(name), \(Int(at)) s: \(moment.activity.activity.state.rawValue)")
      lines += presentations(moment, rehearsal)
      lines.append("")
    }
    return lines.joined(separator: "\n")
  }

  private static func presentations(_ moment: Rehearsal.Moment, _ rehearsal: Rehearsal) -> [String] {
    let definition = rehearsal.definition
    var context = PresentationContext(
      state: moment.activity.activity.contentState, attributes: definition.attributes,
      now: rehearsal.date(at: moment.at))
    var lines: [String] = []
    func add(_ label: String, _ texts: [String]) {
      for (index, text) in texts.enumerated() {
        // A bar at the end shows trailing blanks.
        lines.append("\(DisplayWidth.exactly(index == 0 ? label : "", 24))\(text)|")
      }
    }
    for presentation in Presentation.allCases {
      let texts = PresentationText.lines(presentation, definition, context)
      let widest = texts.map { DisplayWidth.of($0) }.max() ?? 0
      // Where a line may be as long as the screen is wide, the narrower ones only if they cut something.
      let widths = presentation.columns.map { [$0] } ?? [120] + [80, 40].filter { $0 < widest }
      for columns in widths {
        add("\(presentation.rawValue) \(columns)", texts.map { DisplayWidth.fitted($0, to: columns) })
      }
    }
    for presentation in [Presentation.compactLeading, .compactTrailing, .minimal, .small] {
      add("spoken \(presentation.rawValue)", [PresentationText.sentence(presentation, definition, context)])
    }
    context.hidden = definition.sensitive
    if !context.hidden.isEmpty {
      add("locked lock-screen", PresentationText.lines(.lockScreen, definition, context))
    }
    return lines
  }
}
