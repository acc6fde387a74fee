// Why: limits are counted by where a client comes from, and a text is a poor key for that: one IPv4 client has two spellings on
// a socket that takes both families, and one IPv6 client has 2^64 addresses to come from (RFC 6177 gives a site at least a /64).

import Glibc

/// An address that clients come from.
public struct NetworkAddress: Sendable, Hashable {
  /// IPv4 as ::ffff:a.b.c.d, so that both spellings are one address.
  private let high: UInt64
  private let low: UInt64

  private static let mapped: UInt64 = 0xffff

  private init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Reads a numeric address.
  public init?(_ text: String) {
    var four = in_addr()
    if inet_pton(AF_INET, text, &four) == 1 {
      self.init(high: 0, low: Self.mapped << 32 | UInt64(UInt32(bigEndian: four.s_addr)))
      return
    }
    var six = in6_addr()
    // A scope, as in fe80::1%eth0, says which link it is on: not who it is.
    guard inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &six) == 1 else { return nil }
    let bytes = withUnsafeBytes(of: &six) { Array($0) }
    self.init(
      high: bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) },
      low: bytes[8...].reduce(0) { $0 << 8 | UInt64($1) })
  }

  private var isIPv4: Bool { high == 0 && low >> 32 == Self.mapped }

  /// Whether it is one of this machine alone: 127.0.0.0/8, also in its IPv6 spelling, or ::1.
  public var isLoopback: Bool { AddressRange.loopback.contains { $0.contains(self) } }

  /// Whom it stands for: the address itself for IPv4, the /64 for IPv6.
  public var client: NetworkAddress { isIPv4 ? self : NetworkAddress(high: high, low: 0) }

  fileprivate func prefix(_ bits: Int) -> NetworkAddress {
    func kept(_ word: UInt64, _ count: Int) -> UInt64 {
      count <= 0 ? 0 : word & (.max << UInt64(64 - min(64, count)))
    }
    return NetworkAddress(high: kept(high, bits), low: kept(low, bits - 64))
  }

  /// Bits in front of an address' own, in the form that it is kept in.
  fileprivate var leadingBits: Int { isIPv4 ? 96 : 0 }
}

/// A range of addresses: one, or all with the same first bits.
public struct AddressRange: Sendable, Hashable, CustomStringConvertible {
  /// As it was written.
  public let description: String
  private let first: NetworkAddress
  private let bits: Int

  /// Reads `ADDRESS` or `ADDRESS/BITS`, such as `127.0.0.0/8`.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let address = NetworkAddress(String(parts[0])) else { return nil }
    let own = 128 - address.leadingBits
    guard let count = parts.count == 2 ? Int(parts[1]) : own, (0...own).contains(count) else { return nil }
    description = text
    bits = count + address.leadingBits
    first = address.prefix(bits)
  }

  /// Whether an address is among them.
  public func contains(_ address: NetworkAddress) -> Bool { address.prefix(bits) == first }

  /// This machine.
  public static let loopback = ["127.0.0.0/8", "::1"].compactMap { AddressRange($0) }
}
