import Soak
import Testing

@Suite("Who wants to be subscribed gets there")
struct VerifierReachingTests {
  private static let late = Recording.returning

  /// A run in which one loses its connection at second 20 and tries every second until it has one.
  private static func recording(
    back: Double?, _ change: (inout Recording) -> Void = { _ in }
  ) -> Recording {
    var recording = Recording()
    recording.note(.disconnected(subscriber: late), 1_020)
    change(&recording)
    for second in 0..<40 where 1_020 + Double(second) < back ?? .infinity {
      recording.note(.wants(subscriber: late), 1_020 + Double(second))
    }
    if let back {
      recording.note(
        .subscribed(subscriber: late, position: Recording.place(9), resumed: Recording.place(9)), back)
    }
    recording.events.sort { $0.at < $1.at }
    return recording
  }

  @Test("one that is not subscribed for more than ten seconds is told of once, with its attempts")
  func never() {
    let verifier = Self.recording(back: nil).judged()
    #expect(verifier.counts[.unreachable] == 1)
    let found = verifier.violations.first { $0.rule == .unreachable }
    #expect(found?.subscriber == Self.late && found?.channel == 0)
    #expect(found?.detail == "not subscribed since 20.000 s, for 10.0 s, after 10 attempts")
  }

  @Test("one that is back within ten seconds, or away by plan, or whose card is gone, is no violation")
  func excused() {
    #expect(Self.recording(back: 1_029.9).judged().counts[.unreachable] == nil)
    for excuse: Observation in [.away(subscriber: Self.late), .leaving(subscriber: Self.late)] {
      let recording = Self.recording(back: 1_021) {
        $0.note(.disconnected(subscriber: Self.late), 1_030)
        $0.note(.wants(subscriber: Self.late), 1_030)
        $0.note(excuse, 1_031)
      }
      #expect(recording.judged().counts[.unreachable] == nil)
    }
  }

  @Test("a standstill of the soak, and a restart that it makes, give more time")
  func longer() {
    let slept = Self.recording(back: 1_033) { $0.note(.lagged(4), 1_026) }
    #expect(slept.judged().counts[.unreachable] == nil)
    let restarted = Self.recording(back: 1_044) {
      $0.note(.serverStopped, 1_020)
      $0.note(.serverStopped, 1_035)
      $0.note(.serverStarted, 1_035)
    }
    #expect(restarted.judged().counts[.unreachable] == nil)
  }

  @Test("who tries for five seconds at the end of the run, in vain, counts, too")
  func atTheEnd() {
    for (since, isExcused) in [(1_054.0, false), (1_056, true)] {
      var recording = Recording()
      recording.note(.disconnected(subscriber: Self.late), since)
      recording.note(.wants(subscriber: Self.late), since)
      #expect((recording.judged().counts[.unreachable] == nil) == isExcused)
    }
  }

  @Test("a channel that the server doesn't know is a violation at once, and only one")
  func missing() {
    var recording = Recording()
    for second in 0..<20 {
      for subscriber in 0..<3 {
        recording.note(.wants(subscriber: subscriber), 1_020 + Double(second))
        recording.note(.missing(subscriber: subscriber), 1_020.1 + Double(second))
      }
    }
    let verifier = recording.judged()
    #expect(verifier.counts[.unreachable] == 1)
    #expect(verifier.violations.contains { $0.rule == .unreachable && abs($0.at - 20.1) < 0.001 })
  }

  @Test("a run in which nobody got a message has not passed, whoever was subscribed")
  func nothing() {
    var recording = Recording()
    recording.events.removeAll { $0.at > 1_000.5 }
    let verdict = SoakVerdict(recording.judged(), failedConditions: [])
    #expect(!verdict.passed)
    #expect(verdict.failedConditions == ["nothing was checked: no message reached a subscriber"])
  }
}
