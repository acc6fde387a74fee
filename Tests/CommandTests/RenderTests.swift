import Foundation
import TestSupport
import Testing

/// `touchline render`: one presentation, or several, as text.
@Suite("render") struct RenderTests {
  static let definition = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../Channels/world-cup-final-2022.json").standardized.path
  static let state = #"{"home":1,"away":0,"clock":"23'","period":"First half","scorers":["Messi 23' pen"]}"#

  /// What each name prints, worked out from the definition's templates.
  @Test(
    "a presentation's name, or that of its group, chooses what is printed",
    arguments: [
      ("minimal", ["1–0"]),
      ("compact", ["compact-leading:", "🇦🇷 \u{2007}1", "compact-trailing:", "\u{2007}0 🇫🇷"]),
      ("expanded-leading", ["🇦🇷 1"]),
    ])
  func named(name: String, lines: [String]) async throws {
    let ending = try await Touchline.run(
      ["render", Self.definition, "--presentation", name, "--state", Self.state])
    #expect(ending.code == 0 && ending.lines == lines, "\(ending.output)\(ending.errors)")
  }

  @Test("an unknown presentation exits 2 and tells the near one")
  func unknown() async throws {
    let ending = try await Touchline.run(["render", Self.definition, "--presentation", "compat"])
    #expect(ending.code == 2 && ending.errors.contains("did you mean \"compact\"?"), "\(ending.errors)")
  }

  @Test("all prints every presentation under its name")
  func all() async throws {
    let ending = try await Touchline.run(
      ["render", Self.definition, "--presentation", "all", "--state", Self.state])
    #expect(ending.lines.count { $0.hasSuffix(":") } == 11, "\(ending.output)")
  }
}
