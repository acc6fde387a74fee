import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation
import ServiceManager

/// `touchline serve`: runs the server until it is told to stop.
enum ServeCommand: Command {
  static let usage = CommandUsage(
    name: "serve",
    synopsis: "[--listen HOST:PORT] [--store PATH|memory] [--channels DIR] [--keys DIR] [--config FILE]",
    summary: "Run a broadcast-channel server.",
    options: ServeSettings.options + [ParentProcess.option],
    environment: ServeSettings.environmentHelp,
    notes: """
      What was answered with success is kept: channels, the newest message of those that store it, budgets, and the answers
      to request ids. One server uses a file. --store memory begins anew each time.

      Speaks HTTP/1.1, HTTP/2, WebSocket and server-sent events. The addresses are printed on standard output, the log
      goes to standard error. SIGTERM and Ctrl-C close every connection with 1012 and exit 0. SIGHUP reads settings, keys,
      certificates and channel definitions again; what is broken leaves the old in use, and what needs a restart is named.
      Started by systemd with Type=notify it tells when it can be used, reloads and stops, and gives the signs of life that
      WatchdogSec= asks for.

      Without --keys or --client-ca everybody who reaches the server may publish, so it then listens on this machine
      alone, unless --insecure-open is given.

      A flag wins over an environment variable, which wins over the configuration file. The variable of --log-level is
      TOUCHLINE_LOG_LEVEL, its key in the file "log-level", and so on; --check-config shows what comes of it. The value
      "default" of a flag or a variable takes back what a variable or the file says.
      """,
    examples: [
      "touchline serve --channels Channels",
      "touchline serve --listen 127.0.0.1:0 --provider-listen off --store channels.sqlite",
      "touchline token new-key --dir keys --team TEAM123456 --app com.example.scores && touchline serve --keys keys",
      "touchline serve --config touchline.json",
      "touchline serve --config touchline.json --check-config",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(0...0, "no argument")
    try ParentProcess.follow(arguments)
    let settings = try ServeSettings(arguments)
    if arguments.has("--check-config") { return try settings.check() }
    if arguments.has("--format") { throw arguments.error("--format goes with --check-config") }
    // Until the loop hears it, a reload would end the server.
    signal(SIGHUP, SIG_IGN)
    let configuration = try settings.readOrRefuse()
    let definitions: [ChannelDefinition]
    do throws(ChannelLibrary.Broken) {
      definitions =
        try configuration.channels.map { folder throws(ChannelLibrary.Broken) in
          try ChannelLibrary.load(folder: folder)
        } ?? []
    } catch {
      throw CommandFailure("the channel definitions can't be used:\n\(error)")
    }
    let sink = LogSink(configuration)
    defer { sink.close() }
    EventLoop.makeRoomForDescriptors()
    let loop = try EventLoop()
    // A bound on the size of files is an error of the store then, and not the end.
    signal(SIGXFSZ, SIG_IGN)
    let store = try store(configuration)
    let server = try start(loop, configuration, store, definitions, sink.log)
    let manager = ServiceManager()
    // Before the addresses are printed: whoever reads them may send SIGTERM at once.
    for signal in [SIGTERM, SIGINT] {
      loop.onSignal(signal) {
        manager.stopping("shutting down")
        server.shutDown()
      }
    }
    loop.onSignal(SIGHUP) { manager.reloading { reload(server, settings, sink) } }
    let addresses =
      ["listening on \(server.url)"] + (server.providerURL.map { ["provider API on \($0)"] } ?? [])
    // The log has said them, too.
    for address in addresses { Console.offer(address) }
    manager.ready(addresses.joined(separator: ", "))
    // On the loop: a server whose loop hangs gives no sign of life.
    if let seconds = manager.watchdogSeconds {
      loop.schedule(after: 0, every: seconds) { manager.watchdog() }
    }
    loop.run()
    return 0
  }

  private static func store(_ configuration: ServerConfiguration) throws -> any ChannelStore {
    if configuration.keepsInMemory { return MemoryChannelStore() }
    guard let path = configuration.storePath(environment: ProcessInfo.processInfo.environment) else {
      throw CommandFailure("there is no home folder to keep channels in; say --store PATH, or --store memory")
    }
    if configuration.store == nil {
      let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
      do {
        try FileManager.default.createDirectory(
          at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      } catch {
        throw CommandFailure(
          "the folder \(folder.path) can't be made: \(error.localizedDescription); say --store PATH, or --store memory"
        )
      }
    }
    return try SQLiteChannelStore(path: path)
  }

  private static func reload(_ server: BroadcastServer, _ settings: ServeSettings, _ sink: LogSink) {
    do throws(CommandFailure) {
      server.reload(try settings.read())
    } catch {
      server.reload(refused: error.message)
    }
    sink.format = server.configuration.logFormat
  }

  private static func start(
    _ loop: EventLoop, _ configuration: ServerConfiguration, _ store: any ChannelStore,
    _ definitions: [ChannelDefinition], _ log: ServerLog
  ) throws -> BroadcastServer {
    do {
      return try BroadcastServer(
        loop: loop, configuration: configuration, store: store, definitions: definitions, log: log)
    } catch EventLoopError.portInUse(let address) {
      let option = address == configuration.providerListen?.description ? "--provider-listen" : "--listen"
      throw CommandFailure(
        "\(address) is in use by another program; stop that one, or choose another port with \(option)")
    }
  }
}
