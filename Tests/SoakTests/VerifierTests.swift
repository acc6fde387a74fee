import BroadcastChannels
import Soak
import Testing

@Suite("The soak's verifier sees each rule broken")
struct VerifierTests {
  @Test("a run in which nothing is wrong passes, and its slow reader missed one update")
  func unbroken() {
    let verifier = Recording().judged()
    #expect(verifier.violations.isEmpty, "\(verifier.violations)")
    #expect(verifier.conflated == 1)
    for rule: SoakRule in [
      .order, .gap, .budget, .window, .stale, .newest, .afterDismissal, .alertLost, .record,
    ] {
      #expect((verifier.checks[rule] ?? 0) > 0, "\(rule) was never checked")
    }
  }

  @Test("a budget that lets one too many through")
  func budget() {
    var recording = Recording()
    // Three tokens and one a second: the burst of four at one moment has one too many.
    for number in 11...14 { recording.publish(number, at: 1_020, to: [0, 1]) }
    // The end is over; it is the budget that this is about.
    expect(.budget, recording, sequence: 13)
    #expect(recording.judged().counts[.budget] == 1)
  }

  @Test("a burst that the budget just allows is no violation")
  func wholeBudget() {
    var recording = Recording()
    for number in 11...13 { recording.publish(number, at: 1_020, to: [0, 1]) }
    #expect(recording.judged().counts[.budget] == nil)
  }

  @Test("a window that delivers twice within its time")
  func window() {
    var recording = Recording()
    recording.change(7) { arrival, _, _ in arrival.sent = 1_006.4 }
    expect(.window, recording, sequence: 6)
  }

  @Test(
    "an alert that waits goes out with its window, or with what it makes way for, or with a window full of alerts"
  )
  func alertInWindow() {
    // Message 10 goes out with a window's end at 1017; at 1017.5 no window can end.
    for (number, isTold) in [(0, true), (1, false), (2, true)] {
      var recording = Recording()
      recording.publish(11, at: 1_017.2, window: 0.3, isAlert: true, to: [0, 1])
      // With an immediate message of the same moment; with a later one.
      if number > 0 { recording.publish(12, at: number == 1 ? 1_017.5 : 1_017.6, to: [0, 1]) }
      #expect((recording.judged().counts[.window] != nil) == isTold, "\(number)")
    }
    for (count, isTold) in [(Limits.windowKeeps, true), (Limits.windowKeeps + 1, false)] {
      var recording = Recording()
      for number in 0..<count {
        recording.publish(11 + number, at: 1_017.2, window: 0.3, isAlert: true, to: [0, 1])
      }
      #expect((recording.judged().counts[.window] != nil) == isTold, "\(count)")
    }
  }

  @Test("two messages in the wrong order")
  func order() throws {
    var recording = Recording()
    let first = try #require(recording.delivery(2, to: Recording.returning))
    let second = try #require(recording.delivery(3, to: Recording.returning))
    let swapped = recording.events[first].observation
    recording.events[first].observation = recording.events[second].observation
    recording.events[second].observation = swapped
    expect(.order, recording, subscriber: Recording.returning, sequence: 2)
  }

  @Test("an activity that shows an older state in place of a newer one")
  func olderShown() {
    var recording = Recording()
    recording.change(5, to: Recording.witness) { arrival, _, _ in arrival.timestamp = 900 }
    expect(.order, recording, subscriber: Recording.witness, sequence: 5)
  }

  @Test("a message that one who reads never gets")
  func gap() {
    var recording = Recording()
    recording.lose(3, to: Recording.returning)
    expect(.gap, recording, subscriber: Recording.returning, sequence: 4)
  }

  @Test("an update conflated for one that was slow only long ago")
  func lateGap() {
    var recording = Recording()
    for (index, number) in (11...13).enumerated() {
      recording.publish(number, at: 1_030 + Double(2 * index), to: number == 12 ? [0] : [0, 1])
    }
    expect(.gap, recording, subscriber: Recording.returning)
  }

  @Test("a burst makes a narrow connection slow, even of one who reads; fewer messages, or another's, don't")
  func burst() {
    let narrow: Set<Int> = [Recording.returning]
    for (narrow, count, isExcused) in [(narrow, 7, true), (narrow, 5, false), ([], 7, false)] {
      var recording = Recording()
      recording.narrow = narrow
      for index in 0..<count {
        let isMissed = index == count - 2
        recording.publish(
          11 + index, at: 1_030 + Double(index) / 10, window: 1.5,
          to: isMissed ? [0] : [0, 1])
      }
      #expect((recording.judged().counts[.gap] == nil) == isExcused)
    }
  }

  @Test("an alert conflated away for a slow reader")
  func alertConflated() {
    var recording = Recording()
    recording.lose(4, to: Recording.slow)
    expect(.alertLost, recording, subscriber: Recording.slow, sequence: 4)
  }

  @Test("an alert conflated away, which the others see only afterwards")
  func alertConflatedFirst() throws {
    var recording = Recording()
    recording.lose(4, to: Recording.slow)
    // The slow one's next message overtakes what everybody else gets.
    let late = try #require(recording.delivery(5, to: Recording.slow))
    let event = recording.events.remove(at: late)
    let early = try #require(recording.delivery(4, to: Recording.witness))
    recording.events.insert(event, at: early)
    expect(.alertLost, recording, subscriber: Recording.slow, sequence: 4)
  }

  @Test("an alert that was accepted and reaches nobody")
  func alertLost() {
    var recording = Recording()
    recording.send(11, at: 1_020, priority: .immediate, isAlert: true, isEnd: false, outcome: .delivered)
    expect(.alertLost, recording)
  }

  @Test("an update that was accepted and reaches nobody")
  func updateLost() {
    var recording = Recording()
    recording.send(11, at: 1_020, priority: .immediate, isAlert: false, isEnd: false, outcome: .delivered)
    expect(.lost, recording)
  }

  @Test("a message that comes twice")
  func duplicate() throws {
    var recording = Recording()
    let index = try #require(recording.delivery(2, to: Recording.witness))
    recording.events.insert(recording.events[index], at: index + 1)
    expect(.once, recording, subscriber: Recording.witness, sequence: 2)
  }

  @Test("a message that is let out under two numbers")
  func twoNumbers() {
    var recording = Recording()
    recording.change(8) { arrival, _, _ in
      arrival.number = 7
      arrival.digest = 7
      arrival.uniqueID = "u7"
    }
    expect(.publishedTwice, recording, sequence: 7)
  }

  @Test("a request that is sent twice and published twice")
  func publishedTwice() {
    var recording = Recording()
    for index in recording.events.indices {
      if case .accepted(let channel, let number, _, let outcome, _, true) = recording.events[index]
        .observation
      {
        recording.events[index].observation = .accepted(
          channel: channel, number: number, uniqueID: "another", outcome: outcome, isRepetition: false,
          again: true)
      }
    }
    expect(.publishedTwice, recording)
  }

  @Test("a byte that changed on the way")
  func altered() {
    var recording = Recording()
    recording.change(3, to: Recording.returning) { arrival, _, _ in arrival.digest += 1 }
    expect(.altered, recording, subscriber: Recording.returning, sequence: 3)
  }

  @Test("a refused message that is delivered")
  func refused() throws {
    var recording = Recording()
    let index = try #require(recording.delivery(3, to: Recording.witness))
    recording.events.insert(
      Recording.Event(at: 1_003.01, observation: .refused(channel: 0, number: 3, reason: "TooManyRequests")),
      at: index)
    expect(.unexpected, recording, sequence: 3)
  }

  @Test("a message that nobody sent")
  func unknown() {
    var recording = Recording()
    recording.change(3) { arrival, _, _ in arrival.number = nil }
    expect(.unexpected, recording, sequence: 3)
  }

  @Test("an end that was accepted shortly before the run's end and reaches nobody")
  func endLost() {
    var recording = Recording()
    recording.send(11, at: 1_055, priority: .considerate, isAlert: false, isEnd: true, outcome: .windowed)
    expect(.alertLost, recording)
  }

  @Test(
    "a record of the server that disagrees with its subscribers",
    arguments: [(1, 1, 1), (2, 0, 1), (2, 2, 1), (2, 1, 0), (2, 1, 2)])
  func record(_ written: Int, _ acknowledged: Int, _ displayed: Int) {
    var recording = Recording()
    recording.note(
      .record(channel: 0, number: 10, written: written, acknowledged: acknowledged, displayed: displayed),
      1_019)
    expect(.record, recording)
  }

  @Test("a restart refills no budget, but for three messages that a killed server may not have written down")
  func restart() {
    for last in [18, 19] {
      var recording = Recording()
      recording.settings = ChannelSettings(
        app: .scores, storagePolicy: .latest, budget: FrequencyBudget(capacity: 10, refillPerHour: 0),
        windows: recording.settings.windows)
      // Five were let out at 10 before.
      for number in 11...15 { recording.publish(number, at: 1_020, to: [0, 1]) }
      recording.note(.serverStopped, 1_020.5)
      for number in 16...last { recording.publish(number, at: 1_030, to: [0, 1]) }
      #expect(recording.judged().counts[.budget] == (last == 18 ? nil : 1))
    }
  }

  @Test("what waits may come early when the server stops")
  func earlyAtStop() {
    var recording = Recording()
    for number in 11...13 { recording.publish(number, at: 1_020, to: [0, 1]) }
    recording.note(.serverStopped, 1_020.5)
    for number in 14...16 { recording.publish(number, at: 1_021, to: [0, 1]) }
    #expect(recording.judged().counts[.budget] == nil)
  }

  @Test("a number that nobody has seen holds up no judgement of those behind it")
  func unseen() {
    var recording = Recording()
    recording.publish(11, at: 1_020, to: [])
    for number in 12...15 { recording.publish(number, at: 1_024, to: [0, 1]) }
    recording.publish(16, at: 1_040, to: [0, 1])
    expect(.budget, recording, sequence: 14)
  }

  @Test("each of two restarts forgives some, also when what came between them is judged after both")
  func twoRestarts() {
    for stops in [[1_021.5, 1_028], [1_028]] {
      var recording = Recording()
      // Half a token a second: without a restart in between there is one too few for the second three.
      recording.settings = ChannelSettings(
        app: .scores, storagePolicy: .latest, budget: FrequencyBudget(capacity: 3, refillPerHour: 1_800),
        windows: recording.settings.windows)
      for number in 11...13 { recording.publish(number, at: 1_020, to: [0, 1]) }
      // Nobody sees it, which holds up the judgement for some seconds.
      recording.publish(14, at: 1_020.1, window: 1, to: [])
      for number in 15...17 { recording.publish(number, at: 1_024.6, to: [0, 1]) }
      for stop in stops { recording.note(.serverStopped, stop) }
      recording.publish(18, at: 1_040, to: [0, 1])
      #expect((recording.judged().counts[.budget] == nil) == (stops.count == 2))
    }
  }

  @Test("a violation says all that is needed to find it again")
  func description() throws {
    var recording = Recording()
    recording.lose(3, to: Recording.returning)
    let violation = try #require(recording.judged().violations.first)
    #expect(
      violation.description
        == "gap: channel 0, subscriber 1 seq 4 of epoch e at 4.020 s: it reads and stayed connected, and misses seq 3"
    )
  }
}
