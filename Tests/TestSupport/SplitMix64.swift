import Foundation

/// The generator of a run: 64 bits of state, so that one seed is a whole run.
///
/// SplitMix64 as published by Steele, Lea and Flood ("Fast splittable pseudorandom number generators", 2014). Choices
/// are drawn from it by hand, because Swift doesn't promise how `Int.random(in:using:)` draws.
package struct SplitMix64: RandomNumberGenerator {
  private var state: UInt64

  /// Starts a run.
  package init(seed: UInt64) { state = seed }

  /// The next 64 bits.
  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// A whole number from 0 up to but not including a bound.
  package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

  /// True in so many of a hundred cases.
  package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

  /// One of some choices.
  package mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[below(choices.count)] }

  /// A span of up to so many seconds, in milliseconds.
  package mutating func seconds(upTo most: Double) -> Double { Double(below(Int(most * 1_000) + 1)) / 1_000 }
}
