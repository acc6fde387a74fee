import BroadcastChannels

/// What publishers were answered, and what the server's own records say.
extension Verifier {
  mutating func accepted(
    _ channel: Int, _ number: Int, _ uniqueID: String, _ outcome: Outcome, _ isRepetition: Bool,
    _ again: Bool, at now: Double
  ) {
    guard var entry = ledgers[channel].entries[number] else { return }
    if again {
      check(.publishedTwice)
      if !isRepetition || entry.uniqueID != uniqueID {
        violate(
          .publishedTwice, channel, nil, nil, at: now,
          "message \(number) was sent twice under one request id and answered as \(entry.uniqueID ?? "–") and \(uniqueID)"
        )
      }
    }
    entry.uniqueID = entry.uniqueID ?? uniqueID
    entry.outcome = entry.outcome ?? outcome
    entry.answeredAt = entry.answeredAt ?? now
    entry.refusal = nil
    ledgers[channel].entries[number] = entry
  }

  /// The last word on a message: what was accepted must have been let out, or superseded.
  mutating func settle(_ entry: LedgerEntry, _ channel: Int, within tolerance: Double, at now: Double) {
    let ledger = ledgers[channel]
    guard !entry.isRefused, entry.outcome != .dropped, entry.outcome != .superseded else { return }
    guard let outcome = entry.outcome else {
      // That it wasn't answered is told elsewhere.
      if entry.position == nil { undecided += 1 }
      return
    }
    let longest = longestWindow(of: channel)
    let patience = longest + tolerance
    guard ledger.isWatched(from: entry.sentAt - 1, for: patience + 1),
      !stops.contains(where: { (entry.sentAt - 1...entry.sentAt + patience).contains($0) }),
      entry.sentAt + patience <= now
    else {
      if entry.position == nil, outcome == .delivered || !isSuperseded(entry, channel, ledger) {
        undecided += 1
      }
      return
    }
    check(entry.sent.isIrreplaceable ? .alertLost : .lost)
    guard entry.position == nil else { return }
    if entry.sent.isIrreplaceable {
      violate(
        .alertLost, channel, nil, nil, at: now,
        "message \(entry.sent.number), an \(entry.sent.isEnd ? "end" : "alert") sent at \(Decimals.text(entry.sentAt - start, 3)) s, was answered \"\(outcome.rawValue)\" and reached nobody"
      )
    } else if outcome == .delivered || !isSuperseded(entry, channel, ledger) {
      violate(
        .lost, channel, nil, nil, at: now,
        "message \(entry.sent.number), sent at \(Decimals.text(entry.sentAt - start, 3)) s, was answered \"\(outcome.rawValue)\" and reached nobody, and nothing as new took its place"
      )
    }
  }

  /// Whether something as new took its place, while it waited in a window.
  func isSuperseded(_ entry: LedgerEntry, _ channel: Int, _ ledger: ChannelLedger) -> Bool {
    guard !entry.sent.isIrreplaceable else { return false }
    let from = entry.answeredAt ?? entry.sentAt
    let end = from + longestWindow(of: channel) + tolerance.newest
    // Mostly by one of the next; a dictionary look-up each.
    return (entry.sent.number + 1...entry.sent.number + 512).contains { number in
      guard let other = ledger.entries[number], other.position != nil else { return false }
      return other.sent.timestamp >= entry.sent.timestamp && other.sentAt <= end
    }
  }

  /// Seconds within which what was let out together has arrived.
  private static let together = 0.25

  mutating func judgeBudget(_ channel: Int, at now: Double) {
    var ledger = ledgers[channel]
    guard ledger.newestSequence > 0, (ledger.nextJudged ?? 1) <= ledger.newestSequence else { return }
    // Moved out and in again, so that nothing is copied.
    ledgers[channel] = ChannelLedger(settings[channel])
    defer { ledgers[channel] = ledger }
    var next = ledger.nextJudged ?? ledger.numbers.keys.min() ?? 1
    if ledger.nextJudged == nil, ledger.judgedAt.map({ before in stops.contains { before <= $0 } }) != true {
      ledger.judge.reset()
    }
    var found: [(rule: SoakRule, detail: String, sequence: Int)] = []
    while next <= ledger.newestSequence {
      guard let entry = ledger.numbers[next].flatMap({ ledger.entries[$0] }), let letOut = entry.letOut else {
        // Somebody who joined has seen a later number already; its turn comes soon, or nobody sees it.
        if let later = ledger.letOut(after: next), now - later < tolerance.delivery { break }
        next += 1
        continue
      }
      guard let outcome = entry.outcome else {
        // The answer is still on its way; after a while it is lost with its connection.
        if now - entry.sentAt < tolerance.delivery { break }
        next += 1
        continue
      }
      let waited = outcome == .windowed || outcome == .demoted
      // What was let out with it arrives with it.
      if waited, now - letOut < Self.together { break }
      if let before = ledger.judgedAt, stops.contains(where: { before <= $0 && $0 < letOut }) {
        ledger.judge.restarted()
      }
      ledger.judgedAt = letOut
      check(outcome == .delivered ? .budget : .window)
      let delivered = BudgetJudge.Delivered(
        sequence: next, number: entry.sent.number, sent: letOut, priority: entry.sent.priority,
        outcome: outcome, isIrreplaceable: entry.sent.isIrreplaceable,
        group: waited ? ledger.group(of: next) : BudgetJudge.Group())
      if let problem = ledger.judge.judge(delivered), !isNearStop(letOut, channel) {
        found.append((problem.rule, problem.detail, next))
      }
      if let detail = judgeWait(entry, outcome, letOut, channel, at: now) {
        found.append((.window, detail, next))
      }
      next += 1
    }
    ledger.nextJudged = next
    for problem in found {
      violate(
        problem.rule, channel, nil, StreamPosition(epoch: ledger.epoch, sequence: problem.sequence), at: now,
        problem.detail)
    }
  }

  /// What waits in a window waits no longer than that takes. What comes seconds late because the machine is busy is let pass.
  private func judgeWait(
    _ entry: LedgerEntry, _ outcome: Outcome, _ letOut: Double, _ channel: Int, at now: Double
  ) -> String? {
    guard outcome == .windowed || outcome == .demoted, let answeredAt = entry.answeredAt else { return nil }
    let windows = settings[channel].windows
    let longest =
      outcome == .windowed && entry.sent.priority == .passive ? windows.passive : windows.considerate
    let allowed = longest + tolerance.newest
    guard letOut - answeredAt > allowed + excuse(since: answeredAt, at: now),
      !stops.contains(where: { (entry.sentAt - 1...letOut).contains($0) })
    else { return nil }
    return
      "message \(entry.sent.number) waited for \(Decimals.text(letOut - answeredAt, 3)) s in a window of \(Decimals.text(longest, 1)) s"
  }

  /// What waits in a window is let out early when the server stops.
  func isNearStop(_ moment: Double, _ channel: Int) -> Bool {
    stops.contains { abs($0 - moment) < settings[channel].windows.passive + 1 }
  }

  mutating func record(
    _ channel: Int, _ number: Int, _ written: Int, _ acknowledged: Int, _ displayed: Int, at now: Double
  ) {
    guard let entry = ledgers[channel].entries[number] else { return }
    check(.record)
    let position = entry.position
    let least =
      entry.whenAsked ?? (entry.received, entry.acknowledged.confirmed, entry.displayed.confirmed)
    if written < least.received {
      violate(
        .record, channel, nil, position, at: now,
        "message \(number) was written to \(written) subscribers, and \(least.received) had received it")
    }
    for (name, count, least, most) in [
      ("acknowledged", acknowledged, least.acknowledged, entry.acknowledged.sent),
      ("displayed", displayed, least.displayed, entry.displayed.sent),
    ] where !(least...max(least, most)).contains(count) {
      violate(
        .record, channel, nil, position, at: now,
        "message \(number): the server counts \(count) \(name); \(least) were confirmed and \(most) sent")
    }
  }
}

extension Verifier {
  mutating func unrecorded(_ channel: Int, _ number: Int, _ problem: String, at now: Double) {
    guard let entry = ledgers[channel].entries[number] else { return }
    check(.record)
    violate(
      .record, channel, nil, entry.position, at: now,
      "the server has no record of message \(number), which it let out: \(problem)")
  }

  /// Messages of a channel that can be asked for: those of the newest counting that were accepted and let out since a moment, the
  /// newest first. The server's records don't outlive it, and it has those of the last messages alone.
  public mutating func questions(
    channel: Int, atMost most: Int, after: Double
  ) -> [(number: Int, uniqueID: String)] {
    let entries = ledgers[channel].entries.values.filter { entry in
      entry.uniqueID != nil && entry.letOut.map { $0 > after } ?? false && entry.sentAt > after
        && entry.sent.number > ledgers[channel].newestNumber - Limits.messageRecordsPerChannel + 8
        && entry.position?.epoch == ledgers[channel].epoch
    }
    let newest = entries.sorted { $0.sent.number > $1.sent.number }.prefix(most)
    for entry in newest {
      ledgers[channel].entries[entry.sent.number]?.whenAsked = (
        entry.received, entry.acknowledged.confirmed, entry.displayed.confirmed
      )
    }
    return newest.compactMap { entry in entry.uniqueID.map { (entry.sent.number, $0) } }
  }
}
