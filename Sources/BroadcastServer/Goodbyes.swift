import BroadcastChannels
import EventLoop

/// How a server that ends parts with its sessions: in waves, and each with its own time to come back, so that neither its last
/// seconds nor the first ones of the next server are a storm. Pure.
struct Goodbyes {
  /// Sessions of one wave.
  let size: Int
  /// Seconds from one wave to the next.
  let interval: Double
  /// How many waves there are.
  let count: Int
  /// Seconds over which the sessions come back.
  let spread: Double

  init(sessions: Int) {
    let waves = (sessions + Limits.sessionsPerWave - 1) / Limits.sessionsPerWave
    count = max(1, min(waves, Limits.shutdownWaves))
    size = max(1, (sessions + count - 1) / count)
    interval = count > 1 ? Limits.shutdownWaveSeconds / Double(Limits.shutdownWaves) : 0
    spread = min(
      Limits.returnSeconds, max(Limits.soonestReturnSeconds, Double(sessions) / Limits.returnsPerSecond))
  }

  /// Seconds after which a session of a wave is asked to come back: not before the last wave has gone.
  func retryIn(wave: Int, using generator: inout some RandomNumberGenerator) -> Double {
    let rest = Double(count - 1 - wave) * interval
    return rest + Limits.soonestReturnSeconds + Double.random(in: 0...spread, using: &generator)
  }
}

extension SessionRegistry {
  /// Parts with every session: the frame `goodbye`, or the field `retry` of an event stream, and close code 1012.
  func sayGoodbye(on loop: EventLoop) {
    let sessions = all
    let plan = Goodbyes(sessions: sessions.count)
    part(with: sessions[...], wave: 0, plan, loop)
  }

  private func part(
    with sessions: ArraySlice<any RegisteredStream>, wave: Int, _ plan: Goodbyes, _ loop: EventLoop
  ) {
    var random = SystemRandomNumberGenerator()
    for session in sessions.prefix(plan.size) {
      session.sayGoodbye(retryIn: plan.retryIn(wave: wave, using: &random))
    }
    let rest = sessions.dropFirst(plan.size)
    guard !rest.isEmpty else { return }
    loop.schedule(after: plan.interval) { [weak self, unowned loop] in
      self?.part(with: rest, wave: wave + 1, plan, loop)
    }
  }
}
