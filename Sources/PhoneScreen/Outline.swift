/// A box around lines, with words in its upper edge.
struct Outline {
  /// Whether its lines are heavy: also seen without colours.
  var isHeavy = false
  /// Its style.
  var style = Style.border
  /// The style of what is inside and has none of its own.
  var inside = Style.normal
  /// In the upper edge, left and right.
  var title: (left: StyledLine, right: StyledLine) = (StyledLine(), StyledLine())

  private var corners: [String] { isHeavy ? ["┏", "┓", "┗", "┛"] : ["╭", "╮", "╰", "╯"] }
  private var horizontal: String { isHeavy ? "━" : "─" }
  private var vertical: StyledLine { StyledLine(isHeavy ? "┃" : "│", style) }

  private func edge(_ count: Int) -> String { String(repeating: horizontal, count: max(0, count)) }

  /// The lines in the box, exactly some columns wide, a blank inside each edge.
  func around(_ lines: [StyledLine], _ columns: Int) -> [StyledLine] {
    let inner = columns - 4
    let inside = inside
    return [top(columns)]
      + lines.map { line in
        let content = StyledLine(" ") + line.exactly(inner) + StyledLine(" ")
        return vertical + content.restyled { $0 == .normal ? inside : $0 } + vertical
      }
      + [StyledLine(corners[2] + edge(columns - 2) + corners[3], style)]
  }

  private func top(_ columns: Int) -> StyledLine {
    let corner = StyledLine(corners[0] + edge(1), style)
    let end = StyledLine(edge(1) + corners[1], style)
    func spaced(_ line: StyledLine) -> StyledLine {
      line.spans.isEmpty ? line : StyledLine(" ") + line + StyledLine(" ")
    }
    let right = spaced(title.right)
    let room = columns - corner.width - end.width - right.width
    let left = spaced(title.left)
    let cut = left.width > room ? left.exactly(max(0, room)) : left
    return corner + cut + StyledLine(edge(room - cut.width), style) + right + end
  }
}
