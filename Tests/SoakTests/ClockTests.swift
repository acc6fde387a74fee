import Soak
import Testing

@Suite("The soak's own clock and processor time")
struct ClockTests {
  /// Ticks every 2 ms, as many as given, from a moment on.
  private func tick(_ clock: inout SoakClock, _ count: Int, from start: Double) {
    for index in 0..<count { _ = clock.tick(at: start + Double(index) * 0.002) }
  }

  @Test("a standstill of half a second is a late tick for each of the 250 that it swallowed")
  func swallowed() {
    var clock = SoakClock()
    // 501 ticks, a gap of 0.502 s of which 2 ms are a tick's own, 500 ticks.
    tick(&clock, 501, from: 100)
    tick(&clock, 500, from: 101.502)
    // The first tick has none before it. 500 punctual ones; 0.5, 0.498 … 0.002 s; 499 punctual ones.
    #expect(clock.lags.count >= 500 + 250 + 499 && clock.lags.count <= 500 + 251 + 499)
    #expect(abs(clock.lags.maximum - 0.5) < 1e-6)
    // A fifth was late, evenly up to half a second: p90 is the middle of that fifth. One sample in a thousand said nothing.
    #expect(abs(clock.lags.percentile(90) - 0.25) < 0.01)
    #expect(clock.lags.percentile(75) < 0.001)
  }

  @Test("a standstill that is told in pieces is told once, and is one late tick as long as all of them")
  func pieces() {
    var clock = SoakClock()
    let first = clock.tick(at: 10)
    // 62 ms since the tick, 2 of them its own.
    let told = [10.005, 10.062, 10.066, 10.124].map { clock.standstill(at: $0) }
    #expect(first == 0 && told[0] == nil && told[2] == nil)
    #expect(abs((told[1] ?? 0) - 0.06) < 1e-9 && abs((told[3] ?? 0) - 0.06) < 1e-9)
    // What was told is told; what the tick itself is late is 0.125 s in all, less its own 2 ms.
    let rest = clock.tick(at: 10.125)
    let newest = [clock.takeNewest(), clock.takeNewest()]
    #expect(rest == 0 && abs(newest[0] - 0.123) < 1e-9 && newest[1] == 0)
    #expect(abs(clock.lags.maximum - 0.123) < 1e-9)
  }

  @Test("a backlog counts for as long as it was there: 0.1 s is 50 ticks")
  func backlog() {
    var clock = SoakClock()
    clock.note(3, for: 0.1)
    let newest = clock.takeNewest()
    #expect(clock.lags.count == 50 && clock.lags.maximum == 3 && newest == 3)
  }

  @Test("a machine that slept for a week doesn't make the clock count for minutes")
  func asleep() {
    var clock = SoakClock()
    _ = clock.tick(at: 0)
    _ = clock.tick(at: 604_800)
    // 600 s of ticks.
    #expect(clock.lags.count <= 300_001)
    let newest = clock.takeNewest()
    #expect(newest > 604_799)
  }

  @Test(
    "ten seconds at full load are found in an hour of little to do, and shorter ones count for what they are")
  func busiest() {
    var busiest = BusiestSpan()
    var cpu = 0.0
    for second in 0...3_600 {
      busiest.note(cpu: cpu, at: Double(second))
      cpu += (1_000..<1_010).contains(second) ? 1 : (2_000..<2_005).contains(second) ? 1 : 0.1
    }
    #expect(abs(busiest.share - 1) < 1e-9)
    var short = BusiestSpan()
    cpu = 0
    for second in 0...60 {
      short.note(cpu: cpu, at: Double(second))
      cpu += (20..<25).contains(second) ? 1 : 0.1
    }
    // Five seconds at 1 and five at 0.1.
    #expect(abs(short.share - 0.55) < 1e-9)
  }

  @Test("before ten seconds have passed there is no busiest span")
  func young() {
    var busiest = BusiestSpan()
    for second in 0...9 { busiest.note(cpu: Double(second), at: Double(second)) }
    #expect(busiest.share == 0)
    busiest.note(cpu: 10, at: 10)
    #expect(busiest.share == 1)
  }

  @Test("two periods add up: sums and CPU, the latest clock, the events in their order")
  func periods() {
    var first = SoakPeriod()
    (first.published, first.delivered, first.windowed, first.refused, first.dropped) = (4, 100, 1, 2, 0)
    first.latency.record(0.01)
    (first.soakCPU, first.serverCPU, first.lag, first.events) = (0.5, 0.25, 0.03, [SoakSample.killed])
    var second = SoakPeriod()
    (second.published, second.delivered, second.dropped, second.soakCPU, second.lag) = (2, 20, 2, 0.1, 0.01)
    second.latency.record(0.03)
    second.events = ["flood"]
    first.add(second)
    var state = SoakSample()
    state.subscribed = 7
    let sample = first.sample(state, over: 2)
    #expect(sample.published == 3 && sample.delivered == 60 && sample.windowed == 0.5)
    #expect(sample.overBudget == 2 && sample.subscribed == 7)
    #expect(abs(sample.soakCPU - 30) < 1e-9 && sample.serverCPU == 12.5 && sample.soakLag == 0.03)
    #expect(sample.latency?.count == 2 && sample.latency?.max == 0.03)
    // A flood doesn't take the place of a restart.
    #expect(sample.events == ["server killed", "flood"] && sample.restartsServer)
  }
}
