import BroadcastChannels
import Soak
import Testing

@Suite("What comes late, and what a run that ends early has seen")
struct VerifierTimeTests {
  private static func sorted(_ recording: Recording) -> Recording {
    var recording = recording
    recording.events.sort { $0.at < $1.at }
    return recording
  }

  @Test("a message that nobody got for longer than a window and five seconds came late")
  func late() {
    for (delay, isTold) in [(6.9, false), (7.1, true)] {
      var recording = Recording()
      recording.change(3) { _, _, at in at = 1_003 + delay }
      #expect((Self.sorted(recording).judged().counts[.lost] == 1) == isTold, "\(delay)")
    }
  }

  @Test("it is let pass when the server was stopped, the soak stood still, or the witness was away")
  func rightlyLate() {
    let excuses: [[(Observation, Double)]] = [
      [(.serverStopped, 1_005)], [(.lagged(4), 1_008)], [(.disconnected(subscriber: 0), 1_003.5)],
    ]
    for excuse in excuses {
      var recording = Recording()
      recording.change(3) { _, _, at in at = 1_011 }
      for (observation, at) in excuse { recording.note(observation, at) }
      #expect(Self.sorted(recording).judged().counts[.lost] == nil, "\(excuse)")
    }
  }

  @Test("a message that waits two seconds longer than its window takes was in a window that is too long")
  func window() {
    // Message 10 is at priority 5, was answered at 1016.01, and goes out with a window of a second.
    for (letOut, priority, isTold) in [
      (1_019.0, Priority.considerate, false), (1_019.1, .considerate, true), (1_019.9, .passive, false),
      (1_020.1, .passive, true),
    ] {
      var recording = Recording()
      recording.change(10) { arrival, _, at in
        arrival.sent = letOut
        arrival.priority = priority
        at = letOut + 0.02
      }
      for index in recording.events.indices {
        guard case .sent(let channel, var sent) = recording.events[index].observation, sent.number == 10
        else { continue }
        sent.priority = priority
        recording.events[index].observation = .sent(channel: channel, sent)
      }
      let verifier = Self.sorted(recording).judged()
      #expect((verifier.counts[.window] == 1) == isTold, "\(verifier.violations)")
    }
  }

  @Test("what took a message's place was sent while its window can have been open")
  func superseded() {
    for (later, isTold) in [(1_023.9, false), (1_025, true)] {
      var recording = Recording()
      recording.send(11, at: 1_020, priority: .passive, isAlert: false, isEnd: false, outcome: .windowed)
      recording.publish(12, at: later, window: 1, to: [0, 1])
      #expect((recording.judged().counts[.lost] == 1) == isTold, "\(later)")
    }
  }

  @Test("a frame that says another priority than the message was published with is altered")
  func priority() {
    for subscriber in [0, 1] {
      var recording = Recording()
      recording.change(3, to: subscriber) { arrival, _, _ in arrival.priority = .passive }
      expect(.altered, recording, subscriber: subscriber, sequence: 3)
    }
  }

  @Test(
    "a run that ends early has its lost messages, and a card that is not stale; what is young is undecided")
  func early() {
    var recording = Recording()
    recording.send(11, at: 1_020, priority: .immediate, isAlert: true, isEnd: false, outcome: .delivered)
    recording.send(12, at: 1_026, priority: .immediate, isAlert: true, isEnd: false, outcome: .delivered)
    let verifier = recording.judged(until: 1_028, isEarly: true)
    #expect(verifier.counts[.alertLost] == 1 && verifier.undecided == 1)
    #expect(verifier.violations.first?.detail.contains("message 11, an alert sent at 20.000 s") == true)
    var stale = Recording()
    stale.change(9, to: 0) { arrival, _, _ in arrival.staleDate = 1_015.5 }
    #expect(stale.judged(until: 1_015.7, isEarly: true).counts[.stale] == nil)
    #expect(stale.judged(until: 1_015.8, isEarly: true).counts[.stale] == 1)
    // Who was looking for a connection has not had its time.
    var away = Recording()
    away.note(.disconnected(subscriber: 1), 1_020)
    away.note(.wants(subscriber: 1), 1_020)
    #expect(away.judged(until: 1_026, isEarly: true).counts[.unreachable] == nil)
    #expect(away.judged(until: 1_026).counts[.unreachable] == 1)
  }

  @Test("one rule that is broken all the time hides no other, neither in what is kept nor in what is printed")
  func kept() {
    var recording = Recording()
    for number in 0..<200 {
      recording.note(.garbled(subscriber: 0, problem: "\(number)"), 1_020)
    }
    recording.note(.unsubscribed(subscriber: 1), 1_021)
    let verifier = recording.judged()
    #expect(verifier.counts[.altered] == 200 && verifier.violations.count == 51)
    let verdict = SoakVerdict(verifier, failedConditions: [])
    let shown = verdict.shown(atMost: 20)
    #expect(shown.count == 20 && shown.last?.rule == .unreachable)
    #expect(verdict.shown(atMost: 1).map(\.rule) == [.altered, .altered, .altered, .unreachable])
    #expect(shown.last?.line(seed: 7).hasSuffix("which it has not asked for (seed 7)") == true)
  }

  @Test("standstills that processes tell out of order don't make one of all that lies between")
  func standstills() {
    var recording = Recording()
    // One of a second until 1020, told late, and one until 1040: nothing excuses what was due at 1030.
    recording.note(.lagged(1), 1_040)
    recording.note(.wentStale(subscriber: 0, staleDate: 1_030, clock: 1_041), 1_041)
    recording.events.append(.init(at: 1_041, observation: .lagged(0)))
    var verifier = Verifier(start: 1_000, channels: [recording.settings], subscribers: [(0, true, false)])
    verifier.observe(.lagged(1), at: 1_040)
    verifier.observe(.lagged(1), at: 1_020)
    verifier.observe(.wentStale(subscriber: 0, staleDate: 1_025, clock: 1_026.5), at: 1_026.5)
    #expect(verifier.counts[.stale] == 1)
    verifier.observe(.wentStale(subscriber: 0, staleDate: 1_019, clock: 1_020.2), at: 1_020.2)
    verifier.observe(.wentStale(subscriber: 0, staleDate: 1_039, clock: 1_040.2), at: 1_040.2)
    #expect(verifier.counts[.stale] == 1)
  }

  @Test("who comes back is owed no message that has expired, and none that an expired one hid")
  func expired() {
    for (storedFor, isTold) in [(3.0, true), (1.2, false)] {
      var recording = Recording()
      // Message 8 is of 1008.5, and it came back at 1009.
      recording.storedFor = storedFor
      recording = Self.stored(recording, for: storedFor)
      recording.lose(8, to: Recording.returning)
      #expect((recording.judged().counts[.newest] != nil) == isTold, "\(storedFor)")
    }
  }

  private static func stored(_ recording: Recording, for seconds: Double) -> Recording {
    var recording = recording
    for index in recording.events.indices {
      guard case .sent(let channel, var sent) = recording.events[index].observation else { continue }
      sent.storedUntil = sent.due + seconds
      recording.events[index].observation = .sent(channel: channel, sent)
    }
    return recording
  }

  @Test(
    "a subscription stands where the channel was a second before the device began to connect, however long that took"
  )
  func counting() {
    for (asked, isTold) in [(1_011.0, true), (1_009.2, false)] {
      var recording = Recording()
      // Message 8 was let out as seq 7 at 1008.5.
      recording.note(.disconnected(subscriber: Recording.returning), 1_009.1)
      recording.note(.wants(subscriber: Recording.returning), asked)
      recording.note(
        .subscribed(subscriber: Recording.returning, position: Recording.place(6), resumed: nil), 1_013)
      #expect((Self.sorted(recording).judged().counts[.forgotten] == 1) == isTold, "\(asked)")
    }
  }

  @Test("a run of most of whose messages nothing can be said has not passed")
  func undecided() {
    for (count, still, isTold) in [(18, 0.0, true), (8, 0, false), (18, 7, false)] {
      var recording = Recording()
      recording.note(.disconnected(subscriber: Recording.witness), 1_020)
      // A tenth of the minute, or more, in which the soak saw nothing.
      recording.note(.lagged(still), 1_020.5)
      for number in 11..<11 + count {
        recording.send(
          number, at: 1_021, priority: .immediate, isAlert: false, isEnd: false, outcome: .delivered)
      }
      let verdict = SoakVerdict(recording.judged(), failedConditions: [])
      #expect(verdict.failedConditions.isEmpty != isTold, "\(verdict.failedConditions)")
    }
  }
}
