import BroadcastChannels

/// Who is connected, what its activity must hold, and what it showed.
extension Verifier {
  mutating func subscribed(
    _ subscriber: Int, _ position: StreamPosition, _ resumed: StreamPosition?, at now: Double
  ) {
    let channel = subscribers[subscriber].channel
    judgeCounting(channel, subscriber, position, at: now)
    subscribers[subscriber].position = position
    subscribers[subscriber].resumed = resumed
    subscribers[subscriber].mayGetStored = settings[channel].storagePolicy == .latest
    subscribers[subscriber].stall = nil
    subscribers[subscriber].unconfirmed = []
    subscribers[subscriber].isForgotten = false
    subscribers[subscriber].isDismissed = false
    // What was let out before doesn't concern this connection.
    subscribers[subscriber].lastSent = now
    if settings[channel].storagePolicy == .latest, !subscribers[subscriber].hasEnded,
      !subscribers[subscriber].isLeaving
    {
      subscribers[subscriber].owes = (position, now, now + tolerance.newest)
      owing.insert(subscriber)
    }
    if subscribers[subscriber].isWitness, let since = ledgers[channel].blindSince {
      ledgers[channel].blind.append(since...now)
      if ledgers[channel].blind.count > 256 { ledgers[channel].blind.removeFirst() }
      ledgers[channel].blindSince = nil
    }
  }

  /// A channel that stores its newest message stands at least where it let out something a second before the device began to
  /// connect: so long the server may take to write down what it lets out.
  private mutating func judgeCounting(
    _ channel: Int, _ subscriber: Int, _ position: StreamPosition, at now: Double
  ) {
    let ledger = ledgers[channel]
    guard settings[channel].storagePolicy == .latest, !ledger.epoch.isEmpty else { return }
    check(.forgotten)
    guard position.epoch == ledger.epoch else {
      return violate(
        .forgotten, channel, subscriber, position, at: now,
        "the channel stores its newest message, and counts anew; it stood at seq \(ledger.newestSequence) of epoch \(ledger.epoch)"
      )
    }
    let attempt = subscribers[subscriber].attemptAt
    let asked = attempt > -.infinity ? attempt : now
    let before = asked - 1 - excuse(since: asked - tolerance.delivery, at: now)
    let known = ledger.newestSequence(before: before)
    guard position.sequence < known else { return }
    violate(
      .forgotten, channel, subscriber, position, at: now,
      "the channel had let out seq \(known) more than a second before it was asked")
  }

  mutating func disconnected(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    subscribers[subscriber].connectionEnded()
    if record.isWitness, ledgers[record.channel].blindSince == nil {
      ledgers[record.channel].blindSince = now
    }
  }

  mutating func judgeReturn(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    guard let owes = record.owes else { return }
    subscribers[subscriber].owes = nil
    let ledger = ledgers[record.channel]
    guard owes.position.epoch == ledger.epoch,
      let newest = ledger.stored(upTo: owes.position.sequence, at: owes.at)
    else { return }
    check(.newest)
    guard (record.timestamp ?? .min) < newest else { return }
    violate(
      .newest, record.channel, subscriber, owes.position, at: now,
      "it came back at seq \(owes.position.sequence) and holds the state of \(record.timestamp.map(String.init) ?? "no message"); the newest stored one is of \(newest)"
    )
  }

  mutating func judgeShown(_ subscriber: Int, _ arrival: SoakArrival, _ shown: Shown, at now: Double) {
    let record = subscribers[subscriber]
    guard !record.isDismissed else { return }
    check(.notDisplayed)
    switch shown {
    case .displayed:
      judgeStale(subscriber, at: now)
      if record.isLeaving {
        violate(
          .afterDismissal, record.channel, subscriber, arrival.position, at: now,
          "the card is gone, and shows the message")
      }
      if record.hasEnded {
        violate(
          .afterEnd, record.channel, subscriber, arrival.position, at: now,
          "the activity had ended, and shows the message")
      }
      if let held = record.timestamp, arrival.timestamp < held {
        violate(
          .order, record.channel, subscriber, arrival.position, at: now,
          "the activity shows the state of \(arrival.timestamp) in place of the newer one of \(held)")
      }
      subscribers[subscriber].timestamp = arrival.timestamp
      if arrival.isEnd {
        check(.afterEnd)
        subscribers[subscriber].hasEnded = true
      }
      let isFresh = arrival.staleDate.map { $0 > now + record.clockOffset } ?? false
      subscribers[subscriber].staleDue = isFresh && !arrival.isEnd ? arrival.staleDate : nil
    case .ignoredOlder:
      guard record.timestamp ?? .min <= arrival.timestamp else { return }
      notDisplayed(subscriber, arrival, at: now, "as older than it is")
    case .ignoredAfterEnd:
      guard !record.hasEnded else { return }
      notDisplayed(subscriber, arrival, at: now, "as after the end, which it is not")
    case .nothing:
      // A card that is gone takes messages in silence until the server has heard of it.
      guard !record.hasEnded, !record.isLeaving else { return }
      notDisplayed(subscriber, arrival, at: now, "without a word")
    }
  }

  mutating func notDisplayed(_ subscriber: Int, _ arrival: SoakArrival, at now: Double, _ why: String) {
    violate(
      .notDisplayed, subscribers[subscriber].channel, subscriber, arrival.position, at: now,
      "the message was received, and passed over \(why)")
  }

  mutating func wentStale(_ subscriber: Int, _ staleDate: Double, _ clock: Double, at now: Double) {
    check(.stale)
    let record = subscribers[subscriber]
    subscribers[subscriber].staleDue = nil
    let due = max(staleDate, record.jumpedTo)
    let allowed = tolerance.stale + excuse(since: now - (clock - due), at: now)
    if clock < staleDate - 0.001 {
      violate(
        .stale, record.channel, subscriber, record.position, at: now,
        "stale \(Decimals.text(staleDate - clock, 3)) s before its stale date")
    } else if clock - due > allowed {
      violate(
        .stale, record.channel, subscriber, record.position, at: now,
        "stale \(Decimals.text(clock - due, 3)) s after its stale date; \(Decimals.text(allowed, 3)) s are allowed"
      )
    }
  }

  /// A stale date that has passed without a flip.
  mutating func judgeStale(_ subscriber: Int, at now: Double) {
    let record = subscribers[subscriber]
    guard let staleDue = record.staleDue else { return }
    let late = now + record.clockOffset - max(staleDue, record.jumpedTo)
    guard late > tolerance.stale, late > tolerance.stale + excuse(since: now - late, at: now) else { return }
    check(.stale)
    subscribers[subscriber].staleDue = nil
    violate(
      .stale, record.channel, subscriber, record.position, at: now,
      "not stale \(Decimals.text(late, 3)) s after its stale date")
  }
}
