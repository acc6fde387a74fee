import Foundation

/// The generator of a soak run: 64 bits of state, so that one seed is a whole plan.
///
/// SplitMix64 as published by Steele, Lea and Flood ("Fast splittable pseudorandom number generators", 2014). Choices
/// are drawn from it by hand, because Swift doesn't promise how `Int.random(in:using:)` draws.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// Starts a stream of numbers; streams of one seed are independent of each other.
  public init(seed: UInt64, stream: UInt64 = 0) {
    state = seed
    state = next() ^ (stream &* 0xD1B5_4A32_D192_ED03)
    state = next()
  }

  /// The next 64 bits.
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// A number from 0 up to but not including 1.
  public mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

  /// A whole number from 0 up to but not including a bound.
  public mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

  /// True in so many of a hundred cases.
  public mutating func chance(_ percent: Double) -> Bool { unit() * 100 < percent }

  /// A number between two.
  public mutating func between(_ low: Double, _ high: Double) -> Double { low + (high - low) * unit() }

  /// A waiting time of something that comes at random, so many seconds apart on average.
  public mutating func wait(mean: Double) -> Double { -mean * Foundation.log(1 - unit()) }
}
