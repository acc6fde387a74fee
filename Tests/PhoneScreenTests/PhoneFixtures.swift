import BroadcastChannels
import Foundation
import LiveActivities

@testable import PhoneScreen

/// A device with two matches, as seconds after a fixed start.
struct Phone {
  static let start = Date(timeIntervalSince1970: 1_671_375_600)  // 2022-12-18 15:00:00 UTC

  var device: Device
  var view = PhoneView()
  var now = Self.start

  /// A final of Argentina and France, with flags, two actions, and a ticket that is sensitive.
  static let final = """
    {"app": "com.example.scores", "frequent-updates": true,
     "attributes": {"home": "Argentina", "away": "France"},
     "content-state": {"home": "Int", "away": "Int", "clock": "String", "followed": "Bool?", "ticket": "String?"},
     "presentations": {
       "lock-screen": "World Cup 2022 final · Lusail Stadium\\n🇦🇷 {attributes.home} {home}–{away} {attributes.away} 🇫🇷\\n{clock}\\nYour seat: {ticket}",
       "banner": "🇦🇷 {home}–{away} 🇫🇷 {clock}", "expanded-leading": "🇦🇷 {home}",
       "expanded-trailing": "{away} 🇫🇷", "expanded-center": "{clock}", "expanded-bottom": "{attributes.home} v {attributes.away}",
       "compact-leading": "🇦🇷🇫🇷", "compact-trailing": "{home}–{away}", "minimal": "{home}–{away}",
       "small": "ARG {home}–{away} FRA\\n{clock}", "standby": "🇦🇷 {home}–{away} 🇫🇷\\n{clock}"},
     "accessibility": {"lock-screen": "Argentina {home}, France {away}, {clock}"},
     "actions": {"follow": {"title": "Follow", "sets": {"followed": true}}, "mute": {"title": "Mute", "sets": {"followed": false}}},
     "sensitive": ["ticket"],
     "strings": {"en": {"GOAL": "Goal %@"}, "es": {"GOAL": "Gol de %@"}}}
    """

  /// A match whose names are wide, right to left, or composed.
  static let names = """
    {"app": "com.example.names",
     "content-state": {"n": "Int"},
     "presentations": {
       "lock-screen": "منتخب المغرب {n}–2 日本代表\\nZu\u{308}rich · Bogota\u{301} · 👩‍👩‍👧 · 👍🏽 · ❤️ · 한국",
       "banner": "المغرب {n}–2 日本", "expanded-leading": "المغرب {n}", "expanded-trailing": "2 日本代表チーム",
       "expanded-center": "Zu\u{308}rich", "expanded-bottom": "المغرب v 日本", "compact-leading": "المغرب",
       "compact-trailing": "{n}–2", "minimal": "日{n}", "small": "المغرب {n}–2", "standby": "المغرب {n}–2 日本"}}
    """

  init(
    _ channels: [(name: String, definition: String)] = [("final", Self.final)],
    settings: DeviceSettings = DeviceSettings()
  )
    throws
  {
    device = Device(settings: settings)
    for (name, text) in channels {
      let definition = try ChannelDefinition(file: Array(text.utf8), alias: nil)
      try device.start(name, definition: definition, at: now)
    }
    view.connection = .online
  }

  mutating func pass(_ seconds: Double) {
    now = now.addingTimeInterval(seconds)
    _ = device.advance(to: now)
  }

  /// Receives a message with a state; `more` are further members of `aps`.
  mutating func receive(
    _ state: String, event: String = "update", more: String = "", for name: String = "final"
  ) throws {
    let body = """
      {"aps": {"timestamp": \(Int(now.timeIntervalSince1970)), "event": "\(event)", "content-state": \(state)\(more)}}
      """
    _ = device.receive(try Payload(body: Array(body.utf8)), priority: .immediate, for: name, at: now)
  }

  func date(_ seconds: Int) -> Int { Int(now.timeIntervalSince1970) + seconds }

  func lines(_ columns: Int = 80, _ rows: Int = 24) -> [StyledLine] {
    PhoneScene.render(device: device, view: view, columns: columns, rows: rows, now: now)
  }

  func text(_ columns: Int = 80, _ rows: Int = 24) -> String {
    lines(columns, rows).map(\.text).joined(separator: "\n") + "\n"
  }

  func styles(of word: String) -> [Style] {
    lines().flatMap(\.spans).filter { $0.text.contains(word) }.map(\.style)
  }
}

/// The states of the screen, by the name of their snapshot.
enum Screens {
  static let goal = #"{"home": 2, "away": 1, "clock": "80'", "ticket": "A-17"}"#
  static let names = [
    "waiting", "live", "alert", "stale-offline", "ended", "pair", "over-budget", "confirming", "locked",
    "always-on",
    "standby", "small", "held-open", "help", "pending", "refused", "names", "many", "dismissed",
  ]

  static func phone(_ name: String) throws -> Phone {
    switch name {
    case "waiting": return try Phone()
    case "pending":
      var phone = try Phone([])
      let definition = try ChannelDefinition(file: Array(Phone.final.utf8), alias: nil)
      try phone.device.start(
        "final", definition: definition, scheduled: phone.now.addingTimeInterval(600), at: phone.now)
      return phone
    case "refused":
      var phone = try Phone()
      try phone.receive(goal)
      phone.view.refusals["semi"] = StartError.tooManyOfApp(app: "com.example.scores", limit: 1).description
      return phone
    case "names":
      var phone = try Phone([("أسماء", Phone.names)])
      try phone.receive(#"{"n": 1}"#, for: "أسماء")
      return phone
    case "pair":
      var phone = try Phone([("final", Phone.final), ("names", Phone.names)])
      try phone.receive(goal, more: #", "relevance-score": 10"#)
      try phone.receive(#"{"n": 1}"#, more: #", "relevance-score": 90"#, for: "names")
      return phone
    case "many":
      var phone = try Phone((1...5).map { ("match-\($0)", Phone.final) })
      for number in 1...5 { try phone.receive(goal, for: "match-\(number)") }
      phone.view.selected = "match-4"
      return phone
    case "over-budget": return try overBudget()
    default: return try one(name)
    }
  }

  private static func overBudget() throws -> Phone {
    var settings = DeviceSettings()
    settings.frequentHourlyBudget = 1
    var phone = try Phone(settings: settings)
    for _ in 0..<4 {
      try phone.receive(goal)
      phone.pass(1)
    }
    return phone
  }

  private static func one(_ name: String) throws -> Phone {
    var phone = try Phone()
    let alert = #", "alert": {"title": {"loc-key": "GOAL", "loc-args": ["Francia"]}, "body": "Mbappé, 80'"}"#
    try phone.receive(goal, more: #", "stale-date": \#(phone.date(60))"# + (name == "alert" ? alert : ""))
    phone.pass(2)
    switch name {
    case "stale-offline":
      phone.pass(180)
      phone.view.connection = .off
    case "ended":
      try phone.receive(#"{"home": 3, "away": 3, "clock": "4–2 on penalties"}"#, event: "end")
      phone.pass(600)
    case "confirming": _ = phone.device.press("follow", of: "final", intent: "1", at: phone.now)
    case "locked": phone.view.isLocked = true
    case "always-on": (phone.view.isAlwaysOn, phone.view.isLocked) = (true, true)
    case "standby": phone.view.isStandBy = true
    case "small": phone.view.isSmall = true
    case "held-open": phone.view.isExpanded = true
    case "help": phone.view.isHelpShown = true
    case "dismissed":
      _ = phone.device.dismiss("final", at: phone.now)
      phone.view.toast = "final is dismissed; it does not come back, the event goes on"
    default: break
    }
    return phone
  }
}
