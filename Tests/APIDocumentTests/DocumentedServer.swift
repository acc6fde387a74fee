import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation
import Testing

/// A server on a free port, with its loop in a thread of its own.
final class DocumentedServer: @unchecked Sendable {
  let port: UInt16
  /// The port with TLS; nil without one.
  let tlsPort: UInt16?
  private let remote: LoopRemote
  private let running = Running()
  private let ended = DispatchSemaphore(value: 0)
  private var wasToldToShutDown = false

  /// - Parameters:
  ///   - store: nil for one that works.
  ///   - access: the keys and the client authority of a strict server that checks them and has a port with TLS; nil for
  ///     one that lets everybody in.
  init(store: (any ChannelStore)? = nil, access: AccessFolder? = nil) throws {
    var configuration = ServerConfiguration()
    configuration.listen.port = 0
    configuration.providerListen = nil
    if let access {
      configuration.providerListen = ListenAddress(port: 0)
      configuration.tlsFolder = access.tls
      configuration.clientAuthority = access.clientAuthority
      configuration.keys = access.keys
      configuration.strictness = Set(ServerConfiguration.Strictness.allCases)
      configuration.origins = ["https://scores.example.com"]
    }
    configuration.keepAlive = KeepAlive(ping: 0.5, silence: store == nil ? 60 : 3)
    // Waited for once, by the checker that is slow with a request on purpose.
    if store == nil { configuration.handshakeSeconds = 2 }
    let chosen = Handover(configuration: configuration, store: store ?? MemoryChannelStore())
    let started = DispatchSemaphore(value: 0)
    let thread = Thread { [ended, running] in
      EventLoop.makeRoomForDescriptors()
      running.value = Result {
        let loop = try EventLoop()
        let server = try BroadcastServer(
          loop: loop, configuration: chosen.configuration, store: chosen.store, log: .silent)
        return (loop, server)
      }
      started.signal()
      if case .success(let (loop, _)) = running.value { loop.run() }
      running.value = nil
      ended.signal()
    }
    thread.stackSize = 4 << 20
    thread.start()
    started.wait()
    let (loop, server) = try #require(running.value).get()
    remote = loop.remote
    port = server.port
    tlsPort = server.providerPort
  }

  /// Lets the server read its keys again, as SIGHUP does.
  func reload() {
    remote.post { [running] in running.server?.reload() }
  }

  /// Shuts the server down as SIGTERM does; once.
  func shutDown() {
    guard !wasToldToShutDown else { return }
    wasToldToShutDown = true
    remote.post { [running] in running.server?.shutDown() }
  }

  /// Ends the loop; a second call of the server's own shutdown ends it at once.
  func stop() throws {
    remote.post { [running] in
      running.server?.shutDown()
      running.server?.shutDown()
    }
    if ended.wait(timeout: .now() + 20) != .success { throw StillRunning() }
  }
}

private struct Handover: @unchecked Sendable {
  let configuration: ServerConfiguration
  let store: any ChannelStore
}

/// The loop did not end.
struct StillRunning: Error {}

/// What the loop's thread holds, until the loop ends.
private final class Running: @unchecked Sendable {
  var value: Result<(EventLoop, BroadcastServer), any Error>?

  var server: BroadcastServer? { try? value?.get().1 }
}

/// A store that can be read and not written: an app with its limit of channels, and two more channels.
final class TroubledStore: ChannelStore {
  func load() throws(StoreError) -> [StoredChannel] {
    var random = SystemRandomNumberGenerator()
    guard let full = BundleID("com.example.full") else { return [] }
    func channel(_ definition: ChannelDefinition) -> StoredChannel {
      StoredChannel(
        id: .random(using: &random), definition: definition,
        state: ChannelState(
          position: StreamPosition(epoch: StreamPosition.randomEpoch(using: &random), sequence: 0)))
    }
    let stored = ChannelDefinition(
      alias: ChannelAlias("stored"), settings: ChannelSettings(app: .scores, storagePolicy: .latest))
    let unlimited = ChannelDefinition(
      alias: ChannelAlias("unlimited"),
      settings: ChannelSettings(
        app: .scores, budget: FrequencyBudget(capacity: nil, refillPerHour: 0, overBudget: .demote),
        publishRate: PublishRate(perSecond: nil, burst: nil)))
    return [channel(stored), channel(unlimited)]
      + (0..<Limits.channelsPerApp).map { _ in
        channel(ChannelDefinition(settings: ChannelSettings(app: full)))
      }
  }

  let isDurable = true
  let place = "a full disk"

  func write(_ batch: StoreBatch) throws(StoreError) { throw full("write a change") }

  func probe() throws(StoreError) { throw full("write a probe") }

  private func full(_ operation: String) -> StoreError { .failed(operation: operation, problem: "disk full") }
}
