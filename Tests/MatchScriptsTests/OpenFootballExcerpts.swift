import BroadcastChannels
import Testing

@testable import MatchScripts

// Excerpts in the forms of openfootball's files, written for these tests.

/// One match in the form of a file of today, with the teams A and B unless the members name others.
func openFootballMatch(_ members: String, teams: String = #""team1": "Aland", "team2": "Borneo""#) -> String {
  "{\"name\": \"Cup\", \"matches\": [{\(teams), \(members)}]}"
}

/// The 2022 final: goals by team, and Argentina's third before the second, as the file has them.
let openFootballFinal2022 = """
  {"name": "World Cup 2022",
   "matches":
    [{"round": "Final", "date": "2022-12-18", "time": "18:00", "team1": "Argentina", "team2": "France",
      "score": {"p": [4, 2], "et": [3, 3], "ft": [2, 2], "ht": [2, 0]},
      "goals1":
       [{"name": "Lionel Messi", "minute": 23, "penalty": true},
        {"name": "Lionel Messi", "minute": 108},
        {"name": "Ángel Di María", "minute": 36}],
      "goals2":
       [{"name": "Kylian Mbappé", "minute": 80, "penalty": true},
        {"name": "Kylian Mbappé", "minute": 81},
        {"name": "Kylian Mbappé", "minute": 118, "penalty": true}],
      "ground": "Lusail Stadium, Lusail"}]}
  """

func openFootballFeed(_ text: String) throws -> OpenFootballFeed {
  try OpenFootballFeed(file: Array(text.utf8))
}

/// The script of a file's only match.
func openFootballScript(_ text: String) throws -> MatchScript {
  try openFootballFeed(text).match(named: "").script()
}

/// What a device would show after a step.
struct OpenFootballState: Equatable, CustomStringConvertible {
  let home: Int
  let away: Int
  let clock: String
  let period: String
  var scorers: [String] = []
  var shootout: String?

  init(_ home: Int, _ away: Int, _ clock: String, _ period: String) {
    self.home = home
    self.away = away
    self.clock = clock
    self.period = period
  }

  init(_ step: MatchScript.Step) throws {
    let state = try JSONDocument(#require(step.contentState).bytes).root
    home = Int(try #require(state["home"]?.number?.int))
    away = Int(try #require(state["away"]?.number?.int))
    clock = try #require(state["clock"]?.string)
    period = try #require(state["period"]?.string)
    scorers = try #require(state["scorers"]?.elements).compactMap(\.string)
    shootout = state["shootout"]?.string
  }

  var description: String { "\(home)–\(away) \(clock) \(period) \(scorers) \(shootout ?? "")" }
}

extension MatchScript.Step {
  /// Title and body of the alert.
  var alertTexts: [String] {
    get throws {
      guard let alert else { return [] }
      let value = try JSONDocument(alert.bytes).root
      return [try #require(value["title"]?.string), try #require(value["body"]?.string)]
    }
  }
}

extension MatchScript {
  /// The steps that are goals.
  var goals: [Step] {
    get throws { try steps.filter { try $0.alertTexts.first?.hasPrefix("Goal!") == true } }
  }

  /// The step of a period's name and clock.
  func step(_ clock: String, _ period: String) throws -> Step {
    try #require(
      try steps.first {
        let state = try OpenFootballState($0)
        return state.clock == clock && state.period == period
      })
  }
}

/// Checks the rules that every script keeps.
func expectSound(_ script: MatchScript, of match: OpenFootballMatch) throws {
  guard case .defined(let channel) = script.target, let schema = channel.contentState else {
    Issue.record("\(match.title): no channel of its own")
    return
  }
  var last = OpenFootballState(0, 0, "", "")
  var at = -1.0
  for (index, step) in script.steps.enumerated() {
    let document = try JSONDocument(#require(step.contentState).bytes)
    let findings = schema.findings(for: document.root, key: "content-state", in: document)
    #expect(findings.isEmpty, "\(match.title): \(findings)")
    let state = try OpenFootballState(step)
    #expect(step.at > at, "\(match.title): \(state) is not later than the step before it")
    #expect(state.home >= last.home && state.away >= last.away, "\(match.title): \(last) then \(state)")
    #expect(state.scorers.starts(with: last.scorers), "\(match.title): \(last) then \(state)")
    #expect((step.event == .end) == (step.at == script.duration), "\(match.title)")
    if let stale = step.staleIn {
      #expect(stale > script.steps[index + 1].at - step.at, "\(match.title): stale in play after \(state)")
    }
    last = state
    at = step.at
  }
  let final = try #require(match.score.final)
  #expect([last.home, last.away] == [final.team1, final.team2], "\(match.title)")
  #expect(script.duration < Limits.activityLifetimeSeconds)
  // The channel's definition survives its own file form, which also checks the names of the places.
  let read = try ChannelDefinition(file: Array(channel.json.utf8), alias: channel.alias)
  #expect(read == channel && channel.presentations.count == 11)
}
