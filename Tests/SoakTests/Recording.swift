// A short run, written down by hand: one channel that stores its newest message, three subscribers. Nobody is at fault in
// it; the tests break one thing at a time.

import BroadcastChannels
import Soak
import Testing

struct Recording {
  struct Event {
    var at: Double
    var observation: Observation
  }

  static let start: Double = 1_000
  /// The witness, one that loses its connection, and a slow one whose card is dismissed.
  static let (witness, returning, slow) = (0, 1, 2)

  var settings = ChannelSettings(
    app: .scores, storagePolicy: .latest,
    budget: FrequencyBudget(capacity: 3, refillPerHour: 3_600),
    windows: DeliveryWindows(considerate: 1, passive: 2))
  /// Whose connections hold little.
  var narrow: Set<Int> = [Self.slow]
  /// Seconds for which messages are stored.
  var storedFor: Double = 3_600
  var events: [Event] = []
  private var sequence = 0

  init() {
    for subscriber in 0..<3 {
      note(.arrived(subscriber: subscriber), 1_000)
      note(.subscribed(subscriber: subscriber, position: Self.place(0), resumed: nil), 1_000)
    }
    publish(1, at: 1_001, to: [0, 1, 2])
    publish(2, at: 1_002, isAlert: true, to: [0, 1, 2])
    note(.stalled(subscriber: Self.slow), 1_002.5)
    publish(3, at: 1_003, to: [0, 1])
    let alert = publish(4, at: 1_004, isAlert: true, to: [0, 1])
    let windowed = publish(5, at: 1_005, window: 1, to: [0, 1])
    note(.readAgain(subscriber: Self.slow), 1_006.5)
    receive(alert, Self.slow, 1_006.51)
    receive(windowed, Self.slow, 1_006.52)
    // The sixth waits, and the seventh takes its place.
    send(6, at: 1_006.6, priority: .considerate, isAlert: false, isEnd: false, outcome: .windowed)
    publish(7, at: 1_006.9, window: 0.7, to: [0, 1, 2])
    note(.disconnected(subscriber: Self.returning), 1_008)
    let missed = publish(8, at: 1_008.5, to: [0, 2])
    note(
      .subscribed(subscriber: Self.returning, position: Self.place(7), resumed: Self.place(6)), 1_009)
    receive(missed, Self.returning, 1_009.01)
    note(.wentStale(subscriber: Self.witness, staleDate: 1_012, clock: 1_012.02), 1_012.02)
    note(.dismissed(subscriber: Self.slow), 1_013)
    publish(9, at: 1_014, window: 1, to: [0, 1])
    note(
      .accepted(channel: 0, number: 9, uniqueID: "u9", outcome: .windowed, isRepetition: true, again: true),
      1_014.02)
    publish(10, at: 1_016, window: 1, isEnd: true, to: [0, 1])
    let seen = [1, 2, 3, 4, 5, 7, 8, 9, 10]
    note(.acknowledged(subscriber: Self.witness, numbers: seen, displayed: seen), 1_018)
    note(.confirmed(subscriber: Self.witness, numbers: seen, displayed: seen), 1_018.1)
    note(.record(channel: 0, number: 10, written: 2, acknowledged: 1, displayed: 1), 1_019)
  }

  static func place(_ sequence: Int) -> StreamPosition { StreamPosition(epoch: "e", sequence: sequence) }

  mutating func note(_ observation: Observation, _ at: Double) {
    events.append(Event(at: at, observation: observation))
  }

  mutating func send(
    _ number: Int, at: Double, priority: Priority, isAlert: Bool, isEnd: Bool, outcome: Outcome
  ) {
    note(
      .sent(
        channel: 0,
        Sent(
          number: number, due: at, digest: UInt64(number), priority: priority, timestamp: Int64(at),
          isIrreplaceable: isAlert || isEnd, isEnd: isEnd, storedUntil: at + storedFor)), at)
    note(
      .accepted(
        channel: 0, number: number, uniqueID: "u\(number)", outcome: outcome, isRepetition: false,
        again: false),
      at + 0.01)
  }

  /// Sends a message that is let out at once, or after so many seconds in a window, and received a moment later.
  @discardableResult
  mutating func publish(
    _ number: Int, at: Double, window: Double? = nil, isAlert: Bool = false, isEnd: Bool = false,
    to subscribers: [Int]
  ) -> SoakArrival {
    let priority: Priority = window == nil ? .immediate : .considerate
    send(
      number, at: at, priority: priority, isAlert: isAlert, isEnd: isEnd,
      outcome: window == nil ? .delivered : .windowed)
    sequence += 1
    let arrival = SoakArrival(
      position: Self.place(sequence), number: number, digest: UInt64(number), uniqueID: "u\(number)",
      priority: priority, sent: at + (window ?? 0), timestamp: Int64(at), isIrreplaceable: isAlert || isEnd,
      isEnd: isEnd)
    for subscriber in subscribers { receive(arrival, subscriber, arrival.sent + 0.02) }
    return arrival
  }

  mutating func receive(_ arrival: SoakArrival, _ subscriber: Int, _ at: Double) {
    note(.received(subscriber: subscriber, arrival, .displayed), at)
  }

  /// What the verifier says of the run.
  func judged(until end: Double = 1_060, isEarly: Bool = false) -> Verifier {
    var verifier = Verifier(
      start: Self.start, channels: [settings],
      subscribers: (0..<3).map { (0, $0 == 0, narrow.contains($0)) })
    for event in events where event.at <= end {
      verifier.advance(to: event.at)
      verifier.observe(event.observation, at: event.at)
    }
    verifier.finish(at: end, isEarly: isEarly)
    return verifier
  }

  // MARK: Breaking it

  /// Changes the deliveries of one number to one subscriber, or to all.
  mutating func change(
    _ number: Int, to subscriber: Int? = nil, _ change: (inout SoakArrival, inout Shown, inout Double) -> Void
  ) {
    for index in events.indices {
      guard case .received(let who, var arrival, var shown) = events[index].observation,
        arrival.number == number, subscriber ?? who == who
      else { continue }
      change(&arrival, &shown, &events[index].at)
      events[index].observation = .received(subscriber: who, arrival, shown)
    }
  }

  /// Takes deliveries of one number away, from one subscriber or from all.
  mutating func lose(_ number: Int, to subscriber: Int? = nil) {
    events.removeAll {
      guard case .received(let who, let arrival, _) = $0.observation else { return false }
      return arrival.number == number && subscriber ?? who == who
    }
  }

  /// Notes when a subscriber begins to connect for the first time: at 1000.
  mutating func connect(_ subscriber: Int) {
    let arrival = events.firstIndex { if case .arrived(subscriber) = $0.observation { true } else { false } }
    guard let arrival else { return }
    events.insert(Event(at: 1_000, observation: .wants(subscriber: subscriber)), at: arrival + 1)
  }

  /// The delivery of a number to a subscriber.
  func delivery(_ number: Int, to subscriber: Int) -> Int? {
    events.firstIndex {
      guard case .received(let who, let arrival, _) = $0.observation else { return false }
      return arrival.number == number && subscriber == who
    }
  }
}

/// Expects that the verifier sees a rule broken in a recording.
func expect(
  _ rule: SoakRule, _ recording: Recording, subscriber: Int? = nil, sequence: Int? = nil,
  _ location: SourceLocation = #_sourceLocation
) {
  let verifier = recording.judged()
  let found = verifier.violations.filter { $0.rule == rule }
  #expect(!found.isEmpty, "\(verifier.violations)", sourceLocation: location)
  if let subscriber {
    #expect(found.contains { $0.subscriber == subscriber }, "\(found)", sourceLocation: location)
  }
  if let sequence {
    #expect(found.contains { $0.sequence == sequence }, "\(found)", sourceLocation: location)
  }
}
