import BroadcastChannels

/// The keys that the server trusts, each with its team.
///
/// A value that never changes. To take up new files a new one is made; when that fails, the old one is still there.
public struct KeyRing {
  /// The teams by id.
  public let teams: [TeamID: Team]
  /// What is not as it should be, though it works: one sentence each.
  public let notes: [String]

  private let keys: [KeyID: VerifyingKey]
  private let owners: [KeyID: Team]

  /// Joins keys with the text of `teams.json`.
  ///
  /// - Parameters:
  ///   - file: JSON; `//` and `/* */` comments are allowed.
  ///   - keys: the keys that were found, each of which a team must name.
  /// - Throws: everything that is wrong, each with its line and key and what was expected.
  public init(teams file: [UInt8], keys: [KeyID: VerifyingKey]) throws(Findings) {
    try self.init(teams: file, keys: keys, broken: [], notes: [])
  }

  /// - Parameters:
  ///   - broken: keys whose files can't be used. They are not missing as well.
  ///   - notes: what whoever read the keys has to tell.
  init(
    teams file: [UInt8], keys: [KeyID: VerifyingKey], broken: Set<KeyID>, notes: [String]
  ) throws(Findings) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(file, comments: true)
    } catch {
      throw Findings([Finding(error)])
    }
    var reader = TeamsReader(document: document, keyIDs: broken.union(keys.keys))
    let teams = reader.teams()
    guard reader.findings.isEmpty else { throw Findings(reader.findings) }
    self.teams = Dictionary(teams.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    self.notes = notes
    self.keys = keys
    owners = Dictionary(
      teams.flatMap { team in team.keys.map { ($0, team) } }, uniquingKeysWith: { first, _ in first })
  }

  /// The ids of the keys that a team names.
  public var keyIDs: Set<KeyID> { Set(owners.keys) }

  /// A key and the team that it signs for.
  public func key(_ id: KeyID) -> (key: VerifyingKey, team: Team)? {
    guard let key = keys[id], let team = owners[id] else { return nil }
    return (key, team)
  }

  /// The team that an app belongs to.
  public func team(owning app: BundleID) -> Team? { teams.values.first { $0.owns(app) } }

  /// Who may subscribe to the channels of an app. Nobody may to those of an app of no team, unless their definitions say so: a
  /// team that was withdrawn must not leave its channels open.
  public func subscribeRule(for app: BundleID) -> SubscribeRule {
    team(owning: app)?.subscribeRule(for: app) ?? .token
  }
}
