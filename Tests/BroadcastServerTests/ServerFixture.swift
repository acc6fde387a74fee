import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation
import TestSupport
import Testing

/// A whole server on a free port, in a thread of its own.
final class ServerFixture: @unchecked Sendable {
  /// How the server is set up.
  struct Setup: Sendable {
    var port: UInt16 = 0
    var store: @Sendable () throws -> any ChannelStore = { MemoryChannelStore() }
    var definitions: [ChannelDefinition] = []
    var keepAlive = KeepAlive(ping: 20, silence: 60)
    var keys: String?
    var strictness: Set<ServerConfiguration.Strictness> = []
    var origins: Set<String>?
    var limits = ServerLimits()
    var handshakeSeconds = Limits.handshakeSeconds
    /// How many loops carry messages to subscribers.
    var loops = 1
    /// Where the development authority is; with it there is a port with TLS as well.
    var tlsFolder: String?
    /// Changes whatever else is to be different.
    var settings: @Sendable (inout ServerConfiguration) -> Void = { _ in }
  }

  let port: UInt16
  /// The port with TLS, if there is one.
  let securePort: UInt16?
  /// Every line of the server's log, such as `warning channel final: …`.
  let log: Box<[String]>
  private let remote: LoopRemote
  private let server: Unchecked<BroadcastServer>
  private let ended: Box<Bool>

  private struct Started {
    let port: UInt16
    let securePort: UInt16?
    let remote: LoopRemote
    let server: Unchecked<BroadcastServer>
  }

  init(loops: Int = 1, _ configure: (inout Setup) throws -> Void = { _ in }) throws {
    var setup = Setup()
    setup.loops = loops
    try configure(&setup)
    let log = Box<[String]>([])
    let ended = Box(false)
    let started = Box<Result<Started, any Error>?>(nil)
    let thread = Thread { [setup] in
      EventLoop.makeRoomForDescriptors()
      do {
        let loop = try EventLoop()
        var configuration = ServerConfiguration()
        configuration.listen.port = setup.port
        configuration.providerListen = setup.tlsFolder.map { _ in ListenAddress(port: 0) }
        configuration.tlsFolder = setup.tlsFolder
        configuration.keepAlive = setup.keepAlive
        configuration.keys = setup.keys
        configuration.strictness = setup.strictness
        configuration.origins = setup.origins
        configuration.limits = setup.limits
        configuration.handshakeSeconds = setup.handshakeSeconds
        configuration.loops = setup.loops
        setup.settings(&configuration)
        let server = try BroadcastServer(
          loop: loop, configuration: configuration, store: setup.store(), definitions: setup.definitions,
          log: ServerLog(lowest: .debug) { entry in
            log.change { $0.append("\(entry.level) \(entry.message)") }
          })
        started.value = .success(
          Started(
            port: server.port, securePort: server.providerPort, remote: loop.remote,
            server: Unchecked(server)))
        loop.run()
      } catch {
        started.value = .failure(error)
      }
      ended.value = true
    }
    thread.stackSize = 4 << 20
    thread.start()
    let result = try #require(try started.wait("the server to listen") { $0 != nil }).get()
    started.value = nil
    (port, securePort) = (result.port, result.securePort)
    (remote, server) = (result.remote, result.server)
    (self.log, self.ended) = (log, ended)
  }

  /// Holds the main loop meanwhile, so that what is sent to it arrives in one turn, in order.
  func holding(_ body: () throws -> Void) rethrows {
    let (isHeld, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    remote.post {
      isHeld.signal()
      goesOn.wait()
    }
    isHeld.wait()
    defer { goesOn.signal() }
    try body()
  }

  /// Asks the server to shut down, and doesn't wait.
  func shutDown() {
    let server = self.server
    remote.post { server.value.shutDown() }
  }

  /// Asks the server to read keys and certificates again, and doesn't wait.
  func reload() {
    let server = self.server
    remote.post { server.value.reload() }
  }

  /// Waits until the loop's `run()` has returned.
  func waitForEnd() throws { try ended.wait("run() to return") { $0 } }
}

/// What each test of subscribers runs with: the main loop alone, and others beside it.
let loopCounts = [1, 3]

/// Runs a test against a server and shuts it down, whatever came of the test.
func withServer(
  loops: Int = 1, _ configure: (inout ServerFixture.Setup) throws -> Void = { _ in },
  _ body: (ServerFixture) throws -> Void
) throws {
  let server = try ServerFixture(loops: loops, configure)
  let result = Result { try body(server) }
  server.shutDown()
  try server.waitForEnd()
  try result.get()
}

/// A definition as its file would say it.
func definition(_ alias: String?, _ json: String = #"{"app":"com.example.scores"}"#) throws
  -> ChannelDefinition
{
  let name = try alias.map { try #require(ChannelAlias($0)) }
  return try ChannelDefinition(file: Array(json.utf8), alias: name)
}

/// A channel that may be published to without limit, so that a test can send as fast as it likes.
func unlimited(_ alias: String, policy: Int = 0) throws -> ChannelDefinition {
  try definition(
    alias,
    #"""
    {"app":"com.example.scores","message-storage-policy":\#(policy),"budget":{"capacity":null},
     "publish-rate":{"per-second":null}}
    """#)
}

/// A store that another server of this process had: that one's threads let go of it soon after its loop has ended.
func reopenedStore(_ path: String) throws -> SQLiteChannelStore {
  let deadline = Date(timeIntervalSinceNow: 20)
  while true {
    do { return try SQLiteChannelStore(path: path) } catch {
      guard Date() < deadline else { throw error }
      usleep(10_000)
    }
  }
}

/// A folder of its own for one test.
final class TestFolder {
  let path = FileManager.default.temporaryDirectory.appendingPathComponent("broadcast-server-\(UUID())").path

  init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
