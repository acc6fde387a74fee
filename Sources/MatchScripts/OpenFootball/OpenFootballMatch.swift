/// A match of an ``OpenFootballFeed``, as the file tells it.
public struct OpenFootballMatch: Sendable {
  /// One of the two teams, in the order of the file: the home team comes first.
  public enum Side: Sendable, CaseIterable {
    case team1
    case team2
  }

  /// A team.
  public struct Team: Sendable, Hashable {
    /// The name, such as "Argentina".
    public let name: String
    /// The short code, such as "ARG", where the file has one.
    public let code: String?
  }

  /// Goals of both teams.
  public struct Tally: Sendable, Hashable {
    /// Goals of the first team.
    public internal(set) var team1 = 0
    /// Goals of the second team.
    public internal(set) var team2 = 0

    /// Goals of a team.
    public internal(set) subscript(side: Side) -> Int {
      get { side == .team1 ? team1 : team2 }
      set { if side == .team1 { team1 = newValue } else { team2 = newValue } }
    }
  }

  /// The official score at each whistle. Each counts from kick-off: after extra time, the goals of normal
  /// time too.
  public struct Score: Sendable, Hashable {
    /// At half-time.
    public let halfTime: Tally?
    /// After 90 minutes.
    public let fullTime: Tally?
    /// After 120 minutes; nil when there was no extra time.
    public let extraTime: Tally?
    /// Of the shoot-out alone; nil when there was none.
    public let shootout: Tally?

    /// The score that the match ended with, without the shoot-out; nil when the file has none.
    public var final: Tally? { extraTime ?? fullTime }
  }

  /// A goal.
  public struct Goal: Sendable, Hashable {
    /// The team whose score it raised. An own goal counts for the opponent of the player's team.
    ///
    /// openfootball lists an own goal under the team that gains: in the files of the World Cups of 2018 and
    /// 2022 the lengths of `goals1` and `goals2` are the official score in all 120 matches that have these
    /// lists, 14 of them with an own goal (Russia v Egypt 2018: Fathi of Egypt stands in Russia's `goals1`,
    /// and Russia won 3–1).
    public let side: Side
    /// The player; nil when the file doesn't say.
    public let scorer: String?
    /// The minute; nil when the file doesn't say.
    public let minute: OpenFootballMinute?
    /// Whether it came from a penalty kick in play.
    public let isPenalty: Bool
    /// Whether it is an own goal.
    public let isOwnGoal: Bool
    /// The line of the file, from 1.
    public let line: Int
  }

  /// The competition: the name of the file's feed.
  public let competition: String
  /// The team that is named first.
  public let team1: Team
  /// The team that is named second.
  public let team2: Team
  /// The day as it is written, such as "2022-12-18".
  public let date: String?
  /// The round, such as "Final" or "Matchday 3".
  public let round: String?
  /// The group, such as "Group C".
  public let group: String?
  /// The ground, such as "Lusail Stadium, Lusail".
  public let ground: String?
  /// What the file says instead of a score, such as "canceled".
  public let status: String?
  /// The official score.
  public let score: Score
  /// The goals of both teams, in the order of the file.
  public let goals: [Goal]
  /// The line of the file on which the match starts, from 1.
  public let line: Int

  /// A team by its side.
  public subscript(side: Side) -> Team { side == .team1 ? team1 : team2 }

  /// Teams, stage and day: "Argentina v France, Final, 2022-12-18".
  public var title: String {
    (["\(team1.name) v \(team2.name)", stage, date] as [String?]).compactMap { $0 }.joined(separator: ", ")
  }

  /// Group and round, as far as there are: "Group C, Matchday 3", "Final".
  var stage: String? {
    let parts = [group, round].compactMap { $0 }
    return parts.isEmpty ? nil : parts.joined(separator: ", ")
  }

  /// The teams with a score between them: "Argentina 1–0 France".
  func line(_ tally: Tally) -> String { "\(team1.name) \(tally.team1)–\(tally.team2) \(team2.name)" }
}

extension OpenFootballMatch.Tally: CustomStringConvertible {
  /// Both numbers: "2–1".
  public var description: String { "\(team1)–\(team2)" }
}
