import BroadcastChannels

extension ServerConfiguration {
  /// The keys of a configuration file.
  public static let keys = [
    "listen", "tls", "provider-listen", "tls-cert", "tls-key", "tls-dir", "client-ca", "keys",
    "insecure-open",
    "strict", "environment", "origins", "store", "channels", "loops",
    "ping-seconds", "silence-seconds", "log-level",
  ]

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
      guard Self.keys.contains(member.name) else {
        wrong(
          member.name, "is no key of a configuration" + Suggestion.phrase(for: member.name, among: Self.keys),
          at: member.offset)
        continue
      }
      if let problem = take(member.name, member.value) {
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

  /// Takes the value of one key.
  ///
  /// - Returns: what was expected instead.
  private mutating func take(_ key: String, _ value: JSONValue) -> String? {
    switch key {
    case "listen": value.string.map { setListen($0) } ?? "HOST:PORT as a string was expected"
    case "tls": Self.flag(value, into: &usesTLS)
    case "provider-listen":
      value.string.map { setProviderListen($0) } ?? "\"off\", or HOST:PORT as a string, was expected"
    case "tls-cert": Self.path("of a PEM file", value, into: &certificate)
    case "tls-key": Self.path("of a PEM file", value, into: &certificateKey)
    case "tls-dir": Self.path("of a folder", value, into: &tlsFolder)
    case "client-ca": Self.path("of a PEM file", value, into: &clientAuthority)
    case "keys": Self.path("of a folder", value, into: &keys)
    case "insecure-open": Self.flag(value, into: &isOpenToAll)
    case "strict": takeStrictness(value)
    case "environment": Self.choice(value, into: &environment)
    case "origins":
      setOrigins(value.elements?.map { $0.string ?? "" } ?? [])
    case "store": value.string.map { setStore($0) } ?? "a path or \"memory\" was expected"
    case "channels": Self.path("of a folder", value, into: &channels)
    case "loops": setLoops(value.number?.int.map { Int(clamping: $0) })
    case "ping-seconds": Self.seconds(value, into: &keepAlive.ping)
    case "silence-seconds": Self.seconds(value, into: &keepAlive.silence)
    default: Self.choice(value, into: &logLevel)
    }
  }

  private mutating func takeStrictness(_ value: JSONValue) -> String? {
    let names = Strictness.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    if let isStrict = value.bool {
      strictness = isStrict ? Set(Strictness.allCases) : []
      return nil
    }
    let items = value.elements?.map { $0.string.flatMap { Strictness(rawValue: $0) } }
    guard let items, !items.contains(nil) else { return "true, false or a list of \(names) was expected" }
    strictness = Set(items.compactMap(\.self))
    return nil
  }

  private static func path(_ what: String, _ value: JSONValue, into target: inout String?) -> String? {
    guard let text = value.string, !text.isEmpty else { return "the path \(what) was expected" }
    target = text
    return nil
  }

  private static func flag(_ value: JSONValue, into target: inout Bool) -> String? {
    guard let flag = value.bool else { return "true or false was expected" }
    target = flag
    return nil
  }

  private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
    _ value: JSONValue, into target: inout Choice
  ) -> String? {
    guard let choice = value.string.flatMap({ Choice(rawValue: $0) }) else {
      return "\(Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")) was expected"
    }
    target = choice
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
