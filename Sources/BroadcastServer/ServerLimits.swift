import BroadcastChannels
import EventLoop

/// The limits that an operator may want otherwise. The others stand in `Limits`.
public struct ServerLimits: Sendable, Hashable {
  /// Connections in total, on all ports; nil for what the limit on open files leaves, see ``ServerLimits/connections(openFiles:)``.
  public var connections: Int?
  /// Connections from one address.
  public var connectionsPerAddress = Limits.connectionsPerAddress
  /// Requests a second from one address, handshakes of WebSockets included.
  public var requestsPerAddress = Limits.requestsPerAddress
  /// Frames a second of one session.
  public var framesPerSession = Limits.framesPerSession
  /// Addresses that any number of connections and requests may come from: proxies, and this machine.
  public var unlimitedAddresses = AddressRange.loopback

  /// The defaults.
  public init() {}

  /// Connections in total: some descriptors are left for the store, the listeners, and files that are read again.
  public func connections(openFiles: Int) -> Int {
    connections ?? max(1, openFiles - min(Limits.reservedDescriptors, openFiles / 2))
  }

  func gate(openFiles: Int) -> ConnectionGate {
    ConnectionGate(
      ConnectionGate.Limits(
        connections: connections(openFiles: openFiles), perAddress: connectionsPerAddress,
        unlimited: unlimitedAddresses, reserve: Limits.reservedConnections))
  }

  var inbound: InboundRate {
    var rate = InboundRate()
    rate.framesPerSecond = framesPerSession
    rate.frameBurst = 4 * framesPerSession
    rate.bytesPerSecond = Limits.inboundBytesPerSession
    rate.byteBurst = 4 * Limits.inboundBytesPerSession
    return rate
  }

  var visitors: Visitors.Bounds {
    Visitors.Bounds(requestsPerSecond: requestsPerAddress, unlimited: unlimitedAddresses)
  }
}
