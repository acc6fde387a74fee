import BroadcastChannels

/// Reads an openfootball file and collects everything that is wrong with it.
struct OpenFootballReader {
  private let document: JSONDocument
  private let newlines: [Int]
  private(set) var findings: [Finding] = []

  init(document: JSONDocument) {
    self.document = document
    // Every goal keeps its line, so lines are looked up in an index and not counted from the top each time.
    newlines = document.bytes.indices.filter { document.bytes[$0] == UInt8(ascii: "\n") }
  }

  mutating func feed() -> (name: String, matches: [OpenFootballMatch]) {
    let root = document.root
    guard root.members != nil else {
      error(root, "", "is \(root.described); an openfootball file is an object with \"name\" and \"matches\"")
      return ("", [])
    }
    let name = text(root["name"], "name")
    if name == nil {
      error(root, "name", "is missing; the competition, such as \"World Cup 2022\", was expected")
    }
    var matches: [OpenFootballMatch] = []
    for value in list(root["matches"], "matches") {
      if let match = match(value, competition: name ?? "", round: nil) { matches.append(match) }
    }
    for round in list(root["rounds"], "rounds") {
      let roundName = text(round["name"], "rounds.name")
      for value in list(round["matches"], "rounds.matches") {
        if let match = match(value, competition: name ?? "", round: roundName) { matches.append(match) }
      }
    }
    if matches.isEmpty, findings.isEmpty {
      error(root, "matches", "has no match; \"matches\", or \"rounds\" with \"matches\", was expected")
    }
    return (name ?? "", matches)
  }

  private mutating func match(_ value: JSONValue, competition: String, round: String?) -> OpenFootballMatch? {
    guard value.members != nil else {
      error(value, "matches", "is \(value.described); a match as an object was expected")
      return nil
    }
    let team1 = team(value, "team1")
    let team2 = team(value, "team2")
    let score = score(value)
    guard let team1, let team2 else { return nil }
    return OpenFootballMatch(
      competition: competition, team1: team1, team2: team2, date: text(value["date"], "date"),
      round: text(value["round"], "round") ?? round, group: text(value["group"], "group"),
      ground: text(value["ground"], "ground") ?? text(value["stadium"], "stadium"),
      status: text(value["status"], "status"), score: score,
      goals: goals(value, team1: team1, team2: team2), line: position(of: value.range.lowerBound).line)
  }

  private mutating func team(_ match: JSONValue, _ key: String) -> OpenFootballMatch.Team? {
    guard let value = match[key], !value.isNull else {
      error(match, key, "is missing; a team's name was expected")
      return nil
    }
    guard let name = text(value, key) else {
      if value.string != nil || value.members != nil { error(value, key, "has no name") }
      return nil
    }
    return OpenFootballMatch.Team(name: name, code: text(value["code"], "\(key).code"))
  }

  // MARK: Score

  private mutating func score(_ match: JSONValue) -> OpenFootballMatch.Score {
    guard let value = match["score"], !value.isNull else {
      // The keys of the years to 2018: score1 and score2, with "i" at half-time, "et" and "p".
      return OpenFootballMatch.Score(
        halfTime: oldTally(match, ending: "i"), fullTime: oldTally(match, ending: ""),
        extraTime: oldTally(match, ending: "et"),
        shootout: oldTally(match, ending: "p"))
    }
    if value.members != nil {
      return OpenFootballMatch.Score(
        halfTime: tally(value["ht"], "score.ht"), fullTime: tally(value["ft"], "score.ft"),
        extraTime: tally(value["et"], "score.et"), shootout: tally(value["p"], "score.p"))
    }
    return OpenFootballMatch.Score(
      halfTime: nil, fullTime: tally(value, "score"), extraTime: nil, shootout: nil)
  }

  private mutating func tally(_ value: JSONValue?, _ key: String) -> OpenFootballMatch.Tally? {
    guard let value, !value.isNull else { return nil }
    if let pair = value.elements, pair.count == 2 {
      if pair.allSatisfy(\.isNull) { return nil }
      if let first = goalCount(pair[0]), let second = goalCount(pair[1]) {
        return OpenFootballMatch.Tally(team1: first, team2: second)
      }
    }
    error(value, key, "is \(value.described); two numbers of goals such as [2, 1] were expected")
    return nil
  }

  private mutating func oldTally(_ match: JSONValue, ending: String) -> OpenFootballMatch.Tally? {
    let first = match["score1" + ending].flatMap { $0.isNull ? nil : $0 }
    let second = match["score2" + ending].flatMap { $0.isNull ? nil : $0 }
    guard first != nil || second != nil else { return nil }
    if let goals1 = first.flatMap(goalCount), let goals2 = second.flatMap(goalCount) {
      return OpenFootballMatch.Tally(team1: goals1, team2: goals2)
    }
    error(
      first ?? second ?? match, "score1\(ending)",
      "and score2\(ending) are not both numbers of goals; two numbers were expected")
    return nil
  }

  private func goalCount(_ value: JSONValue) -> Int? {
    // No match ever had three digits (the record is 149–0): more is a typing error.
    value.number?.int.flatMap { (0...199).contains($0) ? Int($0) : nil }
  }

  // MARK: Goals

  private mutating func goals(
    _ match: JSONValue, team1: OpenFootballMatch.Team, team2: OpenFootballMatch.Team
  ) -> [OpenFootballMatch.Goal] {
    var goals: [OpenFootballMatch.Goal] = []
    for value in list(match["goals1"], "goals1") {
      if let goal = goal(value, "goals1", side: .team1) { goals.append(goal) }
    }
    for value in list(match["goals2"], "goals2") {
      if let goal = goal(value, "goals2", side: .team2) { goals.append(goal) }
    }
    for value in list(match["goals"], "goals") {
      guard let side = side(value["team"], team1, team2) else {
        error(value, "goals.team", "doesn't say which team; 1, 2 or a team's name was expected")
        continue
      }
      if let goal = goal(value, "goals", side: side) { goals.append(goal) }
    }
    return goals
  }

  private func side(
    _ value: JSONValue?, _ team1: OpenFootballMatch.Team, _ team2: OpenFootballMatch.Team
  ) -> OpenFootballMatch.Side? {
    switch value?.number?.int {
    case 1: return .team1
    case 2: return .team2
    default: break
    }
    guard let name = value?.string else { return nil }
    if name == team1.name || name == team1.code { return .team1 }
    if name == team2.name || name == team2.code { return .team2 }
    return nil
  }

  private mutating func goal(
    _ value: JSONValue, _ key: String, side: OpenFootballMatch.Side
  ) -> OpenFootballMatch.Goal? {
    guard value.members != nil else {
      error(
        value, key, "is \(value.described); a goal such as {\"name\": \"Messi\", \"minute\": 23} was expected"
      )
      return nil
    }
    return OpenFootballMatch.Goal(
      side: side, scorer: text(value["name"], "\(key).name"), minute: minute(value, key),
      isPenalty: flag(value["penalty"], "\(key).penalty"),
      isOwnGoal: flag(value["owngoal"], "\(key).owngoal"),
      line: position(of: value.range.lowerBound).line)
  }

  private mutating func minute(_ goal: JSONValue, _ key: String) -> OpenFootballMinute? {
    guard let value = goal["minute"], !value.isNull else { return nil }
    var minute = value.string.flatMap { OpenFootballMinute($0) }
    if let number = value.number?.int.flatMap({ Int(exactly: $0) }) { minute = OpenFootballMinute(number) }
    guard let minute else {
      error(
        value, "\(key).minute",
        "is \(value.described); a minute of the match such as 23, or \"45+2\" in stoppage time, was expected")
      return nil
    }
    guard let offset = goal["offset"], !offset.isNull else { return minute }
    guard let number = offset.number?.int.flatMap({ Int(exactly: $0) }),
      let moved = OpenFootballMinute(minute.minute, stoppage: number)
    else {
      error(offset, "\(key).offset", "is \(offset.described); minutes of stoppage time were expected")
      return nil
    }
    return moved
  }

  // MARK: Values

  /// A text, also as a number, or the name of an object; nil when there is none.
  private mutating func text(_ value: JSONValue?, _ key: String) -> String? {
    guard let value, !value.isNull else { return nil }
    if value.members != nil { return text(value["name"], "\(key).name") }
    if let number = value.number { return number.text }
    guard let text = value.string else {
      error(value, key, "is \(value.described); a text was expected")
      return nil
    }
    return text.allSatisfy(\.isWhitespace) ? nil : text
  }

  private mutating func flag(_ value: JSONValue?, _ key: String) -> Bool {
    guard let value, !value.isNull else { return false }
    if let bool = value.bool { return bool }
    error(value, key, "is \(value.described); true or false was expected")
    return false
  }

  private mutating func list(_ value: JSONValue?, _ key: String) -> [JSONValue] {
    guard let value, !value.isNull else { return [] }
    if let elements = value.elements { return elements }
    error(value, key, "is \(value.described); an array was expected")
    return []
  }

  private mutating func error(_ value: JSONValue, _ key: String, _ message: String) {
    let position = position(of: value.range.lowerBound)
    findings.append(Finding(.error, "bad-value", key: key, message, position: position))
  }

  private func position(of offset: Int) -> SourcePosition {
    var low = 0
    var high = newlines.count
    while low < high {
      let middle = (low + high) / 2
      if newlines[middle] < offset { low = middle + 1 } else { high = middle }
    }
    let start = low == 0 ? 0 : newlines[low - 1] + 1
    return SourcePosition(line: low + 1, column: offset - start + 1)
  }
}
