import BroadcastChannels
import BroadcastServer
import EventLoop
import Foundation
import Testing

@Suite struct ConfigurationTests {
  @Test(arguments: [
    ("127.0.0.1:9000", "127.0.0.1", 9_000), ("[::1]:0", "::1", 0), (":9000", "127.0.0.1", 9_000),
    ("0.0.0.0", "0.0.0.0", 8_080), ("localhost:65535", "localhost", 65_535), ("[::]", "::", 8_080),
    ("LocalHost:1", "localhost", 1), ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
  ])
  func listenTakesHostAndPort(_ text: String, _ host: String, _ port: Int) {
    var configuration = ServerConfiguration()
    let problem = configuration.setListen(text)
    #expect(problem == nil && configuration.listen.host == host && Int(configuration.listen.port) == port)
  }

  @Test(arguments: [
    "", "a:b", "a:65536", "a:-1", "[::1", "[]:1", "[::1]x", "a b:1", "a:", "nowhere.invalid:1",
  ])
  func listenRefusesWhatIsNoAddress(_ text: String) {
    var configuration = ServerConfiguration()
    let problem = configuration.setListen(text)
    #expect(problem?.contains("HOST:PORT was expected") == true)
    #expect(configuration.listen.host == "127.0.0.1")
  }

  /// The system would take each of these for an address in numbers: 0.0.0.0, but for one.
  @Test(arguments: ["0x0:0", "0:0", "0.0:0", "00000000000:0", "127.1:0"])
  func anAddressOfWhichNobodySeesWhoCanReachItIsRefused(_ text: String) {
    var configuration = ServerConfiguration()
    #expect(configuration.setListen(text)?.contains("HOST:PORT was expected") == true)
    #expect(ListenAddress(host: String(text.dropLast(2)), port: 0).isLoopback == false)
  }

  @Test func aFileSetsEverything() throws {
    let text = """
      {
        // Comments are allowed.
        "listen": "[::1]:9000", "store": "channels.sqlite", "channels": "Channels",
        "ping-seconds": 0.5, "silence-seconds": 2, "log-level": "debug"
      }
      """
    var configuration = ServerConfiguration()
    try configuration.read(file: Array(text.utf8))
    #expect(configuration.listen.host == "::1" && configuration.listen.port == 9_000)
    #expect(configuration.store == "channels.sqlite" && configuration.channels == "Channels")
    #expect(configuration.keepAlive.ping == 0.5 && configuration.keepAlive.silence == 2)
    #expect(configuration.logLevel == .debug)
    try configuration.read(file: Array(#"{"loops":3}"#.utf8))
    #expect(configuration.loops == 3)
    #expect((1...Limits.loops).contains(ServerConfiguration().loops))
    try configuration.read(file: Array(#"{"store":"memory"}"#.utf8))
    #expect(configuration.store == nil && configuration.listen.port == 9_000)
  }

  @Test(arguments: ["a]:1", "[a]b:1", "x[:1", "[[::1]]:1", "a b:1", ":65536", "[::1", ""])
  func whatIsNoAddressIsRefused(_ text: String) {
    var address = ListenAddress(port: 7)
    let isRead = address.read(text)
    #expect(!isRead)
    #expect(address == ListenAddress(port: 7))
  }

  @Test func aFileSetsWhoGetsIn() throws {
    let text = """
      {
        "tls": true, "provider-listen": "[::1]:0", "tls-cert": "server.pem", "tls-key": "key.pem", "tls-dir": "tls",
        "client-ca": "ca.pem", "keys": "keys", "insecure-open": true, "strict": ["headers", "token-refresh"],
        "environment": "production", "origins": ["https://Scores.example.com", "http://localhost:3000"]
      }
      """
    var configuration = ServerConfiguration()
    try configuration.read(file: Array(text.utf8))
    #expect(configuration.usesTLS && configuration.isOpenToAll && configuration.insistsOnProviderListen)
    #expect(configuration.providerListen == ListenAddress(host: "::1", port: 0))
    #expect(configuration.certificate == "server.pem" && configuration.certificateKey == "key.pem")
    #expect(configuration.tlsFolder == "tls" && configuration.clientAuthority == "ca.pem")
    #expect(configuration.keys == "keys" && configuration.strictness == [.headers, .tokenRefresh])
    #expect(configuration.environment == .production)
    #expect(configuration.origins == ["https://scores.example.com", "http://localhost:3000"])
    try configuration.read(file: Array(#"{"strict":true,"provider-listen":"off"}"#.utf8))
    #expect(configuration.strictness.count == 3 && configuration.providerListen == nil)
  }

  @Test(
    "a list of a file is an array, or a string with commas",
    arguments: [
      (#""none""#, []), (#"["none"]"#, []), ("[]", []), (#""10.0.0.7""#, ["10.0.0.7"]),
      (#""10.0.0.0/8, ::1""#, ["10.0.0.0/8", "::1"]), (#"["10.0.0.0/8","::1"]"#, ["10.0.0.0/8", "::1"]),
    ])
  func lists(_ json: String, _ ranges: [String]) throws {
    var configuration = ServerConfiguration()
    try configuration.read(
      file: Array(#"{"unlimited-addresses":\#(json),"origins":"https://a.b, https://c.d"}"#.utf8))
    #expect(configuration.limits.unlimitedAddresses == ranges.compactMap { AddressRange($0) })
    #expect(configuration.origins == ["https://a.b", "https://c.d"])
  }

  @Test(arguments: [
    ("127.0.0.1:8080", "127.0.0.1:8443", false), ("0.0.0.0:80", "127.0.0.1:8443", true),
    ("127.0.0.1:0", "[::]:443", true), ("[::1]:0", "off", false), ("[::ffff:127.0.0.1]:0", "off", false),
    ("[::ffff:10.0.0.1]:0", "off", true), ("[0:0::1]:0", "off", false), ("localhost:0", "off", false),
  ])
  func itIsReachableWhenOneOfItsPortsIs(_ main: String, _ provider: String, _ isReachable: Bool) {
    var configuration = ServerConfiguration()
    let problems = [configuration.setListen(main), configuration.setProviderListen(provider)]
    #expect(problems == [nil, nil])
    #expect(configuration.isReachable == isReachable)
  }

  @Test(arguments: [
    ("", "1:1: error: not JSON"), ("[]", "an object was expected"),
    (#"{"listen":1}"#, "listen: is the number 1"),
    (#"{"listne":"a:1"}"#, "did you mean \"listen\"?"), (#"{"store":""}"#, "\"memory\" was expected"),
    (#"{"channels":7}"#, "channels: is the number 7"), (#"{"ping-seconds":0}"#, "from 0.1 to 86400"),
    (#"{"silence-seconds":"60"}"#, "silence-seconds: is the string"),
    (#"{"ping-seconds":60,"silence-seconds":4}"#, "a peer must be pinged before its silence counts"),
    (#"{"ping-seconds":60}"#, "a peer must be pinged before its silence counts"),
    (#"{"loops":0}"#, "loops: is the number 0; a whole number from 1 to 64 was expected"),
    (#"{"loops":65}"#, "from 1 to 64"), (#"{"loops":1.5}"#, "from 1 to 64"),
    (#"{"loops":"2"}"#, "from 1 to 64"),
    (#"{"log-level":"loud"}"#, "log-level: "), (#"{"tls":"yes"}"#, "true or false was expected"),
    (#"{"provider-listen":"a:b"}"#, "\"off\" or HOST:PORT was expected"),
    (#"{"keys":""}"#, "the path of a folder"),
    (#"{"strict":["header"]}"#, "a list of \"headers\""),
    (#"{"environment":"sandbox"}"#, "development or production was expected"),
    (#"{"log-level":"inf"}"#, "did you mean \"info\"?"),
    (#"{"origins":["scores.example.com"]}"#, "without a path"), (#"{"origins":"x"}"#, "origins such as"),
    (#"{"unlimited-addresses":""}"#, "or \"none\", were expected"), (#"{"origins":[]}"#, "origins such as"),
    (#"{"unlimited-addresses":7}"#, "or \"none\", were expected"),
    ("{\n  \"listen\": \":1\",\n  \"port\": 1\n}", "3:3: error: port: is no key"),
  ])
  func aFileIsToldWhatIsWrongAndWhere(_ text: String, _ words: String) throws {
    let problems = LayeredConfiguration(file: ("touchline.json", Array(text.utf8))).problems
    #expect(problems.count == 1 && problems[0].description.contains(words), "\(problems)")
    #expect(problems.allSatisfy { $0.description.hasPrefix("touchline.json:") })
  }
}

@Suite struct ChannelLibraryTests {
  private let folder: TestFolder

  init() throws { folder = try TestFolder() }

  private func write(_ name: String, _ text: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder.path)/\(name)"))
  }

  @Test func everyDefinitionOfAFolderIsReadByName() throws {
    try write("b.json", #"{"app":"com.example.scores"} // fine"#)
    try write("a.json", #"{"app":"com.example.other"}"#)
    try write("a.match.jsonl", "no definition")
    try write(".hidden.json", "no definition")
    for path in [folder.path, folder.path + "/"] {
      let definitions = try ChannelLibrary.load(folder: path)
      #expect(definitions.map(\.alias?.name) == ["a", "b"])
      #expect(definitions.map(\.settings.app.identifier) == ["com.example.other", "com.example.scores"])
    }
  }

  @Test func everythingThatIsWrongIsToldAtOnceWithItsFileAndLine() throws {
    try write("a.json", "{\n  \"app\": 1,\n  \"budgets\": {}\n}")
    try write("b.json", #"{"app":"com.example.scores"}"#)
    try write("c.json", "{")
    try write("d e.json", "{}")
    let broken = try #require(
      #expect(throws: ChannelLibrary.Broken.self) { try ChannelLibrary.load(folder: folder.path) })
    let starts = ["a.json:2:10: error: ", "a.json:3:3: error: ", "c.json:1:2: error: ", "d e.json: error: "]
    #expect(broken.lines.count == starts.count)
    for start in starts { #expect(broken.lines.contains { $0.hasPrefix("\(folder.path)/\(start)") }) }
  }

  @Test func aMissingFolderIsAnError() throws {
    let broken = #expect(throws: ChannelLibrary.Broken.self) {
      try ChannelLibrary.load(folder: "\(folder.path)/missing")
    }
    #expect(broken?.description.contains("does it exist?") == true)
  }

  @Test func theDefinitionsOfTheRepositoryAreSound() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let definitions = try ChannelLibrary.load(folder: root.appendingPathComponent("Channels").path)
    #expect(definitions.contains { $0.alias?.name == "world-cup-final-2022" })
  }
}
