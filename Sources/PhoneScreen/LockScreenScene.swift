import LiveActivities

/// The cards of the Lock Screen in their order, as many of them whole as there is room for.
struct LockScreenScene {
  let texts: [ActivityText]
  let selected: String?

  /// At most `rows` lines, `columns` wide each.
  func lines(_ columns: Int, _ rows: Int) -> [StyledLine] {
    let cards = texts.map { CardScene(text: $0, isSelected: $0.activity.name == selected) }
    guard let chosen = cards.firstIndex(where: \.isSelected) ?? cards.indices.first, rows > 0 else {
      return []
    }
    var blocks = cards.map { $0.lines(columns) }
    // The cards far from the chosen one give way first: a row each.
    let order = cards.indices.sorted { abs($0 - chosen) > abs($1 - chosen) }
    for index in order where index != chosen && blocks.reduce(0, { $0 + $1.count }) > rows {
      blocks[index] = [cards[index].row(columns)]
    }
    if blocks.reduce(0, { $0 + $1.count }) > rows { return window(blocks, chosen, columns, rows) }
    return blocks.flatMap { $0 }
  }

  /// What is around the chosen card, when not even rows for all of them fit.
  private func window(_ blocks: [[StyledLine]], _ chosen: Int, _ columns: Int, _ rows: Int) -> [StyledLine] {
    var first = chosen
    var last = chosen
    // One row tells of the others.
    var room = rows - 1 - blocks[chosen].count
    while room > 0, first > 0 || last < blocks.count - 1 {
      if first > 0 { first -= 1 } else { last += 1 }
      room -= 1
    }
    let hidden = blocks.count - (last - first + 1)
    let more = hidden == 0 ? [] : [StyledLine("… \(hidden) more", .dim).centred(columns)]
    var lines = blocks[first...last].flatMap { $0 }
    let limit = rows - more.count
    if lines.count > limit {
      // A card that is taller than the screen keeps its lower edge.
      lines = lines.prefix(max(0, limit - 1)) + lines.suffix(1)
    }
    return Array((lines + more).prefix(rows))
  }
}
