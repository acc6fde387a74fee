import BroadcastChannels

/// Does who is connected get what it is owed, without anything else having to happen to it? A subscriber that is forgotten
/// receives nothing that could be judged.
extension Verifier {
  /// The server ended a connection. It may when the soak stops it, and with 1013 when somebody is slow.
  mutating func closed(_ subscriber: Int, _ code: Int?, _ problem: String?, at now: Double) {
    let record = subscribers[subscriber]
    check(.cutOff)
    // One that didn't read notices late that the server, which was stopped, has gone.
    guard !isServerDown, !stops.contains(where: { $0 >= record.attemptAt }),
      code != 1_013 || !(record.isNarrow || record.stall != nil),
      excuse(since: now - 2 * tolerance.delivery, at: now) <= 1
    else { return }
    violate(
      .cutOff, record.channel, subscriber, record.position, at: now, "it \(Self.cutOff(code, problem))")
  }

  mutating func garbled(_ subscriber: Int, _ problem: String, at now: Double) {
    let record = subscribers[subscriber]
    check(.altered)
    violate(
      .altered, record.channel, subscriber, record.position, at: now,
      "what came behind that is no frame of the protocol: \(problem)")
  }

  /// Looks at a fiftieth of the subscribers: at all of them every five seconds.
  mutating func judgeConnected(at now: Double) {
    guard !isServerDown, !subscribers.isEmpty else { return }
    var known: [Int: (usual: Int, narrow: Int)] = [:]
    for _ in 0..<(subscribers.count + 49) / 50 {
      nextLookedAt = (nextLookedAt + 1) % subscribers.count
      judgeConnected(nextLookedAt, within: tolerance.delivery, &known, at: now)
    }
  }

  /// - Parameter known: what the channels had let out, as far as that was looked up already.
  mutating func judgeConnected(
    _ subscriber: Int, within seconds: Double, _ known: inout [Int: (usual: Int, narrow: Int)], at now: Double
  ) {
    let record = subscribers[subscriber]
    // A connection that holds little takes longer for what nothing may replace.
    let patience = record.isNarrow ? 2 * seconds : seconds
    if let stall = record.stall {
      guard now >= stall.to + patience + excuse(since: stall.to, at: now) else { return }
    }
    judgeConfirmed(subscriber, record, within: patience, at: now)
    guard let position = record.position, !record.isForgotten, !record.isLeaving, !record.isDismissed else {
      return
    }
    let channel = record.channel
    let newest =
      known[channel]
      ?? (
        newest(channel, within: seconds, at: now), newest(channel, within: 2 * seconds, at: now)
      )
    known[channel] = newest
    let owed = record.isNarrow ? newest.narrow : newest.usual
    guard owed > 0 else { return }
    check(.gap)
    guard
      position.epoch == ledgers[channel].epoch
        ? position.sequence < owed : ledgers[channel].isPast(position)
    else { return }
    subscribers[subscriber].isForgotten = true
    violate(
      .gap, channel, subscriber, position, at: now,
      "it reads and is connected, and has had nothing since; the channel let out seq \(owed) more than \(Decimals.text(patience, 0)) s ago"
    )
  }

  private func newest(_ channel: Int, within seconds: Double, at now: Double) -> Int {
    ledgers[channel].newestSequence(before: moment(seconds, before: now))
  }

  /// The moment up to which everything must have come that takes so many seconds: standstills don't count, and what gathered in
  /// them has to be worked off.
  private func moment(_ seconds: Double, before now: Double) -> Double {
    var (moment, left) = (now, seconds)
    for span in standstills.reversed() where span.lowerBound < moment {
      guard left > moment - span.upperBound else { break }
      left -= max(0, moment - span.upperBound)
      left += (min(span.upperBound, moment) - span.lowerBound) * 0.1
      moment = span.lowerBound
    }
    return moment - left
  }

  // MARK: Acknowledgements

  mutating func acknowledged(_ subscriber: Int, at now: Double) {
    guard subscribers[subscriber].unconfirmed.count < Self.unconfirmed else { return }
    subscribers[subscriber].unconfirmed.append(now)
  }

  mutating func confirmed(_ subscriber: Int) {
    guard !subscribers[subscriber].unconfirmed.isEmpty else { return }
    subscribers[subscriber].unconfirmed.removeFirst()
  }

  /// Acknowledgements of one subscriber that wait for their answers, at most: one a second.
  private static let unconfirmed = 64

  private mutating func judgeConfirmed(
    _ subscriber: Int, _ record: SubscriberRecord, within seconds: Double, at now: Double
  ) {
    guard let first = record.unconfirmed.first, first + seconds + excuse(since: first, at: now) <= now else {
      return
    }
    subscribers[subscriber].unconfirmed = []
    violate(
      .record, record.channel, subscriber, record.position, at: now,
      "its acknowledgement of \(Decimals.text(first - start, 3)) s was never answered")
  }
}
