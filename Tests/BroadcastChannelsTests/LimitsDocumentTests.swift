import Foundation
import Testing

/// docs/limits.md tells of every bound. Its tables are made from Limits.swift:
/// `TOUCHLINE_RECORD=1 swift test --filter LimitsDocumentTests` writes them anew.
@Suite struct LimitsDocumentTests {
  private static let root = URL(fileURLWithPath: #filePath).appending(path: "../../..").standardizedFileURL
  private static let marker = "<!-- From here on made from Sources/BroadcastChannels/Limits.swift. -->\n"

  @Test func `docs/limits.md has every limit with its value and reason`() throws {
    let source = try String(
      contentsOf: Self.root.appending(path: "Sources/BroadcastChannels/Limits.swift"), encoding: .utf8)
    let document = Self.root.appending(path: "docs/limits.md")
    let text = try String(contentsOf: document, encoding: .utf8)
    let start = try #require(text.range(of: Self.marker)?.upperBound)
    let tables = Self.tables(source)
    if ProcessInfo.processInfo.environment["TOUCHLINE_RECORD"] == "1" {
      try (text[..<start] + tables).write(to: document, atomically: true, encoding: .utf8)
    } else {
      #expect(text[start...] == tables, "write it anew with TOUCHLINE_RECORD=1")
    }
  }

  /// A table for each `MARK`, with a row for each constant: name, value, comment.
  static func tables(_ source: String) -> String {
    var tables = ""
    var comment: [String] = []
    for line in source.split(separator: "\n").map({ $0.trimmingCharacters(in: .whitespaces) }) {
      if line.hasPrefix("// MARK: ") {
        tables += "\n## \(line.dropFirst(9))\n\n| limit | value | what and why |\n| --- | --- | --- |\n"
      } else if line.hasPrefix("/// ") {
        comment.append(String(line.dropFirst(4)))
      } else if line.hasPrefix("public static let ") {
        let sides = line.dropFirst(18).split(separator: "=", maxSplits: 1).map {
          $0.trimmingCharacters(in: .whitespaces)
        }
        let name = sides[0].prefix { $0 != ":" }
        let value = sides[1].replacing("_", with: ",")
        let text = comment.joined(separator: " ").replacing("|", with: "\\|")
        tables += "| `\(name)` | \(value) | \(text) |\n"
        comment = []
      } else {
        comment = []
      }
    }
    return tables
  }
}
