import EventLoop

/// Tells the operator what goes wrong with connections, each kind once a minute with how often it happened since: who
/// makes trouble on purpose shall not fill the log.
final class TroubleLog {
  private let loop: EventLoop
  private let log: ServerLog
  /// When each kind was told last, on the loop's clock, and how often it happened since.
  private var told: [ConnectionTrouble: (at: Double, since: Int)] = [:]

  /// Seconds between two lines of a kind.
  private static let pause: Double = 60
  /// Kinds that are told apart: more than OpenSSL has reasons that a client can bring about.
  private static let kinds = 64

  init(loop: EventLoop, log: ServerLog) {
    self.loop = loop
    self.log = log
  }

  func add(_ trouble: ConnectionTrouble, from remoteAddress: String) {
    if let last = told[trouble], loop.now - last.at < Self.pause {
      told[trouble]?.since += 1
      return
    }
    guard told[trouble] != nil || told.count < Self.kinds else { return }
    let missed = told[trouble]?.since ?? 0
    told[trouble] = (loop.now, 0)
    let place = remoteAddress.isEmpty ? "" : " (\(remoteAddress))"
    let more = missed == 0 ? "" : "; \(missed) more times since it was told last"
    log(trouble == .noDescriptors ? .warning : .info, "\(trouble)\(place)\(more)")
  }
}
