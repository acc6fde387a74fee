import BroadcastChannels
import BroadcastServer
import Foundation
import MatchScripts

/// Where `play` and `rehearse` get their script from: a file, or a match of an openfootball file.
enum ScriptSource {
  static let options = [
    Option("--openfootball", "FILE", "make the script from an openfootball JSON file"),
    Option("--match", "WORDS", "which match of it: teams, or words of the date, round or group"),
  ]

  /// Reads or makes the script, and finds the definition and the channel's name that go with it.
  static func load(
    _ arguments: Arguments
  ) throws -> (script: MatchScript, definition: ChannelDefinition?, channel: String?) {
    if let path = arguments["--openfootball"] {
      _ = try arguments.positional(0...0, "--openfootball, which takes the place of SCRIPT,")
      guard let query = arguments["--match"], !query.isEmpty else {
        throw arguments.error("--match WORDS is missing: which match of the file?")
      }
      let script = try openFootball(path, query)
      if case .defined(let definition) = script.target { return (script, definition, definition.alias?.name) }
      return (script, nil, nil)
    }
    if arguments.has("--match") { throw arguments.error("--match goes with --openfootball") }
    return try load(path: try arguments.positional(1...1, "SCRIPT")[0])
  }

  private static func openFootball(_ path: String, _ query: String) throws -> MatchScript {
    let bytes = try Files.read(path)
    do {
      return try OpenFootballFeed(file: bytes).match(named: query).script()
    } catch let findings as Findings {
      throw CommandFailure(findings.listed(in: path))
    } catch {
      throw CommandFailure("\(path): \(error)")
    }
  }

  static func load(path: String) throws -> (MatchScript, ChannelDefinition?, String?) {
    let bytes = try Files.read(path)
    let script: MatchScript
    do throws(Findings) {
      script = try MatchScript(file: bytes)
    } catch {
      let root = (try? JSONDocument(bytes))?.root
      if root?["matches"] != nil || root?["rounds"] != nil {
        throw CommandFailure(
          "\(path) looks like an openfootball file; try: --openfootball \(path) --match 'TEAM TEAM'")
      }
      throw CommandFailure("\(path) is no match script:\n\(error.listed(in: path))")
    }
    let stem = URL(fileURLWithPath: path).lastPathComponent.split(separator: ".").first.flatMap {
      ChannelAlias(String($0))
    }
    switch script.target {
    case .defined(let definition): return (script, definition, stem?.name)
    case .named(let alias):
      let sibling = URL(fileURLWithPath: path).deletingLastPathComponent().appendingPathComponent(
        "\(alias).json"
      ).path
      let definition =
        FileManager.default.fileExists(atPath: sibling) ? try ChannelLibrary.load(file: sibling) : nil
      return (script, definition, alias.name)
    case nil: return (script, nil, stem?.name)
    }
  }
}

extension Findings {
  /// The first findings, one a line with the file's name, and how many more there are.
  func listed(in path: String) -> String {
    let shown = all.prefix(20).map { "\(path):\($0)" }
    return (shown + (all.count > 20 ? ["and \(all.count - 20) more"] : [])).joined(separator: "\n")
  }
}
