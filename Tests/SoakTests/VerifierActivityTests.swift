import BroadcastChannels
import Soak
import Testing

@Suite("The soak's verifier sees what an activity must not do")
struct VerifierActivityTests {
  @Test("a stale flip that comes late", arguments: [1_012.3, 1_013, 1_020])
  func staleLate(_ clock: Double) {
    var recording = Recording()
    recording.note(.wentStale(subscriber: 0, staleDate: 1_012, clock: clock), clock)
    expect(.stale, recording, subscriber: 0)
  }

  @Test(
    "a standstill of the soak excuses what it made late, its own length, and nothing that was due after it")
  func standstill() {
    for (clock, isExcused) in [(1_014.0, true), (1_014.4, false)] {
      var recording = Recording()
      // Two processes of one machine, which stood still together, and once more.
      recording.note(.lagged(1), 1_013)
      recording.note(.lagged(0.9), 1_013.1)
      recording.note(.lagged(0.8), 1_013.95)
      recording.note(.wentStale(subscriber: 0, staleDate: 1_012.05, clock: clock), clock)
      recording.events.sort { $0.at < $1.at }
      #expect((recording.judged().counts[.stale] == nil) == isExcused)
    }
    var after = Recording()
    after.note(.lagged(1), 1_013)
    after.note(.wentStale(subscriber: 0, staleDate: 1_013.1, clock: 1_013.5), 1_013.5)
    after.events.sort { $0.at < $1.at }
    expect(.stale, after, subscriber: 0)
  }

  @Test("a stale flip that comes early")
  func staleEarly() {
    var recording = Recording()
    recording.note(.wentStale(subscriber: 0, staleDate: 1_012, clock: 1_011.9), 1_011.9)
    expect(.stale, recording, subscriber: 0)
  }

  @Test(
    "a stale date that passes without a flip, whatever ends the wait: a message, the dismissal, the end of the run"
  )
  func neverStale() {
    for change in [0, 1, 2] {
      var recording = Recording()
      recording.change(change == 2 ? 9 : 8, to: Recording.witness) { arrival, _, _ in
        arrival.staleDate = change == 2 ? 1_016 : 1_010
      }
      if change == 1 { recording.note(.leaving(subscriber: Recording.witness), 1_011) }
      if change == 2 { recording.lose(10, to: Recording.witness) }
      recording.events.sort { $0.at < $1.at }
      recording.events.removeAll { if case .wentStale = $0.observation { true } else { false } }
      expect(.stale, recording, subscriber: Recording.witness)
    }
  }

  @Test("a stale date that is replaced in time, or passes on a clock that was set back, needs no flip")
  func replacedStaleDate() {
    var recording = Recording()
    recording.change(8, to: Recording.witness) { arrival, _, _ in arrival.staleDate = 1_015.2 }
    recording.change(8, to: Recording.returning) { arrival, _, _ in arrival.staleDate = 1_010 }
    recording.note(.clockJumped(subscriber: Recording.returning, to: 1_000), 1_009.5)
    recording.events.sort { $0.at < $1.at }
    #expect(recording.judged().counts[.stale] == nil)
  }

  @Test("a flip at the moment of a clock's jump is on time")
  func staleAfterJump() {
    var recording = Recording()
    recording.note(.clockJumped(subscriber: 0, to: 1_100), 1_018)
    recording.note(.wentStale(subscriber: 0, staleDate: 1_040, clock: 1_100.01), 1_018.01)
    #expect(recording.judged().violations.isEmpty)
  }

  @Test("an old state after coming back")
  func oldAfterReturn() {
    var recording = Recording()
    recording.lose(8, to: Recording.returning)
    expect(.newest, recording, subscriber: Recording.returning, sequence: 7)
  }

  @Test("a newer message that comes before the stored one, which makes up for it")
  func newestSkipped() {
    var recording = Recording()
    recording.lose(8, to: Recording.returning)
    // Less than two seconds after the return.
    recording.change(9, to: Recording.returning) { _, _, at in at = 1_009.5 }
    recording.events.sort { $0.at < $1.at }
    expect(.newest, recording, subscriber: Recording.returning, sequence: 7)
  }

  @Test("who subscribed before the first message owes nothing when that comes")
  func beforeTheFirst() {
    var recording = Recording()
    recording.lose(1, to: Recording.returning)
    recording.lose(2, to: Recording.returning)
    recording.lose(3, to: Recording.returning)
    #expect(recording.judged().counts[.newest] == nil)
  }

  @Test("a channel that stores and counts anew, or from an older number")
  func forgotten() {
    for position in [StreamPosition(epoch: "f", sequence: 7), Recording.place(5)] {
      var recording = Recording()
      recording.note(.disconnected(subscriber: Recording.returning), 1_011)
      recording.note(
        .subscribed(subscriber: Recording.returning, position: position, resumed: Recording.place(8)), 1_012)
      recording.events.sort { $0.at < $1.at }
      expect(.forgotten, recording, subscriber: Recording.returning)
    }
  }

  @Test("a channel that stores nothing may count anew")
  func anew() {
    var recording = Recording()
    recording.settings.storagePolicy = .none
    recording.note(.disconnected(subscriber: Recording.returning), 1_011)
    recording.note(
      .subscribed(
        subscriber: Recording.returning, position: StreamPosition(epoch: "f", sequence: 0), resumed: nil),
      1_012)
    recording.events.sort { $0.at < $1.at }
    #expect(recording.judged().counts[.forgotten] == nil)
  }

  @Test("a message that a dismissed card shows before it has left its channel")
  func shownWhileLeaving() {
    var recording = Recording()
    recording.note(.leaving(subscriber: Recording.slow), 1_008.3)
    recording.events.sort { $0.at < $1.at }
    expect(.afterDismissal, recording, subscriber: Recording.slow, sequence: 7)
  }

  @Test("a message after the dismissal")
  func afterDismissal() {
    var recording = Recording()
    let arrival = recording.publish(11, at: 1_020, to: [0, 1])
    recording.receive(arrival, Recording.slow, 1_020.02)
    expect(.afterDismissal, recording, subscriber: Recording.slow, sequence: arrival.position.sequence)
  }

  @Test("a message that is shown after the end")
  func shownAfterEnd() {
    var recording = Recording()
    recording.publish(11, at: 1_020, to: [0])
    expect(.afterEnd, recording, subscriber: Recording.witness)
  }

  @Test("a message that is let out after the end, which it came before")
  func letOutAfterEnd() {
    var recording = Recording()
    let arrival = SoakArrival(
      position: Recording.place(10), number: 6, digest: 6, uniqueID: "u6", priority: .considerate,
      sent: 1_018,
      timestamp: 1_006, isIrreplaceable: false, isEnd: false)
    recording.note(.received(subscriber: 0, arrival, .ignoredAfterEnd), 1_018.02)
    expect(.afterEnd, recording, subscriber: 0, sequence: 10)
  }

  @Test(
    "a message that is acknowledged and not displayed",
    arguments: [Shown.nothing, .ignoredOlder, .ignoredAfterEnd])
  func notDisplayed(_ instead: Shown) {
    var recording = Recording()
    recording.change(5, to: Recording.witness) { _, shown, _ in shown = instead }
    expect(.notDisplayed, recording, subscriber: Recording.witness, sequence: 5)
  }
}
