import BroadcastChannels
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md: "Actions set a state, they don't toggle it blindly; the card shows the new state only
/// after the command is confirmed."
@Suite struct DeviceActionTests {
  static func phone() throws -> Phone {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 0)
    return phone
  }

  @Test func `an action is unconfirmed until the state has its value`() throws {
    let phone = try Self.phone()
    #expect(phone.press("follow", intent: "a", at: 1) == "a")
    #expect(phone.device["final"]?.unconfirmed?.action.name == "follow")
    try phone.receive(2, at: 2)
    #expect(phone.device["final"]?.isActionUnconfirmed == true)
    try phone.receive(3, at: 3, more: #","followed":true"#)
    #expect(phone.log.suffix(2) == ["3 final update active", "3 final confirmed follow"])
    #expect(phone.device["final"]?.isActionUnconfirmed == false)
  }

  @Test(arguments: [#","followed":false"#, #","followed":null"#, #","followed":"true""#, #","muted":true"#])
  func `another value confirms nothing`(more: String) throws {
    let phone = try Self.phone()
    #expect(phone.press("follow", intent: "a", at: 1) == "a")
    try phone.receive(2, at: 2, more: more)
    #expect(phone.device["final"]?.isActionUnconfirmed == true && phone.log.last == "2 final update active")
  }

  @Test func `an older message confirms nothing`() throws {
    let phone = try Self.phone()
    try phone.receive(2, at: 10)
    #expect(phone.press("follow", intent: "a", at: 11) == "a")
    try phone.receive(3, at: 12, timestamp: 5, more: #","followed":true"#)
    #expect(phone.device["final"]?.isActionUnconfirmed == true)
  }

  @Test func `pressing again sends the same intent again`() throws {
    let phone = try Self.phone()
    #expect(phone.press("follow", intent: "a", at: 1) == "a")
    #expect(phone.press("follow", intent: "b", at: 2) == "a")
    #expect(phone.press("follow", intent: "c", at: 300) == "a")
  }

  @Test func `pressing what is set already waits for nothing`() throws {
    let phone = try Self.phone()
    try phone.receive(2, at: 1, more: #","followed":true"#)
    #expect(phone.press("follow", intent: "a", at: 2) == "a")
    #expect(phone.device["final"]?.isActionUnconfirmed == false)
  }

  @Test func `the opposite of what is unconfirmed has an intent of its own`() throws {
    let phone = try Self.phone()
    try phone.receive(2, at: 1, more: #","muted":false"#)
    #expect(phone.press("mute", intent: "a", at: 2) == "a")
    #expect(phone.press("unmute", intent: "b", at: 3) == "b")
    #expect(phone.device["final"]?.unconfirmed?.action.name == "unmute")
    try phone.receive(3, at: 4, more: #","muted":true"#)
    #expect(phone.device["final"]?.isActionUnconfirmed == true)
    try phone.receive(4, at: 5, more: #","muted":false"#)
    #expect(phone.log.last == "5 final confirmed unmute")
  }

  @Test func `a confirmed action can be pressed anew`() throws {
    let phone = try Self.phone()
    #expect(phone.press("mute", intent: "a", at: 1) == "a")
    try phone.receive(2, at: 2, more: #","muted":true"#)
    #expect(phone.press("unmute", intent: "b", at: 3) == "b")
    try phone.receive(3, at: 4, more: #","muted":false"#)
    #expect(phone.press("mute", intent: "c", at: 5) == "c")
  }

  @Test func `an end may confirm`() throws {
    let phone = try Self.phone()
    #expect(phone.press("follow", intent: "a", at: 1) == "a")
    try phone.receive(2, at: 2, event: .end, more: #","followed":true"#)
    #expect(phone.log.suffix(2) == ["2 final end ended", "2 final confirmed follow"])
  }

  @Test func `only a card that is alive and shown has buttons`() throws {
    let phone = Phone()
    try phone.start("final", scheduled: 60, at: 0)
    #expect(phone.press("follow", intent: "a", at: 1) == nil)
    phone.run(to: 60)
    #expect(phone.press("pause", intent: "a", at: 61) == nil)
    try phone.receive(1, at: 62, event: .end)
    #expect(phone.press("follow", intent: "a", at: 63) == nil)
    phone.dismiss("final", at: 64)
    #expect(phone.press("follow", intent: "a", at: 65) == nil)
    #expect(phone.device["final"]?.isActionUnconfirmed == false)
  }
}
