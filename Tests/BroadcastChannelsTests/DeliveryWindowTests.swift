import Foundation
import Testing

@testable import BroadcastChannels

/// The window's rules through a channel. Source: design.md, "Budgets and delivery windows": defaults 1 s and 5 s.
@Suite struct DeliveryWindowTests {
  @Test func `priority 10 is delivered at once`() throws {
    let stage = try Stage(settings())
    #expect(try stage.publish("goal", at: 0.5).outcome == .delivered)
    #expect(stage.log == ["goal #1 at 0.500"])
    #expect(stage.channel.nextDeadline == nil)
  }

  @Test(arguments: [(Priority.considerate, "tick #1 at 1"), (.passive, "tick #1 at 5")])
  func `a lower priority waits for the end of its window`(priority: Priority, delivery: String) throws {
    let stage = try Stage(settings())
    #expect(try stage.publish("tick", priority, at: 0).outcome == .windowed)
    #expect(stage.log.isEmpty)
    stage.run(to: 100)
    #expect(stage.log == [delivery])
  }

  @Test func `the first message opens the window and later ones replace it`() throws {
    let stage = try Stage(settings())
    for (name, second) in [("a", 0), ("b", 0.2), ("c", 0.9)] {
      try stage.publish(name, .considerate, at: second)
    }
    try stage.publish("d", .considerate, at: 1.0)
    stage.run(to: 100)
    // The window ends at 1.0 whatever joined; d, published at that moment, opens the next.
    #expect(stage.log == ["a superseded", "b superseded", "c #1 at 1", "d #2 at 2"])
    #expect(stage.channel.counts.superseded == 2 && stage.channel.counts.windowed == 4)
  }

  @Test func `a clock that is set back holds nothing for as long`() throws {
    let stage = try Stage(settings())
    try stage.publish("tick", .considerate, at: 3_600)
    // Set back by an hour: the end is an hour away, of a window of a second.
    #expect(stage.channel.advance(to: moment(0.5)).count == 1)
    #expect(stage.channel.nextDeadline == nil)

    try stage.publish("again", .passive, at: 4_000)
    #expect(stage.channel.advance(to: moment(4_000)).isEmpty)
    // A second back is as good as any other, and no harm.
    #expect(stage.channel.advance(to: moment(3_999)).count == 1)
  }

  @Test func `a window that was open before a restart and a clock set back ends at once`() throws {
    let stage = try Stage(settings(policy: .latest))
    try stage.publish("tick", .considerate, at: 3_600, expires: 9_000)
    let change = try #require(
      stage.channel.change(since: try Stage(settings(policy: .latest)).channel.checkpoint))
    var state = ChannelState(position: stage.channel.position)
    state.apply(change)
    let channel = Channel(
      id: stage.channel.id, alias: nil, settings: stage.channel.settings, state: state, now: moment(0))
    #expect(channel.nextDeadline == .distantPast)
    // Less than a window's longest is no sign of anything.
    let other = Channel(
      id: stage.channel.id, alias: nil, settings: stage.channel.settings, state: state, now: moment(3_550))
    #expect(other.nextDeadline == moment(3_601))
  }

  @Test func `the newest timestamp wins, and a late message is superseded`() throws {
    let stage = try Stage(settings())
    try stage.publish("new", .considerate, at: 0, timestamp: 50)
    #expect(try stage.publish("late", .considerate, at: 0.5, timestamp: 49).outcome == .superseded)
    stage.run(to: 100)
    #expect(stage.log == ["new #1 at 1"])
  }

  @Test func `ties go to the later arrival`() throws {
    let stage = try Stage(settings())
    try stage.publish("first", .considerate, at: 0, timestamp: 50)
    #expect(try stage.publish("second", .considerate, at: 0.5, timestamp: 50).outcome == .windowed)
    stage.run(to: 100)
    #expect(stage.log == ["first superseded", "second #1 at 1"])
  }

  @Test func `a message at 5 brings a window opened at 1 forward`() throws {
    let stage = try Stage(settings())
    try stage.publish("passive", .passive, at: 0)
    try stage.publish("considerate", .considerate, at: 2)
    stage.run(to: 100)
    #expect(stage.log == ["passive superseded", "considerate #1 at 3"])
  }

  @Test func `a message at 1 does not hold back a window opened at 5`() throws {
    let stage = try Stage(settings())
    try stage.publish("considerate", .considerate, at: 0)
    try stage.publish("passive", .passive, at: 0.5)
    stage.run(to: 100)
    #expect(stage.log == ["considerate superseded", "passive #1 at 1"])
  }

  @Test func `priority 10 supersedes an update that waits`() throws {
    let stage = try Stage(settings())
    try stage.publish("tick", .considerate, at: 0)
    try stage.publish("goal", at: 0.5)
    #expect(stage.channel.nextDeadline == nil)
    stage.run(to: 100)
    #expect(stage.log == ["tick superseded", "goal #1 at 0.500"])
  }

  @Test func `priority 10 lets what is newer wait on, so time never runs backwards`() throws {
    let stage = try Stage(settings())
    try stage.publish("newer", .considerate, at: 0, timestamp: 60)
    try stage.publish("late goal", at: 0.5, timestamp: 50)
    stage.run(to: 100)
    #expect(stage.log == ["late goal #1 at 0.500", "newer #2 at 1"])
  }

  @Test(arguments: [(Payload.Event.update, true), (.end, false)])
  func `priority 10 flushes an alert or an end that waits before it`(event: Payload.Event, alert: Bool) throws
  {
    let stage = try Stage(settings())
    try stage.publish("keep", .considerate, at: 0, event: event, alert: alert)
    try stage.publish("goal", at: 0.5, timestamp: 1)
    stage.run(to: 100)
    #expect(stage.log == ["keep #1 at 0.500", "goal #2 at 0.500"])
  }

  @Test(arguments: [(Payload.Event.update, true), (.end, false)])
  func `an alert and an end are never replaced`(event: Payload.Event, alert: Bool) throws {
    let stage = try Stage(settings())
    try stage.publish("keep", .considerate, at: 0, timestamp: 10, event: event, alert: alert)
    try stage.publish("tick", .considerate, at: 0.1, timestamp: 20)
    try stage.publish("tock", .considerate, at: 0.2, timestamp: 30)
    stage.run(to: 100)
    #expect(stage.log == ["tick superseded", "keep #1 at 1", "tock #2 at 1"])
  }

  @Test func `a late alert is delivered before what is newer`() throws {
    let stage = try Stage(settings())
    try stage.publish("tick", .considerate, at: 0, timestamp: 20)
    #expect(try stage.publish("late", .considerate, at: 0.1, timestamp: 10, alert: true).outcome == .windowed)
    stage.run(to: 100)
    #expect(stage.log == ["late #1 at 1", "tick #2 at 1"])
  }

  @Test func `an alert replaces an older update`() throws {
    let stage = try Stage(settings())
    try stage.publish("tick", .considerate, at: 0)
    try stage.publish("goal", .considerate, at: 0.1, alert: true)
    stage.run(to: 100)
    #expect(stage.log == ["tick superseded", "goal #1 at 1"])
  }

  @Test func `more alerts than a window keeps end it early`() throws {
    let stage = try Stage(settings())
    for index in 0..<Limits.windowKeeps { try stage.publish("a\(index)", .considerate, at: 0, alert: true) }
    #expect(stage.log.isEmpty)
    try stage.publish("last", .considerate, at: 0.5, alert: true)
    #expect(stage.deliveries.count == 17 && stage.log.last == "last #17 at 0.500")
    #expect(stage.channel.nextDeadline == nil)
  }

  @Test func `a window of 0 seconds delivers at once`() throws {
    let stage = try Stage(settings(windows: DeliveryWindows(considerate: 0, passive: 0)))
    #expect(try stage.publish("a", .considerate, at: 1).outcome == .delivered)
    #expect(try stage.publish("b", .passive, at: 2).outcome == .delivered)
    #expect(stage.log == ["a #1 at 1", "b #2 at 2"])
  }

  @Test func `a publish after the end of a window works that window off first`() throws {
    var channel = try Stage(settings()).channel
    let bodies = try [0, 9].map { try Payload(body: Array(#"{"aps":\#(aps($0))}"#.utf8)) }
    let messages = zip(["old", "new"], bodies).map { name, payload in
      Message(
        uniqueID: UniqueID(text: name), requestID: nil, priority: .considerate, expiration: .once,
        payload: payload)
    }
    _ = try channel.publish(messages[0], at: moment(0))
    // Nobody called advance(to:) at 1.
    let late = try channel.publish(messages[1], at: moment(9))
    #expect(late.effects.count == 1 && late.outcome == .windowed)
    #expect(channel.nextDeadline == moment(10))
  }

  @Test func `sequence numbers go on from where the channel stood, without gaps`() throws {
    let stage = try Stage(settings(), sequence: 41)
    try stage.publish("a", at: 0)
    try stage.publish("superseded", .considerate, at: 1)
    try stage.publish("b", at: 1.5, timestamp: 2)
    #expect(stage.deliveries.map(\.position.description) == ["e:42", "e:43"])
    #expect(stage.channel.position == StreamPosition(epoch: "e", sequence: 43))
  }
}
