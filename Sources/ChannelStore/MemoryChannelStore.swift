import BroadcastChannels

/// A store that keeps nothing beyond the process: for rehearsals and tests.
///
/// The hub holds all of it in memory anyway, so there is nothing to do.
public final class MemoryChannelStore: ChannelStore {
  /// Makes an empty store.
  public init() {}

  /// Nothing outlives the process.
  public var isDurable: Bool { false }

  /// No place at all.
  public var place: String { "memory" }

  /// Nothing: a new process starts empty.
  public func load() throws(StoreError) -> [StoredChannel] { [] }

  /// Keeps nothing.
  public func write(_ batch: StoreBatch) throws(StoreError) {}

  /// Nothing fails.
  public func probe() throws(StoreError) {}
}
