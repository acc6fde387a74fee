/// What happens in a part of a run: a second of it, or the time between two samples of the report.
public struct SoakPeriod: Sendable {
  /// Messages that publishers sent.
  public var published = 0
  /// Messages that arrived at subscribers.
  public var delivered = 0
  /// Messages that waited in a window, or were demoted.
  public var windowed = 0
  /// Messages that were refused.
  public var refused = 0
  /// Messages that were dropped over budget.
  public var dropped = 0
  /// Latencies from when a message was due.
  public var latency = LatencyHistogram()
  /// Seconds of CPU that the soak used.
  public var soakCPU: Double = 0
  /// Seconds of CPU that the server used; nil when it could not be measured.
  public var serverCPU: Double?
  /// The most that the soak's clock was late, in seconds.
  public var lag: Double = 0
  /// What happened, in its order.
  public var events: [String] = []

  /// Makes one in which nothing happened.
  public init() {}

  /// Adds a period that follows this one.
  public mutating func add(_ next: SoakPeriod) {
    published += next.published
    delivered += next.delivered
    windowed += next.windowed
    refused += next.refused
    dropped += next.dropped
    latency.add(next.latency)
    soakCPU += next.soakCPU
    if let more = next.serverCPU { serverCPU = (serverCPU ?? 0) + more }
    lag = max(lag, next.lag)
    events += next.events
  }

  /// The period as a sample.
  ///
  /// - Parameters:
  ///   - state: how things stand at its end; what has happened is filled in.
  ///   - seconds: how long it was.
  public func sample(_ state: SoakSample, over seconds: Double) -> SoakSample {
    var sample = state
    let seconds = max(seconds, 0.001)
    sample.published = Double(published) / seconds
    sample.delivered = Double(delivered) / seconds
    sample.windowed = Double(windowed) / seconds
    sample.overBudget = Double(refused + dropped) / seconds
    sample.latency = latency.count > 0 ? latency.summary : nil
    sample.soakCPU = soakCPU / seconds * 100
    sample.serverCPU = serverCPU.map { $0 / seconds * 100 }
    sample.soakLag = lag
    sample.events = events
    return sample
  }
}
