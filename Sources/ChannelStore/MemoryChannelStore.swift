import BroadcastChannels

/// A store that keeps nothing beyond the process: for rehearsals and tests.
///
/// The hub holds all of it in memory anyway, so there is nothing to do.
public final class MemoryChannelStore: ChannelStore {
  /// Makes an empty store.
  public init() {}

  /// Nothing: a new process starts empty.
  public func load() throws(StoreError) -> [StoredChannel] { [] }

  /// Keeps nothing.
  public func create(_ channel: StoredChannel) throws(StoreError) {}

  /// Forgets nothing.
  public func delete(_ id: ChannelID) throws(StoreError) {}

  /// Keeps nothing.
  public func save(_ id: ChannelID, position: StreamPosition, newest: Delivery?) throws(StoreError) {}
}
