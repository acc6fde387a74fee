/// The keys, explained.
enum HelpScene {
  /// The keys in the order in which a newcomer wants them.
  static let keys: [(key: String, meaning: String, word: String)] = [
    ("↑ ↓", "choose a card", "choose"), ("e", "expand the island", "expand"),
    ("d", "dismiss the card, for good", "dismiss"), ("1–9", "press an action", "press action"),
    ("n", "network off and on", "network"), ("l", "lock: hides what is sensitive", "lock"),
    ("a", "always-on display", "always-on"), ("s", "StandBy, full screen", "StandBy"),
    ("w", "small: watch and car", "small"), ("f", "frequent updates of the app", "frequent"),
    ("t", "another push token", "new token"),
    ("?", "this help", "help"), ("q", "quit", "quit"),
  ]

  /// The help in a box of at most `rows` lines; in two columns where one is too high.
  static func lines(_ columns: Int, _ rows: Int) -> [StyledLine] {
    let width = min(columns, 76)
    let inner = width - 4
    let parts = rows - 2 >= keys.count ? 1 : 2
    let perColumn = (keys.count + parts - 1) / parts
    let cell = inner / parts
    let lines = (0..<perColumn).map { row in
      stride(from: row, to: keys.count, by: perColumn).reduce(StyledLine()) { line, index in
        let key = StyledLine(keys[index].key, .key).exactly(4)
        return line + (key + StyledLine(cell < 34 ? keys[index].word : keys[index].meaning)).exactly(cell)
      }
    }
    let outline = Outline(
      style: .selectedBorder, title: (StyledLine("Keys", .bold), StyledLine("any key closes", .dim)))
    return Array(outline.around(lines, width).prefix(rows)).map { $0.centred(columns) }
  }
}
