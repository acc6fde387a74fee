import BroadcastChannels

/// Why a match of an ``OpenFootballFeed`` can't be found or played.
public enum OpenFootballError: Error, Sendable, Hashable {
  /// What in a match contradicts itself.
  public enum Contradiction: Sendable, Hashable {
    /// A later score is lower than an earlier one.
    case scoreFalls(earlier: String, later: String)
    /// More goals are listed than the score has.
    case tooManyGoals(team: String, listed: Int, official: Int)
    /// A shoot-out ended level.
    case levelShootout(String)
  }

  /// No match has all words of the query. `suggestions` are names that are near its words, `near` the titles
  /// of matches that have some of them.
  case unknownMatch(query: String, suggestions: [String], near: [String])
  /// Several matches have all words of the query: their titles.
  case ambiguousMatch(query: String, titles: [String])
  /// There is no final score, so there is nothing to play. `status` is what the file says about it.
  case notPlayed(title: String, status: String?, line: Int)
  /// The match's numbers can't all be true.
  case contradiction(title: String, Contradiction, line: Int)
  /// A message of the script would be refused, because names are that long.
  case tooLarge(title: String, bytes: Int, limit: Int, line: Int)
}

extension OpenFootballError: CustomStringConvertible {
  /// Titles that a message lists before it counts.
  private static let listed = 10

  /// What is wrong, and what to do about it.
  public var description: String {
    switch self {
    case .unknownMatch(let query, let suggestions, let near):
      if !suggestions.isEmpty {
        "no match is named \"\(query)\"; did you mean "
          + suggestions.map { "\"\($0)\"" }.joined(separator: " or ") + "?"
      } else if !near.isEmpty {
        "no match has all the words of \"\(query)\"; nearest:" + Self.list(near)
      } else {
        "no match is named \"\(query)\"; give both teams, such as \"Argentina France\", or a date or round"
      }
    case .ambiguousMatch(let query, let titles):
      "\"\(query)\" names \(titles.count) matches; add a date or a round:" + Self.list(titles)
    case .notPlayed(let title, let status, let line):
      "line \(line): \(title) has no final score"
        + (status.map { " (status: \($0))" } ?? "; it was not played when the file was written")
        + "; choose a played match, or get a newer file"
    case .contradiction(let title, let contradiction, let line):
      "line \(line): \(title): \(contradiction); correct the file"
    case .tooLarge(let title, let bytes, let limit, let line):
      "line \(line): \(title): a message has \(bytes) bytes, \(limit) are allowed;"
        + " shorten the names in the file"
    }
  }

  private static func list(_ titles: [String]) -> String {
    let more = titles.count - listed
    return titles.prefix(listed).map { "\n  \($0)" }.joined() + (more > 0 ? "\n  and \(more) more" : "")
  }
}

extension OpenFootballError.Contradiction: CustomStringConvertible {
  /// The contradiction in words.
  public var description: String {
    switch self {
    case .scoreFalls(let earlier, let later): "the score falls from \(earlier) to \(later)"
    case .tooManyGoals(let team, let listed, let official):
      "\(listed) goals are listed for \(team), the score says \(official)"
    case .levelShootout(let score): "the shoot-out ended \(score), which no shoot-out does"
    }
  }
}
