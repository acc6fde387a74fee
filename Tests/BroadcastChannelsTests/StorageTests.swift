import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md, "Message storage and expiration"; design.md, on resuming.
@Suite struct StorageTests {
  @Test func `policy 0 takes expiration 0 only and stores nothing`() throws {
    let stage = try Stage(settings(policy: .none))
    let refusal = try refusal { try stage.publish("a", at: 0, expires: 600) }
    #expect(refusal.reason == .badExpirationDate && refusal.reason.status == 400)
    #expect(stage.log.isEmpty && stage.channel.counts == ChannelCounts())
    try stage.publish("b", at: 0)
    #expect(stage.stored(at: 0) == nil)
  }

  @Test(arguments: [(0, "a"), (599.9, "a"), (600, nil), (1e6, nil)] as [(Double, String?)])
  func `policy 1 keeps the message until its expiration`(second: Double, stored: String?) throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("a", at: 0, expires: 600)
    #expect(stage.stored(at: second) == stored)
  }

  /// 8 hours are 28,800 s, counted from second 100.
  @Test(arguments: [(28_899.9, "a"), (28_900, nil)] as [(Double, String?)])
  func `no message is stored longer than 8 hours`(second: Double, stored: String?) throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("a", at: 100, expires: 1_000_000)
    #expect(stage.stored(at: second) == stored)
  }

  @Test func `expiration 0 on policy 1 is delivered once and not stored`() throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("once", at: 0)
    #expect(stage.deliveries.count == 1 && stage.stored(at: 0) == nil)
    try stage.publish("kept", at: 1, expires: 600)
    try stage.publish("once more", at: 2)
    #expect(stage.stored(at: 2) == "kept")
  }

  /// The first message has timestamp 50; the second's timestamp decides.
  @Test(arguments: [(51, "second"), (50, "second"), (49, "first")])
  func `the newest is kept by timestamp, then arrival`(timestamp: Int, stored: String) throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("first", at: 0, timestamp: 50, expires: 600)
    try stage.publish("second", at: 1, timestamp: timestamp, expires: 600)
    #expect(stage.stored(at: 1) == stored)
  }

  @Test func `an expired message gives way to an older one`() throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("short", at: 0, timestamp: 50, expires: 10)
    try stage.publish("late", at: 20, timestamp: 40, expires: 600)
    #expect(stage.stored(at: 20) == "late")
  }

  @Test func `a message is stored when its window ends, not before`() throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("tick", .considerate, at: 0, expires: 600)
    #expect(stage.stored(at: 0.5) == nil)
    stage.run(to: 1)
    #expect(stage.stored(at: 1) == "tick")
  }

  /// The stored message has position `e:2`.
  @Test(
    arguments: [
      (nil, "e", "b"), (0, "e", "b"), (1, "e", "b"), (2, "e", nil), (3, "e", nil), (2, "other", "b"),
      (99, "other", "b"),
    ] as [(Int?, String, String?)])
  func `a resumed subscription gets the message only if newer`(sequence: Int?, epoch: String, stored: String?)
    throws
  {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("a", at: 0, expires: 600)
    try stage.publish("b", at: 1, expires: 600)
    #expect(stage.stored(after: sequence, epoch: epoch, at: 2) == stored)
  }

  @Test func `a channel loaded from a store goes on with its message`() throws {
    let first = try Stage(settings(policy: .latest))
    try first.publish("kept", at: 0, timestamp: 50, expires: 600)
    let channel = Channel(
      id: first.channel.id, alias: nil, settings: first.channel.settings, position: first.channel.position,
      stored: first.deliveries.first, now: moment(1))
    let second = try Stage(first.channel.settings)
    second.channel = channel
    #expect(second.stored(at: 1) == "kept")
    try second.publish("late", at: 2, timestamp: 40, expires: 600)
    #expect(second.stored(at: 2) == "kept")
    #expect(second.log.last == "late #2 at 2")
  }
}
