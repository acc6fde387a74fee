/// A line of what a person sees while a soak runs: what it is about, its value, and what there is to say besides.
///
/// A line that wraps takes two rows, and everything that is drawn over it later stands one row too low. So it is cut to the
/// terminal before it is drawn, as plain text: by columns, not by characters.
public struct LiveRow: Sendable, Hashable {
  /// What it is about.
  public var name: String
  /// The value.
  public var value: String
  /// What there is to say besides.
  public var more: String

  /// Columns in front of the value: two blanks and the name.
  static let front = 15
  /// Columns of the value, unless it takes more.
  private static func valueColumns(_ columns: Int) -> Int { columns < 72 ? 15 : 20 }
  /// Columns below which what there is besides is left out.
  static let leastMore = 4

  /// Makes a line.
  public init(_ name: String, _ value: String, _ more: String = "") {
    self.name = name
    self.value = value
    self.more = more
  }

  /// Columns for what there is besides, on a terminal with so many columns and beside a value that isn't longer than usual.
  public static func roomForMore(_ columns: Int) -> Int {
    max(0, columns - 1 - front - valueColumns(columns))
  }

  /// The line as it is drawn: `name`, `value` and `more` with their blanks, together never in the terminal's last column,
  /// where some terminals wrap already.
  ///
  /// - Parameters:
  ///   - columns: the terminal's.
  ///   - width: the columns that a text takes.
  ///   - fitted: a text cut to some columns.
  public func cut(
    to columns: Int, width: (String) -> Int, fitted: (String, Int) -> String
  ) -> LiveRow {
    func padded(_ text: String, _ columns: Int) -> String {
      text + String(repeating: " ", count: max(0, columns - width(text)))
    }
    let all = max(0, columns - 1)
    let name = fitted("  " + padded(self.name, Self.front - 2), all)
    let room = max(0, all - Self.front)
    let value = fitted(self.value, room)
    let taken = max(Self.valueColumns(columns), width(value) + 1)
    let more = room - taken >= Self.leastMore ? fitted(self.more, room - taken) : ""
    return LiveRow(name, more.isEmpty ? value : padded(value, taken), more)
  }
}
