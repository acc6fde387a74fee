import BroadcastChannels
import Soak
import Testing

@Suite("Publishes are answered, and rightly")
struct VerifierAnswerTests {
  /// One channel with little: ten at priority 10 and one more a second, twenty in all and two more a second.
  private static func recording(
    _ overBudget: FrequencyBudget.OverBudget = .demote, _ change: (inout Recording) -> Void
  ) -> Recording {
    var recording = Recording()
    recording.settings = ChannelSettings(
      app: .scores, storagePolicy: .latest,
      budget: FrequencyBudget(capacity: 10, refillPerHour: 3_600, overBudget: overBudget),
      windows: DeliveryWindows(considerate: 1, passive: 2), publishRate: PublishRate(perSecond: 2, burst: 20))
    recording.note(.publisherConnected(channel: 0), 1_000)
    change(&recording)
    recording.events.sort { $0.at < $1.at }
    return recording
  }

  private static func sent(
    _ number: Int, _ at: Double, _ priority: Priority = .immediate, timestamp: Int64? = nil,
    isAlert: Bool = false
  ) -> Observation {
    .sent(
      channel: 0,
      Sent(
        number: number, due: at, digest: UInt64(number), priority: priority,
        timestamp: timestamp ?? Int64(at), isIrreplaceable: isAlert, isEnd: false, storedUntil: nil))
  }

  private static func accepted(_ number: Int, _ outcome: Outcome) -> Observation {
    .accepted(
      channel: 0, number: number, uniqueID: "u\(number)", outcome: outcome, isRepetition: false, again: false)
  }

  private static func details(_ recording: Recording) -> [String] {
    recording.judged().violations.filter { $0.rule == .answered }.map(\.detail)
  }

  // MARK: None

  @Test("a publish that is not answered within five seconds is a violation; two at the end")
  func never() {
    let words = ["message 11, sent at 57.900 s, was never answered"]
    #expect(Self.details(Self.recording { $0.note(Self.sent(11, 1_057.9), 1_057.9) }) == words)
    #expect(Self.details(Self.recording { $0.note(Self.sent(11, 1_058.1), 1_058.1) }) == [])
    let during = Self.recording {
      $0.note(Self.sent(11, 1_020), 1_020)
      for second in 21..<30 { $0.note(.lagged(0), 1_000 + Double(second)) }
    }
    #expect(during.judged(until: 1_026, isEarly: true).counts[.answered] == 1)
    #expect(during.judged(until: 1_024, isEarly: true).counts[.answered] == nil)
  }

  @Test("a publisher that has lost its connection asks again, and the answer has its time from then on")
  func again() {
    func run(back: Double?) -> [String] {
      Self.details(
        Self.recording {
          $0.note(Self.sent(11, 1_020), 1_020)
          $0.note(.serverStopped, 1_020.5)
          $0.note(.publisherClosed(channel: 0, code: nil, problem: "connection closed"), 1_020.6)
          $0.note(.serverStarted, 1_021)
          if let back { $0.note(.publisherConnected(channel: 0), back) }
        })
    }
    #expect(run(back: nil) == [])
    #expect(run(back: 1_058.5) == [])
    #expect(run(back: 1_030) == ["message 11, sent at 20.000 s, was never answered"])
  }

  // MARK: Refused

  @Test("a refusal for any other reason than too many requests, or a stop of the server, is a violation")
  func reasons() {
    for (reason, stop, isRight) in [
      ("PayloadTooLarge", 1_020.0, false), ("Shutdown", 1_020, true), ("Shutdown", 1_005, false),
      ("ServiceUnavailable", 1_019, true), ("TooManyRequests", 1_020, false),
    ] {
      let recording = Self.recording {
        $0.note(.serverStopped, stop)
        $0.note(.serverStarted, stop + 1)
        $0.note(Self.sent(11, 1_020), 1_020)
        $0.note(.refused(channel: 0, number: 11, reason: reason), 1_020.1)
      }
      #expect((Self.details(recording) == []) == isRight, "\(reason)")
    }
  }

  @Test("too many requests are too many: the bucket of the publish rate can be as good as empty")
  func rate() {
    // At 1020 all twenty are there again. One is forgiven, so that the nineteenth may be refused, and not the eighteenth.
    for (count, isRight) in [(18, false), (19, true)] {
      let recording = Self.recording {
        for number in 11..<11 + count {
          $0.note(Self.sent(number, 1_020, .considerate), 1_020)
          $0.note(Self.accepted(number, .windowed), 1_020)
        }
        $0.note(Self.sent(40, 1_020, .considerate), 1_020)
        $0.note(.refused(channel: 0, number: 40, reason: "TooManyRequests"), 1_020)
      }
      #expect((Self.details(recording) == []) == isRight, "\(count)")
    }
  }

  // MARK: Over budget

  @Test(
    "a message is demoted, dropped or refused when the budget can be spent, and where the channel does that")
  func overBudget() {
    for (policy, outcome) in [(FrequencyBudget.OverBudget.demote, Outcome.demoted), (.drop, .dropped)] {
      for (count, given, isRight) in [(9, policy, true), (8, policy, false), (9, .reject, false)] {
        let recording = Self.recording(given) {
          for number in 11..<11 + count {
            $0.note(Self.sent(number, 1_020), 1_020)
            $0.note(Self.accepted(number, .delivered), 1_020)
          }
          $0.note(Self.sent(40, 1_020), 1_020)
          $0.note(Self.accepted(40, outcome), 1_020)
        }
        #expect((Self.details(recording) == []) == isRight, "\(outcome) after \(count)")
      }
    }
    for (count, priority, isRight) in [
      (9, Priority.immediate, true), (8, .immediate, false), (9, .considerate, false),
    ] {
      let recording = Self.recording(.reject) {
        for number in 11..<11 + count {
          $0.note(Self.sent(number, 1_020), 1_020)
          $0.note(Self.accepted(number, .delivered), 1_020)
        }
        $0.note(Self.sent(40, 1_020, priority), 1_020)
        $0.note(.refused(channel: 0, number: 40, reason: "TooManyRequests"), 1_020)
      }
      #expect((Self.details(recording) == []) == isRight, "\(priority) after \(count)")
    }
  }

  @Test(
    "tokens come back: seconds later a message is over budget no more; one without an answer may have taken one"
  )
  func refill() {
    for (at, isRight) in [(1_020.9, true), (1_023, false)] {
      let recording = Self.recording {
        for number in 11..<21 {
          $0.note(Self.sent(number, 1_020), 1_020)
          // The tenth is never answered; that is another violation.
          if number < 20 { $0.note(Self.accepted(number, .delivered), 1_020) }
        }
        $0.note(Self.sent(40, at), at)
        $0.note(Self.accepted(40, .demoted), at)
      }
      #expect(!Self.details(recording).contains { $0.contains("demoted") } == isRight, "\(at)")
    }
  }

  // MARK: Windows

  @Test("what is answered \"delivered\" has priority 10, and what is \"windowed\" hasn't")
  func kinds() {
    for (priority, outcome, isRight) in [
      (Priority.immediate, Outcome.delivered, true), (.considerate, .delivered, false),
      (.passive, .windowed, true), (.immediate, .windowed, false), (.considerate, .demoted, false),
    ] {
      let recording = Self.recording {
        $0.note(Self.sent(11, 1_020, priority), 1_020)
        $0.note(Self.accepted(11, outcome), 1_020)
      }
      #expect((Self.details(recording) == []) == isRight, "\(priority) \(outcome)")
    }
  }

  @Test("\"superseded\" is no alert, and something with a newer timestamp may have waited")
  func superseded() {
    for (timestamp, at, isAlert, isRight) in [
      (Int64(1_015), 1_021.0, false, true), (1_015, 1_021, true, false), (1_020, 1_021, false, false),
      // The window of two seconds has been over for two more.
      (1_015, 1_024.5, false, false),
    ] {
      let recording = Self.recording {
        $0.note(Self.sent(11, 1_020, .passive), 1_020)
        $0.note(Self.accepted(11, .windowed), 1_020.01)
        $0.note(Self.sent(12, at, .considerate, timestamp: timestamp, isAlert: isAlert), at)
        $0.note(Self.accepted(12, .superseded), at + 0.01)
      }
      #expect((Self.details(recording) == []) == isRight, "\(timestamp) \(at) \(isAlert)")
    }
  }
}
