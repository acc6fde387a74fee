import BroadcastChannels
import Soak
import Testing

@Suite("Who is connected gets what it is owed")
struct VerifierConnectionTests {
  private static let (witness, reader, slow) = (Recording.witness, Recording.returning, Recording.slow)

  /// A run in whose later part something happens.
  private static func recording(_ change: (inout Recording) -> Void) -> Recording {
    var recording = Recording()
    change(&recording)
    recording.events.sort { $0.at < $1.at }
    return recording
  }

  // MARK: Forgotten

  @Test("one that is connected and is never served again is told of once, with nothing else happening to it")
  func forgotten() {
    var recording = Self.recording { $0.publish(11, at: 1_030, to: [Self.witness]) }
    for second in 0..<20 { recording.note(.lagged(0), 1_031 + Double(second)) }
    let verifier = recording.judged()
    let found = verifier.violations.filter { $0.rule == .gap }
    #expect(found.map(\.subscriber) == [Self.reader] && found.first?.sequence == 9)
    // Five seconds after the message, when its turn comes.
    #expect(found.first.map { $0.at > 35 && $0.at < 41 } == true, "\(found)")
  }

  @Test("at the end of a run two seconds are enough; when it ends early, five")
  func forgottenAtTheEnd() {
    for (at, isEarly, isTold) in [
      (1_057.9, false, true), (1_058.1, false, false), (1_054.9, true, true), (1_055.1, true, false),
    ] {
      let recording = Self.recording { $0.publish(11, at: at, to: [Self.witness]) }
      #expect((recording.judged(isEarly: isEarly).counts[.gap] == 1) == isTold)
    }
  }

  @Test("one that reads nothing, is away, has left or waits while the soak stands still is owed nothing yet")
  func notForgotten() {
    let excuses: [Observation] = [
      .stalled(subscriber: Self.reader), .disconnected(subscriber: Self.reader),
      .leaving(subscriber: Self.reader), .dismissed(subscriber: Self.reader),
    ]
    for excuse in excuses {
      let recording = Self.recording {
        $0.note(excuse, 1_029)
        $0.publish(11, at: 1_030, to: [Self.witness])
      }
      #expect(recording.judged().counts[.gap] == nil, "\(excuse)")
    }
    for (seconds, isTold) in [(27.0, false), (20, true)] {
      let slept = Self.recording {
        $0.publish(11, at: 1_030, to: [Self.witness])
        $0.note(.lagged(seconds), 1_059)
      }
      #expect((slept.judged().counts[.gap] == 1) == isTold)
    }
  }

  @Test("one that reads again has as long to catch up")
  func catchingUp() {
    for (again, isTold) in [(1_057.9, true), (1_058.1, false)] {
      let recording = Self.recording {
        $0.note(.stalled(subscriber: Self.reader), 1_029)
        $0.publish(11, at: 1_030, to: [Self.witness])
        $0.note(.readAgain(subscriber: Self.reader), again)
      }
      #expect((recording.judged().counts[.gap] == 1) == isTold)
    }
  }

  @Test("one that stays in a counting that is over gets nothing of the new one")
  func pastEpoch() {
    var recording = Recording()
    recording.settings.storagePolicy = .none
    recording.note(.disconnected(subscriber: Self.witness), 1_030)
    recording.note(
      .subscribed(
        subscriber: Self.witness, position: StreamPosition(epoch: "f", sequence: 0), resumed: nil), 1_031)
    recording.send(11, at: 1_032, priority: .immediate, isAlert: false, isEnd: false, outcome: .delivered)
    let arrival = SoakArrival(
      position: StreamPosition(epoch: "f", sequence: 1), number: 11, digest: 11, uniqueID: "u11",
      priority: .immediate, sent: 1_032, timestamp: 1_032, isIrreplaceable: false, isEnd: false)
    recording.note(.received(subscriber: Self.witness, arrival, .ignoredAfterEnd), 1_032.1)
    expect(.gap, recording, subscriber: Self.reader)
  }

  // MARK: Cut off

  @Test("a connection that the server ends, with a code or without one, is a violation")
  func cutOff() {
    for (code, problem, words) in [
      (1_013, nil, "it was cut off with code 1013"),
      (nil, "connection reset", "it was cut off, without a code: connection reset"),
    ] as [(Int?, String?, String)] {
      let recording = Self.recording {
        $0.connect(Self.reader)
        $0.note(.closed(subscriber: Self.reader, code: code, problem: problem), 1_030)
        $0.note(.disconnected(subscriber: Self.reader), 1_030)
      }
      let found = recording.judged().violations
      #expect(found.map(\.rule) == [.cutOff] && found.first?.detail == words, "\(found)")
    }
  }

  @Test(
    "who is slow may be cut off with 1013, and nobody reads after a stop of the server, however late that is noticed"
  )
  func rightlyCutOff() {
    let slow = Self.recording {
      $0.connect(Self.slow)
      $0.note(.closed(subscriber: Self.slow, code: 1_013, problem: nil), 1_005)
    }
    #expect(slow.judged().counts[.cutOff] == nil)
    let other = Self.recording {
      $0.connect(Self.slow)
      $0.note(.closed(subscriber: Self.slow, code: 1_011, problem: nil), 1_005)
    }
    expect(.cutOff, other, subscriber: Self.slow)
    for (stop, isTold) in [(1_020.0, false), (999, true)] {
      let stopped = Self.recording {
        $0.connect(Self.reader)
        $0.note(.serverStopped, stop)
        $0.note(.serverStarted, stop + 0.5)
        $0.note(.closed(subscriber: Self.reader, code: nil, problem: "connection closed"), 1_040)
      }
      #expect((stopped.judged().counts[.cutOff] == 1) == isTold)
    }
  }

  @Test("a publisher that is cut off counts, too, and one that gets no connection for ten seconds")
  func publisher() {
    let cut = Self.recording {
      $0.note(.publisherConnected(channel: 0), 1_000)
      $0.note(.publisherClosed(channel: 0, code: 1_011, problem: nil), 1_030)
    }
    let found = cut.judged().violations
    #expect(found.map(\.detail) == ["its publisher was cut off with code 1011"])
    for (back, isTold) in [(1_029.9, false), (1_031, true)] {
      let recording = Self.recording {
        for second in 0..<15 where 1_020 + Double(second) < back {
          $0.note(.publisherWants(channel: 0), 1_020 + Double(second))
        }
        $0.note(.lagged(0), 1_030.5)
        $0.note(.publisherConnected(channel: 0), back)
      }
      let found = recording.judged().violations
      #expect(
        found.map(\.detail)
          == (isTold ? ["its publisher has had no connection since 20.000 s, after 10 attempts"] : []))
    }
    let stopped = Self.recording {
      $0.note(.publisherConnected(channel: 0), 1_000)
      $0.note(.serverStopped, 1_029)
      $0.note(.publisherClosed(channel: 0, code: 1_012, problem: nil), 1_030)
      $0.note(.serverStarted, 1_031)
      $0.note(.publisherConnected(channel: 0), 1_031.2)
    }
    #expect(stopped.judged().violations.isEmpty)
  }

  @Test("bytes that are no frame are an altered delivery, even when the server stops")
  func garbled() {
    let recording = Self.recording {
      $0.note(.serverStopped, 1_029)
      $0.note(.garbled(subscriber: Self.reader, problem: "broken frame: a message is fragmented"), 1_030)
    }
    expect(.altered, recording, subscriber: Self.reader, sequence: 9)
  }

  @Test("an unsubscription that nobody asked for is a violation at once")
  func unsubscribed() {
    let recording = Self.recording { $0.note(.unsubscribed(subscriber: Self.reader), 1_030) }
    let found = recording.judged().violations
    #expect(found.map(\.rule) == [.unreachable] && found.first?.subscriber == Self.reader)
    // One that was asked for is told as a dismissal.
    #expect(Recording().judged().counts[.unreachable] == nil)
  }

  @Test("who is not subscribed in time is told of with what its last try met")
  func lastProblem() {
    let recording = Self.recording {
      $0.note(.disconnected(subscriber: Self.reader), 1_030)
      $0.note(.wants(subscriber: Self.reader), 1_030)
      $0.note(.failed(subscriber: Self.reader, problem: "answered 503"), 1_030.1)
    }
    let found = recording.judged().violations.first
    #expect(
      found?.detail == "not subscribed since 30.000 s, for 30.0 s, after 1 attempt, the last: answered 503")
  }

  @Test("thousands have a second a thousand to come back")
  func reaching() {
    #expect(Verifier.Tolerance(subscribers: 1_000).reaching == 10)
    #expect(Verifier.Tolerance(subscribers: 20_000).reaching == 20)
  }

  // MARK: Acknowledgements

  @Test("an acknowledgement that is not answered within five seconds is a violation; two at the end")
  func unconfirmed() {
    func recording(_ at: Double, _ more: (inout Recording) -> Void = { _ in }) -> Recording {
      Self.recording {
        $0.note(.acknowledged(subscriber: Self.reader, numbers: [10], displayed: [10]), at)
        more(&$0)
      }
    }
    let found = recording(1_057.9).judged().violations
    #expect(found.map(\.detail) == ["its acknowledgement of 57.900 s was never answered"])
    #expect(found.first?.rule == .record && found.first?.subscriber == Self.reader)
    #expect(recording(1_058.1).judged().violations.isEmpty)
    for excuse: Observation in [
      .confirmed(subscriber: Self.reader, numbers: [10], displayed: [10]),
      .disconnected(subscriber: Self.reader), .stalled(subscriber: Self.reader),
    ] {
      #expect(recording(1_040) { $0.note(excuse, 1_041) }.judged().violations.isEmpty, "\(excuse)")
    }
    // The second of two, when the first was answered.
    let second = recording(1_040) {
      $0.note(.acknowledged(subscriber: Self.reader, numbers: [10], displayed: []), 1_041)
      $0.note(.confirmed(subscriber: Self.reader, numbers: [10], displayed: [10]), 1_041.1)
    }
    #expect(
      second.judged().violations.map(\.detail) == ["its acknowledgement of 41.000 s was never answered"])
  }

  @Test("a message that the server has no record of, or doesn't tell of, is a violation")
  func unrecorded() {
    let recording = Self.recording {
      $0.note(.unrecorded(channel: 0, number: 10, problem: "answered 404"), 1_050)
    }
    expect(.record, recording, sequence: 9)
  }

  @Test(
    "what was confirmed after the server was asked may be missing in its answer, and what was before may not")
  func asked() {
    for (count, isTold) in [(1, false), (0, true)] {
      let recording = Recording()
      var verifier = Verifier(
        start: Recording.start, channels: [recording.settings],
        subscribers: (0..<3).map { (0, $0 == 0, $0 == 2) })
      for event in recording.events { verifier.observe(event.observation, at: event.at) }
      // One had acknowledged and displayed the tenth, two had received it.
      #expect(verifier.questions(channel: 0, atMost: 1, after: 1_000).map(\.number) == [10])
      verifier.observe(.acknowledged(subscriber: 1, numbers: [10], displayed: [10]), at: 1_019.1)
      verifier.observe(.confirmed(subscriber: 1, numbers: [10], displayed: [10]), at: 1_019.2)
      verifier.observe(
        .record(channel: 0, number: 10, written: 2, acknowledged: count, displayed: count), at: 1_019.3)
      #expect((verifier.counts[.record] != nil) == isTold, "\(verifier.violations)")
    }
  }

  @Test("questions are about what was sent and let out since a moment, so that the server's memory has it")
  func questions() {
    var verifier = Recording().judged()
    // The tenth was sent at 1016; the ninth at 1014, and let out at 1015.
    #expect(verifier.questions(channel: 0, atMost: 9, after: 1_014.5).map(\.number) == [10])
    #expect(verifier.questions(channel: 0, atMost: 2, after: 1_000).map(\.number) == [10, 9])
  }
}
