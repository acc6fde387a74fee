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

  func observed(_ observation: Observation, at now: Double) { verifier.observe(observation, at: now) }

  func delivered(_ delivery: PartDelivery, at now: Double) {
    let arrival = delivery.arrival
    verifier.observe(.received(subscriber: delivery.subscriber, arrival, delivery.shown), at: now)
    meter.delivered += 1
    guard delivery.countsLatency else { return }
    let channel = delivery.subscriber % settings.channels
    let published = arrival.number.flatMap { publishers[channel].recent[$0] }
    let sentAt = published?.sentAt ?? arrival.sent
    // A window lasts longer than this: what took less came without one.
    let isImmediate = arrival.priority == .immediate && arrival.sent - sentAt < 0.5
    meter.arrived(
      due: isImmediate ? published?.due ?? arrival.sent : nil, sentAt: sentAt, letOut: arrival.sent, at: now)
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
