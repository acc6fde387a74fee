import BroadcastChannels
import EventLoop
import Foundation

/// What each address asks for, so that nobody gets more of the server than their share: requests, and credentials that are not
/// good. Pure: time is an argument.
///
/// A flood of made-up tokens that name a known key would cost a signature check each. So an address that has shown many bad ones
/// has to wait, and meanwhile only what was checked before is looked at: a good publisher behind the same address goes on.
final class Visitors {
  /// What one address may do.
  struct Bounds: Sendable, Hashable {
    /// Requests a second, and five times as many at once.
    var requestsPerSecond = Limits.requestsPerAddress
    /// Bad credentials at once; ``Limits/badCredentialsRefill`` more a second.
    var badCredentials = Limits.badCredentialsPerAddress
    /// Addresses that may do anything.
    var unlimited = AddressRange.loopback
  }

  /// An address has to wait.
  struct Refusal: Error, Equatable {
    /// For how many seconds.
    let seconds: Double
    /// Whether the operator wasn't told of this address lately.
    let isNews: Bool
  }

  private struct Visitor {
    var requests: TokenBucket
    var bad: TokenBucket
    var toldAt: Date?

    /// Whether it is as if it had never come.
    func isForgettable(at now: Date) -> Bool {
      requests.secondsToNext(at: now) == nil && bad.secondsToNext(at: now) == nil
        && toldAt.map { now.timeIntervalSince($0) >= Visitors.tellAfter } ?? true
    }
  }

  private static let tellAfter: Double = 60
  private let bounds: Bounds
  private var visitors: [NetworkAddress: Visitor] = [:]
  private var tidiedAt = Date.distantPast

  init(_ bounds: Bounds = Bounds()) { self.bounds = bounds }

  /// How many addresses are remembered.
  var count: Int { visitors.count }

  /// A request came.
  func asked(from address: NetworkAddress?, at now: Date) throws(Refusal) {
    try change(address, now) { (visitor: inout Visitor) throws(Refusal) in
      if !visitor.requests.take(at: now) { throw Self.refusal(&visitor, visitor.requests, now) }
    }
  }

  /// Whether a credential that was never checked may be checked.
  func checkCredential(from address: NetworkAddress?, at now: Date) throws(Refusal) {
    try change(address, now) { (visitor: inout Visitor) throws(Refusal) in
      if visitor.bad.remaining(at: now) < 1 { throw Self.refusal(&visitor, visitor.bad, now) }
    }
  }

  /// Whether a credential that was never checked may be checked, asked without an answer to anybody: nothing changes.
  func mayShowCredential(from address: NetworkAddress?, at now: Date) -> Bool {
    guard let address, let visitor = visitors[address.client] else { return true }
    return visitor.bad.remaining(at: now) >= 1
  }

  /// A credential was not good.
  func failed(from address: NetworkAddress?, at now: Date) {
    change(address, now) { (visitor: inout Visitor) in _ = visitor.bad.take(at: now) }
  }

  private static func refusal(_ visitor: inout Visitor, _ bucket: TokenBucket, _ now: Date) -> Refusal {
    let isNews = visitor.toldAt.map { now.timeIntervalSince($0) >= tellAfter } ?? true
    if isNews { visitor.toldAt = now }
    return Refusal(seconds: max(1, bucket.secondsToNext(at: now) ?? 1), isNews: isNews)
  }

  private func change<Failure: Error>(
    _ address: NetworkAddress?, _ now: Date, _ body: (inout Visitor) throws(Failure) -> Void
  ) throws(Failure) {
    guard let address, !bounds.unlimited.contains(where: { $0.contains(address) }) else { return }
    let client = address.client
    var visitor: Visitor
    if let known = visitors[client] {
      visitor = known
    } else {
      if visitors.count >= Limits.visitors { tidy(now) }
      // Too many to be told apart: what all of them may have together is bounded by the connections.
      guard visitors.count < Limits.visitors else { return }
      visitor = Visitor(
        requests: TokenBucket(
          capacity: 5 * bounds.requestsPerSecond, refillPerSecond: bounds.requestsPerSecond, now: now),
        bad: TokenBucket(
          capacity: Double(bounds.badCredentials), refillPerSecond: Limits.badCredentialsRefill, now: now))
    }
    defer { visitors[client] = visitor }
    try body(&visitor)
  }

  /// Forgets whoever has everything back. It looks at all of them, so at most once a second.
  private func tidy(_ now: Date) {
    guard abs(now.timeIntervalSince(tidiedAt)) >= 1 else { return }
    tidiedAt = now
    visitors = visitors.filter { !$1.isForgettable(at: now) }
  }
}

extension Refusal {
  /// The answer to somebody who has to wait.
  init(_ refusal: Visitors.Refusal, _ what: String) {
    self.init(.tooManyRequests, "\(what) from your address; come back later", retryAfter: refusal.seconds)
  }
}
