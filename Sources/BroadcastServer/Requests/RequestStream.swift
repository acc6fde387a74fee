import BroadcastChannels
import EventLoop
import Foundation

/// The request log as a stream of server-sent events, for one reader.
///
/// It holds a place in the log and nothing else: a reader that takes nothing costs no memory, and is told how many
/// entries it missed once it goes on. A message's entry waits up to ``Limits/requestSettleSeconds`` for the devices'
/// acknowledgements, because without them its numbers would say nothing.
final class RequestStream: StreamHandler, RegisteredStream, KeptAlive {
  private let services: SessionServices
  private let caller: Caller
  private let filter: RequestFilter
  private var next: Int
  private var cancelExpiry: (() -> Void)?
  private var cancelTimer: (() -> Void)?
  private(set) weak var connection: Connection?
  var registryPlace: Int32?
  var sweepPlace: Int32?
  private(set) var stalledSince: Double?
  var lastPing: Double = 0

  /// - Parameter next: the number of the first entry that is sent.
  init(_ services: SessionServices, caller: Caller, filter: RequestFilter, next: Int) {
    self.services = services
    self.caller = caller
    self.filter = filter
    self.next = next
  }

  private var log: RequestLog { services.requests }
  private var environment: HubEnvironment { services.hub.environment }

  // MARK: Connection

  func opened(_ connection: Connection) {
    self.connection = connection
    lastPing = connection.lastHeard
    services.registry.add(self)
    services.sweep.add(self)
    log.begin(self)
    cancelExpiry = caller.closeWhenExpired(in: environment) { [weak self] in
      self?.close(code: $0, reason: $1)
    }
    connection.send(OutgoingBytes(raw: EventStreamText.retry))
    goOn()
  }

  func received(text: [UInt8], _ connection: Connection) {}

  func writable(_ connection: Connection) { goOn() }

  func closed(_ connection: Connection, code: UInt16?, reason: String) {
    cancelTimer?()
    cancelTimer = nil
    cancelExpiry?()
    log.end(self)
    services.registry.remove(self)
    services.sweep.remove(self)
  }

  func close(code: UInt16, reason: String) { connection?.close(code: code, reason: reason) }

  func sayGoodbye(retryIn: Double) {
    connection?.send(OutgoingBytes(raw: EventStreamText.retry(after: retryIn)))
    close(code: 1012, reason: "")
  }

  func recheckAccess() {
    do throws(AnswerError) { try services.access.recheck(caller) } catch {
      close(code: 4003, reason: error.message)
    }
  }

  func deleted(_ room: ChannelRoom) {}

  func keepAlive() {
    // What is behind already will be sent; a comment would have to wait for it.
    if stalledSince == nil { connection?.send(OutgoingBytes(raw: EventStreamText.keepAlive)) }
  }

  // MARK: Sending

  /// Sends what has come since, as far as the connection takes it.
  func goOn() {
    cancelTimer?()
    cancelTimer = nil
    guard let connection, connection.isOpen else { return }
    let missed = log.oldestNumber - next
    if missed > 0 {
      let event = EventStreamText.event("missed", id: nil, data: Array("{\"missed\":\(missed)}".utf8))
      guard send(event, connection) else { return }
      next = log.oldestNumber
    }
    while let entry = log[next] {
      if filter.takes(entry) {
        guard !waits(entry), send(event(entry), connection) else { return }
      }
      next += 1
    }
    stalledSince = nil
  }

  /// Whether the entry's numbers are still to come; it is looked at again then.
  private func waits(_ entry: RequestEntry) -> Bool {
    let age = environment.now().timeIntervalSince(entry.request.receivedAt)
    guard entry.awaitsDevices, (0..<Limits.requestSettleSeconds).contains(age) else { return false }
    cancelTimer = environment.schedule(Limits.requestSettleSeconds - age) { [weak self] in self?.goOn() }
    return true
  }

  private func event(_ entry: RequestEntry) -> [UInt8] {
    EventStreamText.event(
      "request", id: StreamPosition(epoch: log.epoch, sequence: entry.number).description,
      data: Array(entry.json(epoch: log.epoch).utf8))
  }

  private func send(_ event: [UInt8], _ connection: Connection) -> Bool {
    let isTaken = connection.send(OutgoingBytes(raw: event))
    stalledSince = isTaken ? nil : stalledSince ?? services.clock
    return isTaken
  }
}
