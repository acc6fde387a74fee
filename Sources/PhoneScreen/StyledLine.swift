import LiveActivities

/// What a piece of text is, as far as its look goes. A terminal chooses colours for it, or does without.
public enum Style: Sendable, Hashable, CaseIterable {
  /// Text on a card.
  case normal
  /// What matters less, and everything on an always-on display.
  case dim
  /// What matters more.
  case bold
  /// An event that goes on, with current data.
  case live
  /// Data that is out of date, and the notes that say so.
  case stale
  /// An event that is over.
  case ended
  /// What lights the screen.
  case alert
  /// Text in the Dynamic Island.
  case island
  /// The same, out of date.
  case islandStale
  /// The alert in the island.
  case islandAlert
  /// A button in the island.
  case islandKey
  /// The island's outline.
  case islandBorder
  /// The phone's and the cards' outlines.
  case border
  /// The outline of the chosen card.
  case selectedBorder
  /// A key or button that can be pressed.
  case key
  /// The line at the bottom.
  case status
  /// A connection that is gone, an error.
  case failure
}

/// One line of a screen: pieces of text, each with its style.
public struct StyledLine: Sendable, Hashable {
  /// One piece.
  public struct Span: Sendable, Hashable {
    /// The text, without control characters.
    public var text: String
    /// What it is.
    public var style: Style

    /// Makes a piece.
    public init(_ text: String, _ style: Style = .normal) {
      self.text = text
      self.style = style
    }
  }

  /// The pieces, from left to right.
  public private(set) var spans: [Span]

  /// Makes a line of pieces.
  public init(_ spans: [Span] = []) { self.spans = spans.filter { !$0.text.isEmpty } }

  /// Makes a line of one piece.
  public init(_ text: String, _ style: Style = .normal) { self.init([Span(text, style)]) }

  /// The columns that it takes.
  public var width: Int { spans.reduce(0) { $0 + DisplayWidth.of($1.text) } }

  /// The text without styles.
  public var text: String { spans.map(\.text).joined() }

  static func + (left: StyledLine, right: StyledLine) -> StyledLine { StyledLine(left.spans + right.spans) }

  /// The line in another style.
  func restyled(_ change: (Style) -> Style) -> StyledLine {
    StyledLine(spans.map { Span($0.text, change($0.style)) })
  }

  /// The line cut, with an ellipsis, or padded to exactly some columns.
  func exactly(_ columns: Int) -> StyledLine {
    let cut = fitted(columns)
    return cut + StyledLine(String(repeating: " ", count: max(0, columns - cut.width)))
  }

  /// The line in the middle of some columns.
  func centred(_ columns: Int) -> StyledLine {
    let cut = fitted(columns)
    return (StyledLine(String(repeating: " ", count: max(0, columns - cut.width) / 2)) + cut).exactly(columns)
  }

  /// The line with others at its two ends, exactly some columns wide; the left one gives way.
  static func ends(_ left: StyledLine, _ right: StyledLine, _ columns: Int) -> StyledLine {
    let right = right.fitted(columns)
    return left.exactly(columns - right.width) + right
  }

  private func fitted(_ columns: Int) -> StyledLine {
    guard width > columns else { return self }
    var taken: [Span] = []
    var room = columns
    for span in spans {
      let width = DisplayWidth.of(span.text)
      // One column stays free for the ellipsis of a later piece.
      if width < room {
        taken.append(span)
        room -= width
        continue
      }
      var text = DisplayWidth.fitted(span.text, to: max(1, room))
      if width <= room { text = DisplayWidth.fitted(span.text + "  ", to: room) }
      taken.append(Span(room > 0 ? PhoneText.closed(text) : "", span.style))
      break
    }
    return StyledLine(taken)
  }
}
