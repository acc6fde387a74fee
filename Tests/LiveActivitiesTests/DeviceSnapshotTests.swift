import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md: "After an app restart the existing activities are listed and resumed, never started a
/// second time"; "it must not come back by itself".
@Suite struct DeviceSnapshotTests {
  private static let start = Date(timeIntervalSince1970: 1_700_000_000)
  private static let definition = ChannelDefinition(settings: ChannelSettings(app: .scores))

  private static func at(_ seconds: Double) -> Date { start.addingTimeInterval(seconds) }

  /// A device with one activity that shows `{"n":1}` and goes stale at 60 s.
  private func device(_ settings: DeviceSettings = DeviceSettings()) throws -> Device {
    var device = Device(settings: settings)
    try device.start("final", definition: Self.definition, at: Self.start)
    try receive(1, &device, at: 0)
    return device
  }

  private func receive(_ number: Int, _ device: inout Device, at seconds: Double) throws {
    let time = Int(Self.at(seconds).timeIntervalSince1970)
    let body =
      #"{"aps":{"timestamp":\#(time),"event":"update","content-state":{"n":\#(number)},"stale-date":\#(time + 60)}}"#
    let payload = try Payload(body: Array(body.utf8))
    let place = StreamPosition(epoch: "e", sequence: number)
    _ = device.receive(payload, priority: .immediate, position: place, for: "final", at: Self.at(seconds))
  }

  /// What a file does to it.
  private func kept(_ device: Device) throws -> DeviceSnapshot {
    try JSONDecoder().decode(DeviceSnapshot.self, from: JSONEncoder().encode(DeviceSnapshot(device)))
  }

  @Test func `an activity comes back with its state, its position and its deadlines`() throws {
    var device = try Device(restoring: kept(device()), at: Self.at(10))
    #expect(device["final"]?.activity.contentState?.string == #"{"n":1}"#)
    #expect(device["final"]?.position == StreamPosition(epoch: "e", sequence: 1))
    #expect(device["final"]?.updatedAt == Self.start)
    #expect(try device.start("final", definition: Self.definition, at: Self.at(10)) == false, "never doubled")
    #expect(device.activities.count == 1)
    _ = device.advance(to: Self.at(60))
    #expect(device["final"]?.activity.state == .stale)
  }

  @Test
  func `what happened meanwhile is made up for: after 8 hours the activity has ended, after 12 it is gone`()
    throws
  {
    let snapshot = try kept(device())
    for (hours, state) in [(8.0, LiveActivity.State.ended), (12, .dismissed)] {
      var device = try Device(restoring: snapshot, at: Self.at(hours * 3_600))
      _ = device.advance(to: Self.at(hours * 3_600))
      #expect(device["final"]?.activity.state == state)
    }
  }

  @Test func `what the person dismissed does not come back`() throws {
    var before = try device()
    _ = before.dismiss("final", at: Self.at(5))
    var device = try Device(restoring: kept(before), at: Self.at(10))
    #expect(throws: StartError.dismissedByPerson(name: "final")) {
      try device.start("final", definition: Self.definition, at: Self.at(10))
    }
    #expect(device.lockScreen.isEmpty)
  }

  /// One token an hour: the second update waits, and so it does after the restart.
  @Test func `the budget that was used stays used, and what waits goes on waiting`() throws {
    var settings = DeviceSettings()
    settings.hourlyBudget = 1
    var before = try device(settings)
    try receive(2, &before, at: 1)
    var device = try Device(restoring: kept(before), at: Self.at(2))
    #expect(device["final"]?.isOverBudget == true && device["final"]?.budgetLeft(at: Self.at(2)) == 0)
    _ = device.advance(to: Self.at(3_601))
    #expect(device["final"]?.activity.contentState?.string == #"{"n":2}"#)
  }

  @Test func `a newer format and one that contradicts itself are refused`() throws {
    let text = String(decoding: try JSONEncoder().encode(DeviceSnapshot(device())), as: UTF8.self)
    func restore(_ text: String) throws {
      _ = try Device(
        restoring: JSONDecoder().decode(DeviceSnapshot.self, from: Data(text.utf8)), at: Self.start)
    }
    #expect(throws: DeviceSnapshot.Problem.newerFormat(2)) {
      try restore(text.replacingOccurrences(of: #""format":1"#, with: #""format":2"#))
    }
    for (old, new) in [(#""state":"active""#, #""state":"ended""#), (#""e:1""#, #""nowhere""#)] {
      #expect(throws: DeviceSnapshot.Problem.self) {
        try restore(text.replacingOccurrences(of: old, with: new))
      }
    }
  }
}
