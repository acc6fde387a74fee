import BroadcastChannels

/// What each connection received: is it what was published, in order, without gaps?
extension Verifier {
  mutating func received(_ subscriber: Int, _ arrival: SoakArrival, _ shown: Shown, at now: Double) {
    let channel = subscribers[subscriber].channel
    examine(arrival, channel, subscriber, at: now)
    if let number = arrival.number { ledgers[channel].entries[number]?.received += 1 }
    follow(subscriber, arrival, at: now)
    judgeShown(subscriber, arrival, shown, at: now)
    subscribers[subscriber].lastSent = max(subscribers[subscriber].lastSent, arrival.sent)
  }

  /// Is it what was published, and the same for everybody?
  mutating func examine(_ arrival: SoakArrival, _ channel: Int, _ subscriber: Int, at now: Double) {
    guard let number = arrival.number else {
      return violate(
        .unexpected, channel, subscriber, arrival.position, at: now, "no publisher of this run sent it")
    }
    let ledger = ledgers[channel]
    check(.altered)
    check(.unexpected)
    if ledger.epoch == arrival.position.epoch, let known = ledger.numbers[arrival.position.sequence] {
      if known != number {
        violate(
          .altered, channel, subscriber, arrival.position, at: now,
          "one sequence number for two messages, \(known) and \(number)")
      }
      if let sent = ledger.entries[number]?.sent, !isAsSent(arrival, sent) {
        alter(arrival, channel, subscriber, now)
      }
      return
    }
    // A message of an earlier counting that is still on its way, or too old to be remembered.
    guard !ledger.isPast(arrival.position), number > ledger.newestNumber - ChannelLedger.remembered else {
      return
    }
    guard let entry = ledger.entries[number] else {
      return violate(
        .unexpected, channel, subscriber, arrival.position, at: now, "message \(number) was not sent yet")
    }
    if entry.isRefused {
      violate(
        .unexpected, channel, subscriber, arrival.position, at: now,
        "message \(number) was refused, and was delivered")
    }
    if !isAsSent(arrival, entry.sent) || entry.uniqueID ?? arrival.uniqueID != arrival.uniqueID {
      alter(arrival, channel, subscriber, now)
    }
    if let first = entry.position, first.epoch == arrival.position.epoch {
      violate(
        .publishedTwice, channel, subscriber, arrival.position, at: now,
        "message \(number) was let out as seq \(first.sequence) and again")
    }
    ledgers[channel].entries[number]?.position = arrival.position
    ledgers[channel].entries[number]?.letOut = arrival.sent
    ledgers[channel].place(number, at: arrival.position)
    if entry.sent.isEnd { ledgers[channel].end = (arrival.position, number) }
    if let end = ledger.end, end.position.epoch == arrival.position.epoch,
      arrival.position.sequence > end.position.sequence, number < end.number
    {
      violate(
        .afterEnd, channel, subscriber, arrival.position, at: now,
        "message \(number) was let out after the end, seq \(end.position.sequence)")
    }
    judgeMissed(arrival, entry, channel, at: now)
    judgeLate(arrival, entry, channel, subscriber, at: now)
  }

  private func isAsSent(_ arrival: SoakArrival, _ sent: Sent) -> Bool {
    sent.digest == arrival.digest && sent.priority == arrival.priority
  }

  /// What nobody saw for longer than a window takes was let out late, when somebody reliable was there all the time.
  private mutating func judgeLate(
    _ arrival: SoakArrival, _ entry: LedgerEntry, _ channel: Int, _ subscriber: Int, at now: Double
  ) {
    let late = now - entry.sentAt
    let allowed = longestWindow(of: channel) + tolerance.delivery
    guard late > allowed, late > allowed + excuse(since: entry.sentAt, at: now),
      ledgers[channel].isWatched(from: entry.sentAt - 1, for: late + 1),
      !stops.contains(where: { (entry.sentAt - 1...now).contains($0) })
    else { return }
    violate(
      .lost, channel, subscriber, arrival.position, at: now,
      "message \(entry.sent.number) came \(Decimals.text(late, 3)) s after it was sent; \(Decimals.text(allowed, 1)) s are allowed"
    )
  }

  mutating func alter(_ arrival: SoakArrival, _ channel: Int, _ subscriber: Int, _ now: Double) {
    violate(
      .altered, channel, subscriber, arrival.position, at: now,
      "message \(arrival.number ?? 0) is not what was published under its number: other bytes, another priority, or another unique-id"
    )
  }

  /// Somebody slow missed a number that is known only now.
  mutating func judgeMissed(
    _ arrival: SoakArrival, _ entry: LedgerEntry, _ channel: Int, at now: Double
  ) {
    guard !ledgers[channel].missed.isEmpty else { return }
    let misses = ledgers[channel].missed.filter { $0.position == arrival.position }
    guard !misses.isEmpty else { return }
    ledgers[channel].missed.removeAll { $0.position == arrival.position }
    for miss in misses where entry.sent.isIrreplaceable {
      loseAlert(entry.sent.number, channel, miss.subscriber, miss.position, at: now)
    }
  }

  mutating func loseAlert(
    _ number: Int, _ channel: Int, _ subscriber: Int, _ position: StreamPosition, at now: Double
  ) {
    violate(
      .alertLost, channel, subscriber, position, at: now,
      "message \(number), an alert or an end, never reached this subscriber, which was slow and stayed connected"
    )
  }

  /// Does it follow what this subscriber had before?
  mutating func follow(_ subscriber: Int, _ arrival: SoakArrival, at now: Double) {
    let record = subscribers[subscriber]
    let (channel, sequence) = (record.channel, arrival.position.sequence)
    if record.isDismissed {
      return violate(
        .afterDismissal, channel, subscriber, arrival.position, at: now,
        "it was unsubscribed, because its card was dismissed")
    }
    check(.order)
    check(.once)
    guard let last = record.position else {
      return violate(
        .order, channel, subscriber, arrival.position, at: now, "a message before the subscription stands")
    }
    defer { subscribers[subscriber].mayGetStored = false }
    guard arrival.position.epoch == last.epoch else {
      return violate(
        .order, channel, subscriber, arrival.position, at: now,
        "the subscription stands in epoch \(last.epoch)")
    }
    if record.mayGetStored, sequence <= last.sequence {
      if let resumed = record.resumed, resumed.epoch == last.epoch, sequence <= resumed.sequence {
        violate(
          .once, channel, subscriber, arrival.position, at: now,
          "it resumed from seq \(resumed.sequence) and gets an older one")
      }
      return
    }
    if sequence <= last.sequence {
      let rule: SoakRule = sequence == last.sequence ? .once : .order
      return violate(
        rule, channel, subscriber, arrival.position, at: now, "it comes after seq \(last.sequence)")
    }
    // The stored message comes before anything newer.
    if record.mayGetStored { judgeReturn(subscriber, at: now) }
    subscribers[subscriber].position = arrival.position
    check(.gap)
    if sequence > last.sequence + 1 {
      missed(last.sequence + 1...sequence - 1, subscriber, arrival, at: now)
    }
  }

  mutating func missed(
    _ numbers: ClosedRange<Int>, _ subscriber: Int, _ arrival: SoakArrival, at now: Double
  ) {
    let record = subscribers[subscriber]
    let channel = record.channel
    let grace = tolerance.catchingUp + excuse(since: record.stall?.to ?? now, at: now)
    let isExcused =
      record.isNarrow
      && ledgers[channel].count(before: arrival.position.sequence, after: arrival.sent - 1) >= Self.burst
      || record.wasSlow(between: record.lastSent, and: arrival.sent, grace: grace)
      || excuse(since: now - tolerance.delivery, at: now) > 1
    guard isExcused else {
      return violate(
        .gap, channel, subscriber, arrival.position, at: now,
        "it reads and stayed connected, and misses \(numbers.count == 1 ? "seq \(numbers.lowerBound)" : "seq \(numbers.lowerBound) to \(numbers.upperBound)")"
      )
    }
    conflated += numbers.count
    for sequence in numbers {
      check(.alertLost)
      let position = StreamPosition(epoch: arrival.position.epoch, sequence: sequence)
      if let number = ledgers[channel].numbers[sequence] {
        if ledgers[channel].entries[number]?.sent.isIrreplaceable == true {
          loseAlert(number, channel, subscriber, position, at: now)
        }
      } else if ledgers[channel].missed.count < 4_096 {
        ledgers[channel].missed.append(ChannelLedger.Missed(subscriber: subscriber, position: position))
      }
    }
  }
}
