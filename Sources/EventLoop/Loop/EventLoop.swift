// Why: one thread, one libuv loop, and on it everything that a server has, so that timers, signals, listeners, HTTP and WebSocket
// connections share a single epoll set and need no lock among each other. Clients are libwebsockets', one context a loop at most, in
// "foreign loop" mode: with an internal loop lws_service() would block inside uv_run() (lib/event-libs/libuv/libuv.c,
// elops_run_pt_uv), so the loop is always ours.
//
// Ending it has an order that lws dictates: the first lws_context_destroy() only starts closing sockets,
// their handles close in later loop turns, and a second call after uv_run() returned frees the rest.

import CLibuv
import Glibc

/// A libuv loop with everything that runs on it. Confined to the thread that calls ``run()``: create its
/// servers, clients and timers on that thread (or before `run()`), and use ``remote`` from elsewhere.
public final class EventLoop {
  /// The way in from other threads.
  public let remote = LoopRemote()

  let uv: UnsafeMutablePointer<uv_loop_t>
  /// Which WebSockets of the loop may be written to directly.
  var directPaths = DirectPaths()
  private(set) var hasEnded = false
  private var isStopping = false
  private var wake: UnsafeMutablePointer<uv_async_t>?
  private(set) var soonJobs: [() -> Void] = []
  private var turnEnd: TurnEnd?
  private var resources: [ObjectIdentifier: any LoopResource] = [:]
  private var inboxes: [Inbox] = []
  private var websockets: LibwebsocketsContext?

  /// Makes a loop that is ready for timers, servers and clients.
  /// - Throws: ``EventLoopError/noLoop(reason:)`` when the system refuses another epoll descriptor.
  public init() throws {
    signal(SIGPIPE, SIG_IGN)
    uv = .allocate(capacity: 1)
    let uv = self.uv
    let made = Statics.withProcessLock { uv_loop_init(uv) }
    guard made == 0 else {
      uv.deallocate()
      throw EventLoopError.noLoop(reason: describe(uvError: made))
    }
    let wake = UnsafeMutablePointer<uv_async_t>.allocate(capacity: 1)
    let opened = Statics.withProcessLock {
      uv_async_init(uv, wake) { handle in
        Handle.owner(of: handle, as: WeakLoop.self)?.loop?.runJobs()
      }
    }
    guard opened == 0 else {
      wake.deallocate()
      uv_loop_close(uv)
      uv.deallocate()
      throw EventLoopError.noLoop(reason: describe(uvError: opened))
    }
    Handle.attach(wake, to: WeakLoop(self))
    self.wake = wake
    remote.connect(wake)
  }

  deinit {
    // A loop that was never run still owns descriptors.
    if !hasEnded { end() }
  }

  /// Serves the loop until ``stop()``; when it returns, every socket and handle is closed and freed.
  public func run() {
    guard !hasEnded else { return }
    uv_run(uv, UV_RUN_DEFAULT)
    end()
  }

  /// Ends the loop soon: all handles, sockets and connections are closed and `run()` returns. Call it on
  /// the loop's thread. For a graceful end close the connections first and stop when they are gone.
  public func stop() {
    guard !isStopping, !hasEnded else { return }
    isStopping = true
    soon { [weak self] in self?.closeEverything() }
  }

  /// Monotonic time in seconds; its zero has no meaning.
  public var now: Double { Double(uv_hrtime()) / 1e9 }

  /// How many processors this process may use, by its affinity; at least 1.
  public static var availableProcessors: Int { Int(uv_available_parallelism()) }

  /// Raises the soft limit on open descriptors to the hard one, at most to `ceiling`, and has the kernel make its table of them
  /// that long (8 bytes each). Call it before the first thread and the first client: once a process has threads, the kernel lets it
  /// stand still for some 12 ms whenever the table has to double; and libwebsockets sizes its own tables (16 bytes each) by the limit at
  /// that moment.
  public static func makeRoomForDescriptors(ceiling: UInt = 262_144) {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    let wanted = min(limit.rlim_max, rlim_t(ceiling))
    if wanted > limit.rlim_cur {
      limit.rlim_cur = wanted
      setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
    let some = Glibc.open("/", O_RDONLY | O_CLOEXEC)
    guard some >= 0 else { return }
    // The table reaches to the highest descriptor that was ever open, and never shrinks.
    let highest = fcntl(some, F_DUPFD_CLOEXEC, CInt(min(descriptorLimit, Int(ceiling)) - 1))
    Glibc.close(some)
    if highest >= 0 { Glibc.close(highest) }
  }

  /// How many descriptors the process may have open.
  public static var descriptorLimit: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1_024 }
    return Int(clamping: limit.rlim_cur)
  }

  // MARK: - For the module

  /// Runs `job` in a later turn of the loop, never inside the caller.
  func soon(_ job: @escaping () -> Void) {
    soonJobs.append(job)
    if let wake { uv_async_send(wake) }
  }

  /// Runs `job` once, after everything that this turn of the loop brings: what it brings for one connection can then be written
  /// together. A job that asks again comes at the end of the next turn, which waits for nothing.
  public func atEndOfTurn(_ job: @escaping () -> Void) {
    guard acceptsResources else { return }
    let end = turnEnd ?? TurnEnd(uv)
    turnEnd = end
    end.add(job)
  }

  var acceptsResources: Bool { wake != nil }

  func keep(_ resource: any LoopResource) { resources[ObjectIdentifier(resource)] = resource }

  func keep(_ inbox: Inbox) { inboxes.append(inbox) }

  func release(_ resource: any LoopResource) { resources[ObjectIdentifier(resource)] = nil }

  /// The libwebsockets context, made on first use.
  func websocketsContext() throws -> LibwebsocketsContext {
    if let websockets { return websockets }
    guard acceptsResources else { throw EventLoopError.noLoop(reason: "the loop has ended") }
    let context = try LibwebsocketsContext(loop: self)
    websockets = context
    return context
  }

  // MARK: - Ending

  private func runJobs() {
    for job in remote.takeJobs() { job() }
    for inbox in inboxes { inbox.read() }
    let jobs = soonJobs
    soonJobs = []
    for job in jobs { job() }
  }

  private func closeEverything() {
    guard let wake else { return }
    remote.disconnect()
    self.wake = nil
    for resource in resources.values { resource.loopEnds() }
    resources = [:]
    for inbox in inboxes { inbox.close() }
    inboxes = []
    turnEnd?.close()
    turnEnd = nil
    websockets?.beginDestruction()
    Handle.close(wake)
  }

  private func end() {
    closeEverything()
    uv_run(uv, UV_RUN_DEFAULT)
    websockets?.finishDestruction()
    websockets = nil
    // lws closes two static handles in the second destroy: they need a last turn.
    uv_run(uv, UV_RUN_DEFAULT)
    uv_loop_close(uv)
    uv.deallocate()
    hasEnded = true
    // What was to be said "soon" is still said: closed() comes exactly once, also at the end.
    while !soonJobs.isEmpty { runJobs() }
  }
}

/// The wake-up handle must not keep its loop alive.
private final class WeakLoop {
  weak var loop: EventLoop?
  init(_ loop: EventLoop) { self.loop = loop }
}
