import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts
import Testing

@testable import Rehearsal

/// The channel that a match of an openfootball file is played into is as good as the shipped ones.
@Suite struct OpenFootballChannelTests {
  static func script(_ match: String) throws -> MatchScript {
    let text = "{\"name\":\"World Cup 2022\",\"matches\":[{\(match)}]}"
    return try OpenFootballFeed(file: Array(text.utf8)).match(named: "2022").script()
  }

  static func final(_ home: String, _ away: String, score: String, more: String = "") -> String {
    #""date":"2022-12-18","team1":"\#(home)","team2":"\#(away)","score":\#(score)\#(more)"#
  }

  static let shootout = #"{"ht":[2,0],"ft":[2,2],"et":[3,3],"p":[4,2]}"#

  @Test(arguments: [
    final(
      "Argentina", "France", score: shootout, more: #","round":"Final","ground":"Lusail Stadium, Lusail""#),
    final("Argentina", "France", score: #"{"ft":[1,0]}"#),
    // The first three letters are the same, so the island has no names.
    final("Manchester United", "Manchester City", score: #"{"ft":[10,9]}"#),
  ])
  func `check finds nothing`(match: String) throws {
    let script = try Self.script(match)
    guard case .defined(let definition) = script.target else {
      Issue.record("no channel")
      return
    }
    #expect(PresentationCheck.problems(definition).map { "\($0.key) \($0.message)" } == [])
    let misfits = ScriptCheck.findings(script, definition: definition, start: Date())
      .filter { !match.contains("Manchester") || $0.key.contains("compact") }
    #expect(misfits.map(\.description) == [])
  }

  /// U+2007 is as wide as a digit.
  @Test(arguments: [
    ("Argentina", "France", "ARG \u{2007}3", "\u{2007}3 FRA"),
    ("Manchester United", "Manchester City", "⚽ \u{2007}3", "\u{2007}3"),
  ])
  func `the compact island keeps its width`(home: String, away: String, leading: String, trailing: String)
    throws
  {
    let script = try Self.script(Self.final(home, away, score: Self.shootout))
    guard case .defined(let definition) = script.target, let last = script.steps.last else {
      Issue.record("no channel")
      return
    }
    let context = PresentationContext(
      state: last.contentState, attributes: definition.attributes, now: Rehearsal.standardStart)
    #expect(PresentationText.lines(.compactLeading, definition, context) == [leading])
    #expect(PresentationText.lines(.compactTrailing, definition, context) == [trailing])
    #expect(PresentationText.sentence(.compactTrailing, definition, context) == "\(away): 3")
    let banner = PresentationText.lines(.banner, definition, context)
    #expect(banner == ["\(home) 3–3 \(away) · Pens · \(home) win 4–2 on penalties"])
  }
}
