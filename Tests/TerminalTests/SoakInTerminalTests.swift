import Foundation
import LiveActivities
import Testing

/// The soak's live lines in a real terminal, whatever its size, and whenever that changes.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SoakInTerminalTests {
  private static let names = [
    "time", "connections", "deliveries", "latency", "published", "budget left", "activities", "server",
    "soak",
    "violations",
  ]

  /// What is wrong with a screen on which the ten lines and their heading are to stand, once; nil when nothing is.
  private static func fault(of pane: Pane, columns: Int, isAlone: Bool) -> String? {
    let lines = pane.lines
    guard let heading = lines.firstIndex(where: { $0.hasPrefix("Touchline soak  ") }) else {
      return "no heading"
    }
    let block = lines.dropFirst(heading + 1).prefix(names.count)
    for (name, line) in zip(names, block) where !line.hasPrefix("  \(name) ") { return "no \(name): \(line)" }
    guard block.count == names.count else { return "\(block.count) lines" }
    if let wide = lines.dropFirst(heading).first(where: { DisplayWidth.of($0) > columns - 1 }) {
      return "too wide: \(wide)"
    }
    let rest = lines.dropFirst(heading + 1 + names.count).filter { !$0.isEmpty }
    guard rest.isEmpty else { return "left over: \(rest)" }
    return isAlone && heading > 0 ? "above the heading: \(lines.prefix(heading))" : nil
  }

  private func started(_ columns: Int, _ rows: Int) async throws -> Pane {
    let touchline = try #require(Program.touchline, "no built touchline beside the tests")
    let pane = try Pane(columns, rows)
    try pane.type("'\(touchline)' soak --duration 10m --subscribers 20 --seed 3")
    return pane
  }

  private func expectLines(in pane: Pane, columns: Int, isAlone: Bool) async throws {
    try await pane.wait(
      "the lines in \(columns) columns, \(Self.fault(of: pane, columns: columns, isAlone: isAlone) ?? "which were there")"
    ) { _ in
      Self.fault(of: pane, columns: columns, isAlone: isAlone) == nil
    }
    // They stay as they are when they are drawn again.
    let seconds = Self.seconds(pane)
    try await pane.wait("the next second") { _ in Self.seconds(pane) != seconds }
    #expect(Self.fault(of: pane, columns: columns, isAlone: isAlone) == nil, "\(pane.text)")
  }

  private static func seconds(_ pane: Pane) -> String? { pane.lines.first { $0.hasPrefix("  time ") } }

  @Test(arguments: [50, 80, 120])
  func `on a terminal of any width no line wraps, and what is drawn over is gone`(_ columns: Int) async throws
  {
    let pane = try await started(columns, 24)
    try await expectLines(in: pane, columns: columns, isAlone: false)
    #expect(pane.text.contains("connections"))
    try pane.press("C-c")
    try await pane.wait(for: "as far as it ran")
    try await pane.expectSane()
  }

  @Test
  func `a terminal that is resized shows the lines once, and one that is too low gets plain ones`()
    async throws
  {
    let pane = try await started(80, 24)
    try await expectLines(in: pane, columns: 80, isAlone: false)
    for columns in [50, 120, 30, 80] {
      try pane.resize(columns, 24)
      try await expectLines(in: pane, columns: columns, isAlone: true)
    }
    try pane.resize(80, 10)
    try await pane.wait(for: " of 20 subscribed, ")
    try pane.resize(80, 12)
    try await expectLines(in: pane, columns: 80, isAlone: true)
    // What somebody types meanwhile is gone with the next second.
    try pane.press("x", "y")
    try await expectLines(in: pane, columns: 80, isAlone: true)
    try pane.press("C-c")
    try await pane.wait(for: "as far as it ran")
    try await pane.expectSane()
  }
}
