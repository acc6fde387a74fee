import BroadcastChannels
import BroadcastServer
import Foundation
import LiveActivities
import MatchScripts
import Rehearsal

/// `touchline check`: tells what would go wrong on a device, before anything is published.
enum CheckCommand: Command {
  static let usage = CommandUsage(
    name: "check", synopsis: "FILE… [--definition FILE] [--strict]",
    summary: "Check payloads, channel definitions and match scripts.",
    options: [
      Option("--definition", "FILE", "the channel definition that payloads must fit"),
      Option("--strict", nil, "warnings count as failures too"),
      ClientOptions.format,
    ],
    operands: .files,
    notes: """
      A file is a payload ({"aps":{…}}), a channel definition ({"app":…}), a match script (.jsonl), or payloads one a
      line (.jsonl); - is standard input. A script is checked against the definition that it names, in the same folder.
      Prints file:line:column, how bad it is, the key, and what is wrong. Exit 1 when there is an error.
      """,
    examples: [
      "touchline check Channels/*.json Channels/*.jsonl",
      "touchline check goal.json --definition Channels/world-cup-final-2022.json",
      "generate-payload | touchline check - --strict",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    guard !arguments.positional.isEmpty else { throw arguments.error("FILE is missing") }
    let isJSON = try ClientOptions.isJSON(arguments)
    let definition = try arguments["--definition"].map { try loadDefinition($0) }
    var errors = 0
    var warnings = 0
    for path in arguments.positional {
      let findings: [Finding]
      do throws(CommandFailure) {
        findings = checked(try Files.read(path), path: path, definition: definition)
      } catch {
        Console.note("touchline check: \(error.message)")
        errors += 1
        continue
      }
      for finding in findings {
        Console.print(isJSON ? json(finding, path) : "\(path):\(finding)".printable)
        if finding.severity == .error { errors += 1 } else { warnings += 1 }
      }
    }
    let files = arguments.positional.count
    Console.note(
      "\(files) \(files == 1 ? "file" : "files") checked: \(errors) \(errors == 1 ? "error" : "errors"), \(warnings) \(warnings == 1 ? "warning" : "warnings")"
    )
    return errors > 0 || (warnings > 0 && arguments.has("--strict")) ? 1 : 0
  }

  private static func loadDefinition(_ path: String) throws(CommandFailure) -> ChannelDefinition {
    do throws(Findings) {
      return try ChannelDefinition(file: try readFile(path), alias: nil)
    } catch {
      throw CommandFailure(error.all.map { "\(path):\($0)" }.joined(separator: "\n"))
    }
  }

  private static func readFile(_ path: String) throws(Findings) -> [UInt8] {
    do throws(CommandFailure) { return try Files.read(path) } catch {
      let start = SourcePosition(line: 1, column: 1)
      throw Findings([Finding(.error, "unreadable", key: "", error.message, position: start)])
    }
  }

  // MARK: Kinds of file

  private static func checked(_ bytes: [UInt8], path: String, definition: ChannelDefinition?) -> [Finding] {
    if path.hasSuffix(".jsonl") { return lines(bytes, path: path, definition: definition) }
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes, comments: true)
    } catch {
      let isLines = path == "-" && bytes.split(separator: 0x0A).count > 1
      return isLines ? lines(bytes, path: path, definition: definition) : [Finding(error)]
    }
    if document.root["aps"] != nil {
      return PayloadDiagnosis.findings(body: bytes, definition: definition, now: Date())
    }
    if document.root["app"] != nil || document.root["content-state"] != nil || document.root["budget"] != nil
    {
      do throws(Findings) {
        return presentations(try ChannelDefinition(file: bytes, alias: nil), in: document)
      } catch {
        return error.all
      }
    }
    if document.root["at"] != nil || document.root["channel"] != nil {
      return lines(bytes, path: path, definition: definition)
    }
    let message =
      "is neither a payload ({\"aps\":{…}}) nor a channel definition ({\"app\":…}) nor a match script"
    let position = document.position(of: document.root.range.lowerBound)
    return [Finding(.error, "unknown-file", key: "", message, position: position)]
  }

  private static func presentations(_ definition: ChannelDefinition, in document: JSONDocument) -> [Finding] {
    PresentationCheck.problems(definition).map { problem in
      let path = problem.key.split(separator: ".", maxSplits: 1).map(String.init)
      let group = document.root.members?.first { $0.name == path[0] }
      let place = group?.value.members?.first { $0.name == path[1] }?.offset ?? group?.offset ?? 0
      return Finding(
        problem.isError ? .error : .warning, "presentation", key: problem.key, problem.message, at: place,
        in: document)
    }
  }

  /// JSON lines: whole payloads, or a match script.
  private static func lines(_ bytes: [UInt8], path: String, definition: ChannelDefinition?) -> [Finding] {
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let first =
      lines.first { !$0.allSatisfy { $0 == 0x20 || $0 == 0x0D || $0 == 0x09 } }.map(Array.init) ?? []
    if (try? JSONDocument(first))?.root["aps"] != nil {
      return lines.enumerated().filter { !$1.isEmpty }.flatMap { index, line in
        PayloadDiagnosis.findings(
          body: Array(line), definition: definition, now: Date(), firstLine: index + 1)
      }
    }
    let script: MatchScript
    do throws(Findings) {
      script = try MatchScript(file: bytes)
    } catch {
      return error.all
    }
    var known = definition
    var findings: [Finding] = []
    switch script.target {
    case .defined(let own): known = known ?? own
    case .named(let alias):
      let sibling = URL(fileURLWithPath: path).deletingLastPathComponent().appendingPathComponent(
        "\(alias).json"
      ).path
      guard known == nil, FileManager.default.fileExists(atPath: sibling) else { break }
      do throws(ChannelLibrary.Broken) {
        known = try ChannelLibrary.load(file: sibling)
      } catch {
        findings.append(
          Finding(
            .error, "bad-definition", key: "channel",
            "names a definition with errors, so no state was checked against it: \(error.lines[0])",
            position: SourcePosition(line: 1, column: 1)))
      }
    case nil: break
    }
    return findings + ScriptCheck.findings(script, definition: known, start: Date())
  }

  private static func json(_ finding: Finding, _ path: String) -> String {
    JSONWriter.object([
      "file": JSONWriter.quoted(path), "line": String(finding.position.line),
      "column": String(finding.position.column), "severity": JSONWriter.quoted(finding.severity.rawValue),
      "kind": JSONWriter.quoted(finding.kind), "key": JSONWriter.quoted(finding.key),
      "message": JSONWriter.quoted(finding.message),
    ])
  }
}
