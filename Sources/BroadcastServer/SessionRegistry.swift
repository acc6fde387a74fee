import BroadcastChannels
import EventLoop

/// A connection that is kept alive, and dropped when its peer is gone or reads nothing.
protocol RegisteredStream: AnyObject {
  var connection: Connection? { get }
  /// Since when something waits that the peer doesn't take, in the loop's seconds.
  var stalledSince: Double? { get }
  /// When the last ping went out, in the loop's seconds.
  var lastPing: Double { get set }
  /// Where the registry has it.
  var registryPlace: Int32? { get set }
  /// Sends something to a silent peer, so that it answers or is found gone.
  func keepAlive()
  /// The keys changed: whoever lost what the stream lives on is closed.
  func recheckAccess()
  func close(code: UInt16, reason: String)
  /// The server ends: tells when to come back, and closes with 1012 once everything that waits was sent.
  func sayGoodbye(retryIn: Double)
}

/// All sessions of a server, and the one timer that keeps them alive.
///
/// One sweep for all, because a timer a connection would be another object and another handle for each of them.
final class SessionRegistry {
  private var sessions: [any RegisteredStream] = []
  private let loop: EventLoop
  private var keepAlive: KeepAlive
  private let messageSeconds: Double
  private var timer: LoopTimer?

  /// - Parameter messageSeconds: for how long a message may come in pieces.
  init(loop: EventLoop, keepAlive: KeepAlive, messageSeconds: Double = Limits.handshakeSeconds) {
    self.loop = loop
    self.messageSeconds = messageSeconds
    self.keepAlive = keepAlive
    begin()
  }

  /// Finds silent peers by other times from now on.
  func use(_ keepAlive: KeepAlive) {
    guard keepAlive != self.keepAlive, timer != nil else { return }
    self.keepAlive = keepAlive
    timer?.cancel()
    begin()
  }

  private func begin() {
    let interval = max(0.05, min(keepAlive.ping, keepAlive.silence) / 4)
    timer = loop.schedule(after: interval, every: interval) { [weak self] in self?.sweep() }
  }

  var count: Int { sessions.count }

  /// The loop's time in seconds.
  var now: Double { loop.now }

  func add(_ session: any RegisteredStream) {
    session.registryPlace = Int32(sessions.count)
    sessions.append(session)
  }

  func remove(_ session: any RegisteredStream) {
    guard let place = session.registryPlace else { return }
    session.registryPlace = nil
    let last = sessions.removeLast()
    guard last !== session else { return }
    sessions[Int(place)] = last
    last.registryPlace = place
  }

  func recheckAccess() {
    for session in sessions { session.recheckAccess() }
  }

  /// Those that there are now.
  var all: [any RegisteredStream] { sessions }

  func schedule(after seconds: Double, _ body: @escaping () -> Void) { loop.schedule(after: seconds, body) }

  func stop() {
    timer?.cancel()
    timer = nil
  }

  /// Pings who was not pinged lately, and drops who was silent too long. The peer of an event stream can't answer;
  /// for it the keep-alive comment finds out.
  private func sweep() {
    let now = loop.now
    for session in sessions {
      guard let connection = session.connection else { continue }
      if let since = session.stalledSince, now - since > keepAlive.silence {
        session.close(code: 1013, reason: "nothing was read for \(Int(keepAlive.silence)) seconds")
        continue
      }
      if let since = connection.incompleteSince, now - since > messageSeconds {
        session.close(code: 1008, reason: "a message was not whole within \(Int(messageSeconds)) seconds")
        continue
      }
      if connection.kind == .webSocket, now - connection.lastHeard > keepAlive.silence {
        session.close(
          code: 1001, reason: "nothing was heard for \(Int(keepAlive.silence)) seconds, no pong either")
      } else if now - max(session.lastPing, connection.kind == .webSocket ? connection.lastHeard : 0)
        >= keepAlive.ping
      {
        session.lastPing = now
        session.keepAlive()
      }
    }
  }
}

/// How silent peers are found.
public struct KeepAlive: Sendable, Hashable {
  /// Seconds without a word after which a ping is sent.
  public var ping: Double
  /// Seconds without a word after which the connection is dropped.
  public var silence: Double

  /// Makes a setting.
  public init(ping: Double, silence: Double) {
    self.ping = ping
    self.silence = silence
  }
}
