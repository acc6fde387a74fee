// Why: curses and the terminal behind it each have their own idea of how wide a character is, and where they disagree a line
// shifts. So every character is put at its own column, and what terminals disagree about is not sent: joiners, skin tones
// and variation selectors are left out, so that a family is drawn as its first member, in the two columns it has anyway.
// Measured with tmux 3.3a, and with xterm's rules, which are wcwidth's.

import CNcursesShims

/// One cell: a base character with the marks on it.
struct Cell: Hashable {
  /// Where it is.
  let column: Int
  /// Which of the line's runs it comes from.
  let run: Int
  var scalars: [UInt32]

  /// A base and its marks: CCHARW_MAX of curses.h.
  static let scalarLimit = 5

  /// The cells of a line; each character takes the columns that `width` gives it.
  static func cells(_ runs: [String], width: (Character) -> Int) -> [Cell] {
    var cells: [Cell] = []
    var column = 0
    for (run, text) in runs.enumerated() {
      for character in text {
        let columns = width(character)
        add(character, columns, at: column, run, to: &cells)
        column += columns
      }
    }
    return cells
  }

  private static func add(
    _ character: Character, _ columns: Int, at column: Int, _ run: Int, to cells: inout [Cell]
  ) {
    var next = column
    for scalar in character.unicodeScalars {
      let own = Int(shim_width(scalar.value))
      if own <= 0 {
        // A mark joins the cell before it, and so do the signs that isolate right-to-left text.
        guard own == 0, !isSelector(scalar.value), let last = cells.indices.last,
          cells[last].scalars.count < scalarLimit
        else { continue }
        cells[last].scalars.append(scalar.value)
      } else if next + own <= column + columns {
        cells.append(Cell(column: next, run: run, scalars: [scalar.value]))
        next += own
      } else {
        // The rest of an emoji sequence; or a character that curses takes for wider than there is room.
        if next == column, columns > 0 { cells.append(Cell(column: next, run: run, scalars: [0xFFFD])) }
        return
      }
    }
  }

  private static func isSelector(_ value: UInt32) -> Bool {
    value == 0x200D || (0xFE00...0xFE0F).contains(value) || (0xE0020...0xE007F).contains(value)
  }
}
