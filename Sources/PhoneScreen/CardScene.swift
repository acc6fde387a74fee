import BroadcastChannels
import LiveActivities

/// One card of the Lock Screen: whole, or as one row when there is no room for it.
struct CardScene {
  let text: ActivityText
  let isSelected: Bool

  private var title: StyledLine {
    let name = PhoneText.fitted(text.activity.name, 40)
    let app = PhoneText.fitted(text.app, 20)
    return StyledLine([
      .init(isSelected ? "▸ " : "", .key), .init(name, .bold), .init(name == app ? "" : " · \(app)", .dim),
    ])
  }

  private var word: StyledLine { StyledLine(text.word.0, text.word.1) }

  /// The whole card.
  func lines(_ columns: Int) -> [StyledLine] {
    let inner = columns - 4
    var lines: [StyledLine] = []
    for (index, line) in text.lines(.lockScreen).prefix(Presentation.lockScreen.lines).enumerated() {
      let style: Style = index == 1 && text.style == .normal ? .bold : text.style
      lines += PhoneText.wrapped(line, inner, limit: 3).map { StyledLine($0, style) }
    }
    lines += notes(inner)
    if let buttons { lines.append(buttons) }
    let outline = Outline(
      isHeavy: isSelected, style: isSelected ? .selectedBorder : .border, title: (title, word))
    return outline.around(lines, columns)
  }

  /// The card as one row.
  func row(_ columns: Int) -> StyledLine {
    let banner = text.lines(.banner).first ?? text.lines(.lockScreen).first ?? ""
    let left =
      StyledLine(isSelected ? " " : "   ") + title
      + StyledLine("  " + PhoneText.fitted(banner, columns), text.style)
    return StyledLine.ends(left, StyledLine(" ") + word + StyledLine(" "), columns)
  }

  /// The notes on as few lines as they fit on.
  private func notes(_ columns: Int) -> [StyledLine] {
    var lines: [StyledLine] = []
    var line = StyledLine()
    for note in text.notes {
      let next = StyledLine(PhoneText.fitted(note.text, columns), note.style)
      if line.spans.isEmpty {
        line = next
      } else if line.width + 3 + next.width <= columns {
        line = line + StyledLine(" · ", .dim) + next
      } else {
        lines.append(line)
        line = next
      }
    }
    return line.spans.isEmpty ? lines : lines + [line]
  }

  /// The actions with their digits. An ended event has nothing left to do.
  private var buttons: StyledLine? {
    let actions = text.activity.definition.actions.prefix(9)
    guard !actions.isEmpty, text.activity.isInIsland else { return nil }
    var line = StyledLine()
    for (index, action) in actions.enumerated() {
      if index > 0 { line = line + StyledLine("  ") }
      if isSelected { line = line + StyledLine("[\(index + 1)]", .key) + StyledLine(" ") }
      line = line + StyledLine(PhoneText.fitted(action.title, 24), isSelected ? .normal : .dim)
    }
    return line
  }
}
