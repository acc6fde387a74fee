import BroadcastChannels

/// Reads `teams.json` and collects everything that is wrong with it.
struct TeamsReader {
  let document: JSONDocument
  /// The keys that there are files for; nil when that isn't to be checked.
  let keyIDs: Set<KeyID>?
  private(set) var findings: [Finding] = []
  /// Who owns what has been read so far.
  private var keyOwners: [KeyID: TeamID] = [:]
  private var appOwners: [(app: AppPattern, team: TeamID)] = []

  private static let keys = ["keys", "apps", "subscribe"]
  private static let subscribing = "\"open\" or \"token\""

  init(document: JSONDocument, keyIDs: Set<KeyID>?) {
    self.document = document
    self.keyIDs = keyIDs
  }

  mutating func teams() -> [Team] {
    guard let members = document.root.members else {
      error(
        "bad-value", key: "", "is \(document.root.described); an object of teams was expected", document.root)
      return []
    }
    let teams = members.compactMap { team($0) }
    for key in (keyIDs ?? []).subtracting(keyOwners.keys).sorted(by: { $0.text < $1.text }) {
      error(
        "unused-key", key: "",
        "no team names the key \(key), for which there is a file; add it to the \"keys\" of its team, or move the file away",
        document.root)
    }
    return teams
  }

  private mutating func team(_ member: JSONMember) -> Team? {
    guard let id = TeamID(member.name) else {
      findings.append(
        Finding(
          .error, "bad-team", key: member.name, "is no team id: \(IdentifierText.rule) were expected",
          at: member.offset, in: document))
      return nil
    }
    guard let members = member.value.members else {
      error(
        "bad-value", key: id.text,
        "is \(member.value.described); an object was expected, such as {\"keys\": [\"ABC123DEFG\"], \"apps\": [\"com.example.scores\"]}",
        member.value)
      return nil
    }
    for unknown in members where !Self.keys.contains(unknown.name) {
      findings.append(
        Finding(
          .error, "unknown-key", key: "\(id).\(unknown.name)",
          "is no key of a team" + Suggestion.phrase(for: unknown.name, among: Self.keys), at: unknown.offset,
          in: document))
    }
    let keys = keyList(member.value, team: id)
    let apps = appList(member.value, team: id)
    let (rule, byApp) = subscribe(member.value["subscribe"], team: id, apps: apps)
    return Team(id: id, keys: keys, apps: apps, subscribe: rule, subscribeByApp: byApp)
  }

  private mutating func keyList(_ team: JSONValue, team id: TeamID) -> [KeyID] {
    list("keys", of: team, team: id, expected: "key ids such as \"ABC123DEFG\"").compactMap { value in
      guard let text = value.string, let key = KeyID(text) else {
        error(
          "bad-value", key: "\(id).keys",
          "has \(value.described); a key id was expected: \(IdentifierText.rule)", value)
        return nil
      }
      if let owner = keyOwners[key] {
        let place = owner == id ? "twice in this list" : "in the team \(owner) as well"
        error(
          "key-twice", key: "\(id).keys", "the key \(key) stands \(place); a key belongs to one team", value)
        return nil
      }
      keyOwners[key] = id
      if let keyIDs, !keyIDs.contains(key) {
        error(
          "missing-key-file", key: "\(id).keys",
          "there is no file for the key \(key); AuthKey_\(key).p8 or \(key).pem was expected beside this file",
          value)
      }
      return key
    }
  }

  private mutating func appList(_ team: JSONValue, team id: TeamID) -> [AppPattern] {
    list("apps", of: team, team: id, expected: "bundle ids such as \"com.example.scores\"").compactMap {
      value in
      guard let text = value.string, let app = AppPattern(text) else {
        error(
          "bad-value", key: "\(id).apps", "has \(value.described); \(AppPattern.rule) was expected", value)
        return nil
      }
      // A bundle id is one team's (Apple). With two owners nobody could tell whose rule for subscribers holds.
      if let other = appOwners.first(where: { $0.team != id && $0.app.overlaps(app) }) {
        error(
          "app-twice", key: "\(id).apps",
          "\"\(app)\" and \"\(other.app)\" of the team \(other.team) mean the same app; an app belongs to one team",
          value)
        return nil
      }
      appOwners.append((app, id))
      return app
    }
  }

  private mutating func list(
    _ name: String, of team: JSONValue, team id: TeamID, expected: String
  ) -> [JSONValue] {
    guard let value = team[name] else {
      error("missing-key", key: "\(id).\(name)", "is missing; an array of \(expected) was expected", team)
      return []
    }
    guard let elements = value.elements, !elements.isEmpty else {
      let found = value.elements == nil ? value.described : "empty"
      error("bad-value", key: "\(id).\(name)", "is \(found); an array of \(expected) was expected", value)
      return []
    }
    return elements
  }

  private mutating func subscribe(
    _ value: JSONValue?, team id: TeamID, apps: [AppPattern]
  ) -> (SubscribeRule, [BundleID: SubscribeRule]) {
    guard let value else { return (.open, [:]) }
    if let text = value.string, let rule = SubscribeRule(rawValue: text) { return (rule, [:]) }
    guard let members = value.members else {
      error(
        "bad-value", key: "\(id).subscribe",
        "is \(value.described); \(Self.subscribing) was expected, or an object of bundle ids and these", value
      )
      return (.open, [:])
    }
    var byApp: [BundleID: SubscribeRule] = [:]
    for member in members {
      let key = "\(id).subscribe.\(member.name)"
      guard let app = BundleID(member.name), apps.contains(where: { $0.matches(app) }) else {
        findings.append(
          Finding(
            .error, "unknown-app", key: key,
            "is no app of this team" + Suggestion.phrase(for: member.name, among: apps.map(\.description)),
            at: member.offset, in: document))
        continue
      }
      guard let rule = member.value.string.flatMap({ SubscribeRule(rawValue: $0) }) else {
        error(
          "bad-value", key: key, "is \(member.value.described); \(Self.subscribing) was expected",
          member.value)
        continue
      }
      byApp[app] = rule
    }
    return (.open, byApp)
  }

  private mutating func error(_ kind: String, key: String, _ message: String, _ value: JSONValue) {
    findings.append(Finding(.error, kind, key: key, message, at: value.range.lowerBound, in: document))
  }
}
