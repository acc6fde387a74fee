import BroadcastChannels
import EventLoop

extension Setting {
  /// The settings of a server, in the order of the help.
  public static let all: [Setting] = listening + access + rules + limits + operating

  private static let listening = [
    Setting(
      key: "listen", form: .text("HOST:PORT"), standard: "127.0.0.1:8080",
      help: "where to listen; port 0 takes a free one and prints it", change: .restart,
      take: { configuration, value in
        value.string.map { configuration.setListen($0) } ?? "HOST:PORT as a string was expected"
      },
      value: { .text($0.listen.description) }),
    toggle("tls", "speak TLS there: https and wss", \.usesTLS),
    Setting(
      key: "provider-listen", form: .text("HOST:PORT|off"), standard: "127.0.0.1:8443",
      help: "where the provider API listens with HTTP/2 and TLS", change: .restart,
      take: { configuration, value in
        value.string.map { configuration.setProviderListen($0) }
          ?? "\"off\", or HOST:PORT as a string, was expected"
      },
      value: { .text($0.providerListen?.description ?? "off") }),
    path(
      "tls-cert", .file, standard: "a development certificate, also for Apple's host names",
      "the certificate and its chain, PEM", \.certificate),
    path(
      "tls-key", .file, standard: "the development certificate's", "the certificate's key, PEM",
      \.certificateKey),
    path(
      "tls-dir", .folder, standard: "beside the store, or in the user's data folder",
      "where the development certificates are kept; 'touchline trust' tells", \.tlsFolder),
  ]

  private static let access = [
    path(
      "keys", .folder, standard: "none, so that everybody may publish",
      "check tokens against the keys there; 'touchline token new-key' makes one", \.keys),
    path(
      "client-ca", .file, standard: "none",
      "take client certificates of these authorities in place of provider tokens", \.clientAuthority),
    toggle("insecure-open", "listen where others can reach it, and check no tokens", \.isOpenToAll),
    Setting(
      key: "strict", form: .words(ServerConfiguration.Strictness.allCases.map(\.rawValue)), standard: "false",
      help: "refuse what Apple documents as wrong and real senders do all the same", change: .restart,
      take: { $0.takeStrictness($1) },
      value: { configuration in
        let chosen = ServerConfiguration.Strictness.allCases.filter { configuration.strictness.contains($0) }
        return chosen.isEmpty ? .bool(false) : .list(chosen.map(\.rawValue))
      }),
    choice(
      "environment", "which of Apple's environments it stands in for: which client certificates fit",
      \.environment, .restart),
    Setting(
      key: "origins", form: .list("LIST"), standard: "all",
      help: "the web origins whose pages may connect, separated by commas", change: .reload,
      take: { $0.setOrigins($1.list ?? []) },
      value: { $0.origins.map { .list($0.sorted()) } ?? .none }),
  ]

  private static let standardStore = "touchline/channels.sqlite in the user's folder of state"

  private static let rules = [
    Setting(
      key: "store", form: .text("PATH|memory"),
      standard: standardStore,
      help: "where channels are kept: an SQLite file, or memory", change: .restart,
      take: { configuration, value in
        value.string.map { configuration.setStore($0) } ?? "a path or \"memory\" was expected"
      },
      value: { .text($0.keepsInMemory ? "memory" : $0.store ?? standardStore) }),
    path(
      "channels", .folder, standard: "none",
      "a folder of definitions, <alias>.json each; channels that are missing are created", \.channels),
    seconds(
      "ping-seconds", Limits.pingSeconds, "a subscriber is pinged after so long without a word",
      \.keepAlive.ping),
    seconds(
      "silence-seconds", Limits.silenceSeconds,
      "and dropped after so long, or when it reads nothing for so long",
      \.keepAlive.silence),
    count(
      "loops", 1...Limits.loops, standard: "one a processor",
      "threads that carry messages to subscribers; with 1 there is no further thread",
      { $0.loops = $1 }, { $0.loops }),
  ]

  private static let limits = [
    count(
      "max-connections", standard: "what the limit on open files leaves, \(Limits.reservedDescriptors) less",
      "connections in total; who comes beyond it is turned away",
      { $0.limits.connections = $1 }, { $0.limits.connections }),
    count(
      "max-connections-per-address", standard: String(Limits.connectionsPerAddress),
      "connections from one address",
      { $0.limits.connectionsPerAddress = $1 }, { $0.limits.connectionsPerAddress }),
    count(
      "max-requests-per-address", standard: JSONWriter.seconds(Limits.requestsPerAddress),
      "requests a second from one address, and five times as many at once",
      { $0.limits.requestsPerAddress = Double($1) }, { Int($0.limits.requestsPerAddress) }),
    count(
      "max-frames-per-session", standard: JSONWriter.seconds(Limits.framesPerSession),
      "frames a second of one WebSocket, and four times as many at once",
      { $0.limits.framesPerSession = Double($1) }, { Int($0.limits.framesPerSession) }),
    Setting(
      key: "unlimited-addresses", form: .list("LIST"), standard: "127.0.0.0/8,::1",
      help:
        "addresses and ranges that limits by address don't count, separated by commas: proxies; none for none",
      change: .restart,
      take: { configuration, value in
        // An empty list of a file says none; an empty text rather that something is missing.
        let isNone = value.list == ["none"] || value.string == nil && value.list == []
        let ranges = isNone ? [] : (value.list ?? []).map { AddressRange($0) }
        guard !ranges.contains(nil), isNone || !ranges.isEmpty else {
          return "addresses and ranges such as 10.0.0.0/8, or \"none\", were expected"
        }
        configuration.limits.unlimitedAddresses = ranges.compactMap(\.self)
        return nil
      },
      value: { configuration in
        let ranges = configuration.limits.unlimitedAddresses.map(\.description)
        return .list(ranges.isEmpty ? ["none"] : ranges)
      }),
  ]

  private static let operating = [
    choice("log-level", "the least important lines that are logged", \.logLevel, .reload),
    choice(
      "log-format", "how a line of the log looks: for a person, or one JSON object", \.logFormat, .reload),
    choice(
      "metrics", "who may read /metrics without a token: this machine, all, or nobody", \.metricsAccess,
      .reload),
    path(
      "metrics-token", .file, standard: "none",
      "a file with a secret word: whoever shows it as a bearer token may read /metrics too", \.metricsToken,
      .reload),
  ]

  // MARK: Making them

  private typealias Path<Value> = WritableKeyPath<ServerConfiguration, Value> & Sendable

  private static func toggle(_ key: String, _ help: String, _ place: Path<Bool>) -> Setting {
    Setting(
      key: key, form: .toggle, standard: "false", help: help, change: .restart,
      take: { configuration, value in
        guard let bool = value.bool else { return "true or false was expected" }
        configuration[keyPath: place] = bool
        return nil
      },
      value: { .bool($0[keyPath: place]) })
  }

  private static func path(
    _ key: String, _ form: Form, standard: String, _ help: String, _ place: Path<String?>,
    _ change: Change = .reload
  ) -> Setting {
    let kind = form == .folder ? "folder" : "file"
    return Setting(
      key: key, form: form, standard: standard, help: help, change: change,
      take: { configuration, value in
        guard let path = value.string, !path.isEmpty, !path.contains(where: \.isNewline) else {
          return "the path of a \(kind) was expected"
        }
        configuration[keyPath: place] = path
        return nil
      },
      value: { $0[keyPath: place].map { .text($0) } ?? .none })
  }

  private static func choice<Choice: RawRepresentable<String> & CaseIterable & Sendable>(
    _ key: String, _ help: String, _ place: Path<Choice>, _ change: Change
  ) -> Setting {
    let words = Choice.allCases.map(\.rawValue)
    return Setting(
      key: key, form: .choice(words), standard: ServerConfiguration()[keyPath: place].rawValue, help: help,
      change: change,
      take: { configuration, value in
        guard let choice = value.string.flatMap({ Choice(rawValue: $0) }) else {
          let near = value.string.map { Suggestion.phrase(for: $0, among: words) } ?? ""
          return "\(words.dropLast().joined(separator: ", ")) or \(words.last ?? "") was expected\(near)"
        }
        configuration[keyPath: place] = choice
        return nil
      },
      value: { .text($0[keyPath: place].rawValue) })
  }

  /// A whole number, which a change of needs a restart.
  private static func count(
    _ key: String, _ range: ClosedRange<Int> = 1...1_000_000, standard: String, _ help: String,
    _ set: @escaping @Sendable (inout ServerConfiguration, Int) -> Void,
    _ get: @escaping @Sendable (ServerConfiguration) -> Int?
  ) -> Setting {
    Setting(
      key: key, form: .count(range), standard: standard, help: help, change: .restart,
      take: { configuration, value in
        guard let number = value.number.flatMap({ Int(exactly: $0) }), range.contains(number) else {
          return "a whole number from \(range.lowerBound) to \(range.upperBound) was expected"
        }
        set(&configuration, number)
        return nil
      },
      value: { get($0).map { .number(Double($0)) } ?? .none })
  }

  private static func seconds(_ key: String, _ standard: Double, _ help: String, _ place: Path<Double>)
    -> Setting
  {
    let range = 0.1...86_400.0
    return Setting(
      key: key, form: .seconds(range), standard: JSONWriter.seconds(standard), help: help, change: .reload,
      take: { configuration, value in
        guard let number = value.number, range.contains(number) else {
          return "a number of seconds from 0.1 to 86400 was expected"
        }
        configuration[keyPath: place] = number
        return nil
      },
      value: { .number($0[keyPath: place]) })
  }
}

extension ServerConfiguration {
  fileprivate mutating func takeStrictness(_ value: SettingValue) -> String? {
    let names = Strictness.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    if let isStrict = value.bool {
      strictness = isStrict ? Set(Strictness.allCases) : []
      return nil
    }
    let items = value.list?.map { Strictness(rawValue: $0) }
    guard let items, !items.contains(nil) else { return "true, false or a list of \(names) was expected" }
    strictness = Set(items.compactMap(\.self))
    return nil
  }
}
