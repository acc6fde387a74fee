import Foundation
import TestSupport
import Testing

@Suite("channel")
struct ChannelTests {
  @Test("create prints the id alone, which every command takes as an argument")
  func createPrintsID() async throws {
    try await withServer { server in
      // Ids are random; each of the two characters is in every third.
      var number = 0
      var missing: Set<Character> = ["+", "/"]
      while !missing.isEmpty, number < 200 {
        number += 1
        let ending = try await server.succeed("channel", "create", "match-\(number)")
        let id = String(ending.output.dropLast())
        #expect(ending.output == "\(id)\n" && ending.errors == "")
        #expect(Data(base64Encoded: id)?.count == 16)
        guard missing.contains(where: id.contains) else { continue }
        missing.subtract(id)
        #expect(try await server.channel(id).alias == "match-\(number)")
        let publish = try await server.succeed("publish", id, "--state", "{}")
        #expect(publish.output.hasPrefix("delivered "))
        let watch = try await server.watch(id)
        watch.signal(SIGINT)
        #expect(try await watch.ending().errors == "\(id): subscribed\n")
        try await server.succeed("channel", "delete", id)
        #expect(try await server.run("channel", "show", id).code == 1)
      }
      #expect(missing.isEmpty)
    }
  }

  @Test("what list, show and delete print: results on standard output, plain and json")
  func listShowDelete() async throws {
    try await withServer { server in
      let none = try await server.succeed("channel", "list")
      #expect(none.output == "")
      #expect(none.errors.contains("touchline channel create NAME"))

      let ids = [
        try await server.succeed("channel", "create", "final", "--storage", "latest").output.dropLast(),
        try await server.succeed("channel", "create", "--app", "com.example.other").output.dropLast(),
      ].map(String.init)
      let plain = try await server.succeed("channel", "list").lines
      #expect(plain.count == 2)
      let line = try #require(plain.first { $0.hasPrefix(ids[0]) })
      for part in ["final", "com.example.scores", "latest stored", "0 subscribed"] {
        #expect(line.contains(part))
      }
      let json = try await server.succeed("channel", "list", "--format", "json").lines
      let listed: [ListedChannel] = try json.map { try decoded($0) }
      #expect(Set(listed.map(\.id)) == Set(ids))
      #expect(Set(listed.map(\.alias)) == ["final", nil])

      let shown = try await server.succeed("channel", "show", "final").output
      for part in ["id                \(ids[0])", "most recent message (1)", " left; "] {
        #expect(shown.contains(part), "\(shown)")
      }
      let gone = try await server.succeed("channel", "delete", "final")
      #expect(gone.output == "" && gone.errors == "deleted final\n")
      #expect(try await server.succeed("channel", "list").lines.count == 1)
    }
  }

  private struct ListedChannel: Decodable {
    let id: String
    let alias: String?
  }

  @Test("create's flags arrive")
  func flagsArrive() async throws {
    try await withServer { server in
      let json = try await server.succeed(
        "channel", "create", "final", "--app", "com.example.rugby", "--storage", "latest",
        "--frequent-updates", "--budget", "7", "--refill-per-hour", "90.5", "--over-budget", "reject",
        "--window-5", "0.25", "--window-1", "2", "--publish-rate", "3.5", "--burst", "9",
        "--format", "json"
      ).output
      let created: ShownChannel = try decoded(json)
      #expect(created.definition == (try await server.channel("final").definition))
      let definition = created.definition
      #expect(definition.app == "com.example.rugby")
      #expect(definition.messageStoragePolicy == 1)
      #expect(definition.frequentUpdates)
      #expect(definition.budget == .init(capacity: 7, refillPerHour: 90.5, overBudget: "reject"))
      #expect(definition.windows == ["5": 0.25, "1": 2])
      #expect(definition.publishRate == .init(perSecond: 3.5, burst: 9))

      try await server.succeed("channel", "create", "free", "--budget", "none", "--publish-rate", "none")
      let free = try await server.channel("free").definition
      #expect(free.budget.capacity == nil && free.publishRate.perSecond == nil)
    }
  }

  @Test("a definition file gives everything, and its name is the alias")
  func definitionFile() async throws {
    let text = #"{"app": "com.example.scores", "budget": {"capacity": 3, "over-budget": "drop"}}"#
    try await withFolder(["semi-final.json": text]) { folder in
      try await withServer { server in
        let file = folder.path("semi-final.json")
        try await server.succeed("channel", "create", "--definition", file)
        #expect(try await server.channel("semi-final").definition.budget.capacity == 3)
        try await server.succeed("channel", "create", "other", "--definition", file)
        #expect(try await server.channel("other").definition.budget.overBudget == "drop")
        let mixed = try await server.run("channel", "create", "x", "--definition", file, "--budget", "1")
        #expect(mixed.code == 2)
        #expect(mixed.errors.contains("--budget doesn't go together with --definition"))
      }
    }
  }

  @Test("a refusal is told with the reason and what to do, exit 1")
  func refusals() async throws {
    try await withServer { server in
      let id = String(try await server.succeed("channel", "create", "final").output.dropLast())
      let cases: [([String], String)] = [
        (["create", "final"], "AliasTaken: the alias \"final\" belongs to another channel"),
        (
          ["show", "finl"],
          "ChannelNotRegistered: no channel has the id or alias \"finl\"; did you mean \"final\"?"
        ),
        (["delete", "semi"], "ChannelNotRegistered: "),
        (["show", "\(id.dropLast())"], "BadChannelId: "),
        (["show", "\(id)="], "BadChannelId: "),
        (["show", "AAAAAAAAAAAAAAAAAAAAAA=="], "ChannelNotRegistered: no channel has the id"),
        (["show", "a/b?c#d e"], "BadChannelId: "),
      ]
      for (words, message) in cases {
        let ending = try await Touchline.run(["channel"] + words + ["--server", server.address])
        #expect(ending.code == 1)
        #expect(ending.output == "")
        #expect(ending.errors.hasPrefix("touchline channel: \(message)"), "\(words): \(ending.errors)")
      }
    }
  }

  @Test("--server wins over TOUCHLINE_SERVER, and both forgive a missing scheme")
  func whichServer() async throws {
    try await withServer { server in
      let words = ["channel", "list"]
      let wrong = ["TOUCHLINE_SERVER": "http://127.0.0.1:1"]
      for text in [server.address, "127.0.0.1:\(server.port)", "\(server.address)/"] {
        let flag = try await Touchline.run(words + ["--server", text], environment: wrong)
        #expect(flag.code == 0, "\(flag.errors)")
        let variable = try await Touchline.run(words, environment: ["TOUCHLINE_SERVER": text])
        #expect(variable.code == 0, "\(variable.errors)")
      }
      let nonsense = try await Touchline.run(words, environment: ["TOUCHLINE_SERVER": "here"])
      #expect(nonsense.code == 1 || nonsense.code == 2)
      #expect(nonsense.errors.contains("here"))
    }
  }

  @Test(
    "where nobody listens every client command says so with advice, exit 1",
    arguments: [
      ["channel", "create", "final"], ["channel", "list"], ["channel", "show", "final"],
      ["channel", "delete", "final"], ["watch", "final"], ["publish", "final", "--state", "{}"],
      ["publish", "final", "--lines"],
    ])
  func nobodyListens(_ words: [String]) async throws {
    let ending = try await Touchline.run(
      words + ["--server", "http://127.0.0.1:1"], input: Array("{}\n{}\n".utf8))
    #expect(ending.code == 1)
    #expect(
      (ending.errors + ending.output).contains(
        "is a server running at http://127.0.0.1:1? Start one with: touchline serve"), "\(ending.errors)")
  }
}
