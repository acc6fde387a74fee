/// Does everybody who wants to be subscribed get there?
extension Verifier {
  mutating func wants(_ subscriber: Int, at now: Double) {
    subscribers[subscriber].attemptAt = now
    guard !subscribers[subscriber].isLeaving else { return }
    if subscribers[subscriber].wantedSince == nil {
      subscribers[subscriber].wantedSince = now
      subscribers[subscriber].attempts = 0
      wanting.insert(subscriber)
    }
    subscribers[subscriber].attempts += 1
  }

  mutating func reached(_ subscriber: Int) {
    check(.unreachable)
    subscribers[subscriber].wantedSince = nil
    subscribers[subscriber].problem = nil
    wanting.remove(subscriber)
  }

  /// Nobody asked for it.
  mutating func unsubscribed(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    check(.unreachable)
    violate(
      .unreachable, record.channel, subscriber, record.position, at: now,
      "the server ended its subscription, which it has not asked for")
    subscribers[subscriber].position = nil
  }

  /// The channels are the soak's own, and it deletes none before its end.
  mutating func isMissing(_ subscriber: Int, at now: Double) {
    let channel = subscribers[subscriber].channel
    guard missingChannels.insert(channel).inserted else { return }
    check(.unreachable)
    violate(
      .unreachable, channel, subscriber, nil, at: now,
      "the server answered 404: it doesn't have the soak's channel any more; somebody deleted it, or the server forgot it"
    )
  }

  /// Who has waited for longer than that is told of, once until it is subscribed.
  mutating func judgeReaching(within tolerance: Double, at now: Double) {
    let late = wanting.filter { subscriber in
      guard let since = subscribers[subscriber].wantedSince else { return true }
      let from = max(since, stops.last ?? since)
      return from + tolerance <= now && from + tolerance + excuse(since: from, at: now) <= now
    }
    for subscriber in late.sorted() {
      wanting.remove(subscriber)
      let record = subscribers[subscriber]
      // Of a channel that isn't there, one violation says enough.
      guard let since = record.wantedSince, !missingChannels.contains(record.channel) else { continue }
      check(.unreachable)
      violate(
        .unreachable, record.channel, subscriber, nil, at: now,
        "not subscribed since \(Decimals.text(since - start, 3)) s, for \(Decimals.text(now - since, 1)) s, after \(Self.count(record.attempts))\(record.problem.map { ", the last: \($0)" } ?? "")"
      )
    }
    for channel in publishers.indices where !publishers[channel].isTold {
      guard let since = publishers[channel].wantedSince else { continue }
      let from = max(since, stops.last ?? since)
      guard from + tolerance + excuse(since: from, at: now) <= now else { continue }
      publishers[channel].isTold = true
      violate(
        .unreachable, channel, nil, nil, at: now,
        "its publisher has had no connection since \(Decimals.text(since - start, 3)) s, after \(Self.count(publishers[channel].attempts))"
      )
    }
  }

  private static func count(_ attempts: Int) -> String {
    attempts == 1 ? "1 attempt" : "\(attempts) attempts"
  }
}
