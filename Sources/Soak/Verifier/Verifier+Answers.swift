import BroadcastChannels

/// Is every publish answered, and rightly?
extension Verifier {
  /// What the verifier knows of a channel's publisher.
  struct PublisherRecord {
    /// Since when it has its connection; nil when it has none.
    var connectedSince: Double?
    /// Since when it wants one in vain.
    var wantedSince: Double?
    var attempts = 0
    /// Whether that it has none was told of.
    var isTold = false
  }

  mutating func publisherWants(_ channel: Int, at now: Double) {
    if publishers[channel].wantedSince == nil {
      publishers[channel].wantedSince = now
      publishers[channel].attempts = 0
    }
    publishers[channel].attempts += 1
  }

  mutating func publisherConnected(_ channel: Int, at now: Double) {
    check(.unreachable)
    publishers[channel] = PublisherRecord(connectedSince: now)
  }

  mutating func publisherClosed(_ channel: Int, _ code: Int?, _ problem: String?, at now: Double) {
    check(.cutOff)
    let since = publishers[channel].connectedSince
    publishers[channel].connectedSince = nil
    guard let since, !isServerDown, !stops.contains(where: { $0 >= since }) else { return }
    violate(.cutOff, channel, nil, nil, at: now, "its publisher \(Self.cutOff(code, problem))")
  }

  static func cutOff(_ code: Int?, _ problem: String?) -> String {
    "was cut off\(code.map { " with code \($0)" } ?? ", without a code")\(problem.map { ": \($0)" } ?? "")"
  }

  mutating func refused(_ channel: Int, _ number: Int, _ reason: String, at now: Double) {
    guard let entry = ledgers[channel].entries[number] else { return }
    ledgers[channel].entries[number]?.refusal = reason
    ledgers[channel].entries[number]?.answeredAt = entry.answeredAt ?? now
  }

  /// Judges the answers up to the first that is still to be waited for.
  ///
  /// - Parameter patience: seconds in which an answer must come, from when its publisher sent the message on the connection that it
  ///   has now.
  mutating func judgeAnswers(_ channel: Int, within patience: Double, at now: Double) {
    while ledgers[channel].nextAnswer <= ledgers[channel].newestNumber {
      let number = ledgers[channel].nextAnswer
      if let entry = ledgers[channel].entries[number], !entry.isAnswerJudged {
        guard judgeAnswer(entry, channel, within: patience, at: now) else { return }
        ledgers[channel].entries[number]?.isAnswerJudged = true
      }
      ledgers[channel].nextAnswer = number + 1
    }
  }

  /// - Returns: whether it could be judged.
  private mutating func judgeAnswer(
    _ entry: LedgerEntry, _ channel: Int, within patience: Double, at now: Double
  ) -> Bool {
    var answer = AnswerJudge.Answer.missing
    if let outcome = entry.outcome {
      answer = .accepted(outcome)
    } else if let refusal = entry.refusal {
      answer = .refused(refusal)
    } else {
      // Its publisher asks again when it has a connection again.
      guard !isServerDown, let since = publishers[channel].connectedSince else { return false }
      let asked = max(since, entry.sentAt)
      guard asked + patience + excuse(since: asked, at: now) <= now else { return false }
    }
    check(.answered)
    let answeredAt = entry.answeredAt ?? now
    let problem = ledgers[channel].answers.judge(
      AnswerJudge.Answered(
        sent: entry.sent, sentAt: entry.sentAt, answeredAt: answeredAt, answer: answer,
        isNearStop: stops.contains { ($0 - 1...$0 + Self.ending).contains(answeredAt) },
        newerMayWait: entry.outcome == .superseded && newerMayWait(entry, channel)))
    if case .missing = answer {
      violate(
        .answered, channel, nil, nil, at: now,
        "message \(entry.sent.number), sent at \(Decimals.text(entry.sentAt - start, 3)) s, was never answered"
      )
    } else if let problem {
      violate(
        .answered, channel, nil, nil, at: now,
        "message \(entry.sent.number), sent at \(Decimals.text(entry.sentAt - start, 3)) s at priority \(entry.sent.priority.rawValue), \(problem), which the channel's rules don't allow"
      )
    }
    return true
  }

  /// Seconds that a server takes to end, at most.
  private static let ending: Double = 7

  /// Whether a message with a newer timestamp, which was sent before, can have waited when this one came.
  private func newerMayWait(_ entry: LedgerEntry, _ channel: Int) -> Bool {
    let longest = longestWindow(of: channel)
    return (max(1, entry.sent.number - 512)..<max(1, entry.sent.number)).contains { number in
      guard let other = ledgers[channel].entries[number], !other.isRefused else { return false }
      return other.sent.timestamp > entry.sent.timestamp
        && (other.answeredAt ?? entry.sentAt) + longest + tolerance.newest >= entry.sentAt
    }
  }

  func longestWindow(of channel: Int) -> Double {
    max(settings[channel].windows.considerate, settings[channel].windows.passive)
  }
}
