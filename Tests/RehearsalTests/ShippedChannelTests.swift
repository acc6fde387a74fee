import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts
import Testing

@testable import Rehearsal

/// The four examples of `Channels/`: what their comments say is what happens.
@Suite struct ShippedChannelTests {
  static let minute = 60.0
  static let hour = 3_600.0

  @Test(arguments: ShippedChannel.all)
  func `check finds nothing`(channel: ShippedChannel) throws {
    let definition = try channel.definition()
    #expect(PresentationCheck.problems(definition).map(\.message) == [])
    let findings = ScriptCheck.findings(try channel.script(), definition: definition, start: Date())
    #expect(findings.map(\.description) == [])
  }

  @Test(arguments: ShippedChannel.all)
  func `a definition survives its way through the API`(channel: ShippedChannel) throws {
    let definition = try channel.definition()
    let copy = try ChannelDefinition(file: Array(definition.json.utf8), alias: definition.alias)
    #expect(copy == definition)
    #expect(!copy.actions.isEmpty && copy.accessibility.count == 4)
  }

  /// Counted by hand in the files; the stale stretches are those of the comments at the heads of the definitions.
  @Test(
    arguments: [
      // Half-time: 0:53:00 with 10 min until stale; the second half begins at 1:08:00.
      (ShippedChannel.football, 50, 18, 10_140, [3_780, 4_080]),
      // Half-time: 1:03:30 with 5 min; the third quarter begins at 1:18:30.
      (.basketball, 75, 10, 8_646, [4_110, 4_710]),
      // Rain: 2:17:00 and 5:18:00 with 12 min, until play resumes at 3:38:00 and 5:48:00.
      (.tennis, 74, 19, 24_300, [8_940, 13_080, 19_800, 20_880]),
      // From 18:10:52 until Roglič arrives 59 s later; 17:05:00 is 0.
      (.cycling, 21, 7, 4_500, [3_952, 4_011]),
    ] as [(ShippedChannel, Int, Int, Double, [Double])])
  func `the verdict is as the comments say`(
    channel: ShippedChannel, messages: Int, alerts: Int, end: Double, stale: [Double]
  ) throws {
    let verdict = Verdict(try channel.rehearsal())
    #expect(verdict.messages == messages && verdict.alerts.count == alerts && verdict.end?.at == end)
    #expect(verdict.stale.flatMap { [$0.from, $0.to] } == stale)
    #expect(verdict.swallowed.isEmpty && verdict.deferred.isEmpty && verdict.unsent == 0)
    #expect(verdict.findings.isEmpty && !verdict.reachedLifetime)
  }

  /// The bucket of 8 is full at 2:16:00. Nine messages, one every 5 s, take 9 and bring back 8/6: at 2:16:40 a third of
  /// a token is left, at 2:16:45 a half, at 2:16:50 two thirds. By 2:18:41 there are 4.37; five more messages until
  /// 2:19:11 leave 0.37; 2:19:16 finds 0.53 and 2:19:21 finds 0.7, 2:19:34 more than one.
  @Test func `the basketball drops four clock ticks and nothing else`() throws {
    let verdict = Verdict(try ShippedChannel.basketball.rehearsal())
    #expect(verdict.overBudget.keys.sorted() == ["dropped"])
    #expect(verdict.overBudget["dropped"]?.map(\.at) == [8_205, 8_210, 8_356, 8_361])
    #expect(verdict.isBad)
    let script = try ShippedChannel.basketball.script()
    let dropped = script.steps.filter { [8_205, 8_210, 8_356, 8_361].contains($0.at) }
    #expect(dropped.count == 4 && dropped.allSatisfy { $0.alert == nil })
  }

  @Test(arguments: [ShippedChannel.football, .tennis, .cycling])
  func `the others stay within their budgets`(channel: ShippedChannel) throws {
    let verdict = Verdict(try channel.rehearsal())
    #expect(verdict.overBudget.isEmpty && !verdict.isBad)
  }

  @Test func `a late copy of the 60th minute is ignored in the football`() throws {
    // Sent at 1:28:04 at priority 5, delivered a second later.
    #expect(Verdict(try ShippedChannel.football.rehearsal()).ignored == [.init(at: 5_285, line: 22)])
    for channel in [ShippedChannel.basketball, .tennis, .cycling] {
      #expect(Verdict(try channel.rehearsal()).ignored.isEmpty)
    }
  }

  @Test(arguments: ShippedChannel.all)
  func `a moment of each kind is where it is said to be`(channel: ShippedChannel) throws {
    let states = try channel.rehearsal().moments.sorted { $0.at < $1.at }.map { $0.activity.activity.state }
    #expect(states.count == 3 && Set(states) == [.active, .stale, .ended])
  }

  @Test(arguments: ShippedChannel.all)
  func `the verdict parses and says the same`(channel: ShippedChannel) throws {
    let verdict = Verdict(try channel.rehearsal())
    let root = try JSONDocument(Array(verdict.json.utf8)).root
    #expect(root["messages"]?.number?.int == Int64(verdict.messages))
    #expect(root["alerts"]?.elements?.count == verdict.alerts.count)
    #expect(root["ok"]?.bool == !verdict.isBad)
  }

  // MARK: Strings

  private static func alerts(_ channel: ShippedChannel) throws -> [Alert.Text] {
    try channel.script().steps.flatMap { step -> [Alert.Text] in
      guard step.alert != nil else { return [] }
      let body = Array("{\"aps\":".utf8) + step.aps(sentAt: Rehearsal.standardStart) + Array("}".utf8)
      let alert = try Payload(body: body).alert
      return [alert?.title, alert?.body].compactMap { $0 }
    }
  }

  @Test(arguments: ShippedChannel.all)
  func `every alert is there in English and Spanish, and every string is used`(channel: ShippedChannel) throws
  {
    let strings = try channel.definition().strings
    #expect(strings.keys.sorted() == ["en", "es"])
    var used: Set<String> = []
    for text in try Self.alerts(channel) {
      guard case .localized(let key, let arguments) = text else {
        Issue.record("\(text.plain) is no key")
        continue
      }
      used.insert(key)
      for (language, table) in strings {
        let format = try #require(table[key], "\(key) in \(language)")
        let shown = text.localized(language, strings: strings)
        // Every argument has its place, and every place its argument.
        #expect(arguments.allSatisfy { shown.contains($0) }, "\(language): \(shown)")
        let places = format.matches(of: /%(?:(\d)\$)?@/).map { $0.1.flatMap { Int($0) } ?? 1 }
        #expect(Set(places) == Set(1..<(arguments.count + 1)), "\(language): \(format)")
      }
    }
    for (language, table) in strings { #expect(Set(table.keys) == used, "\(language)") }
  }

  @Test(arguments: [
    (ShippedChannel.football, 23 * minute + 30, "Goal Argentina  1–0", "Messi, penalty, 23'"),
    (.football, 2 * hour + 34 * minute, "Goal France  3–3", "Mbappé, penalty, 118': his hat-trick"),
    (
      .basketball, 2 * hour + 20 * minute + 55, "Cavaliers lead 93–89", "James, free throw, 10.6 seconds left"
    ),
    (.tennis, 5 * hour + 18 * minute, "Rain", "Play suspended at 2–2, deuce, in set 5"),
    (
      .cycling, hour + 6 * minute + 51, "Pogačar takes yellow",
      "Roglič finishes 1:56 behind: 59 seconds overall"
    ),
  ])
  func `an alert reads so in English`(channel: ShippedChannel, at: Double, title: String, body: String) throws
  {
    #expect(try Self.texts(channel, at: at, "en") == [title, body])
  }

  @Test(arguments: [
    (ShippedChannel.football, 23 * minute + 30, "¡Gol de Argentina!  1–0", "Messi, de penalti, minuto 23"),
    (
      .football, 2 * hour + 34 * minute, "¡Gol de Francia!  3–3", "Triplete de Mbappé, de penalti, minuto 118"
    ),
    (
      .basketball, 2 * hour + 20 * minute + 55, "Mandan los Cavaliers: 93–89",
      "A 10,6 segundos del final, tiro libre de James"
    ),
    (.tennis, 5 * hour + 18 * minute, "Lluvia", "Partido suspendido con 2–2 y cuarenta iguales en el set 5"),
    (
      .cycling, hour + 6 * minute + 51, "¡Pogačar se viste de amarillo!",
      "Roglič llega a 1:56: pierde el Tour por 59 segundos"
    ),
  ])
  func `an alert reads so in Spanish`(channel: ShippedChannel, at: Double, title: String, body: String) throws
  {
    #expect(try Self.texts(channel, at: at, "es-MX") == [title, body])
  }

  private static func texts(_ channel: ShippedChannel, at: Double, _ locale: String) throws -> [String] {
    let rehearsal = try channel.rehearsal()
    let event = try #require(rehearsal.events.first { $0.at == at && $0.alert != nil })
    return [event.alert?.title, event.alert?.body].compactMap {
      $0?.localized(locale, strings: rehearsal.definition.strings)
    }
  }
}
