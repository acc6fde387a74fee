import BroadcastChannels
import Foundation

extension OpenFootballFeed {
  /// Finds a match by words of its teams, round, group and date.
  ///
  /// Case, accents and order don't matter: "france argentina", "Argentina v France 2022-12-18". A word is a
  /// whole word, so that "Final" is not also every "Quarter-final"; "Argentina-France" is two. A date may be
  /// its beginning, such as "2022-12".
  ///
  /// - Parameter query: the words, all of which must match.
  /// - Throws: ``OpenFootballError/unknownMatch(query:suggestions:near:)`` or
  ///   ``OpenFootballError/ambiguousMatch(query:titles:)``.
  public func match(named query: String) throws(OpenFootballError) -> OpenFootballMatch {
    let words = SearchWord.words(of: query)
    let index = matches.map { SearchEntry($0) }
    let counts = index.map { entry in words.count { entry.has($0) } }
    let found = matches.indices.filter { counts[$0] == words.count }
    if found.count == 1 { return matches[found[0]] }
    guard found.isEmpty else {
      throw .ambiguousMatch(query: query, titles: found.map { matches[$0].title })
    }
    let unknown = words.filter { word in !index.contains { $0.has(word) } }
      .flatMap(\.parts).filter { part in !index.contains { $0.names[part] != nil } }
    let most = counts.max() ?? 0
    throw .unknownMatch(
      query: query, suggestions: suggestions(for: unknown, in: index),
      near: most == 0 ? [] : matches.indices.filter { counts[$0] == most }.map { matches[$0].title })
  }

  /// The names nearest to misspelt words: a team's whole name, or a word of a round or group.
  private func suggestions(for words: [String], in index: [SearchEntry]) -> [String] {
    var names: [String: String] = [:]
    for entry in index { names.merge(entry.names) { known, _ in known } }
    var suggestions: [String] = []
    for word in words {
      guard let near = Suggestion.nearest(to: word, among: names.keys), let name = names[near],
        !suggestions.contains(name)
      else { continue }
      suggestions.append(name)
    }
    return suggestions
  }
}

/// A word of a query or a name, without case and accents.
private struct SearchWord {
  /// The letters and digits.
  let text: String
  /// The same, parted where something else stands between them: "guinea" and "bissau".
  let parts: [String]
  /// What may be a date or the beginning of one, such as "2022-12".
  let date: String?

  /// What people write between two teams.
  private static let separators: Set<String> = ["v", "vs", "versus"]

  /// The words of a text: what stands between spaces and commas.
  static func words(of text: String) -> [SearchWord] {
    let folded = text.folding(options: [.caseInsensitive, .diacriticInsensitive], locale: nil)
    return folded.split(whereSeparator: { $0.isWhitespace || $0 == "," }).compactMap { chunk in
      let parts = chunk.split(whereSeparator: { !$0.isLetter && !$0.isNumber }).map(String.init)
      let word = parts.joined()
      guard !word.isEmpty, !separators.contains(word) else { return nil }
      let isDate = parts[0].count == 4 && word.allSatisfy(\.isNumber)
      return SearchWord(text: word, parts: parts, date: isDate ? String(chunk) : nil)
    }
  }
}

/// What a match can be found by.
private struct SearchEntry {
  /// The words, each with the name to suggest for it.
  let names: [String: String]
  let date: String

  init(_ match: OpenFootballMatch) {
    var names: [String: String] = [:]
    // A hyphenated round is one word: "Final" means the final and not every quarter-final.
    for name in [match.round, match.group].compactMap({ $0 }) {
      for word in SearchWord.words(of: name) { names[word.text] = name }
    }
    for team in [match.team1, match.team2] {
      for word in SearchWord.words(of: team.name + " " + (team.code ?? "")) {
        for part in word.parts + [word.text] { names[part] = team.name }
      }
    }
    self.names = names
    date = match.date ?? ""
  }

  func has(_ word: SearchWord) -> Bool {
    if let start = word.date, date.hasPrefix(start) { return true }
    return names[word.text] != nil || word.parts.allSatisfy { names[$0] != nil }
  }
}
