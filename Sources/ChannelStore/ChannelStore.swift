import BroadcastChannels
import Foundation

/// Where channels and their newest messages live.
///
/// A store is as small as the hub needs: what it holds is loaded once, then written to. It is used from the hub's
/// thread only.
public protocol ChannelStore: AnyObject {
  /// Everything that is stored, in the order of creation.
  func load() throws(StoreError) -> [StoredChannel]
  /// Keeps a new channel. When this returns, the channel survives the process.
  func create(_ channel: StoredChannel) throws(StoreError)
  /// Forgets a channel and its message.
  func delete(_ id: ChannelID) throws(StoreError)
  /// Keeps where a policy-1 channel stands, and its newest message. When this returns, both survive the process.
  func save(_ id: ChannelID, position: StreamPosition, newest: Delivery?) throws(StoreError)
}

/// A channel as a store keeps it.
public struct StoredChannel: Sendable {
  /// The channel's name.
  public let id: ChannelID
  /// The rules it runs by and what its app shows, with its alias.
  public let definition: ChannelDefinition
  /// Where it stands.
  public let position: StreamPosition
  /// With policy 1, its newest stored message.
  public let newest: Delivery?

  /// Makes a stored channel.
  public init(id: ChannelID, definition: ChannelDefinition, position: StreamPosition, newest: Delivery?) {
    self.id = id
    self.definition = definition
    self.position = position
    self.newest = newest
  }
}

/// Why a store can't do what it was asked for.
public enum StoreError: Error, Sendable {
  /// The file can't be opened, or belongs to somebody else.
  case unusable(path: String, problem: String)
  /// Reading or writing failed.
  case failed(operation: String, problem: String)
}

extension StoreError: CustomStringConvertible {
  /// What was wrong and where.
  public var description: String {
    switch self {
    case .unusable(let path, let problem): "the store \(path) can't be used: \(problem)"
    case .failed(let operation, let problem): "the store failed to \(operation): \(problem)"
    }
  }
}
