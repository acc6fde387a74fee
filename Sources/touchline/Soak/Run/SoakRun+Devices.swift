import BroadcastChannels
import Foundation
import Soak

/// What the devices tell, from this process or from others.
extension SoakRun: FleetListener {
  func take(_ report: PartReport) {
    guard stage != .ended else { return }
    switch report {
    case .observed(let observation, let at): observed(observation, at: at)
    case .delivered(let delivery, let at): delivered(delivery, at: at)
    case .failed(let message): failed(message)
    // The part's own object keeps these.
    case .reached, .status: break
    }
  }

  func observed(_ observation: Observation, at now: Double) {
    switch observation {
    case .wants(let subscriber): attempts[subscriber] = now
    case .failed(let subscriber, _): failedConnection(began: attempts[subscriber], at: now)
    default: break
    }
    verifier.observe(observation, at: now)
  }

  func delivered(_ delivery: PartDelivery, at now: Double) {
    let arrival = delivery.arrival
    verifier.observe(.received(subscriber: delivery.subscriber, arrival, delivery.shown), at: now)
    meter.isDelivered()
    if let server = options.server, !SoakOptions.isLoopback(server.address.host),
      let problem = clocks.compare(sent: arrival.sent, arrived: now)
    {
      breakOff(problem)
    }
    guard delivery.countsLatency else { return }
    let channel = delivery.subscriber % settings.channels
    guard let number = arrival.number, let published = publishers[channel].recent[number] else { return }
    if let outcome = published.outcome {
      return meter.arrived(published, outcome, letOut: arrival.sent, at: now)
    }
    // Which latency it is, the answer tells. A server that delivers much and answers nothing is not waited for.
    publishers[channel].unanswered[number, default: []].append((arrival.sent, now))
    if publishers[channel].unanswered[number, default: []].count >= SoakPublisher.mostUnanswered {
      countLatencies(of: number, channel, nil)
    }
  }

  /// While the soak has stopped its server nobody can connect, which says nothing of the server.
  private func failedConnection(began: Double, at now: Double) {
    if began <= now, stops.contains(where: { $0.overlaps(began...now) }) {
      totals.failedWhileStopped += 1
    } else {
      totals.failedConnections += 1
    }
  }

  /// The answer to a message came, or none will: what was delivered before it counts now.
  ///
  /// - Parameter outcome: what was answered; without an answer the priority says what it would have been.
  func countLatencies(of number: Int, _ channel: Int, _ outcome: Outcome?) {
    guard let published = publishers[channel].recent[number] else { return }
    let outcome = outcome ?? (published.isImmediate ? .delivered : .windowed)
    for (letOut, at) in publishers[channel].unanswered.removeValue(forKey: number) ?? [] {
      meter.arrived(published, outcome, letOut: letOut, at: at)
    }
    publishers[channel].recent[number]?.outcome = outcome
  }

  /// No more answers come. Those that are missing took until now, at least.
  func countUnanswered(_ channel: Int, at now: Double) {
    for request in publishers[channel].requests.values where request.accepted == 0 {
      meter.publishing.record(now - request.due)
      countLatencies(of: request.number, channel, nil)
    }
  }

  func failed(_ message: String) { fail(message) }

  /// Judges what waited until everything before it was heard.
  func judgeWaiting(until horizon: Double) {
    guard !waiting.isEmpty else { return }
    let due = waiting.filter { $0.at < horizon }
    waiting.removeAll { $0.at < horizon }
    for (at, observation) in due { verifier.observe(observation, at: at) }
  }
}
