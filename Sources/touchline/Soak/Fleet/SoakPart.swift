import BroadcastClient
import EventLoop
import Foundation
import Soak

/// One process of `--processes`: a share of the devices. The plan comes on standard input, what happens to the devices goes to
/// standard output, and the end of the input is the end of the part.
final class SoakPart: FleetListener {
  private let loop: EventLoop
  private let fleet: DeviceFleet
  private var writer = PartReportWriter()
  private var pending: [UInt8] = []
  private var reachedAt: Double = 0
  private var statusAt: Double = 0
  private var hasFailed = false
  private var input: DescriptorWatch?

  /// Seconds after which the judging process hears how far this one is, and how it stands.
  static let pace = (reached: 0.05, status: 0.5)
  /// Bytes that wait for the judging process at most: it is minutes behind then.
  private static let mostPending = 256 * 1_048_576

  static func run(_ arguments: Arguments) throws -> Int32 {
    try ParentProcess.follow(arguments)
    guard let line = readLine(), let plan = try? JSONDecoder().decode(PartPlan.self, from: Data(line.utf8))
    else {
      throw CommandFailure("--part is for the processes that a soak starts; --processes N starts them")
    }
    EventLoop.makeRoomForDescriptors()
    return try SoakPart(plan, try ClientOptions.server(arguments)).run()
  }

  private init(_ plan: PartPlan, _ access: ServerAccess) throws {
    loop = try EventLoop()
    fleet = try DeviceFleet(plan, access, loop: loop)
    fleet.listener = self
  }

  private func run() throws -> Int32 {
    // A terminal sends Ctrl-C to all of its processes: the judging one decides what becomes of it.
    for signal in [SIGINT, SIGHUP] { loop.onSignal(signal) {} }
    _ = fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK)
    input = try loop.watchReadable(STDIN_FILENO) { [self] in inputEnded() }
    // The loop's timers round up by a millisecond.
    loop.schedule(after: 0, every: SoakClock.tick - 0.001) { [self] in tick() }
    loop.run()
    return hasFailed ? 1 : 0
  }

  private func tick() {
    let now = fleet.now
    fleet.tick(now)
    if now - reachedAt >= Self.pace.reached {
      reachedAt = now
      writer.write(.reached(now))
    }
    if now - statusAt >= Self.pace.status { tellStatus(now) }
    flush()
  }

  private func tellStatus(_ now: Double) {
    statusAt = now
    writer.write(.status(fleet.status()))
  }

  private func inputEnded() {
    input?.cancel()
    input = nil
    finish()
  }

  private func finish() {
    fleet.stop()
    tellStatus(fleet.now)
    writer.write(.reached(fleet.now))
    _ = fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) & ~O_NONBLOCK)
    flush()
    loop.stop()
  }

  private func flush() {
    pending += writer.take()
    var done = 0
    while done < pending.count {
      let count = pending.withUnsafeBytes { buffer in
        write(STDOUT_FILENO, buffer.baseAddress.map { $0 + done }, buffer.count - done)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      done += count
    }
    pending.removeFirst(done)
    if pending.count > Self.mostPending, !hasFailed {
      failed("the judging process is too slow for this load; take fewer subscribers or a lower rate")
    }
  }

  // MARK: FleetListener

  func observed(_ observation: Observation, at now: Double) { writer.write(.observed(observation, at: now)) }

  func delivered(_ delivery: PartDelivery, at now: Double) { writer.write(.delivered(delivery, at: now)) }

  func failed(_ message: String) {
    guard !hasFailed else { return }
    hasFailed = true
    writer.write(.failed(message))
    // Not from within one of the fleet's own steps.
    loop.schedule(after: 0) { [self] in finish() }
  }
}
