import Foundation

/// A bucket of tokens that refills evenly.
///
/// The level is kept as of an instant and computed when asked for, so that a bucket needs no timer. A clock that steps
/// back takes nothing away.
public struct TokenBucket: Sendable, Hashable, Codable {
  /// Tokens in a full bucket.
  public let capacity: Double
  /// Tokens that come back in a second.
  public let refillPerSecond: Double
  private var level: Double
  private var asOf: Date

  /// Sums of many small refills end a hair below a whole token; this much is forgiven, and never adds up to a token.
  private static let tolerance = 1e-6

  /// Makes a full bucket.
  public init(capacity: Double, refillPerSecond: Double, now: Date) {
    self.capacity = capacity
    self.refillPerSecond = refillPerSecond
    self.level = capacity
    self.asOf = now
  }

  /// How full a bucket is, as of an instant: what a store keeps of it. Its size comes from the channel's rules.
  public struct Level: Sendable, Hashable {
    /// Tokens in the bucket; below 0 when more was used than the present size holds.
    public let tokens: Double
    /// When that was so.
    public let asOf: Date

    /// Makes a level.
    public init(tokens: Double, asOf: Date) {
      self.tokens = tokens
      self.asOf = asOf
    }
  }

  /// How full it was when it was last used.
  public var lastLevel: Level { Level(tokens: level, asOf: asOf) }

  /// A bucket of this size that was used before.
  public func at(_ level: Level) -> TokenBucket {
    var bucket = self
    bucket.level = min(capacity, level.tokens)
    bucket.asOf = level.asOf
    return bucket
  }

  /// Takes a token.
  ///
  /// - Returns: false when none is left; the bucket is then unchanged.
  public mutating func take(at now: Date) -> Bool {
    refill(to: now)
    guard level >= 1 - Self.tolerance else { return false }
    level = max(0, level - 1)
    return true
  }

  /// Whole tokens left.
  public func remaining(at now: Date) -> Int {
    var copy = self
    copy.refill(to: now)
    return max(0, Int(copy.level + Self.tolerance))
  }

  /// Seconds until the next whole token comes back, or the first that can be taken; nil when none will, or the bucket
  /// is full.
  public func secondsToNext(at now: Date) -> Double? {
    guard refillPerSecond > 0 else { return nil }
    var copy = self
    copy.refill(to: now)
    guard copy.level < capacity - Self.tolerance else { return nil }
    let next = max(1, (copy.level + Self.tolerance).rounded(.down) + 1)
    return max(0, (min(next, capacity) - copy.level) / refillPerSecond)
  }

  /// Seconds in which an empty bucket fills; nil when it never does.
  public var secondsToFill: Double? { refillPerSecond > 0 ? capacity / refillPerSecond : nil }

  /// The same bucket with another size: what was used stays used. Whoever used more than the new size holds has to
  /// wait until that much has come back; making the bucket large again gives back nothing that was used.
  public func resized(capacity: Double, refillPerSecond: Double, at now: Date) -> TokenBucket {
    var old = self
    old.refill(to: now)
    var new = TokenBucket(capacity: capacity, refillPerSecond: refillPerSecond, now: now)
    new.level = capacity - (old.capacity - old.level)
    return new
  }

  private mutating func refill(to now: Date) {
    let elapsed = now.timeIntervalSince(asOf)
    guard elapsed > 0 else {
      // The clock stepped back: count from here, or nothing would come back until it has caught up.
      asOf = now
      return
    }
    level = min(capacity, level + elapsed * refillPerSecond)
    asOf = now
  }
}
