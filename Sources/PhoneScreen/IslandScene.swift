import BroadcastChannels
import LiveActivities

/// The Dynamic Island: compact for one activity, two minimal ones when more compete, expanded on an alert or while held.
struct IslandScene {
  let texts: [ActivityText]
  /// The activity that is expanded.
  let expanded: ActivityText?
  /// The chosen card's name: its actions have the digits.
  let selected: String?
  /// Whether there is only room for one row.
  let isFlat: Bool

  private static let camera = StyledLine("◉", .islandBorder)

  /// The island's rows, each as wide as it is; to be centred.
  func lines(_ columns: Int) -> [StyledLine] {
    if let expanded, !isFlat { return expandedLines(expanded, min(columns, 64)) }
    // What has nothing to show yet doesn't compete.
    let texts = texts.filter { $0.activity.activity.contentState != nil }
    guard let first = texts.first else { return pill(Self.camera.centred(9)) }
    guard texts.count > 1 else { return compact(first) }
    return minimal(first, texts[1])
  }

  // MARK: Compact and minimal

  private func compact(_ text: ActivityText) -> [StyledLine] {
    let width = Presentation.compactLeading.columns ?? 10
    return pill(
      side(text, .compactLeading).exactly(width) + StyledLine("  ") + Self.camera + StyledLine("  ")
        + trailing(side(text, .compactTrailing), width))
  }

  private func minimal(_ attached: ActivityText, _ detached: ActivityText) -> [StyledLine] {
    let width = Presentation.minimal.columns ?? 5
    let left = pill(
      side(attached, .minimal).exactly(width) + StyledLine("   ") + Self.camera + StyledLine(" "))
    let right = pill(side(detached, .minimal).centred(width))
    return zip(left, right).map { $0 + StyledLine(" ") + $1 }
  }

  private func side(_ text: ActivityText, _ presentation: Presentation) -> StyledLine {
    let line = text.lines(presentation).first ?? ""
    let style: Style = text.style == .stale ? .islandStale : .island
    let columns = presentation.columns ?? 10
    return StyledLine(PhoneText.fitted(line, columns), style)
  }

  private func trailing(_ line: StyledLine, _ width: Int) -> StyledLine {
    StyledLine(String(repeating: " ", count: max(0, width - line.width))) + line
  }

  private func pill(_ content: StyledLine) -> [StyledLine] {
    if isFlat {
      return [StyledLine("( ", .islandBorder) + content + StyledLine(" )", .islandBorder)]
    }
    return Outline(style: .islandBorder, inside: .island).around([content], content.width + 4)
  }

  // MARK: Expanded

  private func expandedLines(_ text: ActivityText, _ columns: Int) -> [StyledLine] {
    let inner = columns - 4
    let style: Style = text.style == .stale ? .islandStale : .island
    let leading = region(text, .expandedLeading, style)
    let trailingRegion = region(text, .expandedTrailing, style)
    let half = (inner - 3) / 2
    var lines: [StyledLine] = []
    for row in 0..<max(1, leading.count, trailingRegion.count) {
      let middle = row == 0 ? StyledLine(" ") + Self.camera + StyledLine(" ") : StyledLine("   ")
      let left = row < leading.count ? leading[row] : StyledLine()
      let right = row < trailingRegion.count ? trailingRegion[row] : StyledLine()
      lines.append(left.exactly(half) + middle + trailing(right, inner - half - 3))
    }
    lines += region(text, .expandedCenter, style).map { $0.centred(inner) }
    var bottom: [StyledLine] = []
    for line in text.lines(.expandedBottom) where !line.isEmpty {
      bottom += PhoneText.wrapped(line, inner).map { StyledLine($0, style) }
    }
    lines += bottom.prefix(Presentation.expandedBottom.lines)
    if let alert = text.alert {
      lines += PhoneText.wrapped("🔔 \(alert)", inner, limit: 2).map { StyledLine($0, .islandAlert) }
    }
    if let action = text.activity.definition.actions.first, text.activity.isInIsland {
      let digit = text.activity.name == selected ? "[1] " : ""
      lines.append(
        StyledLine([.init(digit, .islandKey), .init(PhoneText.fitted(action.title, 30), .island)]))
    }
    return Outline(style: .islandBorder, inside: .island).around(lines, columns)
  }

  private func region(_ text: ActivityText, _ presentation: Presentation, _ style: Style) -> [StyledLine] {
    text.lines(presentation).prefix(presentation.lines).filter { !$0.isEmpty }
      .map { StyledLine(PhoneText.fitted($0, presentation.columns ?? 30), style) }
  }
}
