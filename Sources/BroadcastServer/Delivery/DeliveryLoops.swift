import BroadcastChannels
import Dispatch
import EventLoop
import Foundation
import Locks
import SubscriberProtocol

/// The delivery loops as the main loop sees them: who is where, what they are ordered, and what they tell.
///
/// Rules, sessions and rooms stay on the main loop's thread; values go between the threads, and no lock is held while anything
/// is decided. Orders gather until the end of a turn and are posted together.
final class DeliveryLoops {
  private final class Seat {
    let orders = Mailbox<DeliveryOrder>(limit: Limits.ordersPerLoop)
    let ended = DispatchSemaphore(value: 0)
    /// What this turn has ordered so far.
    var pending: [DeliveryOrder] = []
    var sessions = 0
  }

  private let loop: EventLoop
  private unowned let hub: Hub
  private let registry: SessionRegistry
  private let events = Mailbox<DeliveryEvent>()
  private let seats: [Seat]
  private var sessions: [Int: Session] = [:]
  private var lastNumber = 0
  private var isScheduled = false
  /// The ledgers of deleted channels, whose last messages may still be under way.
  private var closed = Newest<ChannelID, RoomLedger>(limit: Limits.closedLedgers)
  private var questions: [Int: (answers: Int, body: () -> Void)] = [:]
  private var hasStopped = false

  /// Starts the threads.
  /// - Parameters:
  ///   - count: how many loops beside the main one.
  ///   - options: what holds for WebSockets in them.
  /// - Throws: ``EventLoopError`` when the system refuses a loop.
  init(
    _ count: Int, beside loop: EventLoop, hub: Hub, registry: SessionRegistry, options: ServerOptions,
    keepAlive: KeepAlive
  ) throws {
    self.loop = loop
    self.hub = hub
    self.registry = registry
    seats = (0..<count).map { _ in Seat() }
    do {
      for (index, seat) in seats.enumerated() {
        try start(seat, name: "delivery \(index + 1)", options, keepAlive)
      }
    } catch {
      stop()
      throw error
    }
    loop.open(events) { [weak self] events in
      for event in events { self?.take(event) }
    }
  }

  deinit { stop() }

  // MARK: Threads

  /// How a thread's beginning went.
  private final class Start: Sendable {
    let failure = Mutex<EventLoopError?>(nil)
    let isDone = DispatchSemaphore(value: 0)
  }

  private func start(
    _ seat: Seat, name: String, _ options: ServerOptions, _ keepAlive: KeepAlive
  ) throws(EventLoopError) {
    let start = Start()
    let (orders, events, ended) = (seat.orders, events, seat.ended)
    let thread = Thread {
      defer { ended.signal() }
      do {
        let loop = try EventLoop()
        let delivery = DeliveryLoop(
          loop, options: options, keepAlive: keepAlive, orders: orders, events: events)
        start.isDone.signal()
        // What closes last still tells it so.
        withExtendedLifetime(delivery) { loop.run() }
      } catch {
        start.failure.withLock { $0 = error as? EventLoopError ?? .noLoop(reason: "\(error)") }
        start.isDone.signal()
      }
    }
    thread.name = name
    // A client's JSON is read by recursion there.
    thread.stackSize = 4 << 20
    thread.start()
    start.isDone.wait()
    if let failure = start.failure.withLock({ $0 }) { throw failure }
  }

  /// Ends the loops and waits until they are gone. Idempotent.
  func stop() {
    guard !hasStopped else { return }
    hasStopped = true
    for seat in seats { seat.orders.post(seat.pending + [.stop]) }
    for seat in seats { _ = seat.ended.wait(timeout: .now() + Limits.shutdownSeconds) }
    // Whoever was still there went with its loop, and nothing tells it any more.
    let left = sessions.values
    sessions = [:]
    questions = [:]
    for session in left { session.closed(code: nil) }
  }

  // MARK: Orders

  /// Orders something, at the end of the turn.
  func post(_ order: DeliveryOrder, to index: Int) {
    seats[index].pending.append(order)
    guard !isScheduled else { return }
    isScheduled = true
    loop.atEndOfTurn { [weak self] in self?.flush() }
  }

  private func postToAll(_ order: DeliveryOrder) {
    for index in seats.indices { post(order, to: index) }
  }

  private func flush() {
    isScheduled = false
    guard !hasStopped else { return }
    for seat in seats where !seat.pending.isEmpty {
      let orders = seat.pending
      seat.pending = []
      seat.orders.post(orders)
    }
  }

  /// A channel is deleted: what waits goes out, and what becomes of it is still counted.
  func close(_ channel: ChannelID, _ ledger: RoomLedger) {
    closed.add(channel, ledger)
    postToAll(.closeChannel(channel))
  }

  /// How many sessions have their connection on one of these loops.
  var sessionCount: Int { sessions.count }

  /// Finds silent peers by other times from now on.
  func use(_ keepAlive: KeepAlive) { postToAll(.keepAlive(keepAlive)) }

  /// Sends what waits in all channels.
  func finishFanOut() { postToAll(.finishFanOut) }

  /// Moves a session that begins to subscribe to the loop with the fewest, if that isn't the main one.
  /// - Returns: its line from now on; nil when it stays where it is.
  func move(_ receiver: Receiver, of session: Session) -> RemoteLine? {
    // The session itself is among those of the main loop.
    let here = registry.count - sessionCount - 1
    guard let index = Self.fewest(seats.map(\.sessions), here: here) else { return nil }
    let remoteAddress = receiver.remoteAddress
    guard let socket = receiver.giveUp() else { return nil }
    lastNumber += 1
    sessions[lastNumber] = session
    seats[index].sessions += 1
    post(.adopt(lastNumber, socket), to: index)
    return RemoteLine(lastNumber, on: index, of: self, remoteAddress: remoteAddress)
  }

  /// Which of the loops the next session goes to; nil for the main loop, which has `here` and the rules as well.
  static func fewest(_ sessions: [Int], here: Int) -> Int? {
    guard let index = sessions.indices.min(by: { sessions[$0] < sessions[$1] }), sessions[index] <= here
    else { return nil }
    return index
  }

  /// A session on a loop is gone.
  func left(_ index: Int) { seats[index].sessions -= 1 }

  /// Calls `body` once everything is counted that happened on the other loops until now: whoever has a message in hand, or the
  /// answer to an acknowledgement, finds it in the counts.
  func settle(_ body: @escaping () -> Void) {
    lastNumber += 1
    questions[lastNumber] = (seats.count, body)
    postToAll(.report(lastNumber))
  }

  // MARK: Events

  private func take(_ event: DeliveryEvent) {
    switch event {
    case .counted(let channel, let sums): (hub.room(channel)?.ledger ?? closed[channel])?.add(sums)
    case .received(let number, let frame, let bytes): sessions[number]?.received(frame, bytes: bytes)
    case .pushed(let number, let push, let fate): sessions[number]?.pushed(push, fate)
    case .closed(let number, let code): sessions.removeValue(forKey: number)?.closed(code: code)
    case .reported(let number):
      guard let question = questions[number] else { return }
      questions[number]?.answers -= 1
      guard question.answers == 1 else { return }
      questions[number] = nil
      question.body()
    }
  }
}
