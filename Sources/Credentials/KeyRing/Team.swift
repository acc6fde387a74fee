import BroadcastChannels

/// A developer team: its keys and its apps, as `teams.json` names them.
public struct Team: Sendable, Hashable {
  /// The id.
  public let id: TeamID
  /// The keys that sign for it.
  public let keys: [KeyID]
  /// Its apps.
  public let apps: [AppPattern]
  /// Who may subscribe to channels of its apps.
  public let subscribe: SubscribeRule
  /// The apps for which another rule holds.
  public let subscribeByApp: [BundleID: SubscribeRule]

  /// Makes a team.
  public init(
    id: TeamID, keys: [KeyID], apps: [AppPattern], subscribe: SubscribeRule = .open,
    subscribeByApp: [BundleID: SubscribeRule] = [:]
  ) {
    self.id = id
    self.keys = keys
    self.apps = apps
    self.subscribe = subscribe
    self.subscribeByApp = subscribeByApp
  }

  /// Whether an app is the team's.
  public func owns(_ app: BundleID) -> Bool { apps.contains { $0.matches(app) } }

  /// Who may subscribe to the channels of an app of this team.
  public func subscribeRule(for app: BundleID) -> SubscribeRule { subscribeByApp[app] ?? subscribe }
}
