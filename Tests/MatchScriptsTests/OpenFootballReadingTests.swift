import BroadcastChannels
import Testing

@testable import MatchScripts

/// The forms that openfootball's files have had.
@Suite struct OpenFootballReadingTests {
  @Test(arguments: [
    ("23", "23'"), ("23'", "23'"), ("45+2", "45+2'"), ("90'+3", "90+3'"), ("45+2'", "45+2'"),
    ("90’ + 3", "90+3'"), ("120+1", "120+1'"),
  ])
  func `a minute may be text`(text: String, shown: String) {
    #expect(OpenFootballMinute(text)?.description == shown)
  }

  @Test(arguments: ["", "x", "45+", "+2", "-3", "45+2+1", "151", "4 5x", "٤٥", "90+61"])
  func `what is no minute is refused`(text: String) {
    #expect(OpenFootballMinute(text) == nil)
  }

  @Test func `stoppage time belongs to the period it follows`() throws {
    let script = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [3, 1]}, "goals1": [{"name": "C", "minute": "90'+4"}, {"name": "A", "minute": "45+3"}, "#
          + #"{"name": "B", "minute": 46}], "goals2": [{"name": "D", "minute": 90, "offset": 1}]"#))
    let shown = try script.goals.map {
      "\(Int($0.at)) \(try OpenFootballState($0).clock) \(try OpenFootballState($0).period)"
    }
    #expect(
      shown == [
        "2910 45+3' First half",  // 60 + 47.5 min; the half ends at 48 min = 2940
        "3870 46' Second half",  // 2940 + 900 = 3840, and half a minute
        "6570 90+1' Second half", "6750 90+4' Second half",
      ])
    #expect(try script.step("HT", "Half-time").at == 2940)
    #expect(script.duration == 6780)  // 3840 + 49 min
  }

  @Test func `without extra time a minute beyond 90 is stoppage time`() throws {
    let goal = try #require(
      try openFootballScript(
        openFootballMatch(#""score": {"ft": [1, 0]}, "goals1": [{"name": "A", "minute": 93}]"#)
      ).goals.first)
    #expect(try OpenFootballState(goal).clock == "90+3'")
  }

  @Test func `with extra time a minute beyond 90 is extra time, and 105+1 its first half`() throws {
    let goals = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [0, 0], "et": [2, 1]}, "goals1": [{"name": "A", "minute": 93}, {"name": "B", "minute": 106}], "#
          + #""goals2": [{"name": "C", "minute": 105, "offset": 1}]"#)
    ).goals
    let shown = try goals.map { "\(try OpenFootballState($0).clock) \(try OpenFootballState($0).period)" }
    #expect(
      shown == [
        "93' Extra time, first half", "105+1' Extra time, first half", "106' Extra time, second half",
      ])
  }

  @Test func `goals of one minute share it and keep the file's order`() throws {
    let goals = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [2, 1]}, "goals1": [{"name": "A", "minute": 10}, {"name": "B", "minute": 10}], "#
          + #""goals2": [{"name": "C", "minute": 10}]"#)
    ).goals
    #expect(goals.map(\.at) == [615, 630, 645])  // quarters of the minute from 600 s
    #expect(try goals.map { try $0.alertTexts[1] } == ["10' A", "10' B", "10' C"])
  }

  @Test func `an own goal counts for the team that it is listed under`() throws {
    let goal = try #require(
      try openFootballScript(
        openFootballMatch(
          #""score": {"ft": [1, 0]}, "goals1": [{"name": "X", "minute": 47, "owngoal": true}]"#)
      )
      .goals.first)
    #expect(try goal.alertTexts == ["Goal! Aland 1–0 Borneo", "47' X (o.g.)"])
    #expect(try OpenFootballState(goal).scorers == ["ALA 47' X (o.g.)"])
  }

  @Test func `rounds with team objects and the old score keys`() throws {
    let feed = try openFootballFeed(
      #"""
      {"name": "World Cup 2014", "rounds": [{"name": "Final", "matches": [
        {"num": 64, "date": "2014-07-13", "team1": {"name": "Germany", "code": "GER"},
         "team2": {"team": null, "name": "Argentina", "code": "ARG"}, "score1": 0, "score2": 0, "score1i": 0,
         "score2i": 0, "score1et": 1, "score2et": 0, "score1p": null, "score2p": null, "group": null,
         "goals1": [{"name": "Götze", "minute": 113, "score1": 1, "score2": 0, "penalty": false}], "goals2": [],
         "stadium": {"key": "maracana", "name": "Maracanã"}}]}]}
      """#)
    let match = try #require(feed.matches.first)
    #expect(match.title == "Germany v Argentina, Final, 2014-07-13")
    #expect(match.ground == "Maracanã")
    #expect(match.score.halfTime?.description == "0–0" && match.score.extraTime?.description == "1–0")
    #expect(match.score.shootout == nil)
    let end = try #require(try match.script().steps.last)
    #expect(try OpenFootballState(end).clock == "AET" && OpenFootballState(end).scorers == ["GER 113' Götze"])
    #expect(try end.alertTexts == ["After extra time", "Germany 1–0 Argentina"])
  }

  @Test func `a plain pair is the score at full time`() throws {
    let match = try openFootballFeed(openFootballMatch(#""score": [2, 1]"#)).match(named: "")
    #expect(match.score.fullTime?.description == "2–1" && match.score.halfTime == nil)
  }

  @Test func `one list of goals names the team of each`() throws {
    let goals = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [1, 2]}, "goals": [{"team": 2, "name": "A", "minute": 5}, "#
          + #"{"team": "Aland", "name": "B", "minute": 6}, {"team": "Borneo", "name": "C", "minute": 7}]"#)
    ).goals
    #expect(
      try goals.map { try $0.alertTexts[0] } == [
        "Goal! Aland 0–1 Borneo", "Goal! Aland 1–1 Borneo", "Goal! Aland 1–2 Borneo",
      ])
  }

  @Test func `teams without a code that start alike are shown by name`() throws {
    let text = openFootballMatch(
      #""score": {"ft": [1, 0]}, "goals1": [{"name": "A", "minute": 5}]"#,
      teams: #""team1": "Manchester City", "team2": "Manchester United""#)
    let script = try openFootballScript(text)
    #expect(try OpenFootballState(#require(script.steps.last)).scorers == ["Manchester City 5' A"])
    guard case .defined(let channel) = script.target else { return }
    #expect(channel.presentations[.small] == "{attributes.home} {home}–{away} {attributes.away}")
  }

  @Test func `everything unreadable is named with its line`() throws {
    let text = """
      {"name": "Cup", "matches": [
        {"team1": "A", "team2": 7, "score": {"ft": [1]}},
        {"team1": "A", "score": {"ft": [1, 0]},
         "goals1": [{"name": "X", "minute": "soon"}]},
        {"team1": "A", "team2": "B", "score1": 1, "goals": [{"name": "X", "minute": 3}]},
        {"team1": "A", "team2": "B", "goals2": [{"minute": 45, "offset": "x", "penalty": 1}]}]}
      """
    #expect {
      try openFootballFeed(text)
    } throws: { error in
      let lines = (error as? Findings)?.all.map { "\($0.position.line) \($0.key)" }
      return lines == [
        "2 score.ft", "3 team2", "5 score1", "5 goals.team", "6 goals2.offset", "6 goals2.penalty",
      ]
    }
  }

  @Test(arguments: [
    "[]", "{}", #"{"name": "Cup"}"#, #"{"name": "Cup", "matches": []}"#, "{",
    #"{"name": "Cup", "matches": 3}"#,
  ])
  func `a file without matches is refused`(text: String) {
    #expect(throws: Findings.self) { try openFootballFeed(text) }
  }
}
