import BroadcastChannels

/// Writes the messages of a match in the order of time.
struct OpenFootballScriptWriter {
  private let match: OpenFootballMatch
  /// Goals of the final score that have no minute.
  private let untimed: OpenFootballMatch.Tally

  private var played: [MatchScript.Step] = []
  private var shown = OpenFootballMatch.Tally()
  private var added = OpenFootballMatch.Tally()
  private var scorers: [String] = []
  private var shootout: String?

  /// How long after a message the card goes stale: two minutes after the next one is due.
  private static let stale: Double = 7 * 60
  private static let dismissal: Double = 15 * 60

  init(match: OpenFootballMatch, final: OpenFootballMatch.Tally) {
    self.match = match
    var untimed = final
    for goal in match.goals where goal.minute != nil { untimed[goal.side] -= 1 }
    self.untimed = untimed
  }

  mutating func steps() -> [MatchScript.Step] {
    publish(at: 0, clock: "0'", period: "Line-ups in")
    let stretches = OpenFootballTimetable(match).stretches
    for stretch in stretches {
      start(stretch)
      play(stretch)
      finish(stretch, isLast: stretch.period == stretches.last?.period)
    }
    return played
  }

  private mutating func start(_ stretch: OpenFootballTimetable.Stretch) {
    let period = stretch.period
    let isKickOff = period == .firstHalf
    let body = (["\(match.team1.name) v \(match.team2.name)", match.competition, match.stage] as [String?])
      .compactMap { $0 }.joined(separator: ", ")
    publish(
      at: stretch.starts, clock: "\(period.start)'", period: period.name,
      alert: isKickOff ? alert("Kick-off", body) : nil)
  }

  private mutating func play(_ stretch: OpenFootballTimetable.Stretch) {
    var ticks = stretch.ticks[...]
    for goal in stretch.goals {
      while let tick = ticks.first, tick.at < goal.at {
        self.tick(tick, stretch.period)
        ticks.removeFirst()
      }
      score(goal, in: stretch.period)
    }
    for tick in ticks { self.tick(tick, stretch.period) }
  }

  private mutating func tick(_ tick: (at: Double, clock: String), _ period: MatchPeriod) {
    publish(at: tick.at, priority: .considerate, clock: tick.clock, period: period.name)
  }

  private mutating func score(_ timed: OpenFootballTimetable.TimedGoal, in period: MatchPeriod) {
    let goal = timed.goal
    shown[goal.side] += 1
    let kind = goal.isOwnGoal ? "(o.g.)" : goal.isPenalty ? "(pen.)" : nil
    let text = [timed.clock, goal.scorer, kind].compactMap { $0 }.joined(separator: " ")
    scorers.append("\(match.label(goal.side) ?? match[goal.side].name) \(text)")
    publish(
      at: timed.at, clock: timed.clock, period: period.name, relevance: 100,
      alert: alert("Goal! \(match.line(shown))", text), line: goal.line)
  }

  // MARK: Whistles

  private mutating func finish(_ stretch: OpenFootballTimetable.Stretch, isLast: Bool) {
    let official: OpenFootballMatch.Tally? =
      switch stretch.period {
      case .firstHalf: match.score.halfTime
      case .secondHalf: match.score.fullTime
      case .extraFirst, .extraSecond: nil
      }
    let note = add(upTo: official, isLast: isLast)
    let relevance = note.isEmpty ? 50 : 100
    let result = match.line(shown)
    switch stretch.period {
    case .firstHalf:
      publish(
        at: stretch.ends, clock: "HT", period: "Half-time", relevance: relevance,
        alert: alert("Half-time", result + note), staleIn: OpenFootballTimetable.halfTimeBreak + 120)
    case .extraFirst:
      publish(at: stretch.ends, clock: "105'", period: "Extra time, half-time", relevance: relevance)
    case .secondHalf where !isLast:
      publish(
        at: stretch.ends, clock: "FT", period: "Full time", relevance: relevance,
        alert: alert("Full time", result + ": extra time" + note))
    case .secondHalf:
      end(at: stretch.ends, "FT", "Full time", relevance: relevance, alert: alert("Full time", result + note))
    case .extraSecond:
      if let kicks = match.score.shootout {
        publish(
          at: stretch.ends, clock: "AET", period: "After extra time", relevance: relevance,
          alert: alert("After extra time", result + ": penalty shoot-out" + note))
        shoot(kicks, from: stretch.ends + OpenFootballTimetable.shootoutBreak)
      } else {
        end(
          at: stretch.ends, "AET", "After extra time", relevance: relevance,
          alert: alert("After extra time", result + note))
      }
    }
  }

  /// Adds goals without a minute, as many as the official score of this whistle says had fallen.
  ///
  /// - Returns: a note for the alert, or nothing.
  private mutating func add(upTo official: OpenFootballMatch.Tally?, isLast: Bool) -> String {
    var count = 0
    for side in OpenFootballMatch.Side.allCases {
      let left = untimed[side] - added[side]
      let fallen = isLast ? left : min(left, max(0, (official?[side] ?? 0) - shown[side]))
      added[side] += fallen
      shown[side] += fallen
      count += fallen
    }
    switch count {
    case 0: return ""
    case 1: return " (the minute of 1 goal is not known)"
    default: return " (the minutes of \(count) goals are not known)"
    }
  }

  /// The shoot-out: its result only, because the data has no kicks.
  private mutating func shoot(_ kicks: OpenFootballMatch.Tally, from start: Double) {
    publish(at: start, clock: "Pens", period: "Shoot-out")
    let side: OpenFootballMatch.Side = kicks.team1 > kicks.team2 ? .team1 : .team2
    let most = max(kicks.team1, kicks.team2)
    let least = min(kicks.team1, kicks.team2)
    let result = "\(match[side].name) win \(most)–\(least) on penalties"
    shootout = result
    let decided = start + OpenFootballTimetable.shootoutLength
    publish(
      at: decided, clock: "Pens", period: "Shoot-out", relevance: 100,
      alert: alert("Shoot-out \(kicks)", result))
    end(
      at: decided + OpenFootballTimetable.shootoutCelebration, "Pens", "After penalties", relevance: 50,
      alert: nil)
  }

  // MARK: Messages

  private func alert(_ title: String, _ body: String) -> JSONText {
    let text = JSONWriter.object([
      "title": JSONWriter.quoted(title), "body": JSONWriter.quoted(body), "sound": "\"default\"",
    ])
    return JSONText(compacting: text.utf8)
  }

  private func state(_ clock: String, _ period: String) -> JSONText {
    let text = JSONWriter.object([
      "home": String(shown.team1),
      "away": String(shown.team2),
      "clock": JSONWriter.quoted(clock),
      "period": JSONWriter.quoted(period),
      "scorers": "[" + scorers.map(JSONWriter.quoted).joined(separator: ",") + "]",
      "shootout": shootout.map(JSONWriter.quoted),
    ])
    return JSONText(compacting: text.utf8)
  }

  private mutating func publish(
    at: Double, priority: Priority = .immediate, clock: String, period: String, relevance: Int = 50,
    alert: JSONText? = nil, staleIn: Double = Self.stale, line: Int? = nil
  ) {
    played.append(
      MatchScript.Step(
        at: at, priority: priority, contentState: state(clock, period), relevanceScore: String(relevance),
        alert: alert, staleIn: staleIn, line: line ?? match.line))
  }

  private mutating func end(at: Double, _ clock: String, _ period: String, relevance: Int, alert: JSONText?) {
    played.append(
      MatchScript.Step(
        at: at, event: .end, contentState: state(clock, period), relevanceScore: String(relevance),
        alert: alert, dismissIn: Self.dismissal, line: match.line))
  }
}
