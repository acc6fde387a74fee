// Why: a limit on connections has to be counted where descriptors come and go, for every protocol alike: a connection that is
// half a TLS handshake costs a descriptor as well. All ports of a server share one gate. A connection may end on another loop
// than the one that accepted it, so the counts are behind a lock, which is taken when a connection comes and when it goes.

import Locks

/// Counts the connections of a server, and says when there are too many.
public final class ConnectionGate: Sendable {
  /// How many there may be.
  public struct Limits: Sendable, Equatable {
    /// All together.
    public var connections: Int
    /// From one address; see ``NetworkAddress/client``.
    public var perAddress: Int
    /// Addresses that may have any number: this machine, and proxies, behind which are many clients.
    public var unlimited: [AddressRange]
    /// How many more there may be all together while it is one of those addresses that comes.
    public var reserve: Int

    /// Makes limits; none by default.
    public init(
      connections: Int = .max, perAddress: Int = .max, unlimited: [AddressRange] = [], reserve: Int = 0
    ) {
      self.connections = connections
      self.reserve = reserve
      self.perAddress = perAddress
      self.unlimited = unlimited
    }
  }

  /// Why a connection is turned away.
  public enum Refusal: Sendable, Equatable {
    /// There are too many.
    case tooMany
    /// There are too many from its address.
    case tooManyFromAddress
  }

  private struct State {
    var total = 0
    var counts: [NetworkAddress: Int] = [:]
    /// Whom each descriptor is counted for.
    var owners: [Int32: NetworkAddress] = [:]
  }

  private let limits: Limits
  private let state = Mutex(State())

  /// Makes a gate.
  public init(_ limits: Limits = Limits()) { self.limits = limits }

  /// Connections that are counted now.
  public var count: Int { state.withLock { $0.total } }

  /// Counts a connection, unless it is one too many.
  func enter(_ descriptor: Int32, from address: NetworkAddress?) -> Refusal? {
    let isUnlimited = address.map { address in limits.unlimited.contains { $0.contains(address) } } ?? false
    let client = limits.perAddress == .max || isUnlimited ? nil : address?.client
    // Of no limit there is no more.
    let reserve = isUnlimited && limits.connections < .max - limits.reserve ? limits.reserve : 0
    return state.withLock { state in
      guard state.total < limits.connections + reserve else { return .tooMany }
      if let client {
        guard state.counts[client, default: 0] < limits.perAddress else { return .tooManyFromAddress }
        state.counts[client, default: 0] += 1
        state.owners[descriptor] = client
      }
      state.total += 1
      return nil
    }
  }

  /// A connection that entered is about to be closed: from then on its descriptor may be another's.
  func leave(_ descriptor: Int32) {
    state.withLock { state in
      state.total -= 1
      guard let client = state.owners.removeValue(forKey: descriptor), let count = state.counts[client] else {
        return
      }
      state.counts[client] = count > 1 ? count - 1 : nil
    }
  }
}
