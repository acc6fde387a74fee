/// Finds what a person meant when they misspelt a key.
public enum Suggestion {
  /// The nearest of some words, when it is near enough to be meant. Looked for among ``Limits/suggestedWords``.
  public static func nearest(to word: String, among words: some Sequence<String>) -> String? {
    guard word.utf8.count <= Limits.suggestedCharacters else { return nil }
    let limit = max(2, word.count / 3)
    let near = words.prefix(Limits.suggestedWords).map { known in
      // A word cut short, such as "relevance", is as near as a single slip.
      let isCut = word.count >= 4 && known.lowercased().hasPrefix(word.lowercased())
      // So much longer or shorter it can't be near.
      guard isCut || abs(known.count - word.count) <= limit else { return (word: known, distance: Int.max) }
      return (word: known, distance: isCut ? 1 : distance(word.lowercased(), known.lowercased()))
    }
    .filter { $0.distance <= limit }
    return near.min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
  }

  /// `; did you mean "x"?`, or nothing.
  public static func phrase(for word: String, among words: some Sequence<String>) -> String {
    nearest(to: word, among: words).map { "; did you mean \"\($0)\"?" } ?? ""
  }

  /// The number of single-character edits between two words (Levenshtein).
  static func distance(_ a: String, _ b: String) -> Int {
    let a = Array(a)
    let b = Array(b)
    var row = Array(0...b.count)
    for (i, left) in a.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for (j, right) in b.enumerated() {
        let above = row[j + 1]
        row[j + 1] = left == right ? diagonal : 1 + min(diagonal, above, row[j])
        diagonal = above
      }
    }
    return row[b.count]
  }
}
