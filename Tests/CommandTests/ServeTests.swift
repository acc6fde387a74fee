import Foundation
import TestSupport
import Testing

@Suite("serve")
struct ServeTests {
  @Test("port 0 takes a free port, and the real address is printed alone on standard output")
  func freePort() async throws {
    let first = try await Server()
    let second = try await Server()
    #expect(first.port != second.port && first.port != 0)
    #expect(first.program.output.text == "listening on http://127.0.0.1:\(first.port)\n")
    try await first.stop()
    try await second.stop()
  }

  @Test("a port in use is refused with what to do, exit 1")
  func portInUse() async throws {
    try await withServer { server in
      let second = try await Touchline.run([
        "serve", "--provider-listen", "off", "--listen", "127.0.0.1:\(server.port)", "--store", "memory",
      ])
      #expect(second.code == 1)
      #expect(second.output == "")
      #expect(second.errors.contains("127.0.0.1:\(server.port) is in use by another program"))
      #expect(second.errors.contains("--listen"))
    }
  }

  private static let client = """
    import asyncio, sys, websockets
    async def main():
      async with websockets.connect(sys.argv[1]) as socket:
        print("open", flush=True)
        try:
          while True: await socket.recv()
        except websockets.ConnectionClosed as end:
          print(end.rcvd.code, end.rcvd.reason, flush=True)
    asyncio.run(main())
    """

  @Test("SIGTERM and SIGINT close every connection with 1012 and exit 0", arguments: [SIGTERM, SIGINT])
  func shutDown(_ signal: Int32) async throws {
    let server = try await Server()
    try await server.succeed("channel", "create", "final")
    let python = URL(fileURLWithPath: "/usr/bin/python3")
    let clients = try ["/v1/events", "/v1/channels/final/events"].map { path in
      try RunningProgram(python, ["-c", Self.client, "ws://127.0.0.1:\(server.port)\(path)"])
    }
    for client in clients { try await client.lines(1) }
    try await server.stop(signal)
    for client in clients {
      let ending = try await client.ending()
      #expect(ending.lines.last?.hasPrefix("1012 ") == true, "\(ending.output) \(ending.errors)")
    }
  }

  @Test(
    "a broken definition is refused with its place and what was expected, exit 1", .serialized,
    arguments: [
      (
        "{\"app\": \"com.example.scores\",\n \"budgett\": {}}", ":2:2: error: budgett: ",
        "did you mean \"budget\"?"
      ),
      (
        "{\"app\": \"com.example.scores\",\n \"budget\": {\"capacity\": \"many\"}}",
        ":2:25: error: budget.capacity: ", "is the string \"many\"; a whole number from 0 to 1000000"
      ),
      (
        "{\"app\": \"com.example.scores\",\n \"content-state\": {\"home\": \"Integer\"}}",
        ":2:28: error: content-state.home: ", "a Swift type was expected: Int, "
      ),
      ("{\"app\": \"com.example.scores\",\n \"windows\": }", ":2:13: error: ", "not JSON: "),
      ("{}", ":1:1: error: app: ", "is missing; the bundle id of the app"),
    ])
  func brokenDefinition(_ text: String, _ place: String, _ expected: String) async throws {
    try await withFolder(["final.json": text, "fine.json": #"{"app": "com.example.scores"}"#]) { folder in
      let ending = try await Touchline.run(
        [
          "serve", "--provider-listen", "off", "--listen", "127.0.0.1:0", "--store", "memory", "--channels",
          folder.url.path,
        ])
      #expect(ending.code == 1)
      #expect(ending.output == "")
      #expect(ending.errors.contains("final.json\(place)"), "\(ending.errors)")
      #expect(ending.errors.contains(expected), "\(ending.errors)")
    }
  }

  @Test(
    "a configuration that can't be used is refused with its place or the option, before anything listens",
    .serialized,
    arguments: [
      (
        "{\"listen\": \"127.0.0.1:0\",\n \"chanels\": \"x\"}", 1, ":2:2: error: chanels: ",
        "did you mean \"channels\"?"
      ),
      ("{\"listen\": \"127.0.0.1:99999\"}", 1, ":1:12: error: listen: ", "with a port from 0 to 65535"),
      ("{\"ping-seconds\": 0}", 1, ":1:18: error: ping-seconds: ", "from 0.1 to 86400"),
      ("{\"listen\"", 1, ":1:10: error: ", "not JSON: "),
    ])
  func brokenConfiguration(_ text: String, _ code: Int32, _ place: String, _ expected: String) async throws {
    try await withFolder(["touchline.json": text]) { folder in
      let ending = try await Touchline.run(["serve", "--config", folder.path("touchline.json")])
      #expect(ending.code == code)
      #expect(ending.output == "")
      #expect(ending.errors.contains("touchline.json\(place)"), "\(ending.errors)")
      #expect(ending.errors.contains(expected), "\(ending.errors)")
    }
  }

  @Test(
    "a configuration that SIGHUP could not read again is refused, exit 1", arguments: ["-", "/dev/stdin"])
  func pipedConfiguration(_ path: String) async throws {
    let ending = try await Touchline.run(["serve", "--config", path], input: Array("{}".utf8))
    #expect(ending.code == 1 && ending.output == "")
    #expect(ending.errors.contains("the configuration \"\(path)\" is no regular file"), "\(ending.errors)")
  }

  @Test("flags win over the configuration file")
  func flagsWin() async throws {
    try await withFolder(["touchline.json": #"{"listen": "127.0.0.1:1", "log-level": "error"} // no root"#]) {
      folder in
      try await withServer(["--config", folder.path("touchline.json")]) { server in
        #expect(server.port != 1)
        #expect(server.program.errors.text == "")
      }
    }
  }

  @Test(
    "a wrong option is told with what was expected, exit 2", .serialized,
    arguments: [
      ("--listen", "127.0.0.1:70000", "HOST:PORT was expected, such as 127.0.0.1:8080"),
      ("--listen", "[::1", "HOST:PORT was expected"),
      ("--listen", "nowhere.invalid:0", "the host being a numeric address or localhost"),
      ("--listen", "0x0:0", "the host being a numeric address or localhost"),
      ("--store", "", "a path or \"memory\" was expected"),
      ("--log-level", "loud", "debug, info, warning or error was expected"),
    ])
  func wrongOption(_ option: String, _ value: String, _ expected: String) async throws {
    let ending = try await Touchline.run(["serve", option, value])
    #expect(ending.code == 2)
    #expect(ending.errors.contains(expected), "\(ending.errors)")
  }

  @Test(
    "what can't be opened is named, exit 1", .serialized,
    arguments: [
      (["--listen", "192.0.2.1:0"], "192.0.2.1"),
      (["--channels", "/nowhere/channels"], "/nowhere/channels"),
      (["--config", "/nowhere/touchline.json"], "/nowhere/touchline.json: there is no such file"),
      (["--store", "/nowhere/channels.sqlite"], "/nowhere/channels.sqlite"),
      (["--store", "/proc/version"], "/proc/version"),
    ])
  func unopenable(_ options: [String], _ name: String) async throws {
    let ending = try await Touchline.run(
      ["serve", "--provider-listen", "off"] + (options[0] == "--listen" ? [] : ["--listen", "127.0.0.1:0"])
        + (options[0] == "--store" ? [] : ["--store", "memory"]) + options)
    #expect(ending.code == 1)
    #expect(ending.output == "")
    #expect(ending.errors.hasPrefix("touchline serve: "), "\(ending.errors)")
    #expect(ending.errors.contains(name), "\(ending.errors)")
  }

  @Test(
    "what others can reach needs keys, unless somebody says that it is open to all", .serialized,
    arguments: [["--listen", "0.0.0.0:0"], ["--listen", "127.0.0.1:0", "--provider-listen", "0.0.0.0:0"]])
  func openToAll(_ options: [String]) async throws {
    let ending = try await Touchline.run(["serve", "--store", "memory"] + options)
    #expect(ending.code == 1 && ending.output == "")
    #expect(ending.errors.contains("0.0.0.0:0 can be reached from other machines"), "\(ending.errors)")
    #expect(ending.errors.contains("--keys") && ending.errors.contains("--insecure-open"))
  }

  @Test("certificates go together, and one that can't be used is named, exit 1 or 2")
  func certificates() async throws {
    let one = try await Touchline.run(["serve", "--tls-cert", "/nowhere/server.pem"])
    #expect(one.code == 2 && one.errors.contains("--tls-cert and --tls-key go together"))
    let both = try await Touchline.run(
      [
        "serve", "--listen", "127.0.0.1:0", "--store", "memory", "--tls-cert", "/nowhere/server.pem",
        "--tls-key", "/nowhere/key.pem",
      ])
    #expect(both.code == 1 && both.errors.contains("/nowhere/server.pem"), "\(both.errors)")
  }

  @Test("who comes to a secure port without TLS is told, and so is the operator, once")
  func notSecure() async throws {
    try await withFolder { folder in
      let program = try Touchline.start([
        "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", "memory", "--tls",
        "--tls-dir", folder.path("tls"),
      ])
      let address = try await program.lines(1)[0].replacing("listening on https://", with: "")
      for _ in 0..<2 {
        let list = try await Touchline.run(["channel", "list", "--server", "http://\(address)"])
        #expect(list.code == 1 && list.errors.contains("say https:// instead of http://"), "\(list.errors)")
        let untrusted = try await Touchline.run(
          ["channel", "list", "--server", "https://\(address)"],
          environment: ["XDG_DATA_HOME": folder.path("nothing")])
        #expect(untrusted.code == 1 && untrusted.errors.contains("--ca FILE"), "\(untrusted.errors)")
      }
      let trusted = try await Touchline.run(
        ["channel", "list", "--server", "https://\(address)", "--ca", folder.path("tls/ca.pem")])
      #expect(trusted.code == 0, "\(trusted.errors)")
      program.signal(SIGTERM)
      let errors = try await program.ending().errors
      // Once, and at the end how often it was since.
      let told = errors.split(separator: "\n").filter { $0.contains("a client without TLS came") }
      #expect(told.count == 2 && told[1].contains(" info … 1 more in the last "), "\(errors)")
      #expect(errors.contains("trust --tls-dir \(folder.path("tls"))"))
    }
  }

  @Test("definitions become channels, and an SQLite store keeps their ids over a restart")
  func storeKeepsIDs() async throws {
    try await withFolder(["final.json": #"{"app": "com.example.scores", "message-storage-policy": 1}"#]) {
      folder in
      let store = folder.path("channels.sqlite")
      var ids: [[String]] = []
      for round in 0..<2 {
        try await withServer(["--store", store, "--channels", folder.url.path]) { server in
          if round == 0 {
            try await server.succeed("channel", "create", "semi")
            try await server.succeed("publish", "final", "--state", #"{"n":7}"#, "--expires-in", "1h")
          }
          ids.append([try await server.channel("final").id, try await server.channel("semi").id])
          let watch = try await server.watch("final")
          let line: WatchedLine = try decoded(try await watch.lines(1)[0])
          #expect(line.contentState == ["n": 7])
        }
      }
      #expect(ids[0] == ids[1])
    }
  }

  @Test("a store that SQLite would keep nowhere is refused, exit 1")
  func storeOfNoFile() async throws {
    for name in [":memory:", "file:x?mode=memory"] {
      let ending = try await Touchline.run(
        ["serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", name])
      #expect(ending.code == 1)
      #expect(ending.errors.contains("write \"memory\" to keep nothing"), "\(ending.errors)")
    }
  }

  @Test("without --store channels are in a file in the folder of state, and the log says where")
  func standardStore() async throws {
    try await withFolder { folder in
      let state = ["XDG_STATE_HOME": folder.path("state"), "HOME": folder.path("home")]
      let file = folder.path("state/touchline/channels.sqlite")
      let options = ["serve", "--listen", "127.0.0.1:0", "--provider-listen", "off"]
      let first = try Touchline.start(options, environment: state)
      try await first.lines(1)
      try await first.notice("info the store is \(file)")
      let second = try await Touchline.run(options, environment: state)
      #expect(
        second.code == 1
          && second.errors.contains(
            "the store \(file) can't be used: another server is using it; stop that one, or choose another file, or memory"
          ), "\(second.errors)")
      first.signal(SIGTERM)
      #expect(try await first.ending().code == 0)
      let attributes = try FileManager.default.attributesOfItem(atPath: folder.path("state/touchline"))
      #expect(attributes[.posixPermissions] as? Int == 0o700)

      // A path that isn't absolute is none (XDG Base Directory Specification).
      let home = try Touchline.start(
        options, environment: state.merging(["XDG_STATE_HOME": "state"]) { $1 })
      try await home.lines(1)
      let standard = folder.path("home/.local/state/touchline/channels.sqlite")
      try await home.notice("the store is \(standard)")
      home.signal(SIGTERM)
      _ = try await home.ending()

      let nowhere = try await Touchline.run(options, environment: ["XDG_STATE_HOME": "", "HOME": ""])
      #expect(nowhere.code == 1 && nowhere.errors.contains("say --store PATH, or --store memory"))
      let memory = try Touchline.start(
        options + ["--store", "memory"], environment: ["XDG_STATE_HOME": folder.path("none")])
      try await memory.lines(1)
      memory.signal(SIGTERM)
      #expect(try await memory.ending().errors.contains("info the store is memory"))
      #expect(!FileManager.default.fileExists(atPath: folder.path("none")))
    }
  }

  @Test(
    "a store that this user may not write to is refused, exit 1",
    .enabled(if: geteuid() == 0, "becoming another user needs root"))
  func readOnlyStore() async throws {
    try await withFolder { folder in
      let store = folder.path("channels.sqlite")
      try await withServer(["--store", store]) { _ in }
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.url.path)
      try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: store)
      let nobody = try RunningProgram(
        URL(fileURLWithPath: "/usr/bin/setpriv"),
        [
          "--reuid", "65534", "--clear-groups", try #require(Touchline.executable).path, "serve", "--listen",
          "127.0.0.1:0", "--provider-listen", "off", "--store", store,
        ])
      let ending = try await nobody.ending()
      // Nobody may not reach the program itself where the sources are in a private folder.
      guard !ending.errors.hasPrefix("setpriv: failed to execute") else { return }
      #expect(
        ending.code == 1
          && ending.errors.contains("it is read-only for this user; change that, or choose another file"),
        "\(ending.errors)")
    }
  }

  @Test("a store that another server has open is refused, exit 1, and stays as it is")
  func storeInUse() async throws {
    try await withFolder { folder in
      let store = folder.path("channels.sqlite")
      try await withServer(["--store", store]) { server in
        let second = try await Touchline.run([
          "serve", "--provider-listen", "off", "--listen", "127.0.0.1:0", "--store", store,
        ])
        #expect(second.code == 1)
        #expect(second.errors.contains(store))
        #expect(second.errors.contains("another server is using it"), "\(second.errors)")
        try await server.succeed("channel", "create", "final")
      }
    }
  }
}
