import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation

/// `touchline serve`: runs the server until it is told to stop.
enum ServeCommand: Command {
  static let usage = CommandUsage(
    name: "serve", synopsis: "[--listen HOST:PORT] [--store PATH|memory] [--channels DIR] [--config FILE]",
    summary: "Run a broadcast-channel server.",
    options: [
      Option("--listen", "HOST:PORT", "where to listen (default 127.0.0.1:8080; port 0 takes a free one)"),
      Option("--store", "PATH|memory", "where channels are kept: an SQLite file, or memory (default memory)"),
      Option(
        "--channels", "DIR",
        "a folder of definitions, <alias>.json each; channels that are missing are created"),
      Option("--config", "FILE", "a JSON file with these settings and a few more; flags win over it"),
      Option("--log-level", "LEVEL", "debug, info, warning or error (default info)"),
    ],
    notes: """
      Speaks HTTP/1.1, WebSocket and server-sent events on one port. The address is printed on standard output, the log
      goes to standard error. SIGTERM and Ctrl-C close every connection with 1001 and exit 0.

      Keys of a configuration file: listen, store, channels, ping-seconds, silence-seconds, log-level.
      """,
    examples: [
      "touchline serve --channels Channels",
      "touchline serve --listen 127.0.0.1:0 --store channels.sqlite",
      "touchline serve --config touchline.json",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(0...0, "no argument")
    let configuration = try configuration(arguments)
    let log = log(lowest: configuration.logLevel)
    let definitions: [ChannelDefinition]
    do throws(ChannelLibrary.Broken) {
      definitions =
        try configuration.channels.map { folder throws(ChannelLibrary.Broken) in
          try ChannelLibrary.load(folder: folder)
        } ?? []
    } catch {
      throw CommandFailure("the channel definitions can't be used:\n\(error)")
    }
    EventLoop.raiseDescriptorLimit()
    let loop = try EventLoop()
    let store: any ChannelStore =
      try configuration.store.map { try SQLiteChannelStore(path: $0) } ?? MemoryChannelStore()
    let server = try start(loop, configuration, store, definitions, log)
    // Before the address is printed: whoever reads it may send SIGTERM at once.
    for signal in [SIGTERM, SIGINT] {
      loop.onSignal(signal) { server.shutDown() }
    }
    Console.print("listening on http://\(server.address)")
    if configuration.isLoopback {
      log(.info, "provider tokens are not checked: this is the loopback development mode")
    } else {
      log(
        .warning,
        "provider tokens are not checked, and \(configuration.host) can be reached from elsewhere: anyone there may publish, read and delete"
      )
    }
    loop.run()
    return 0
  }

  private static func start(
    _ loop: EventLoop, _ configuration: ServerConfiguration, _ store: any ChannelStore,
    _ definitions: [ChannelDefinition], _ log: ServerLog
  ) throws -> BroadcastServer {
    do {
      return try BroadcastServer(
        loop: loop, configuration: configuration, store: store, definitions: definitions, log: log)
    } catch EventLoopError.portInUse(let address) {
      throw CommandFailure(
        "\(address) is in use by another program; stop that one, or choose another port with --listen")
    }
  }

  private static func configuration(_ arguments: Arguments) throws -> ServerConfiguration {
    var configuration = ServerConfiguration()
    if let path = arguments["--config"] {
      let bytes = try Files.read(path)
      do throws(Findings) {
        try configuration.read(file: bytes)
      } catch {
        throw CommandFailure(error.all.map { "\(path):\($0)" }.joined(separator: "\n"))
      }
    }
    if let text = arguments["--listen"], let expected = configuration.setListen(text) {
      throw arguments.error("--listen is \"\(text)\"; \(expected)")
    }
    if let text = arguments["--store"], let expected = configuration.setStore(text) {
      throw arguments.error("--store is empty; \(expected)")
    }
    if let folder = arguments["--channels"] { configuration.channels = folder }
    if let level = try arguments.value(
      "--log-level", "debug, info, warning or error", { ServerLog.Level(rawValue: $0) })
    {
      configuration.logLevel = level
    }
    return configuration
  }

  private static func log(lowest: ServerLog.Level) -> ServerLog {
    let hasColour = Console.errorHasColour
    return ServerLog(lowest: lowest) { level, line in
      let time = Date().formatted(.iso8601)
      let styles: [ServerLog.Level: String] = [.warning: "\u{1B}[33m", .error: "\u{1B}[31m"]
      let style = hasColour ? styles[level] : nil
      Console.note("\(time) \(style ?? "")\(level.rawValue)\(style == nil ? "" : "\u{1B}[0m") \(line)")
    }
  }
}
