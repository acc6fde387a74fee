import BroadcastChannels
import BroadcastServer
import ChannelStore
import EventLoop
import Foundation

/// `touchline serve`: runs the server until it is told to stop.
enum ServeCommand: Command {
  static let usage = CommandUsage(
    name: "serve",
    synopsis: "[--listen HOST:PORT] [--store PATH|memory] [--channels DIR] [--keys DIR] [--config FILE]",
    summary: "Run a broadcast-channel server.",
    options: [
      Option("--listen", "HOST:PORT", "where to listen (default 127.0.0.1:8080; port 0 takes a free one)"),
      Option("--tls", nil, "speak TLS there: https and wss"),
      Option(
        "--provider-listen", "HOST:PORT|off",
        "where the provider API listens with HTTP/2 and TLS (default 127.0.0.1:8443)"),
      Option("--tls-cert", "FILE", "the certificate and its chain, PEM (default: a development certificate)"),
      Option("--tls-key", "FILE", "the certificate's key, PEM"),
      Option("--tls-dir", "DIR", "where the development certificates are kept ('touchline trust' tells)"),
      Option("--keys", "DIR", "check tokens against the keys there ('touchline token new-key' makes one)"),
      Option(
        "--client-ca", "FILE", "take client certificates of these authorities in place of provider tokens"),
      Option("--insecure-open", nil, "listen where others can reach it, and check no tokens"),
      Option("--strict", nil, "refuse what Apple documents as wrong and real senders do all the same"),
      Option("--environment", "NAME", "development or production: which client certificates fit"),
      Option(
        "--origins", "LIST", "the web origins whose pages may connect, separated by commas (default all)"),
      Option("--store", "PATH|memory", "where channels are kept: an SQLite file, or memory (default memory)"),
      Option(
        "--channels", "DIR",
        "a folder of definitions, <alias>.json each; channels that are missing are created"),
      Option("--config", "FILE", "a JSON file with these settings and a few more; flags win over it"),
      Option("--log-level", "LEVEL", "debug, info, warning or error (default info)"),
    ],
    notes: """
      Speaks HTTP/1.1, HTTP/2, WebSocket and server-sent events. The addresses are printed on standard output, the log
      goes to standard error. SIGTERM and Ctrl-C close every connection with 1012 and exit 0; SIGHUP reads the keys and
      certificates again.

      Without --keys or --client-ca everybody who reaches the server may publish, so it then listens on this machine
      alone, unless --insecure-open is given.

      Keys of a configuration file: the options without their dashes, and ping-seconds, silence-seconds. "strict" may
      also be a list of "headers", "token-claims" and "token-refresh".
      """,
    examples: [
      "touchline serve --channels Channels",
      "touchline serve --listen 127.0.0.1:0 --provider-listen off --store channels.sqlite",
      "touchline token new-key --dir keys --team TEAM123456 --app com.example.scores && touchline serve --keys keys",
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
    // Before the addresses are printed: whoever reads them may send SIGTERM at once.
    for signal in [SIGTERM, SIGINT] {
      loop.onSignal(signal) { server.shutDown() }
    }
    loop.onSignal(SIGHUP) { server.reload() }
    Console.print("listening on \(server.url)")
    if let url = server.providerURL { Console.print("provider API on \(url)") }
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
      let option = address == configuration.providerListen?.description ? "--provider-listen" : "--listen"
      throw CommandFailure(
        "\(address) is in use by another program; stop that one, or choose another port with \(option)")
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
    if let text = arguments["--provider-listen"], let expected = configuration.setProviderListen(text) {
      throw arguments.error("--provider-listen is \"\(text)\"; \(expected)")
    }
    if let text = arguments["--store"], let expected = configuration.setStore(text) {
      throw arguments.error("--store is empty; \(expected)")
    }
    try readSecurity(arguments, into: &configuration)
    if let folder = arguments["--channels"] { configuration.channels = folder }
    if let level = try arguments.value(
      "--log-level", "debug, info, warning or error", { ServerLog.Level(rawValue: $0) })
    {
      configuration.logLevel = level
    }
    return configuration
  }

  private static func readSecurity(
    _ arguments: Arguments, into configuration: inout ServerConfiguration
  ) throws {
    if arguments.has("--tls") { configuration.usesTLS = true }
    if arguments.has("--insecure-open") { configuration.isOpenToAll = true }
    if arguments.has("--strict") {
      configuration.strictness = Set(ServerConfiguration.Strictness.allCases)
    }
    if let path = arguments["--tls-cert"] { configuration.certificate = path }
    if let path = arguments["--tls-key"] { configuration.certificateKey = path }
    if let path = arguments["--tls-dir"] { configuration.tlsFolder = path }
    if let path = arguments["--keys"] { configuration.keys = path }
    if let path = arguments["--client-ca"] { configuration.clientAuthority = path }
    if let environment = try arguments.value(
      "--environment", "development or production", { ServerConfiguration.Environment(rawValue: $0) })
    {
      configuration.environment = environment
    }
    if let text = arguments["--origins"],
      let expected = configuration.setOrigins(text.split(separator: ",").map(String.init))
    {
      throw arguments.error("--origins is \"\(text)\"; \(expected)")
    }
    guard (configuration.certificate == nil) == (configuration.certificateKey == nil) else {
      throw arguments.error("--tls-cert and --tls-key go together")
    }
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
