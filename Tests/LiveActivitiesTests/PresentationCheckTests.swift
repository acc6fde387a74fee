import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md, "Presentations (all of them are mandatory)".
@Suite struct PresentationCheckTests {
  static let contentState =
    #"{"home":"Int","away":"Int?","clock":"String","ends":"Date?","score":{"home":"Int"},"by":"[String: Int]"}"#

  /// A definition that has every presentation and sentence, with some of them replaced; nil takes one away.
  static func definition(
    _ changed: [String: String?] = [:], accessibility: [String: String?] = [:]
  ) throws -> ChannelDefinition {
    var templates = Dictionary(uniqueKeysWithValues: Presentation.allCases.map { ($0.rawValue, "{clock}") })
    for (name, text) in changed { templates[name] = text }
    var sentences = Dictionary(
      uniqueKeysWithValues: ["compact-leading", "compact-trailing", "minimal", "small"].map {
        ($0, "{clock}")
      })
    for (name, text) in accessibility { sentences[name] = text }
    func object(_ members: [String: String]) -> String {
      let pairs = members.map { "\(JSONWriter.quoted($0)):\(JSONWriter.quoted($1))" }
      return "{\(pairs.joined(separator: ","))}"
    }
    let text = JSONWriter.object([
      "app": "\"com.example.scores\"", "attributes": #"{"team":"Argentina"}"#, "content-state": contentState,
      "presentations": object(templates), "accessibility": object(sentences),
    ])
    return try ChannelDefinition(file: Array(text.utf8), alias: nil)
  }

  static func problems(_ definition: ChannelDefinition) -> [String] {
    PresentationCheck.problems(definition).map {
      "\($0.isError ? "error" : "warning") \($0.key) \($0.message)"
    }
  }

  @Test func `a whole definition has no problem`() throws {
    #expect(try Self.problems(Self.definition()) == [])
  }

  @Test(arguments: Presentation.allCases)
  func `every presentation is mandatory`(presentation: Presentation) throws {
    let problems = try Self.problems(Self.definition([presentation.rawValue: nil]))
    #expect(
      problems.contains(
        "error presentations.\(presentation.rawValue) is missing; every presentation is mandatory"))
    #expect(problems.count == 1)
  }

  @Test(arguments: ["compact-leading", "compact-trailing", "minimal", "small"])
  func `a figure without a sentence is a warning`(name: String) throws {
    let problems = try Self.problems(Self.definition(accessibility: [name: nil]))
    #expect(problems.count == 1)
    #expect(problems.first?.hasPrefix("warning accessibility.\(name) is missing; VoiceOver needs") == true)
  }

  @Test func `a definition that shows nothing and declares nothing is not asked for presentations`() throws {
    let definition = try ChannelDefinition(file: Array(#"{"app":"com.example.scores"}"#.utf8), alias: nil)
    #expect(Self.problems(definition) == [])
  }

  @Test(arguments: [
    ("{hom}", "shows {hom}, which is no property of the content state; did you mean \"home\"?"),
    ("{?awey}x{/}", "shows {awey}, which is no property of the content state; did you mean \"away\"?"),
    ("{xyzzy}", "shows {xyzzy}, which is no property of the content state"),
    ("{attributes.tem}", "shows {attributes.tem}, and there is no such attribute; did you mean \"team\"?"),
    ("{score.hme}", "shows {score.hme}, which is no property of the content state; did you mean \"home\"?"),
    ("{clock.min}", "shows {clock.min}, and clock has no parts: it is String"),
    ("{clock|timer}", "counts from {clock}; it is declared String, and a Date was expected"),
    ("{home|relative}", "counts from {home}; it is declared Int, and a Date was expected"),
    ("{ends|number}", "writes {ends} as a number; it is declared Date"),
    ("{clock", "the \"{\" before \"{clock\" has no \"}\""),
  ])
  func `a template that can't work is an error, with the nearest name`(template: String, message: String)
    throws
  {
    #expect(
      try Self.problems(Self.definition(["banner": template])) == ["error presentations.banner \(message)"])
    let spoken = try Self.problems(Self.definition(accessibility: ["minimal": template]))
    #expect(spoken == ["error accessibility.minimal \(message)"])
  }

  @Test(arguments: [
    "{ends|timer}", "{home|number:2}", "{score.home|number}", "{by.messi}", "{attributes.team}",
  ])
  func `what is declared may be shown`(template: String) throws {
    #expect(try Self.problems(Self.definition(["banner": template])) == [])
  }

  @Test(arguments: [
    ("compact-trailing", "{home|number:2} goals for France", "is at least 19 columns wide; 10 fit"),
    ("minimal", "{home|number:6}", "is at least 6 columns wide; 5 fit"),
  ])
  func `what can never fit is an error`(name: String, template: String, message: String) throws {
    let problems = try Self.problems(Self.definition([name: template]))
    #expect(problems == ["error presentations.\(name) \(message)"])
  }

  // MARK: Moving figures

  @Test(arguments: [
    ("{home}", ["home"]), ("{home|number}", ["home"]), ("{away}", ["away"]), ("{score.home}", ["score.home"]),
    ("{?clock}{home}{:}{away}{/}", ["away", "home"]), ("{home}{home}", ["home"]),
    ("{by.messi}", ["by.messi"]),
    ("{home|number:2}–{away|number:2}", []), ("{clock} {ends|timer}", []),
  ])
  func `a number in the compact trailing side needs a width`(template: String, names: [String]) throws {
    let expected = names.map {
      "warning presentations.compact-trailing shows {\($0)} without a width: the island moves when it grows; write {\($0)|number:2}"
    }
    #expect(try Self.problems(Self.definition(["compact-trailing": template])) == expected)
  }

  @Test func `other presentations may grow`() throws {
    #expect(try Self.problems(Self.definition(["compact-leading": "{home}", "minimal": "{away}"])) == [])
  }

  // MARK: Room

  /// The room of each presentation: columns and lines.
  @Test(
    arguments: [
      (Presentation.compactLeading, 10, 1), (.compactTrailing, 10, 1), (.minimal, 5, 1),
      (.expandedLeading, 16, 2), (.expandedTrailing, 16, 2), (.expandedCenter, 30, 2), (.small, 24, 2),
      (.expandedBottom, nil, 3), (.banner, nil, 1), (.lockScreen, nil, 6), (.standby, nil, 6),
    ] as [(Presentation, Int?, Int)])
  func `a presentation that doesn't fit is told`(presentation: Presentation, columns: Int?, lines: Int) throws
  {
    func misfits(_ width: Int, _ count: Int) throws -> [String] {
      let line = String(repeating: "x", count: width)
      let text = Array(repeating: line, count: count).joined(separator: "\n")
      let definition = try Self.definition([presentation.rawValue: text])
      let context = PresentationContext(state: nil, attributes: nil, now: .distantPast)
      return PresentationCheck.misfits(definition, context).map { "\($0.0.rawValue) \($0.1)" }
    }
    #expect(try misfits(columns ?? 200, lines) == [])
    #expect(try misfits(1, lines + 1) == ["\(presentation.rawValue) has \(lines + 1) lines; \(lines) fit"])
    if let columns {
      let expected = "\(presentation.rawValue) is \(columns + 1) columns wide; \(columns) fit"
      #expect(try misfits(columns + 1, 1) == [expected])
    }
  }

  @Test func `room is counted in columns, not characters`() throws {
    let context = PresentationContext(state: nil, attributes: nil, now: .distantPast)
    let definition = try Self.definition(["minimal": "🇦🇷🇫🇷1", "compact-leading": "日本代表対仏"])
    let misfits = PresentationCheck.misfits(definition, context).map { $0.1 }
    #expect(misfits == ["is 12 columns wide; 10 fit"])
  }

  // MARK: Text

  @Test func `a missing or broken template has no lines`() throws {
    let definition = try Self.definition(["banner": "{", "minimal": nil])
    let context = PresentationContext(state: nil, attributes: nil, now: .distantPast)
    #expect(PresentationText.lines(.banner, definition, context) == [])
    #expect(PresentationText.lines(.minimal, definition, context) == [])
  }

  @Test func `a presentation without a sentence speaks the Lock Screen's text`() throws {
    let definition = try Self.definition(
      ["lock-screen": "{attributes.team}\n{clock}"],
      accessibility: ["minimal": "{clock} played", "small": nil])
    let state = JSONText(compacting: #"{"clock":"81'"}"#.utf8)
    let context = PresentationContext(state: state, attributes: definition.attributes, now: .distantPast)
    #expect(PresentationText.sentence(.minimal, definition, context) == "81' played")
    #expect(PresentationText.sentence(.small, definition, context) == "Argentina, 81'")
  }
}
