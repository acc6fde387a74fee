import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: the documentation of `PresentationTemplate`, and facts/live-activity.md ("`nil` is honest", "Time draws
/// itself", "sensitive content hidden while locked").
@Suite struct PresentationTemplateTests {
  static let state = #"""
    {"home":3,"away":0,"clock":"81'","none":null,"empty":"","list":["Messi 23'","Di María 36'"],"nothing":[],
     "on":true,"off":false,"big":1234567,"negative":-12345,"part":36.2,"whole":5.0,"score":{"home":2,"away":1},
     "past":699999755,"future":700003729}
    """#
  static let attributes = #"{"home":"Argentina","venue":{"city":"Lusail"},"empty":""}"#

  /// 700,000,000 seconds after 2001-01-01: the reference of Swift's default strategy for a `Date` in a content state.
  static let now = Date(timeIntervalSinceReferenceDate: 700_000_000)

  static func render(_ template: String, state: String? = Self.state, hidden: Set<String> = []) throws
    -> String
  {
    let context = PresentationContext(
      state: state.map { JSONText(compacting: $0.utf8) }, attributes: JSONText(compacting: attributes.utf8),
      hidden: hidden, now: now)
    return try PresentationTemplate(template).render(in: context)
  }

  /// Reading and rendering recurse, and a definition may come from any server.
  @Test func `conditions stand sixteen levels deep inside each other at most`() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "{?on}", count: depth) + "x" + String(repeating: "{/}", count: depth)
    }
    #expect(try Self.render(nested(16)) == "x")
    for depth in [17, 20_000] {
      #expect(throws: PresentationTemplate.Problem.self) { try PresentationTemplate(nested(depth)) }
    }
    // Side by side there may be as many as one likes.
    #expect(try Self.render(String(repeating: nested(1), count: 100)).count == 100)
  }

  // MARK: Formats

  @Test(arguments: [
    ("{home}–{away}", "3–0"), ("{clock|plain}", "81'"), ("{list}", "Messi 23', Di María 36'"),
    ("{on} {off}", "yes no"), ("{part}", "36.2"), ("{score.home}:{score.away}", "2:1"),
    ("{score}", "home 2, away 1"), ("{attributes.home}", "Argentina"), ("{attributes.venue.city}", "Lusail"),
    ("no place", "no place"), ("", ""),
  ])
  func `a value is written plainly`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  /// U+202F is the narrow space between groups of three, U+2007 is as wide as a digit.
  @Test(arguments: [
    ("{home|number}", "3"), ("{big|number}", "1\u{202F}234\u{202F}567"),
    ("{negative|number}", "-12\u{202F}345"), ("{part|number}", "36.2"),
    ("{whole|number:4}", "\u{2007}\u{2007}\u{2007}5"),
    ("{home|number:1}", "3"), ("{home|number:3}", "\u{2007}\u{2007}3"),
    ("{part|number:6}", "\u{2007}\u{2007}36.2"),
    ("{big|number:2}", "1\u{202F}234\u{202F}567"), ("{clock|number:5}", "\u{2007}\u{2007}81'"),
  ])
  func `a number is grouped and padded to its width`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  @Test func `a padded figure keeps its width from 0 to 99`() throws {
    let widths = try Set(
      (0...99).map { number in
        DisplayWidth.of(try Self.render("{n|number:2}", state: "{\"n\":\(number)}"))
      })
    #expect(widths == [2])
  }

  /// Seconds from now; a countdown rounds up, so that it reaches 0:00 at its end and not a second before.
  @Test(arguments: [
    (0, "0:00"), (0.4, "0:01"), (59, "0:59"), (60, "1:00"), (245, "4:05"), (3_729, "1:02:09"),
    (-0.4, "0:00"), (-1, "0:01"), (-245, "4:05"), (-36_000, "10:00:00"), (360_000, "99:59:59"),
    (-1e12, "99:59:59"),
  ])
  func `a timer counts down to a date and up from it`(seconds: Double, text: String) throws {
    let date = Self.now.timeIntervalSinceReferenceDate + seconds
    #expect(try Self.render("{d|timer}", state: "{\"d\":\(date)}") == text)
  }

  @Test(arguments: [
    (0, "now"), (0.9, "now"), (-0.9, "now"), (1, "in 1 s"), (-59.9, "59 s ago"), (-60, "1 min ago"),
    (-245, "4 min ago"), (3_599, "in 59 min"), (7_200, "in 2 h"), (-86_399, "23 h ago"), (-86_400, "1 d ago"),
    (31_536_000, "in 365 d"),
  ])
  func `a relative time says how long ago it was or will be`(seconds: Double, text: String) throws {
    let date = Self.now.timeIntervalSinceReferenceDate + seconds
    #expect(try Self.render("{d|relative}", state: "{\"d\":\(date)}") == text)
  }

  @Test func `a timer and a relative time tick without a new state`() throws {
    let template = try PresentationTemplate("{past|timer} {future|relative}")
    var context = PresentationContext(
      state: JSONText(compacting: Self.state.utf8), attributes: nil, now: Self.now)
    #expect(template.render(in: context) == "4:05 in 1 h")
    context.now += 200
    #expect(template.render(in: context) == "7:25 in 58 min")
  }

  @Test(arguments: ["{clock|timer}", "{clock|relative}", "{clock|number}"])
  func `what a format can't write is written plainly`(template: String) throws {
    #expect(try Self.render(template) == "81'")
  }

  // MARK: Missing values

  @Test(arguments: [
    ("{clock} {none}", "81' "), ("{clock} {missing}", "81' "), ("{missing}", ""), ("{none|timer}", ""),
    ("{score.missing}{home}", "3"), ("{home.part}{away}", "0"), ("{attributes.missing}{home}", "3"),
  ])
  func `a missing or null value leaves its place empty`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  @Test(arguments: [
    ("{home}\n{none}\n{away}", "3\n0"), ("a\n{missing} · {none}\nb", "a\nb"), ("a\n\nb", "a\n\nb"),
    ("{empty}\n{nothing}\n{home}", "3"), ("{clock}\n{?none}shoot-out {none}{/}", "81'"),
    ("{clock}\n{?home}fixed{/}", "81'\nfixed"), ("{clock}\n{?none}x{:}no shoot-out{/}", "81'\nno shoot-out"),
    ("{none}", ""),
  ])
  func `a line that has places and no value is left out`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  @Test func `without a state there are no values`() throws {
    #expect(try Self.render("{home}\n{attributes.home}", state: nil) == "Argentina")
  }

  // MARK: Conditions

  @Test(arguments: [
    ("{?home}yes{:}no{/}", "yes"), ("{?away}0 is there{:}no{/}", "0 is there"), ("{?none}yes{:}no{/}", "no"),
    ("{clock}{?missing}yes{/}.", "81'."), ("{?empty}yes{:}no{/}", "no"), ("{?nothing}yes{:}no{/}", "no"),
    ("{?on}yes{:}no{/}", "yes"), ("{?off}yes{:}no{/}", "no"), ("{?list}yes{:}no{/}", "yes"),
    ("{?score.home}yes{:}no{/}", "yes"), ("{?attributes.home}yes{:}no{/}", "yes"),
    ("{?attributes.empty}yes{:}no{/}", "no"), ("{clock}{?none} · {none}{/}", "81'"),
    ("{clock}{?home} · {home|number:2}{/}!", "81' · \u{2007}3!"),
  ])
  func `a condition shows its first part when the value is there`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  @Test(arguments: [
    ("{?home}{?off}a{:}b{/}{:}c{/}", "b"), ("{?none}a{:}{?home}b{:}c{/}{/}", "b"),
    ("{?home}{?away}{?on}deep{/}{/}{/}", "deep"), ("{?home}1{/}{?away}2{/}", "12"),
    ("{?home}a{?none}b{/}c{/}", "ac"), ("{?home}{none}{:}x{/}{away}", "0"),
  ])
  func `conditions nest and follow each other`(template: String, text: String) throws {
    #expect(try Self.render(template) == text)
  }

  // MARK: Hidden values

  @Test(arguments: [
    ("{clock} {home}", "••• 3"), ("{clock|timer}", "•••"), ("{none}", ""), ("{score.home}", "•••"),
    ("{?clock} · {clock}{/}", " · •••"), ("{?none}x{:}y{/}", "y"), ("{attributes.home}", "Argentina"),
  ])
  func `a hidden value is masked, whatever its length`(template: String, text: String) throws {
    #expect(try Self.render(template, hidden: ["clock", "none", "score"]) == text)
  }

  @Test(arguments: ["on", "off"])
  func `a condition doesn't tell a hidden yes from a hidden no`(name: String) throws {
    #expect(try Self.render("{?\(name)}muted{:}loud{/}", hidden: ["on", "off"]) == "•••")
  }

  // MARK: Errors

  @Test(arguments: [
    ("{home", "has no \"}\""), ("3–{", "has no \"}\""), ("home}", "the \"}\" after \"home\" has no \"{\""),
    ("{home}} x", "has no \"{\""), ("{home{away}", "{home{away} is no property's name"),
    ("{}", "{} is no property's name"), ("{?}x{/}", "{} is no property's name"),
    ("{a b}", "{a b} is no property's name"), ("{.home}", "no property's name"),
    ("{home.}", "no property's name"),
    ("{a..b}", "no property's name"), ("{home|}", "\"\" is no format"),
    ("{home|Number}", "\"Number\" is no format"),
    ("{home|number:0}", "is no format"), ("{home|number:21}", "is no format"),
    ("{home|number:x}", "is no format"),
    ("{?home}x", "has no end; {/} was expected on the same line"),
    ("{?home}x{:}y", "has no end; {/} was expected on the same line"),
    ("{?home}x\n{/}", "has no end; {/} was expected on the same line"),
    ("{?home}x{:}y{:}z{/}", "has no end"), ("{:}", "{:} stands outside of a condition"),
    ("{home}{/}", "{/} stands outside of a condition"), ("{?home}{nope|x}{/}", "\"x\" is no format"),
  ])
  func `a broken template says what was expected`(template: String, message: String) {
    let problem = #expect(throws: PresentationTemplate.Problem.self) { try PresentationTemplate(template) }
    #expect(problem?.description.contains(message) == true, "\(problem?.description ?? "")")
  }

  @Test func `the names are those of places and conditions`() throws {
    let template = try PresentationTemplate("{a|number:2}{?b.c}{d}{:}{attributes.e}{/}\n{a}")
    #expect(template.names == ["a", "b.c", "d", "attributes.e"])
  }
}
