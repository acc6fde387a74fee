/// When everything in a match happens, in seconds from the start of its script.
///
/// A model, because the data has minutes only: kick-off after a minute, a goal in the middle of its minute,
/// stoppage time as long as its goals need but at least two minutes, a break of 15 minutes at half-time.
/// Extra time is played to its end: the data doesn't tell a golden goal.
struct OpenFootballTimetable {
  /// A goal and its place in the match.
  struct TimedGoal {
    let goal: OpenFootballMatch.Goal
    let at: Double
    let clock: String
  }

  /// A period from whistle to whistle.
  struct Stretch {
    let period: MatchPeriod
    let starts: Double
    let ends: Double
    let goals: [TimedGoal]
    /// The minute ticks: every fifth minute of play, those in stoppage time too.
    let ticks: [(at: Double, clock: String)]
  }

  static let kickOff: Double = 60
  static let tickMinutes = 5
  static let leastStoppageMinutes = 2
  static let halfTimeBreak: Double = 15 * 60
  static let extraTimeBreak: Double = 5 * 60
  static let extraHalfTimeBreak: Double = 2 * 60
  static let shootoutBreak: Double = 3 * 60
  static let shootoutLength: Double = 6 * 60
  static let shootoutCelebration: Double = 60

  let stretches: [Stretch]

  /// Plans a match; goals without a minute have no place in it.
  init(_ match: OpenFootballMatch) {
    let extraTime = match.hasExtraTime
    var starts = Self.kickOff
    var stretches: [Stretch] = []
    for period in MatchPeriod.all(extraTime: extraTime) {
      let goals = match.goals.compactMap { goal in goal.minute.map { (goal: goal, minute: $0) } }
        .filter { MatchPeriod(of: $0.minute, extraTime: extraTime) == period }
        .map { (goal: $0.goal, number: period.number(of: $0.minute)) }
      let stretch = Self.stretch(period, starts: starts, goals: goals)
      stretches.append(stretch)
      starts = stretch.ends + Self.pause(after: period)
    }
    self.stretches = stretches
  }

  private static func pause(after period: MatchPeriod) -> Double {
    switch period {
    case .firstHalf: halfTimeBreak
    case .secondHalf: extraTimeBreak
    case .extraFirst: extraHalfTimeBreak
    case .extraSecond: shootoutBreak
    }
  }

  private static func stretch(
    _ period: MatchPeriod, starts: Double, goals: [(goal: OpenFootballMatch.Goal, number: Int)]
  ) -> Stretch {
    var timed: [TimedGoal] = []
    // Files list goals by team and not always in order. Within a minute the order of the file stays, and the
    // goals share the minute: one stands at its half, two at its thirds.
    let minutes = Dictionary(grouping: goals) { $0.number }
    for number in minutes.keys.sorted() {
      let together = minutes[number] ?? []
      for (index, entry) in together.enumerated() {
        let share = Double(index + 1) / Double(together.count + 1)
        timed.append(
          TimedGoal(
            goal: entry.goal, at: starts + (Double(number - 1) + share) * 60, clock: period.clock(number)))
      }
    }
    let stoppage = max(leastStoppageMinutes, (minutes.keys.max() ?? 0) - period.length)
    let length = period.length + stoppage
    let ticks = stride(from: tickMinutes, to: length, by: tickMinutes).map {
      (at: starts + Double($0) * 60, clock: period.clock($0))
    }
    return Stretch(
      period: period, starts: starts, ends: starts + Double(length) * 60, goals: timed, ticks: ticks)
  }
}

extension OpenFootballMatch {
  /// Whether extra time was played. A shoot-out implies it: every one in openfootball's World Cups has a
  /// score `et`.
  var hasExtraTime: Bool { score.extraTime != nil || score.shootout != nil }
}
