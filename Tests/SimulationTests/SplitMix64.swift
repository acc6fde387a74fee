import Foundation

/// The generator of a run: 64 bits of state, so that one seed is a whole run.
///
/// SplitMix64 as published by Steele, Lea and Flood ("Fast splittable pseudorandom number generators", 2014). Choices
/// are drawn from it by hand, because Swift doesn't promise how `Int.random(in:using:)` draws.
struct SplitMix64: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// A whole number from 0 up to but not including a bound.
  mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

  /// True in so many of a hundred cases.
  mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

  /// One of some choices.
  mutating func pick<Choice>(_ choices: [Choice]) -> Choice { choices[below(choices.count)] }

  /// A span of up to so many seconds, in milliseconds.
  mutating func seconds(upTo most: Double) -> Double { Double(below(Int(most * 1_000) + 1)) / 1_000 }
}

/// A rule that did not hold.
struct Violation: Error, CustomStringConvertible {
  let description: String

  /// Throws unless a rule holds.
  static func unless(_ holds: Bool, _ rule: @autoclosure () -> String) throws(Violation) {
    if !holds { throw Violation(description: rule()) }
  }
}
