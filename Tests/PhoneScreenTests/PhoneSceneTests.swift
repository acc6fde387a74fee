import BroadcastChannels
import Foundation
import LiveActivities
import Testing

@testable import PhoneScreen

/// Source: facts/live-activity.md, "Presentations".
@Suite struct PhoneSceneTests {
  // MARK: Every line is exactly as wide as the screen

  @Test(arguments: Screens.names)
  func `every line is as wide as the screen, and there are as many as it has rows`(screen: String) throws {
    for columns in [40, 41, 59, 60, 79, 80, 111, 112, 120, 200] {
      for rows in [12, 13, 16, 19, 20, 24, 60] {
        let lines = try Screens.phone(screen).lines(columns, rows)
        #expect(lines.count == rows)
        let wrong = lines.filter { $0.width != columns }.map(\.text)
        #expect(wrong.isEmpty, "\(columns)x\(rows)")
      }
    }
  }

  /// Reviewed by eye; `TOUCHLINE_RECORD=1 swift test --filter PhoneSceneTests` writes them anew.
  @Test(arguments: Screens.names)
  func `the screen looks as it was reviewed`(screen: String) throws {
    let phone = try Screens.phone(screen)
    for (columns, rows) in [(40, 20), (80, 24), (120, 24)] {
      let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Snapshots/\(screen)-\(columns).txt")
      let text = phone.text(columns, rows)
      if ProcessInfo.processInfo.environment["TOUCHLINE_RECORD"] == "1" {
        try text.write(to: file, atomically: true, encoding: .utf8)
      }
      #expect(try String(contentsOf: file, encoding: .utf8) == text, "\(file.lastPathComponent)")
    }
  }

  // MARK: The island

  @Test func `one activity has the compact island, two have a minimal one each`() throws {
    #expect(try Screens.phone("live").text().contains("│ 🇦🇷🇫🇷        ◉         2–1 │"))
    let pair = try Screens.phone("pair").text()
    #expect(pair.contains("│ 日1     ◉  │ │  2–1  │"), "the higher relevance score is attached to the camera")
  }

  @Test func `an alert expands the island, for as long as it lights the screen`() throws {
    var phone = try Screens.phone("alert")
    #expect(phone.text().contains("🔔 Goal Francia: Mbappé, 80'"))
    phone.pass(5)
    #expect(!phone.text().contains("🔔"))
  }

  @Test func `an alert speaks the device's language`() throws {
    var settings = DeviceSettings()
    settings.locale = "es"
    var phone = try Phone(settings: settings)
    try phone.receive(
      Screens.goal, more: #", "alert": {"title": {"loc-key": "GOAL", "loc-args": ["Francia"]}}"#)
    #expect(phone.text().contains("🔔 Gol de Francia"))
  }

  @Test func `an ended activity leaves the island at once, its card stays with the final state`() throws {
    let text = try Screens.phone("ended").text()
    #expect(text.contains("🇦🇷 Argentina 3–3 France 🇫🇷") && text.contains("4–2 on penalties"))
    #expect(text.contains("final ━") && text.contains("ended 10 min ago, leaves in 3 h"))
    #expect(!text.contains("🇦🇷🇫🇷") && !text.contains("Follow"))
  }

  // MARK: The cards

  /// Updated at 15:00:00, stale from 15:01:00, now 15:03:02.
  @Test func `a stale card says how old it is, and is dimmed`() throws {
    let phone = try Screens.phone("stale-offline")
    #expect(phone.text().contains("last updated 3 min ago"))
    #expect(phone.styles(of: "Argentina 2–1") == [.stale])
    #expect(phone.text().contains("network off"))
  }

  /// One token: the first of four is shown, one waits, two are merged into it.
  @Test func `over budget, the card says how many updates were merged`() throws {
    #expect(try Screens.phone("over-budget").text().contains("over budget: 2 merged"))
  }

  @Test func `a pressed action is being confirmed until the state has its value`() throws {
    var phone = try Screens.phone("confirming")
    #expect(phone.text().contains("confirming Follow…"))
    try phone.receive(#"{"home": 2, "away": 1, "clock": "81'", "followed": true}"#)
    #expect(!phone.text().contains("confirming"))
  }

  @Test func `the chosen card has its actions with digits, the others without, the small family none`() throws
  {
    var phone = try Screens.phone("many")
    #expect(phone.text(80, 60).components(separatedBy: "[1] Follow  [2] Mute").count == 2)
    phone.view.isSmall = true
    #expect(!phone.text(80, 60).contains("Follow"))
  }

  @Test func `sensitive values are hidden while the phone is locked`() throws {
    #expect(try Screens.phone("live").text().contains("Your seat: A-17"))
    let locked = try Screens.phone("locked").text()
    #expect(locked.contains("Your seat: •••") && !locked.contains("A-17"))
  }

  @Test func `the always-on display has no colour`() throws {
    let phone = try Screens.phone("always-on")
    #expect(
      phone.lines().dropLast(3).flatMap(\.spans).allSatisfy {
        $0.style == .dim || $0.text.allSatisfy { $0 == " " }
      })
    #expect(!phone.text().contains("A-17"))
  }

  @Test func `dismissed, the card is gone`() throws {
    let text = try Screens.phone("dismissed").text()
    #expect(!text.contains("Argentina") && text.contains("no Live Activity"))
  }

  @Test func `VoiceOver speaks the chosen card's sentence`() throws {
    #expect(try Screens.phone("live").text().contains("VoiceOver Argentina 2, France 1, 80'"))
    #expect(try Screens.phone("stale-offline").text().contains("Argentina 2, France 1, 80', out of date"))
  }
}
