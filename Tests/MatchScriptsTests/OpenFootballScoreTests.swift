import BroadcastChannels
import Testing

@testable import MatchScripts

/// What is played when goals and scores don't tell the same.
@Suite struct OpenFootballScoreTests {
  @Test func `goals that aren't listed are added at the whistles`() throws {
    let script = try openFootballScript(openFootballMatch(#""score": {"ft": [3, 1], "ht": [1, 0]}"#))
    let halfTime = try script.step("HT", "Half-time")
    #expect(try OpenFootballState(halfTime) == OpenFootballState(1, 0, "HT", "Half-time"))
    #expect(try halfTime.alertTexts[1] == "Aland 1–0 Borneo (the minute of 1 goal is not known)")
    #expect(halfTime.relevanceScore == "100")
    let end = try #require(script.steps.last)
    #expect(try OpenFootballState(end) == OpenFootballState(3, 1, "FT", "Full time"))
    #expect(try end.alertTexts[1] == "Aland 3–1 Borneo (the minutes of 3 goals are not known)")
  }

  @Test func `extra time and shoot-out are added too`() throws {
    let script = try openFootballScript(
      openFootballMatch(#""score": {"p": [3, 5], "et": [2, 2], "ft": [1, 1]}"#))
    #expect(
      try OpenFootballState(script.step("FT", "Full time")) == OpenFootballState(1, 1, "FT", "Full time"))
    #expect(try OpenFootballState(script.step("AET", "After extra time")).home == 2)
    #expect(try OpenFootballState(#require(script.steps.last)).shootout == "Borneo win 5–3 on penalties")
  }

  @Test func `listed goals are played and only the rest is added`() throws {
    let script = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [2, 1], "ht": [1, 0]}, "goals1": [{"name": "A", "minute": 60}], "goals2": [{"name": "B"}]"#
      ))
    let goal = try #require(try script.goals.first)
    #expect(try goal.alertTexts == ["Goal! Aland 2–0 Borneo", "60' A"])
    #expect(try OpenFootballState(#require(script.steps.last)).away == 1)
  }

  /// Japan v Spain 2022: the file says 0–0 at half-time and lists Spain's goal in the 11th minute.
  @Test func `minutes are believed before the half-time score`() throws {
    let script = try openFootballScript(
      openFootballMatch(
        #""score": {"ft": [2, 1], "ht": [0, 0]}, "goals1": [{"name": "A", "minute": 48}, {"name": "B", "minute": 51}], "#
          + #""goals2": [{"name": "C", "minute": 11}]"#))
    #expect(try OpenFootballState(script.step("HT", "Half-time")).away == 1)
    #expect(try script.goals.map { try $0.alertTexts[0] }.last == "Goal! Aland 2–1 Borneo")
  }

  @Test func `a half-time score that the minutes deny adds nothing twice`() throws {
    let script = try openFootballScript(
      openFootballMatch(#""score": {"ft": [0, 1], "ht": [0, 1]}, "goals2": [{"name": "A", "minute": 59}]"#))
    #expect(try OpenFootballState(script.step("HT", "Half-time")).away == 0)
    #expect(try script.goals.map { try $0.alertTexts[0] } == ["Goal! Aland 0–1 Borneo"])
  }

  @Test func `a score after extra time is enough`() throws {
    let script = try openFootballScript(openFootballMatch(#""score": {"p": [3, 1], "et": [1, 1]}"#))
    let end = try OpenFootballState(#require(script.steps.last))
    #expect(end.home == 1 && end.away == 1 && end.shootout == "Aland win 3–1 on penalties")
  }

  @Test(arguments: [
    #""date": "2026-06-11""#, #""score": null"#, #""score": {}"#, #""score": {"ht": [1, 0]}"#,
    #""score1": null, "score2": null"#, #""score": {"ft": [null, null]}"#,
  ])
  func `a match without a final score can't be played`(members: String) throws {
    let match = try openFootballFeed(openFootballMatch(members)).match(named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    #expect(error == .notPlayed(title: match.title, status: nil, line: 1))
    #expect(error?.description.contains("has no final score; it was not played") == true)
  }

  @Test func `the file's reason is passed on`() throws {
    let match = try openFootballFeed(openFootballMatch(#""score": null, "status": "walkover""#)).match(
      named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    #expect(error?.description.contains("(status: walkover)") == true)
  }

  /// Ukraine v England 2021: the file lists England's four goals for Ukraine.
  @Test func `more goals than the score has are a contradiction`() throws {
    let match = try openFootballFeed(
      openFootballMatch(
        #""score": {"ft": [0, 2]}, "goals1": [{"name": "A", "minute": 4}, {"name": "B", "minute": 50}]"#)
    ).match(named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    #expect(
      error
        == .contradiction(
          title: "Aland v Borneo", .tooManyGoals(team: "Aland", listed: 2, official: 0), line: 1))
  }

  @Test func `a score can't fall`() throws {
    let match = try openFootballFeed(openFootballMatch(#""score": {"ht": [2, 0], "ft": [1, 1]}"#)).match(
      named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    #expect(error == .contradiction(title: match.title, .scoreFalls(earlier: "2–0", later: "1–1"), line: 1))
  }

  @Test func `a shoot-out can't end level`() throws {
    let match = try openFootballFeed(
      openFootballMatch(#""score": {"ft": [1, 1], "et": [1, 1], "p": [4, 4]}"#)
    ).match(named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    #expect(error == .contradiction(title: match.title, .levelShootout("4–4"), line: 1))
  }

  @Test func `names that no message holds are refused`() throws {
    let name = String(repeating: "n", count: 5_000)
    let match = try openFootballFeed(
      openFootballMatch(#""score": {"ft": [1, 0]}, "goals1": [{"name": "\#(name)", "minute": 4}]"#)
    ).match(named: "")
    let error = #expect(throws: OpenFootballError.self) { try match.script() }
    guard case .tooLarge(_, let bytes, let limit, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(bytes > limit && limit == 4_096)
  }

  /// The sweep: every combination of a score's parts and of listed goals plays soundly.
  @Test func `every played match ends as it ended`() throws {
    let scores = [
      #"{"ft": [0, 0]}"#, #"{"ft": [3, 2], "ht": [0, 0]}"#, #"{"ft": [3, 2], "ht": [3, 2]}"#,
      #"{"ft": [2, 2], "et": [3, 2]}"#, #"{"ft": [2, 2], "ht": [1, 1], "et": [3, 3], "p": [1, 3]}"#,
      #"{"ft": [31, 2]}"#, #"{"et": [4, 3]}"#, #"{"ft": [2, 2], "p": [5, 4]}"#,
    ]
    let goals1 = [
      "3", "45", "\"45+9\"", "46", "90", "\"90+17\"", "93", "105", "\"105+3\"", "106", "\"120+4\"", "121",
    ]
    var played = 0
    for score in scores {
      for first in goals1 {
        for second in goals1 {
          let text = openFootballMatch(
            #""score": \#(score), "goals1": [{"name": "A", "minute": \#(first)}, {"name": "B", "minute": \#(second)}], "#
              + #""goals2": [{"name": "C", "minute": \#(second)}]"#)
          let match = try openFootballFeed(text).match(named: "")
          guard match.score.final?.team1 != 0 else { continue }
          try expectSound(try match.script(), of: match)
          played += 1
        }
      }
      let match = try openFootballFeed(openFootballMatch(#""score": \#(score)"#)).match(named: "")
      try expectSound(try match.script(), of: match)
    }
    #expect(played == 7 * 12 * 12)
    let final = try openFootballFeed(openFootballFinal2022).match(named: "Argentina France")
    try expectSound(try final.script(), of: final)
  }
}
