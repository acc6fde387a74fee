import BroadcastChannels
import Foundation

/// Where channels live, with what of them outlives the process.
///
/// A store is as small as the hub needs: what it holds is loaded once, then written to. It may be used from any thread, but
/// from one at a time.
public protocol ChannelStore: AnyObject, Sendable {
  /// Whether what it was given outlives the process. Otherwise nobody has to wait for it.
  var isDurable: Bool { get }
  /// Where it is, for a log.
  var place: String { get }
  /// Everything that is stored, in the order of creation.
  func load() throws(StoreError) -> [StoredChannel]
  /// Keeps changes, all of them or none. When this returns they survive the process; those that were promised survive a
  /// loss of power too, with everything that was written before them.
  func write(_ batch: StoreBatch) throws(StoreError)
  /// Writes something that means nothing, to find out whether the store works again.
  func probe() throws(StoreError)
}

/// A channel as a store keeps it.
public struct StoredChannel: Sendable {
  /// The channel's name.
  public let id: ChannelID
  /// The rules it runs by and what its app shows, with its alias.
  public let definition: ChannelDefinition
  /// Where it stands.
  public let state: ChannelState

  /// Makes a stored channel.
  public init(id: ChannelID, definition: ChannelDefinition, state: ChannelState) {
    self.id = id
    self.definition = definition
    self.state = state
  }
}

/// One thing to keep.
public enum StoreChange: Sendable {
  /// A new channel.
  case create(StoredChannel)
  /// A channel goes on by another definition, with another alias perhaps, and with what is left of its budget and rate under
  /// that; nil leaves these as they are.
  case define(ChannelID, ChannelDefinition, ChannelLevels?)
  /// A channel is no more, and nothing of it is kept.
  case delete(ChannelID)
  /// A channel has moved on. When it isn't there any more this does nothing.
  case save(ChannelID, ChannelChange)
}

/// Changes that are written as one.
public struct StoreBatch: Sendable {
  private enum Entry {
    case change(StoreChange)
    case save(ChannelID)
  }

  private var entries: [Entry] = []
  /// Apart, so that a channel's further changes are added in place.
  private var saves: [ChannelID: ChannelChange] = [:]
  private var unpromised: [Int] = []
  /// Whether one of them was promised, so that it has to survive a loss of power.
  public private(set) var isPromised = false

  /// Makes an empty batch.
  public init() {}

  /// Whether there is nothing to write.
  public var isEmpty: Bool { entries.isEmpty }

  /// In their order. A channel is saved once, with all that changed.
  public var changes: [StoreChange] { entries.compactMap(change) }

  private func change(_ entry: Entry) -> StoreChange? {
    switch entry {
    // What the channel was saved with is newer, or the same.
    case .change(.define(let id, let definition, _)) where saves[id] != nil: .define(id, definition, nil)
    case .change(let change): change
    case .save(let id): saves[id].map { .save(id, $0) }
    }
  }

  /// Adds a change behind the others.
  ///
  /// - Parameter isPromised: whether somebody is told that it happened only when it was written. All of a channel's saves
  ///   are, or none.
  public mutating func add(_ change: StoreChange, isPromised: Bool) {
    if isPromised { self.isPromised = true }
    if case .save(let id, let later) = change, saves[id] != nil {
      saves[id]?.merge(later)
      return
    }
    if !isPromised { unpromised.append(entries.count) }
    if case .save(let id, let first) = change {
      saves[id] = first
      entries.append(.save(id))
    } else {
      entries.append(.change(change))
    }
  }

  /// Adds what another batch has to keep although it couldn't be written: what was not promised has happened all the same.
  public mutating func takeUnpromised(of other: StoreBatch) {
    for place in other.unpromised {
      switch other.entries[place] {
      case .change(let change): add(change, isPromised: false)
      case .save(let id): if let save = other.saves[id] { add(.save(id, save), isPromised: false) }
      }
    }
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
