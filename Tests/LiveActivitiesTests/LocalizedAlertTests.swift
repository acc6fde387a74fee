import BroadcastChannels
import Testing

@testable import LiveActivities

@Suite struct LocalizedAlertTests {
  static let strings = [
    "en": ["GOAL": "Goal %@ %@", "ONLY_EN": "only English", "ORDER": "%1$@ beats %2$@"],
    "es": ["GOAL": "¡Gol de %@! %@", "ORDER": "%2$@ pierde con %1$@"],
    "es-MX": ["GOAL": "¡Golazo de %@! %@"],
    "pt": ["ONLY_PT": "só português"],
  ]

  @Test(arguments: [
    ("en", "Goal Messi 1–0"), ("es", "¡Gol de Messi! 1–0"), ("es-MX", "¡Golazo de Messi! 1–0"),
    ("es-AR", "¡Gol de Messi! 1–0"), ("es_ES.UTF-8", "¡Gol de Messi! 1–0"), ("fr", "Goal Messi 1–0"),
    ("", "Goal Messi 1–0"), ("C", "Goal Messi 1–0"),
  ])
  func `the exact table comes first, then the language, then English`(locale: String, text: String) {
    let goal = Alert.Text.localized(key: "GOAL", arguments: ["Messi", "1–0"])
    #expect(goal.localized(locale, strings: Self.strings) == text)
  }

  @Test(arguments: [
    ("es-MX", "ORDER", "B pierde con A"),  // es-MX lacks it, es has it
    ("es-MX", "ONLY_EN", "only English"),  // neither has it, English does
    ("es", "ONLY_PT", "só português"),  // any table rather than a bare key
  ])
  func `a key that a table lacks comes from the next`(locale: String, key: String, text: String) {
    let alert = Alert.Text.localized(key: key, arguments: ["A", "B"])
    #expect(alert.localized(locale, strings: Self.strings) == text)
  }

  @Test func `a key that no table has is shown with its arguments`() {
    #expect(Alert.Text.localized(key: "NONE", arguments: []).localized("en", strings: Self.strings) == "NONE")
    let alert = Alert.Text.localized(key: "NONE", arguments: ["A", "3"])
    #expect(alert.localized("en", strings: [:]) == "NONE (A, 3)")
  }

  @Test func `a literal text stays as it is`() {
    #expect(Alert.Text.literal("100 %@ %1$@").localized("es", strings: Self.strings) == "100 %@ %1$@")
  }

  @Test(arguments: [
    ("%@ %@", "A B"), ("%2$@ %1$@", "B A"), ("%1$@ %1$@", "A A"), ("100 %%", "100 %"), ("%%@", "%@"),
    ("%@ %@ %@", "A B "), ("%3$@.", "."), ("%0$@.", "."), ("%d %", "%d %"), ("50 % off", "50 % off"),
    ("%1$d", "%1$d"), ("%$@", "%$@"), ("", ""), ("%2$@, %@", "B, A"),
  ])
  func `arguments take their places by order or by number`(format: String, text: String) {
    let alert = Alert.Text.localized(key: "K", arguments: ["A", "B"])
    #expect(alert.localized("en", strings: ["en": ["K": format]]) == text)
  }

  @Test func `an argument is not read as a format`() {
    let alert = Alert.Text.localized(key: "K", arguments: ["%@ %1$@ %%", "B"])
    #expect(alert.localized("en", strings: ["en": ["K": "%@ %@"]]) == "%@ %1$@ %% B")
  }
}
