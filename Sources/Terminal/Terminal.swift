// Why: ncurses knows every terminal's sequences, sends only what changed, and restores what it found. It is one global for
// the whole process, so this class is the only door to it, and there is one of it at a time.
//
// The keyboard is opened anew by its name: a loop makes what it watches non-blocking, and that flag would otherwise be
// shared with the shell that started the program, and outlive it (open(2): open file descriptions).

import CNcursesShims
import Glibc

/// Why a terminal can't be used as a screen.
public enum TerminalError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Input or output is no terminal.
  case notATerminal
  /// `TERM` names none that terminfo knows.
  case unknown(name: String)
  /// It can only print line after line.
  case cursorCannotMove(name: String)

  /// What is wrong and what to do.
  public var description: String {
    switch self {
    case .notATerminal: "input and output are no terminal; take --format plain or json"
    case .unknown(let name):
      "the terminal \"\(name)\" (TERM) is not known to terminfo; set TERM, or take --format plain"
    case .cursorCannotMove(let name):
      "the terminal \"\(name)\" (TERM) can't move its cursor; take --format plain"
    }
  }
}

/// The terminal as a screen of cells.
public final class Terminal {
  /// A piece of text and how it looks.
  public struct Run: Sendable, Hashable {
    let text: String
    let appearance: Appearance

    /// Makes a piece.
    public init(_ text: String, _ appearance: Appearance) {
      self.text = text
      self.appearance = appearance
    }
  }

  /// The keyboard, to be watched by a loop; ``keys()`` reads it.
  public let input: Int32

  private let width: (Character) -> Int
  private let colours: Int
  private var pairs: [Pair: Int32] = [:]
  private var shown: [[Run]] = []
  private var isOpen = false

  private struct Pair: Hashable {
    let foreground: Int32
    let background: Int32
  }

  /// Takes over the terminal: another screen, no echo, no cursor. ``close()`` gives it back; so do the end of the program
  /// and its crash.
  ///
  /// - Parameters:
  ///   - colour: whether colours are wanted; how many there are says terminfo.
  ///   - width: how many columns a character takes.
  public init(colour: Bool, width: @escaping (Character) -> Int) throws(TerminalError) {
    guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else { throw .notATerminal }
    let own = ttyname(STDIN_FILENO).map { Glibc.open($0, O_RDWR | O_NOCTTY | O_CLOEXEC) } ?? -1
    input = own >= 0 ? own : dup(STDIN_FILENO)
    self.width = width
    let name = getenv("TERM").map { String(cString: $0) } ?? ""
    let outcome = shim_open(input, colour ? 1 : 0)
    guard outcome == Int32(shim_ready) else {
      Glibc.close(input)
      throw outcome == Int32(shim_cursor_cannot_move) ? .cursorCannotMove(name: name) : .unknown(name: name)
    }
    colours = colour ? Int(shim_colours()) : 0
    isOpen = true
  }

  deinit { close() }

  /// Gives the terminal back as it was. Idempotent.
  public func close() {
    guard isOpen else { return }
    isOpen = false
    shim_close()
    Glibc.close(input)
  }

  /// The size in cells.
  public var size: (columns: Int, rows: Int) { (Int(shim_columns()), Int(shim_rows())) }

  /// Takes the new size after `SIGWINCH`.
  public func resize() {
    guard isOpen else { return }
    shim_resize()
    redraw()
  }

  /// Sends everything with the next ``draw(_:)``, as after the program was stopped and continued.
  public func redraw() {
    guard isOpen else { return }
    shown = []
    shim_forget()
  }

  // MARK: Keys

  /// The keys that were pressed since the last call.
  public func keys() -> [Key] {
    guard isOpen else { return [] }
    var keys: [Key] = []
    while true {
      let code = shim_key()
      if code == Int32(shim_no_key) { break }
      keys.append(Self.key(code))
    }
    return keys.isEmpty && shim_hung_up(input) != 0 ? [.hangUp] : keys
  }

  private static func key(_ code: Int32) -> Key {
    switch code {
    case Int32(shim_key_up): .up
    case Int32(shim_key_down): .down
    case Int32(shim_key_left): .left
    case Int32(shim_key_right): .right
    case Int32(shim_key_enter): .enter
    case 0x20..<0x110000: Unicode.Scalar(UInt32(code)).map { .character(Character($0)) } ?? .unknown
    default: .unknown
    }
  }

  // MARK: Drawing

  /// Shows lines from the top. Only cells that differ from what is shown are sent, and nothing when no line differs.
  public func draw(_ lines: [[Run]]) {
    guard isOpen, lines != shown else { return }
    shown = lines
    shim_erase()
    let size = size
    for (row, line) in lines.prefix(size.rows).enumerated() { draw(line, row, size.columns) }
    shim_show()
  }

  private func draw(_ line: [Run], _ row: Int, _ columns: Int) {
    let looks = line.map { (attributes: Self.attributes($0.appearance), pair: pair($0.appearance)) }
    for cell in Cell.cells(line.map(\.text), width: width) where cell.column < columns {
      let look = looks[cell.run]
      shim_put(
        Int32(row), Int32(cell.column), cell.scalars, Int32(cell.scalars.count), look.attributes, look.pair)
    }
  }

  private static func attributes(_ appearance: Appearance) -> Int32 {
    (appearance.isBold ? Int32(shim_bold) : 0) | (appearance.isDim ? Int32(shim_dim) : 0)
  }

  private func pair(_ appearance: Appearance) -> Int32 {
    guard colours > 0 else { return 0 }
    let pair = Pair(
      foreground: appearance.foreground?.number(of: colours) ?? -1,
      background: appearance.background?.number(of: colours) ?? -1)
    if let known = pairs[pair] { return known }
    let number = Int32(pairs.count + 1)
    guard shim_pair(number, pair.foreground, pair.background) != 0 else { return 0 }
    pairs[pair] = number
    return number
  }
}
