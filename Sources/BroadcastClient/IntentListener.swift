import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// Hears the buttons that people press on a channel's cards, as the channel's publisher does.
///
/// It reconnects by itself; what was pressed meanwhile comes then, and each intent is reported once.
public final class IntentListener {
  /// What a listener is told.
  public enum Event: Sendable {
    /// It listens now.
    case listening
    /// A button was pressed.
    case intent(IntentFrame)
    /// The connection is gone and will be made again.
    case disconnected(problem: String, retryIn: Double)
    /// It can't listen.
    case failed(RequestFailure)
  }

  private let channel: String
  private let handler: (Event) -> Void
  private var session: KeptSession?
  /// The ids of the last intents, in their order: no server sends an older one again.
  private var heard: [String] = []

  /// Makes a listener and connects.
  public init(loop: EventLoop, server: ServerAccess, channel: String, handler: @escaping (Event) -> Void) {
    self.channel = channel
    self.handler = handler
    session = KeptSession(loop: loop, server: server, waits: false) { [weak self] in self?.take($0) }
  }

  /// Closes the connection.
  public func close() {
    session?.close()
    session = nil
  }

  private func take(_ event: KeptSession.Event) {
    switch event {
    case .opened: session?.send(ClientFrame.listen(channel))
    case .frame(let frame): take(frame)
    case .lost(let problem, let wait): handler(.disconnected(problem: problem, retryIn: wait))
    case .failed(let failure): handler(.failed(failure))
    }
  }

  private func take(_ frame: ServerFrame) {
    switch frame {
    case .listening: handler(.listening)
    case .intent(let intent): if isFirst(intent.intentID) { handler(.intent(intent)) }
    case .error(let error): finish(RequestFailure(reason: error.reason, "\(error.reason): \(error.message)"))
    case .unsubscribed(_, "deleted", _): finish(RequestFailure(reason: "deleted", "the channel was deleted"))
    default: break
    }
  }

  private func finish(_ failure: RequestFailure) {
    close()
    handler(.failed(failure))
  }

  /// Whether an intent is new. It is one that a server keeps, or it is forgotten.
  private func isFirst(_ id: String) -> Bool {
    guard !heard.contains(id) else { return false }
    heard.append(id)
    if heard.count > Limits.intentsPerChannel { heard.removeFirst() }
    return true
  }
}
