import Testing

@testable import MatchScripts

/// Finding a match by what a person remembers of it.
@Suite struct OpenFootballSearchTests {
  private func cup() throws -> OpenFootballFeed {
    try openFootballFeed(
      #"""
      {"name": "Cup", "matches": [
        {"round": "Matchday 1", "group": "Group C", "date": "2022-11-22", "team1": "Argentina", "team2": "Saudi Arabia"},
        {"round": "Matchday 1", "group": "Group D", "date": "2022-11-22", "team1": "France", "team2": "Australia"},
        {"round": "Matchday 2", "group": "Group H", "date": "2022-11-28", "team1": "South Korea", "team2": "Ghana"},
        {"round": "Quarter-final", "date": "2022-12-10", "team1": "Côte d'Ivoire", "team2": "France"},
        {"round": "Third place", "date": "2022-12-17", "team1": {"name": "Croatia", "code": "CRO"}, "team2": "Argentina"},
        {"round": "Final", "date": "2022-12-18", "team1": "Argentina", "team2": "France"}]}
      """#)
  }

  @Test(arguments: [
    "Argentina France", "france ARGENTINA", "Argentina v France", "argentina-france", "Final", "2022-12-18",
    "Argentina Final", "Argentina v France, Final, 2022-12-18",
  ])
  func `any words that only one match has find it`(query: String) throws {
    #expect(try cup().match(named: query).title == "Argentina v France, Final, 2022-12-18")
  }

  @Test(arguments: [
    ("cote d'ivoire", "Côte d'Ivoire v France, Quarter-final, 2022-12-10"),
    ("CÔTE", "Côte d'Ivoire v France, Quarter-final, 2022-12-10"),
    ("quarter-final", "Côte d'Ivoire v France, Quarter-final, 2022-12-10"),
    ("cro", "Croatia v Argentina, Third place, 2022-12-17"),
    ("group h", "South Korea v Ghana, Group H, Matchday 2, 2022-11-28"),
    ("france 2022-11", "France v Australia, Group D, Matchday 1, 2022-11-22"),
  ])
  func `accents, codes, groups and months`(query: String, title: String) throws {
    #expect(try cup().match(named: query).title == title)
  }

  @Test func `several matches are listed with what tells them apart`() throws {
    let error = #expect(throws: OpenFootballError.self) { try cup().match(named: "Argentina") }
    #expect(
      error?.description == """
        "Argentina" names 3 matches; add a date or a round:
          Argentina v Saudi Arabia, Group C, Matchday 1, 2022-11-22
          Croatia v Argentina, Third place, 2022-12-17
          Argentina v France, Final, 2022-12-18
        """)
  }

  @Test func `a misspelt team is suggested by its whole name`() throws {
    let error = #expect(throws: OpenFootballError.self) { try cup().match(named: "Sauid Frence") }
    #expect(
      error?.description == #"no match is named "Sauid Frence"; did you mean "Saudi Arabia" or "France"?"#)
  }

  @Test func `teams that never met are named with the matches they had`() throws {
    let error = #expect(throws: OpenFootballError.self) { try cup().match(named: "Ghana Croatia") }
    #expect(
      error
        == .unknownMatch(
          query: "Ghana Croatia", suggestions: [],
          near: [
            "South Korea v Ghana, Group H, Matchday 2, 2022-11-28",
            "Croatia v Argentina, Third place, 2022-12-17",
          ]))
  }

  @Test func `a query far from everything says what to write`() throws {
    let error = #expect(throws: OpenFootballError.self) { try cup().match(named: "basketball") }
    #expect(error?.description.contains("give both teams") == true)
  }

  @Test func `a long list is counted`() throws {
    let matches = (1...12).map { #"{"team1": "A", "team2": "B\#($0)"}"# }.joined(separator: ",")
    let error = #expect(throws: OpenFootballError.self) {
      try openFootballFeed("{\"name\": \"Cup\", \"matches\": [\(matches)]}").match(named: "a")
    }
    #expect(error?.description.hasSuffix("A v B10\n  and 2 more") == true)
  }
}
