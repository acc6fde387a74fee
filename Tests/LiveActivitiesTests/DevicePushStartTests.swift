import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Activities that a push starts. Source: facts/live-activity.md; Apple, "Starting and updating Live Activities with
/// ActivityKit push notifications".
@Suite struct DevicePushStartTests {
  private func payload(
    at second: Int = 0, stale: Int? = nil, attributes: String = #"{"home":"Spain"}"#
  ) throws -> Payload {
    let aps = JSONWriter.object([
      "timestamp": String(1_700_000_000 + second), "event": #""start""#, "content-state": #"{"n":0}"#,
      "attributes-type": #""MatchAttributes""#, "attributes": attributes, "alert": #"{"title":"Kick-off"}"#,
      "stale-date": stale.map { String(1_700_000_000 + $0) },
    ])
    return try Payload(body: Array("{\"aps\":\(aps)}".utf8), to: .device)
  }

  /// Starts by a push at a second, and gives what changed.
  @discardableResult
  private func start(
    _ phone: Phone, _ payload: Payload, as name: String = "final", app: String = "com.example.scores",
    isOnChannel: Bool = true, at second: Double = 0
  ) throws -> [String] {
    let changes = try phone.device.start(
      name, by: payload, try #require(payload.start), definition: try Phone.definition(app: app),
      isOnChannel: isOnChannel, at: moment(second))
    return changes.map { change in
      switch change.kind {
      case .activity(let data):
        "\(data.cause.rawValue) \(data.state.rawValue) \(data.contentState?.string ?? "")"
      case .alert(let alert): "alert \(alert.title?.plain ?? "")"
      default: "\(change.kind)"
      }
    }
  }

  private func error(_ phone: Phone, _ name: String, _ payload: Payload) throws -> StartError {
    try #require(#expect(throws: StartError.self) { try start(phone, payload, as: name) })
  }

  @Test func `a push starts an activity with its attributes and first state, and lights the screen`() throws {
    let phone = Phone()
    #expect(try start(phone, try payload()) == [#"start active {"n":0}"#, "alert Kick-off"])
    let activity = try #require(phone.device["final"])
    #expect(activity.definition.attributes?.string == #"{"home":"Spain"}"#)
    #expect(activity.definition.attributesType == "MatchAttributes" && activity.isOnChannel)
    #expect(phone.island == ["final"])
  }

  @Test func `updates are ordered against the start's timestamp`() throws {
    let phone = Phone()
    try start(phone, try payload(at: 10), at: 10)
    try phone.receive(1, at: 11, timestamp: 9)
    #expect(phone.shown() == 0 && phone.log == ["11 final ignored-older active"])
    try phone.receive(2, at: 12, timestamp: 10)
    #expect(phone.shown() == 2)
  }

  @Test func `a start with a stale date in the past is stale from the start, hidden, and lights nothing`()
    throws
  {
    let phone = Phone()
    #expect(try start(phone, try payload(at: 5, stale: 5), at: 5) == [#"start stale {"n":0}"#])
    #expect(phone.lockScreen.isEmpty)
    try phone.receive(1, at: 6)
    #expect(phone.lockScreen == ["final"])
  }

  @Test func `it lives for 8 hours like any other`() throws {
    let phone = Phone()
    try start(phone, try payload())
    phone.run(to: 28_800)
    #expect(phone.log.last == "28800 final lifetime ended")
  }

  @Test func `it counts towards the limits of the app and of the device`() throws {
    let phone = Phone { $0.activitiesPerApp = 2 }
    try start(phone, try payload(), as: "one")
    try start(phone, try payload(), as: "two")
    #expect(try error(phone, "three", try payload()) == .tooManyOfApp(app: "com.example.scores", limit: 2))
    let small = Phone { $0.activitiesOnDevice = 1 }
    try start(small, try payload(), as: "one", app: "com.example.cycling")
    #expect(try error(small, "two", try payload()) == .tooManyOnDevice(limit: 1))
    let off = Phone { $0.disabledApps = ["com.example.scores"] }
    #expect(try error(off, "one", try payload()) == .disabled(app: "com.example.scores"))
  }

  /// 4,096 bytes with the 7 of `{"n":0}`.
  @Test(arguments: [(4_089, false), (4_090, true)])
  func `attributes and first state together are 4,096 bytes at most`(bytes: Int, isTooLarge: Bool) throws {
    let attributes = #"{"a":"\#(String(repeating: "x", count: bytes - 8))"}"#
    let payload = try payload(attributes: attributes)
    let phone = Phone()
    if isTooLarge {
      #expect(try error(phone, "final", payload) == .tooLarge(bytes: 4_097))
    } else {
      try start(phone, payload)
    }
  }

  @Test func `an activity that is there is not started a second time`() throws {
    let phone = Phone()
    try start(phone, try payload())
    #expect(try error(phone, "final", try payload()) == .alreadyStarted(name: "final"))
    #expect(phone.device.activities.count == 1)
  }

  @Test func `a push is a new activity, also where the person dismissed one`() throws {
    let phone = Phone()
    try phone.start("final", at: 0)
    phone.dismiss("final", at: 1)
    #expect(try phone.startError("final", at: 2) == .dismissedByPerson(name: "final"))
    try start(phone, try payload(at: 3), at: 3)
    #expect(phone.island == ["final"] && phone.device.activities.count == 1)
  }

  @Test func `a device that is kept knows which activities have no channel`() throws {
    let phone = Phone()
    try start(phone, try payload(), as: "one", isOnChannel: false)
    try start(phone, try payload(), as: "two")
    let data = try JSONEncoder().encode(DeviceSnapshot(phone.device))
    let kept = try Device(
      restoring: JSONDecoder().decode(DeviceSnapshot.self, from: data), at: moment(1))
    #expect(kept["one"]?.isOnChannel == false && kept["two"]?.isOnChannel == true)
    #expect(kept["one"]?.definition.attributes?.string == #"{"home":"Spain"}"#)
  }
}
