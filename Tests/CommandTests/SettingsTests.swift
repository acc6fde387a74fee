import Foundation
import TestSupport
import Testing

@Suite("serve --check-config")
struct CheckConfigTests {
  private static let file = """
    {
      "listen": "127.0.0.1:0",
      "store": "channels.sqlite" // beside the file
    }
    """

  private struct Checked: Decodable {
    struct Source: Decodable, Equatable {
      let kind: String
      let name: String?
      let line: Int?
    }
    struct Shown: Decodable {
      let source: Source
      let reload: Bool
    }
    struct Problem: Decodable {
      let key: String?
      let message, line: String
      let source: Source
    }
    let settings: [String: Shown]
    let problems: [Problem]
  }

  private func row(_ key: String, _ ending: Ending) -> [Substring] {
    ending.lines.first { $0.hasPrefix("\(key) ") }?.split(separator: " ") ?? []
  }

  @Test("every setting is printed with where it comes from, and nothing is started or made")
  func plain() async throws {
    try await withFolder(["touchline.json": Self.file]) { folder in
      let path = folder.path("touchline.json")
      let ending = try await Touchline.run(
        ["serve", "--config", path, "--check-config", "--provider-listen", "off"],
        environment: ["TOUCHLINE_LOG_LEVEL": "debug", "TOUCHLINE_STORE": "memory"])
      #expect(ending.code == 0 && ending.errors == "", "\(ending.errors)")
      #expect(row("listen", ending) == ["listen", "127.0.0.1:0", "\(path):2"])
      #expect(row("store", ending) == ["store", "memory", "environment", "TOUCHLINE_STORE"])
      #expect(row("log-level", ending) == ["log-level", "debug", "environment", "TOUCHLINE_LOG_LEVEL"])
      #expect(row("provider-listen", ending) == ["provider-listen", "off", "flag", "--provider-listen"])
      #expect(row("tls", ending) == ["tls", "false", "default"])
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == ["touchline.json"])
    }
  }

  @Test("the file may be named by the environment, and the settings may be one JSON object")
  func json() async throws {
    try await withFolder(["touchline.json": Self.file]) { folder in
      let path = folder.path("touchline.json")
      let ending = try await Touchline.run(
        ["serve", "--check-config", "--format", "json"], environment: ["TOUCHLINE_CONFIG": path])
      #expect(ending.code == 0 && ending.lines.count == 1, "\(ending.errors)")
      let checked: Checked = try decoded(ending.output)
      #expect(checked.settings["listen"]?.source == .init(kind: "file", name: path, line: 2))
      #expect(checked.settings["listen"]?.reload == false && checked.settings["log-level"]?.reload == true)
      #expect(checked.problems.isEmpty)
    }
  }

  @Test("everything that is wrong is told at once, exit 1")
  func wrong() async throws {
    let files = ["touchline.json": "{\n  \"chanels\": \"x\"\n}", "broken/final.json": "{}"]
    try await withFolder { folder in
      try FileManager.default.createDirectory(
        atPath: folder.path("broken"), withIntermediateDirectories: true)
      for (name, text) in files { try folder.write(name, text) }
      let words = [
        "serve", "--config", folder.path("touchline.json"), "--check-config", "--listen", "0.0.0.0:0",
        "--channels", folder.path("broken"), "--ping-seconds", "soon",
      ]
      let environment = [
        "TOUCHLINE_LOGLEVEL": "debug", "TOUCHLINE_KEYS": "", "TOUCHLINE_METRICS_TOKEN": "/nowhere",
      ]
      let ending = try await Touchline.run(words, environment: environment)
      #expect(ending.code == 1 && ending.output == "")
      for part in [
        "touchline.json:2:3: error: chanels: is no key of a configuration; did you mean \"channels\"?",
        "TOUCHLINE_LOGLEVEL: is no variable of touchline; unset it, or correct its name; did you mean \"TOUCHLINE_LOG_LEVEL\"?",
        "--ping-seconds is \"soon\"; a number of seconds from 0.1 to 86400 was expected",
        "TOUCHLINE_METRICS_TOKEN: /nowhere: can't be read",
        "--listen: 0.0.0.0:0 can be reached from other machines",
        "--channels: \(folder.path("broken"))/final.json:1:1: error: app: is missing",
      ] {
        #expect(
          ending.errors.contains("touchline serve: ") && ending.errors.contains(part), "\(ending.errors)")
      }
      #expect(ending.errors.split(separator: "\n").count == 6, "\(ending.errors)")
      let json = try await Touchline.run(words + ["--format", "json"], environment: environment)
      let checked: Checked = try decoded(json.output)
      #expect(json.code == 1 && checked.problems.count == 6)
    }
  }

  @Test("keys that can't be read are one problem, and the definitions that go with them none")
  func brokenKeys() async throws {
    try await withFolder(["final.json": #"{"app": "com.example.scores", "subscribe": "token"}"#]) { folder in
      let ending = try await Touchline.run([
        "serve", "--check-config", "--keys", folder.path("nowhere"), "--channels", folder.url.path,
      ])
      #expect(ending.code == 1 && ending.errors.split(separator: "\n").count == 1, "\(ending.errors)")
      #expect(ending.errors.contains("the folder of keys can't be read"), "\(ending.errors)")
    }
  }

  @Test("a token in the place of its file is not printed", arguments: ["plain", "json"])
  func secretForPath(_ format: String) async throws {
    let ending = try await Touchline.run(
      ["serve", "--check-config", "--format", format],
      environment: ["TOUCHLINE_METRICS_TOKEN": "correct-horse-battery"])
    #expect(ending.code == 1)
    #expect(!(ending.output + ending.errors).contains("horse"), "\(ending.output)\(ending.errors)")
  }

  @Test("serve itself refuses an unknown variable before anything listens, exit 1")
  func unknownVariable() async throws {
    let ending = try await Touchline.run(
      ["serve", "--listen", "127.0.0.1:0"], environment: ["TOUCHLINE_LISTNE": "127.0.0.1:0"])
    #expect(ending.code == 1 && ending.output == "")
    #expect(ending.errors.contains("did you mean \"TOUCHLINE_LISTEN\"?"), "\(ending.errors)")
  }

  @Test("--format goes with --check-config")
  func format() async throws {
    let ending = try await Touchline.run(["serve", "--format", "json"])
    #expect(ending.code == 2 && ending.errors.contains("--format goes with --check-config"))
  }
}
