import Foundation
import TestSupport
import Testing

@Suite("Help and the command line")
struct HelpTests {
  static let commands = [
    "serve", "channel", "publish", "play", "watch", "intents", "requests", "check", "token", "trust",
    "soak", "health", "completion", "man",
  ]

  @Test("--help tells on standard output what a command takes, with an example", arguments: commands)
  func help(_ command: String) async throws {
    for words in [[command, "--help"], [command, "-h"], ["help", command]] {
      let ending = try await Touchline.run(words)
      #expect(ending.code == 0)
      #expect(ending.errors == "")
      #expect(ending.output.contains("Usage: touchline \(command) "))
      #expect(ending.output.contains("Examples:\n  "))
      #expect(ending.output.contains("--help"))
    }
  }

  @Test("the overview names every command", arguments: ["--help", "-h", "help"])
  func overview(_ word: String) async throws {
    let ending = try await Touchline.run([word])
    #expect(ending.code == 0)
    #expect(ending.errors == "")
    for command in Self.commands { #expect(ending.output.contains("\n  \(command) ")) }
  }

  @Test("without a command the overview goes to standard error, exit 2")
  func nothing() async throws {
    let ending = try await Touchline.run([])
    #expect(ending.code == 2)
    #expect(ending.output == "")
    #expect(ending.errors.contains("Usage: touchline COMMAND"))
  }

  @Test(
    "a command line that makes no sense exits 2 and says what was meant", .serialized,
    arguments: [
      (["serv"], "there is no command \"serv\"; did you mean \"serve\"?"),
      (["pubish", "final"], "did you mean \"publish\"?"),
      (["help", "wach"], "did you mean \"watch\"?"),
      (["publish", "final", "--prority", "5"], "unknown option --prority; did you mean \"--priority\"?"),
      (["watch", "final", "--untill=ended"], "unknown option --untill; did you mean \"--until\"?"),
      (["channel", "creat", "final"], "there is no \"channel creat\"; did you mean \"create\"?"),
      (["channel"], "one of create, list, show and delete is missing"),
      (["channel", "list", "final"], "\"final\" is one argument too many; no further argument was expected"),
      (["serve", "here"], "\"here\" is one argument too many; no argument was expected"),
      (
        ["watch", "a", "--server", "https://x y"],
        "is \"https://x y\"; http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080, was expected\n"
      ),
      (["watch", "a", "--server", "http://\u{59E}x:80"], "such as http://127.0.0.1:8080, was expected\n"),
      (["channel", "show", "final", "--budget", "1"], "--budget goes with create only"),
      (["channel", "create", "a b"], "\"a b\" can't be an alias"),
      (["publish"], "CHANNEL is missing"),
      (["publish", "final"], "--state JSON, or --lines, is missing"),
      (["publish", "final", "--state", "{"], "--state is not JSON: line 1, column 2"),
      (["publish", "final", "--state", "[1]"], "--state is an array; an object was expected"),
      (["publish", "final", "--lines", "--state", "{}"], "--lines and --state don't go together"),
      (["publish", "final", "--state", "{}", "--fail-fast"], "--fail-fast goes with --lines"),
      (["publish", "final", "--state", "{}", "--event", "start"], "can't start an activity"),
      (
        ["publish", "final", "--state", "{}", "--priority", "9"],
        "--priority is \"9\"; 10, 5 or 1 was expected"
      ),
      (
        ["publish", "final", "--state", "{}", "--stale-in", "soon"],
        "--stale-in is \"soon\"; a number of seconds"
      ),
      (
        ["publish", "final", "--state", "{}", "--stale-at", "1e30"],
        "--stale-at is \"1e30\"; Unix seconds, or a date such as 2026-12-18T15:00:00Z, up to the year 9999, was"
      ),
      (["rehearse", "a.jsonl", "--start", "1e30"], "--start is \"1e30\"; Unix seconds"),
      (["rehearse", "a.jsonl", "--start", "-1"], "--start is \"-1\"; Unix seconds"),
      (["publish", "final", "--state", "{}", "--sound", "default"], "both --alert-title and --alert-body"),
      (["publish", "final", "--state"], "--state needs a value"),
      (["publish", "final", "--lines=yes"], "--lines takes no value"),
      (["play"], "SCRIPT is missing"),
      (["play", "a.jsonl", "--speed", "0"], "--speed is \"0\"; a number from 0.01 to 100000 was expected"),
      (["play", "--openfootball", "a.json"], "--match WORDS is missing"),
      (["watch"], "CHANNEL is missing"),
      (["watch", "a", "a"], "the channel \"a\" was given twice"),
      (["watch", "a", "--until", "over"], "--until is \"over\"; ended or dismissed was expected"),
      (["watch", "a", "--for", "0"], "--for is \"0\"; more than 0 was expected"),
      (["watch", "a", "--since", "7"], "--since is \"7\"; EPOCH:SEQ"),
      (["watch", "a", "b", "--since", "e:1"], "--since goes with one channel"),
      (
        ["watch", "a", "--server", "ftp://x/y"],
        "\"ftp://x/y\"; http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080, was expected\n"
      ),
      (["watch", "a", "--format", "xml"], "--format is \"xml\"; phone, plain or json was expected"),
      (["watch", "a", "--format", "json", "--format", "json"], "--format was given twice"),
      (["check"], "FILE is missing"),
    ])
  func nonsense(_ words: [String], _ message: String) async throws {
    let ending = try await Touchline.run(words)
    #expect(ending.code == 2)
    #expect(ending.output == "")
    #expect(ending.errors.contains(message), "\(ending.errors)")
    #expect(ending.errors.contains("\nTry: touchline "))
  }

  @Test("a pipe gets no colour codes and no progress, even without NO_COLOR")
  func noColour() async throws {
    try await withFolder(["final.match.jsonl": #"{"at": 0, "content-state": {"n": 1}, "stale-in": -900}"#]) {
      folder in
      let server = try await Server()
      try await server.succeed("channel", "create", "final")
      let watch = try server.start("watch", "final", "--for", "5m")
      try await watch.notice("subscribed")
      let play = try await server.succeed("play", folder.path("final.match.jsonl"))
      let check = try await Touchline.run(["check", folder.path("final.match.jsonl")])
      let list = try await server.succeed("channel", "list")
      try await watch.lines(1)
      watch.signal(SIGINT)
      let watched = try await watch.ending()
      try await server.stop()
      let log = server.program.errors.text
      #expect(log.contains(" warning "))
      for text in [play.output, play.errors, check.output, list.output, watched.output, watched.errors, log] {
        #expect(!text.contains("\u{1B}") && !text.contains("\r"), "\(text)")
      }
    }
  }
}
