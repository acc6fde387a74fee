import BroadcastChannels
import Testing

@testable import MatchScripts

/// The final of 2022 as a script. Scores, scorers and minutes are the file's; the times are worked out by
/// hand from the timetable: kick-off at 60 s, a goal in the middle of its minute, 2 minutes of stoppage time,
/// 15 minutes of break.
@Suite struct OpenFootballFinal2022Tests {
  @Test func `goals are played in the order of minutes, not of the file`() throws {
    let goals = try openFootballScript(openFootballFinal2022).goals
    let shown = try goals.map { step in
      let state = try OpenFootballState(step)
      return "\(Int(step.at)) \(state.home)–\(state.away) \(state.clock) \(state.period)"
    }
    #expect(
      shown == [
        "1410 1–0 23' First half",  // 60 + 22.5 min
        "2190 2–0 36' First half",
        "5850 2–1 80' Second half",  // 60 + 47 min + 15 min = 3780, and 34.5 min
        "5910 2–2 81' Second half",
        "8190 3–2 108' Extra time, second half",  // 6600 + 5 min + 17 min + 2 min = 8040, and 2.5 min
        "8790 3–3 118' Extra time, second half",
      ])
    #expect(try goals[0].alertTexts == ["Goal! Argentina 1–0 France", "23' Lionel Messi (pen.)"])
    #expect(try goals[1].alertTexts == ["Goal! Argentina 2–0 France", "36' Ángel Di María"])
    #expect(goals.allSatisfy { $0.priority == .immediate && $0.relevanceScore == "100" && $0.staleIn == 420 })
  }

  @Test func `every whistle has its step`() throws {
    let script = try openFootballScript(openFootballFinal2022)
    let whistles = try script.steps.filter { $0.priority == .immediate }
      .map { "\(Int($0.at)) \(try OpenFootballState($0).clock) \(try OpenFootballState($0).period)" }
      .filter { !$0.hasSuffix("half") || $0.contains(" 0' ") || $0.contains(" 45' ") || $0.contains(" 90' ") }
    #expect(
      whistles == [
        "0 0' Line-ups in", "60 0' First half", "2880 HT Half-time", "3780 45' Second half",
        "6600 FT Full time", "6900 90' Extra time, first half", "7920 105' Extra time, half-time",
        "9060 AET After extra time", "9240 Pens Shoot-out", "9600 Pens Shoot-out",
        "9660 Pens After penalties",
      ])
    #expect(try script.step("105'", "Extra time, second half").at == 8040)
    #expect(script.steps.count == 42)  // 24 ticks, 6 goals, 12 others
  }

  @Test func `a tick every five minutes costs no budget`() throws {
    let ticks = try openFootballScript(openFootballFinal2022).steps.filter { $0.priority == .considerate }
    #expect(ticks.count == 24)  // 9 a half, 3 a half of extra time
    #expect(ticks.map(\.at).prefix(3) == [360, 660, 960])
    #expect(ticks.allSatisfy { $0.staleIn == 420 && $0.alert == nil && $0.relevanceScore == "50" })
  }

  @Test func `the shoot-out is its result, and the end is the official score`() throws {
    let script = try openFootballScript(openFootballFinal2022)
    let result = script.steps[script.steps.count - 2]
    #expect(try result.alertTexts == ["Shoot-out 4–2", "Argentina win 4–2 on penalties"])
    let end = try #require(script.steps.last)
    #expect(end.event == .end && end.dismissIn == 900)
    var expected = OpenFootballState(3, 3, "Pens", "After penalties")
    expected.shootout = "Argentina win 4–2 on penalties"
    expected.scorers = [
      "ARG 23' Lionel Messi (pen.)", "ARG 36' Ángel Di María", "FRA 80' Kylian Mbappé (pen.)",
      "FRA 81' Kylian Mbappé", "ARG 108' Lionel Messi", "FRA 118' Kylian Mbappé (pen.)",
    ]
    #expect(try OpenFootballState(end) == expected)
    #expect(try OpenFootballState(script.steps[script.steps.count - 3]).shootout == nil)
  }

  @Test func `half-time outlives its break`() throws {
    let halfTime = try openFootballScript(openFootballFinal2022).step("HT", "Half-time")
    #expect(try halfTime.alertTexts == ["Half-time", "Argentina 2–0 France"])
    #expect(halfTime.staleIn == 1020)  // 15 minutes and two
  }

  @Test func `the channel has attributes and all eleven places`() throws {
    guard case .defined(let channel) = try openFootballScript(openFootballFinal2022).target else {
      Issue.record("no channel")
      return
    }
    #expect(
      channel.attributes?.string
        == #"{"competition":"World Cup 2022","home":"Argentina","away":"France","round":"Final","ground":"Lusail Stadium, Lusail"}"#
    )
    #expect(channel.presentations.count == 11 && Presentation.allCases.count == 11)
    #expect(channel.presentations[.compactLeading] == "ARG {home|number:2}")
    #expect(
      channel.contentState?.properties.map(\.type.swift) == [
        "Int", "Int", "String", "String", "[String]", "String?",
      ])
  }

  @Test func `a step knows the line of the file it came from`() throws {
    let script = try openFootballScript(openFootballFinal2022)
    #expect(try script.goals.map(\.line) == [6, 8, 10, 11, 7, 12])
    #expect(script.steps.first?.line == 3)
  }
}
