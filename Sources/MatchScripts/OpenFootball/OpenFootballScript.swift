import BroadcastChannels
import Foundation

extension OpenFootballMatch {
  /// The match as a script, from line-ups to the end, with a channel of its own.
  ///
  /// The score is shown as it stood, and ends as the official one. Where the listed goals and the official
  /// scores differ, this holds:
  /// - Goals with a minute are played in it. When all goals have one, the minutes are believed and the file's
  ///   half-time score is not needed: it is the less reliable of the two (Japan v Spain 2022 has `"ht": [0,
  ///   0]` after a goal in the 11th minute).
  /// - Goals that the score has and the list hasn't are added at the first whistle whose official score has
  ///   them, with a note in the alert. Their scorers stay unknown.
  /// - More goals than the score has can't be played without taking one back: that is an error, as is a score
  ///   that falls (Ukraine v England 2021 lists England's four goals for Ukraine).
  ///
  /// - Throws: why the match can't be played: no final score, a contradiction, or names too long for a
  ///   message.
  public func script() throws(OpenFootballError) -> MatchScript {
    guard let final = score.final else { throw .notPlayed(title: title, status: status, line: line) }
    try checkNumbers(final: final)
    var writer = OpenFootballScriptWriter(match: self, final: final)
    let steps = writer.steps()
    try checkSizes(of: steps)
    return MatchScript(target: channel.map { .defined($0) }, steps: steps)
  }

  private func checkNumbers(final: Tally) throws(OpenFootballError) {
    let scores = [score.halfTime, score.fullTime, score.extraTime].compactMap { $0 }
    for (earlier, later) in zip(scores, scores.dropFirst()) {
      for side in Side.allCases where later[side] < earlier[side] {
        let falls = OpenFootballError.Contradiction.scoreFalls(
          earlier: earlier.description, later: later.description)
        throw .contradiction(title: title, falls, line: line)
      }
    }
    for side in Side.allCases {
      let listed = goals.count { $0.side == side }
      if listed > final[side] {
        let tooMany = OpenFootballError.Contradiction.tooManyGoals(
          team: self[side].name, listed: listed, official: final[side])
        throw .contradiction(title: title, tooMany, line: line)
      }
    }
    if let shootout = score.shootout, shootout.team1 == shootout.team2 {
      throw .contradiction(title: title, .levelShootout(shootout.description), line: line)
    }
  }

  /// A script of impossible names would be accepted here and refused by the channel, message by message.
  private func checkSizes(of steps: [MatchScript.Step]) throws(OpenFootballError) {
    // The dates of a message have ten digits until 2286, whatever the day of sending.
    let now = Date(timeIntervalSince1970: 2_000_000_000)
    let attributesSize = attributes.bytes.count
    for step in steps {
      let state = (step.contentState?.bytes.count ?? 0) + attributesSize
      let body = step.aps(sentAt: now).count + #"{"aps":}"#.utf8.count
      for (bytes, limit) in [(state, Limits.activityStateBytes), (body, Limits.broadcastPayloadBytes)]
      where bytes > limit {
        throw .tooLarge(title: title, bytes: bytes, limit: limit, line: step.line)
      }
    }
  }
}
