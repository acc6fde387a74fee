import CNcursesShims
import LiveActivities
import Testing

@testable import Terminal

/// What curses is given for a line.
@Suite struct CellTests {
  init() { _ = shim_locale() }

  private func cells(_ text: String) -> [String] {
    Cell.cells([text]) { DisplayWidth.of($0) }.map { cell in
      let scalars = cell.scalars.compactMap { Unicode.Scalar($0).map { Character($0) } }
      return "\(cell.column) \(String(scalars))"
    }
  }

  @Test func `a wide character takes two columns, a mark joins the letter before it`() {
    #expect(cells("日a") == ["0 日", "2 a"])
    #expect(cells("u\u{308}b") == ["0 u\u{308}", "1 b"])
  }

  /// tmux 3.3a gives each regional indicator one column.
  @Test func `a flag is two cells`() {
    #expect(cells("🇦🇷x") == ["0 🇦", "1 🇷", "2 x"])
  }

  @Test func `of an emoji sequence the first is drawn, in two columns`() {
    #expect(cells("👩‍👩‍👧x") == ["0 👩", "2 x"])
    #expect(cells("👍🏽x") == ["0 👍", "2 x"])
    #expect(cells("❤️x") == ["0 ❤", "2 x"])
  }

  @Test func `isolates join the cell before them`() {
    #expect(cells("│\u{2068}א\u{2069}│") == ["0 │\u{2068}", "1 א\u{2069}", "2 │"])
  }

  /// Where curses takes a character for wider than the scene does, a line would break.
  @Test func `no character is wider for curses than for the scene`() {
    var wrong: [UInt32] = []
    for value in UInt32(0x20)...0x3FFFF {
      guard let scalar = Unicode.Scalar(value), scalar.properties.generalCategory != .unassigned else {
        continue
      }
      let width = DisplayWidth.of(Character(scalar))
      if shim_width(value) > width, width > 0 { wrong.append(value) }
    }
    #expect(wrong.isEmpty, "\(wrong.prefix(20).map { String($0, radix: 16) }) of \(wrong.count)")
  }

  @Test func `colours are the nearest that the terminal has`() {
    let amber = TerminalColour(0xE0A030, basic: 3)
    #expect(amber.number(of: 1 << 24) == 0xE0A030)
    // xterm's cube has 0, 95, 135, 175, 215, 255: 0xE0 is nearest 215 (4), 0xA0 175 (3), 0x30 95 (1).
    #expect(amber.number(of: 256) == 16 + 36 * 4 + 6 * 3 + 1)
    #expect(amber.number(of: 16) == 3 && TerminalColour(0xFFFFFF, basic: 15).number(of: 8) == 7)
    #expect(TerminalColour(0x8A8A94, basic: 8).number(of: 256) == 245)
  }
}
