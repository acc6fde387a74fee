import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// A connection that is kept alive, and dropped when its peer is gone or reads nothing.
protocol KeptAlive: AnyObject {
  var connection: Connection? { get }
  /// Since when something waits that the peer doesn't take, in the loop's seconds.
  var stalledSince: Double? { get }
  /// When the last ping went out, in the loop's seconds.
  var lastPing: Double { get set }
  /// Where the sweep has it.
  var sweepPlace: Int32? { get set }
  /// Sends something to a silent peer, so that it answers or is found gone.
  func keepAlive()
  func close(code: UInt16, reason: String)
}

/// The one timer of a loop that keeps its long-lived connections alive.
///
/// One sweep for all, because a timer a connection would be another object and another handle for each of them.
final class KeepAliveSweep {
  private var members: [any KeptAlive] = []
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

  /// The loop's time in seconds.
  var now: Double { loop.now }

  func add(_ member: any KeptAlive) {
    member.sweepPlace = Int32(members.count)
    members.append(member)
  }

  func remove(_ member: any KeptAlive) {
    guard let place = member.sweepPlace else { return }
    member.sweepPlace = nil
    let last = members.removeLast()
    guard last !== member else { return }
    members[Int(place)] = last
    last.sweepPlace = place
  }

  func stop() {
    timer?.cancel()
    timer = nil
  }

  /// Pings who was not pinged lately, and drops who was silent too long. The peer of an event stream can't answer;
  /// for it the keep-alive comment finds out.
  private func sweep() {
    let now = loop.now
    for member in members {
      guard let connection = member.connection else { continue }
      if let since = member.stalledSince, now - since > keepAlive.silence {
        member.close(code: 1013, reason: CloseCode.nothingRead(silence: keepAlive.silence))
        continue
      }
      if let since = connection.incompleteSince, now - since > messageSeconds {
        member.close(code: 1008, reason: "a message was not whole within \(Int(messageSeconds)) seconds")
        continue
      }
      if connection.kind == .webSocket, now - connection.lastHeard > keepAlive.silence {
        member.close(
          code: 1001, reason: "nothing was heard for \(Int(keepAlive.silence)) seconds, no pong either")
      } else if now - max(member.lastPing, connection.kind == .webSocket ? connection.lastHeard : 0)
        >= keepAlive.ping
      {
        member.lastPing = now
        member.keepAlive()
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
