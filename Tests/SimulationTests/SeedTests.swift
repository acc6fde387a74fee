import Foundation
import TestSupport
import Testing

/// Many runs of a channel and its subscribers, each from one seed.
///
/// `TOUCHLINE_SEED=17 swift test --filter SimulationTests` runs seed 17 alone and prints what happens in it.
@Suite struct SeedTests {
  static let steps = 400
  static let seedsPerBatch: UInt64 = 20
  /// Batches of seeds, so that runs spread over the processors.
  static let batches = Array<UInt64>(0..<15)
  static let replay = ProcessInfo.processInfo.environment["TOUCHLINE_SEED"].flatMap { UInt64($0) }

  @Test(.disabled(if: replay != nil, "one seed is replayed"), arguments: batches)
  func `the rules hold after every step of every seed`(batch: UInt64) {
    for seed in batch * Self.seedsPerBatch..<(batch + 1) * Self.seedsPerBatch {
      do {
        var simulation = try Simulation(seed: seed)
        try simulation.run(steps: Self.steps)
      } catch {
        Issue.record("TOUCHLINE_SEED=\(seed), \(error)")
      }
    }
  }

  @Test(.enabled(if: replay != nil, "TOUCHLINE_SEED replays one seed"))
  func `one seed is replayed`() throws {
    let seed = try #require(Self.replay)
    var simulation = try Simulation(seed: seed)
    defer { print(simulation.trace.joined(separator: "\n")) }
    do {
      try simulation.run(steps: Self.steps)
    } catch {
      Issue.record("TOUCHLINE_SEED=\(seed), \(error)")
    }
  }

  @Test func `a seed gives the same run each time`() throws {
    var first = try Simulation(seed: 4)
    var second = try Simulation(seed: 4)
    try first.run(steps: Self.steps)
    try second.run(steps: Self.steps)
    #expect(first.trace == second.trace && first.trace.count > Self.steps / 2)
  }

  @Test func `the generator is SplitMix64`() {
    var random = SplitMix64(seed: 1_234_567)
    // The first outputs of the reference program (https://prng.di.unimi.it/splitmix64.c) for this seed.
    #expect(random.next() == 6_457_827_717_110_365_317)
    #expect(random.next() == 3_203_168_211_198_807_973)
  }
}
