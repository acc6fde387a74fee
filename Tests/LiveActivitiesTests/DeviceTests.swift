import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md, "Life cycle" and "Presentations", and the device's rules in issue 3.
@Suite struct DeviceTests {
  static let hour = 3_600.0

  // MARK: Starting

  @Test func `an app may have five activities alive`() throws {
    let phone = Phone()
    for number in 1...5 { #expect(try phone.start("\(number)", at: 0)) }
    #expect(throws: StartError.tooManyOfApp(app: "com.example.scores", limit: 5)) {
      try phone.start("6", at: 1)
    }
    #expect(try phone.start("other", app: "com.example.tennis", at: 1))
    #expect(phone.device.activities.count == 6 && phone.device["6"] == nil)
  }

  @Test func `the device has a limit of its own`() throws {
    let phone = Phone { $0.activitiesOnDevice = 3 }
    for number in 1...3 { try phone.start("\(number)", app: "com.example.app\(number)", at: 0) }
    #expect(throws: StartError.tooManyOnDevice(limit: 3)) {
      try phone.start("4", app: "com.example.app4", at: 1)
    }
    #expect(phone.device.activities.count == 3)
  }

  @Test func `an ended card counts until it is gone`() throws {
    let phone = Phone { $0.activitiesPerApp = 1 }
    try phone.start("final", at: 0)
    try phone.receive(1, at: 1, event: .end, dismissal: 100)
    #expect(throws: StartError.tooManyOfApp(app: "com.example.scores", limit: 1)) {
      try phone.start("b", at: 99)
    }
    phone.run(to: 100)
    #expect(try phone.start("b", at: 100))
  }

  @Test func `the person may switch off an app's activities`() throws {
    let phone = Phone { $0.disabledApps = ["com.example.scores"] }
    #expect(throws: StartError.disabled(app: "com.example.scores")) { try phone.start("final", at: 0) }
    #expect(try phone.start("other", app: "com.example.tennis", at: 0))
  }

  /// 4,096 bytes fit; the attributes below are `{"a":"…"}`, 8 bytes and the text.
  @Test(arguments: [(4_088, true), (4_089, false)])
  func `attributes of more than 4 KB are refused`(characters: Int, fits: Bool) throws {
    var device = Device()
    let text = String(repeating: "x", count: characters)
    let definition = try Phone.definition(attributes: "{\"a\":\"\(text)\"}")
    do throws(StartError) {
      try device.start("final", definition: definition, at: moment(0))
      #expect(fits)
    } catch {
      #expect(!fits && error == .tooLarge(bytes: 4_097))
      #expect(device.activities.isEmpty)
    }
  }

  @Test(arguments: [
    (StartError.disabled(app: "a.b"), "a.b", "switch them on"),
    (.tooManyOfApp(app: "a.b", limit: 5), "5", "end one"),
    (.tooManyOnDevice(limit: 16), "16", "end one"), (.tooLarge(bytes: 5_000), "5000", "4096"),
    (.unknownChannel(name: "final"), "\"final\"", "create it"),
    (.dismissedByPerson(name: "final"), "\"final\"", "doesn't come back"),
  ])
  func `a start error says what was wrong and what to do`(error: StartError, what: String, remedy: String) {
    #expect(error.description.contains(what) && error.description.contains(remedy))
  }

  @Test func `a scheduled activity is pending until its start`() throws {
    let phone = Phone()
    try phone.start("final", scheduled: 60, at: 0)
    #expect(phone.device["final"]?.activity.state == .pending)
    #expect(phone.island == [] && phone.lockScreen == [])
    #expect(phone.device.nextDeadline == moment(60))
    phone.run(to: 60)
    #expect(phone.log == ["60 final start active"])
    #expect(phone.island == ["final"] && phone.lockScreen == ["final"])
    phone.run(to: 60 + 12 * Self.hour)
    // The 8 hours count from the start, 60: 28,860; 4 more: 43,260.
    #expect(phone.log.dropFirst() == ["28860 final lifetime ended", "43260 final dismissal dismissed"])
  }

  @Test func `a pending activity takes its state silently and can end before it begins`() throws {
    let phone = Phone()
    try phone.start("final", scheduled: 60, at: 0)
    try phone.receive(1, at: 10, stale: 50, alert: "soon")
    #expect(phone.log == ["10 final update pending"])
    phone.run(to: 60)
    #expect(phone.log.last == "60 final start stale" && phone.lockScreen == [])
    let other = Phone()
    try other.start("final", scheduled: 60, at: 0)
    try other.receive(1, at: 10, event: .end, dismissal: 20)
    other.run(to: 100)
    #expect(other.log == ["10 final end ended", "20 final dismissal dismissed"])
  }

  @Test func `a start in the past is a start now`() throws {
    let phone = Phone()
    try phone.start("final", scheduled: 40, at: 100)
    phone.run(to: 100)
    #expect(phone.log == ["100 final start active"])
  }

  // MARK: Restarts

  @Test func `an activity is never started twice`() throws {
    let phone = Phone()
    #expect(try phone.start("final", at: 0))
    try phone.receive(7, at: 5)
    #expect(try phone.start("final", at: 10) == false)
    try phone.receive(8, at: 20, event: .end)
    #expect(try phone.start("final", at: 30) == false)
    #expect(phone.device.activities.count == 1 && phone.shown() == 8)
    #expect(phone.device["final"]?.activity.startedAt == moment(0))
  }

  @Test func `one that is there is found although its app is full or switched off`() throws {
    let phone = Phone { $0.activitiesPerApp = 1 }
    try phone.start("final", at: 0)
    #expect(try phone.start("final", at: 1) == false)
  }

  @Test func `after its end is gone the channel may start anew`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 10, event: .end, dismissal: 20)
    phone.run(to: 20)
    #expect(try phone.start("final", at: 30))
    #expect(phone.device.activities.count == 1 && phone.shown() == nil)
  }

  @Test func `an orphan is ended at launch and gone at once`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 1, alert: "x")
    phone.endOrphan("final", at: 2)
    #expect(phone.log.suffix(2) == ["2 final orphan ended", "2 final dismissal dismissed"])
    #expect(phone.device["final"]?.alert == nil && phone.device.nextDeadline == nil)
    phone.endOrphan("final", at: 3)
    #expect(phone.log.count == 4)
  }

  @Test func `an orphan that had ended before keeps its own dismissal`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 1, event: .end, dismissal: 50)
    phone.endOrphan("final", at: 2)
    phone.run(to: 100)
    #expect(phone.log == ["1 final end ended", "50 final dismissal dismissed"])
  }

  // MARK: The person

  @Test func `a card that the person dismissed never comes back`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 1)
    phone.dismiss("final", at: 10)
    #expect(phone.log.last == "10 final person dismissed")
    try phone.receive(2, at: 20, alert: "goal")
    #expect(phone.log.last == "10 final person dismissed" && phone.shown() == 1)
    #expect(throws: StartError.dismissedByPerson(name: "final")) { try phone.start("final", at: 30) }
    phone.dismiss("final", at: 40)
    phone.run(to: 20 * Self.hour)
    #expect(phone.log.count == 2 && phone.island == [] && phone.lockScreen == [])
  }

  @Test func `dismissing hides the view, it does not end the event`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    phone.dismiss("final", at: 10)
    let card = try #require(phone.device["final"])
    #expect(card.isEventOngoing && card.isHidden && card.activity.isDismissedByPerson)
  }

  @Test func `an ended card can be dismissed early`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 1, event: .end)
    phone.dismiss("final", at: 10)
    let card = try #require(phone.device["final"])
    #expect(!card.isEventOngoing && card.isHidden && card.activity.dismissalDate == moment(10))
  }

  @Test(arguments: ["nobody", ""])
  func `what concerns no activity changes nothing`(name: String) throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, for: name, at: 1)
    phone.dismiss(name, at: 2)
    phone.endOrphan(name, at: 3)
    #expect(phone.press("follow", of: name, intent: "a", at: 4) == nil)
    #expect(phone.log.isEmpty)
  }

  // MARK: Four facts

  /// The event, the data, the card and the action, each alone and all at once.
  @Test func `four facts are separate and can hold at once`() throws {
    let phone = Phone()
    func facts() throws -> [Bool] {
      let card = try #require(phone.device["final"])
      return [card.isEventOngoing, card.isStale, card.isHidden, card.isActionUnconfirmed]
    }
    try phone.start("final", at: 0)
    #expect(try facts() == [true, false, false, false])
    try phone.receive(1, at: 0, stale: 60)
    phone.run(to: 60)
    #expect(try facts() == [true, true, false, false])
    #expect(phone.press("follow", intent: "a", at: 61) == "a")
    #expect(try facts() == [true, true, false, true])
    phone.dismiss("final", at: 70)
    #expect(try facts() == [true, true, true, true])
  }

  @Test func `the end of the event makes the data final and leaves the action unconfirmed`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 0, stale: 60)
    phone.run(to: 60)
    #expect(phone.press("follow", intent: "a", at: 61) == "a")
    try phone.receive(2, at: 70, event: .end)
    let card = try #require(phone.device["final"])
    #expect(!card.isEventOngoing && !card.isStale && !card.isHidden && card.isActionUnconfirmed)
  }

  // MARK: Stale on start

  @Test func `a first state that is stale is stale at once and not presented`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 100, stale: 40, alert: "late")
    #expect(phone.log == ["100 final update stale"])
    #expect(phone.island == [] && phone.lockScreen == [])
    #expect(phone.device["final"]?.isHidden == true && phone.device["final"]?.isEventOngoing == true)
  }

  @Test func `it is presented with the first current state`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 100, stale: 40)
    try phone.receive(2, at: 110, stale: 105)
    #expect(phone.lockScreen == [])
    try phone.receive(3, at: 120, stale: 200)
    #expect(phone.island == ["final"] && phone.lockScreen == ["final"])
    try phone.receive(4, at: 130, stale: 125)
    // Presented once, it stays so, dimmed.
    #expect(phone.lockScreen == ["final"] && phone.device["final"]?.isStale == true)
  }

  @Test func `a final state is presented, also by a card that had nothing current`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 100, stale: 40)
    try phone.receive(2, at: 110, event: .end)
    #expect(phone.lockScreen == ["final"] && phone.island == [])
  }

  // MARK: Ignored messages

  @Test func `older messages and those after the end are ignored and counted`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 10)
    try phone.receive(2, at: 20, timestamp: 9, alert: "old")
    try phone.receive(3, at: 30, timestamp: 9, event: .end)
    try phone.receive(4, at: 40, event: .end, dismissal: 90)
    try phone.receive(5, at: 50, alert: "late")
    try phone.receive(6, at: 60, event: .end)
    #expect(
      phone.log == [
        "10 final update active", "20 final ignored-older active", "30 final ignored-older active",
        "40 final end ended", "50 final ignored-after-end ended", "60 final ignored-after-end ended",
      ])
    let activity = try #require(phone.device["final"]?.activity)
    #expect(activity.ignoredOlder == 2 && activity.ignoredAfterEnd == 2 && phone.shown() == 4)
  }

  @Test func `the place of the newest message is kept`() throws {
    var device = Device()
    try device.start("final", definition: Phone.definition(), at: moment(0))
    let body = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{"n":1}}}"#
    let position = StreamPosition(epoch: "e", sequence: 7)
    _ = device.receive(
      try Payload(body: Array(body.utf8)), priority: .immediate, position: position, for: "final",
      at: moment(1))
    #expect(device["final"]?.position == position)
    // The state was true at 0 and came at 1: its age counts from 0.
    #expect(device["final"]?.updatedAt == moment(0))
  }

  // MARK: Order

  @Test func `relevance decides the order, ties go to the first started`() throws {
    let phone = Phone()
    for name in ["a", "b", "c", "d"] { try phone.start(name, at: 0) }
    #expect(phone.island == ["a", "b", "c", "d"])
    try phone.receive(1, for: "c", at: 1, score: 50)
    try phone.receive(1, for: "d", at: 1, score: 50)
    try phone.receive(1, for: "b", at: 1, score: -1)
    #expect(phone.island == ["c", "d", "a", "b"] && phone.lockScreen == ["c", "d", "a", "b"])
    try phone.receive(2, for: "c", at: 2)
    // An update without a score keeps the last one.
    #expect(phone.island == ["c", "d", "a", "b"])
    try phone.receive(2, for: "d", at: 3, score: 50.5)
    #expect(phone.island == ["d", "c", "a", "b"])
  }

  @Test func `an ended activity leaves the island at once and keeps its place on the Lock Screen`() throws {
    let phone = Phone()
    try phone.start("a", at: 0)
    try phone.start("b", at: 0)
    try phone.receive(1, for: "a", at: 1, score: 90)
    try phone.receive(2, for: "a", at: 2, event: .end)
    #expect(phone.island == ["b"] && phone.lockScreen == ["a", "b"])
    phone.run(to: 8 * Self.hour)
    #expect(phone.island == [] && phone.lockScreen == ["b"])
  }

  @Test func `a stale activity keeps the island`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    try phone.receive(1, at: 0, stale: 10)
    phone.run(to: 20)
    #expect(phone.island == ["final"] && phone.device["final"]?.isStale == true)
  }

  // MARK: Twelve hours

  @Test func `twelve hours of three apps, in one step as in many`() throws {
    func day(steps: Int) throws -> Phone {
      let phone = Phone()
      try phone.start("a", app: "com.example.a", at: 0)
      try phone.start("b", app: "com.example.b", scheduled: 3_600, at: 0)
      try phone.start("c", app: "com.example.c", at: 0)
      try phone.receive(1, for: "a", at: 0, stale: 600, alert: "on")
      try phone.receive(1, for: "c", at: 0, event: .end, dismissal: 7_200)
      for step in 1...steps { phone.run(to: 16 * Self.hour * Double(step) / Double(steps)) }
      return phone
    }
    let once = try day(steps: 1)
    let often = try day(steps: 960)
    #expect(once.log == often.log)
    #expect(
      once.log == [
        "0 a update active", "0 a alert on", "0 c end ended", "600 a stale-date stale", "3600 b start active",
        "7200 c dismissal dismissed", "28800 a lifetime ended", "32400 b lifetime ended",
        "43200 a dismissal dismissed", "46800 b dismissal dismissed",
      ])
    #expect(once.device.nextDeadline == nil)
  }
}
