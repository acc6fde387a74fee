import BroadcastChannels
import Foundation

/// How a server is set up. Flags win over a configuration file, which wins over the defaults.
public struct ServerConfiguration: Sendable, Hashable {
  /// The address to listen on: this machine alone, unless somebody says otherwise.
  public var host = "127.0.0.1"
  /// The port; 0 takes a free one.
  public var port: UInt16 = 8080
  /// The SQLite file, or nil to keep everything in memory.
  public var store: String?
  /// The folder of channel definitions.
  public var channels: String?
  /// How silent peers are found.
  public var keepAlive = KeepAlive(ping: Limits.pingSeconds, silence: Limits.silenceSeconds)
  /// Seconds for a whole request or handshake. No key of a configuration file: tests alone want another.
  public var handshakeSeconds = Limits.handshakeSeconds
  /// What is logged.
  public var logLevel = ServerLog.Level.info

  /// The defaults.
  public init() {}

  /// The keys of a configuration file.
  public static let keys = ["listen", "store", "channels", "ping-seconds", "silence-seconds", "log-level"]

  /// Takes over what a configuration file says: one JSON object, `//` comments allowed.
  ///
  /// - Throws: everything that is wrong with it, each with its line and key and what was expected.
  public mutating func read(file bytes: [UInt8]) throws(Findings) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes, comments: true)
    } catch {
      throw Findings([Finding(error)])
    }
    var findings: [Finding] = []
    func wrong(_ key: String, _ message: String, at offset: Int) {
      findings.append(Finding(.error, "bad-value", key: key, message, at: offset, in: document))
    }
    guard let members = document.root.members else {
      throw Findings([
        Finding(
          .error, "bad-value", key: "", "is \(document.root.described); an object was expected", at: 0,
          in: document)
      ])
    }
    for member in members {
      let problem: String?
      switch member.name {
      case "listen":
        problem = member.value.string.map { setListen($0) } ?? "HOST:PORT as a string was expected"
      case "store": problem = member.value.string.map { setStore($0) } ?? "a path or \"memory\" was expected"
      case "channels":
        channels = member.value.string
        problem = channels == nil ? "the path of a folder was expected" : nil
      case "ping-seconds": problem = Self.seconds(member.value, into: &keepAlive.ping)
      case "silence-seconds": problem = Self.seconds(member.value, into: &keepAlive.silence)
      case "log-level":
        let level = member.value.string.flatMap { ServerLog.Level(rawValue: $0) }
        logLevel = level ?? logLevel
        problem = level == nil ? "\"debug\", \"info\", \"warning\" or \"error\" was expected" : nil
      default:
        problem = nil
        wrong(
          member.name, "is no key of a configuration" + Suggestion.phrase(for: member.name, among: Self.keys),
          at: member.offset)
      }
      if let problem {
        wrong(member.name, "is \(member.value.described); \(problem)", at: member.value.range.lowerBound)
      }
    }
    if let member = members.first(where: { $0.name == "silence-seconds" || $0.name == "ping-seconds" }),
      keepAlive.silence <= keepAlive.ping
    {
      wrong(
        "silence-seconds",
        "is \(JSONWriter.seconds(keepAlive.silence)) and ping-seconds \(JSONWriter.seconds(keepAlive.ping)); a peer must be pinged before its silence counts",
        at: member.value.range.lowerBound)
    }
    guard findings.isEmpty else { throw Findings(findings) }
  }

  /// Whether only programs on this machine can reach the server.
  public var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

  /// Takes `HOST:PORT`, `[IPv6]:PORT`, `HOST` or `:PORT`.
  ///
  /// - Returns: what was expected, when the text is none of these.
  public mutating func setListen(_ text: String) -> String? {
    let expected = "HOST:PORT was expected, such as 127.0.0.1:8080 or [::1]:0, with a port from 0 to 65535"
    var rest = text[...]
    var name: Substring?
    if rest.first == "[" {
      guard let end = rest.firstIndex(of: "]") else { return expected }
      name = rest[rest.index(after: rest.startIndex)..<end]
      rest = rest[rest.index(after: end)...]
    } else if let colon = rest.lastIndex(of: ":") {
      if colon != rest.startIndex { name = rest[..<colon] }
      rest = rest[colon...]
    } else {
      name = rest
      rest = ""
    }
    if !rest.isEmpty {
      guard rest.first == ":", let number = UInt16(rest.dropFirst()) else { return expected }
      port = number
    }
    if let name {
      guard !name.isEmpty, !name.contains(" ") else { return expected }
      host = String(name)
    }
    return nil
  }

  /// Takes a path, or `memory`.
  public mutating func setStore(_ text: String) -> String? {
    guard !text.isEmpty else { return "a path or \"memory\" was expected" }
    store = text == "memory" ? nil : text
    return nil
  }

  private static func seconds(_ value: JSONValue, into target: inout Double) -> String? {
    guard let number = value.number?.double, number >= 0.1, number <= 86_400 else {
      return "a number of seconds from 0.1 to 86400 was expected"
    }
    target = number
    return nil
  }
}
