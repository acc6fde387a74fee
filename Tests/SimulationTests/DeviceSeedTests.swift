import Foundation
import Testing

/// Many runs of a device, each from one seed: no sequence of messages, clocks and fingers leads it anywhere that the
/// facts don't allow.
///
/// `TOUCHLINE_SEED=17 swift test --filter DeviceSeedTests` runs seed 17 alone and prints what happens in it.
@Suite struct DeviceSeedTests {
  static let steps = 400
  static let seedsPerBatch: UInt64 = 20
  static let batches = Array<UInt64>(0..<10)
  static let replay = ProcessInfo.processInfo.environment["TOUCHLINE_SEED"].flatMap { UInt64($0) }

  @Test(.disabled(if: replay != nil, "one seed is replayed"), arguments: batches)
  func `the facts hold after every step of every seed`(batch: UInt64) {
    for seed in batch * Self.seedsPerBatch..<(batch + 1) * Self.seedsPerBatch {
      var simulation = DeviceSimulation(seed: seed)
      do { try simulation.run(steps: Self.steps) } catch { Issue.record("TOUCHLINE_SEED=\(seed), \(error)") }
    }
  }

  @Test func `every transition that the facts know is taken, and no other`() throws {
    var taken: Set<DeviceJudge.Transition> = []
    for seed in 1_000..<1_060 as Range<UInt64> {
      var simulation = DeviceSimulation(seed: seed)
      try simulation.run(steps: Self.steps)
      taken.formUnion(simulation.judge.taken)
    }
    #expect(taken == DeviceJudge.transitions)
  }

  @Test(.enabled(if: replay != nil, "TOUCHLINE_SEED replays one seed"))
  func `one seed is replayed`() throws {
    var simulation = DeviceSimulation(seed: try #require(Self.replay))
    defer { print(simulation.trace.joined(separator: "\n")) }
    do { try simulation.run(steps: Self.steps) } catch {
      Issue.record("TOUCHLINE_SEED=\(Self.replay ?? 0), \(error)")
    }
  }

  @Test func `a seed gives the same run each time`() throws {
    var first = DeviceSimulation(seed: 4)
    var second = DeviceSimulation(seed: 4)
    try first.run(steps: Self.steps)
    try second.run(steps: Self.steps)
    #expect(first.trace == second.trace && first.trace.count > Self.steps)
  }
}
