import BroadcastChannels

/// A server's settings put together: flags win over environment variables, which win over a file, which wins over the
/// defaults. It knows where each came from, and everything that was wrong.
public struct LayeredConfiguration: Sendable {
  /// Where a setting's value comes from.
  public enum Source: Sendable, Hashable {
    /// Nobody said anything.
    case standard
    /// A line of a file.
    case file(path: String, line: Int)
    /// An environment variable.
    case variable(String)
    /// A flag.
    case flag(String)
  }

  /// Something that is wrong, and what to do.
  public struct Problem: Error, Sendable, Hashable, CustomStringConvertible {
    /// Where it is; the default for what only shows when the settings are used.
    public let source: Source
    /// The setting; nil for a name that is none.
    public let key: String?
    /// What is wrong, without the place.
    public let message: String
    /// One line: where, what, and what to do.
    public let description: String
  }

  /// The settings as far as they make sense.
  public private(set) var configuration = ServerConfiguration()
  /// Everything that is wrong: file, then variables, then flags.
  public private(set) var problems: [Problem] = []
  private var sources: [String: Source] = [:]
  /// What was taken, from the lowest layer up.
  private var taken: [(setting: Setting, value: SettingValue)] = []

  /// Puts settings together.
  ///
  /// - Parameters:
  ///   - file: the configuration file's path and what stands in it; nil without one.
  ///   - variables: the environment. Those that don't begin with `TOUCHLINE_` don't count, nor do empty ones.
  ///   - foreign: variables that begin so and belong to something else, such as the client commands.
  ///   - flags: the options that were given, by their names with dashes. One that takes no value has an empty one.
  public init(
    file: (path: String, bytes: [UInt8])? = nil, variables: [String: String] = [:], foreign: Set<String> = [],
    flags: [String: String] = [:]
  ) {
    if let file { read(file.path, file.bytes) }
    read(variables, foreign)
    for setting in Setting.all {
      guard let text = flags[setting.flag] else { continue }
      take(setting, text.isEmpty && setting.isFlagAlone ? "true" : text, .flag(setting.flag))
    }
    findContradictions()
  }

  /// Where a setting's value comes from.
  public func source(of setting: Setting) -> Source { sources[setting.key] ?? .standard }

  // MARK: Layers

  private mutating func read(_ path: String, _ bytes: [UInt8]) {
    var file = ConfigurationFile(bytes)
    var sources: [String: Source] = [:]
    file.apply(to: &configuration) { setting, value, position in
      sources[setting.key] = .file(path: path, line: position.line)
      taken.append((setting, value))
    }
    self.sources.merge(sources) { $1 }
    problems += file.findings.map { finding in
      Problem(
        source: .file(path: path, line: finding.position.line), key: finding.key.isEmpty ? nil : finding.key,
        message: finding.message, description: "\(path):\(finding)")
    }
  }

  private mutating func read(_ variables: [String: String], _ foreign: Set<String>) {
    let known = Setting.all.map(\.variable) + [Setting.fileVariable]
    for (name, text) in variables.sorted(by: { $0.key < $1.key }) where name.hasPrefix(Setting.prefix) {
      guard !text.isEmpty, name != Setting.fileVariable, !foreign.contains(name) else { continue }
      if let setting = Setting.all.first(where: { $0.variable == name }) {
        take(setting, text, .variable(name))
      } else if !Self.isServiceLink(name, text) {
        let near = Suggestion.phrase(for: name, among: known)
        let message = "is no variable of touchline; unset it, or correct its name\(near)"
        problems.append(
          Problem(source: .variable(name), key: nil, message: message, description: "\(name): \(message)"))
      }
    }
  }

  /// Kubernetes gives every container variables for the cluster's services (Service, "Environment variables"): a service
  /// called `touchline` brings TOUCHLINE_SERVICE_HOST, TOUCHLINE_PORT and more.
  private static func isServiceLink(_ name: String, _ text: String) -> Bool {
    if name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") { return true }
    if name.hasSuffix("_PORT"), text.contains("://") { return true }
    let isPort = name.contains("_TCP") || name.contains("_UDP") || name.contains("_SCTP")
    return isPort && name.contains("_PORT_")
  }

  private mutating func take(_ setting: Setting, _ text: String, _ source: Source) {
    guard text != Setting.defaultWord else {
      sources[setting.key] = source
      return takeBack(setting)
    }
    let value = SettingValue.text(text)
    guard let expected = setting.take(&configuration, value) else {
      sources[setting.key] = source
      return taken.append((setting, value))
    }
    let message = "is \(value.described); \(expected)"
    let name: String =
      switch source {
      case .flag(let name), .variable(let name): name
      case .standard, .file: setting.key
      }
    problems.append(
      Problem(source: source, key: setting.key, message: message, description: "\(name) \(message)"))
  }

  /// A setting is its default again, whatever the layers below say.
  private mutating func takeBack(_ setting: Setting) {
    taken.removeAll { $0.setting.key == setting.key }
    configuration = ServerConfiguration()
    for (setting, value) in taken { _ = setting.take(&configuration, value) }
  }

  // MARK: Contradictions

  /// What each makes sense by itself and not together.
  private mutating func findContradictions() {
    let keepAlive = configuration.keepAlive
    if keepAlive.silence <= keepAlive.ping {
      contradiction(
        ["silence-seconds", "ping-seconds"],
        "is \(JSONWriter.seconds(keepAlive.silence)) and ping-seconds \(JSONWriter.seconds(keepAlive.ping)); a peer must be pinged before its silence counts"
      )
    }
    if (configuration.certificate == nil) != (configuration.certificateKey == nil) {
      let (one, other) =
        configuration.certificateKey == nil ? ("tls-cert", "tls-key") : ("tls-key", "tls-cert")
      contradiction([one], "is given without \(other); --tls-cert and --tls-key go together")
    }
  }

  /// Told at the place of the first of the settings that somebody set.
  private mutating func contradiction(_ keys: [String], _ message: String) {
    let source = keys.compactMap { sources[$0] }.first ?? .standard
    let place: String =
      switch source {
      case .file(let path, let line): "\(path):\(line): error: \(keys[0]):"
      case .variable, .flag, .standard: "\(keys[0])"
      }
    problems.append(
      Problem(source: source, key: keys[0], message: message, description: "\(place) \(message)"))
  }

  /// Adds what showed when the settings were used, such as a folder that can't be read.
  public mutating func add(_ message: String, for key: String) {
    let source = sources[key] ?? .standard
    let name = Setting.all.first { $0.key == key }.map { $0.name(in: source) } ?? key
    problems.append(Problem(source: source, key: key, message: message, description: "\(name): \(message)"))
  }
}

extension Setting {
  /// The flag that names the configuration file.
  public static let fileFlag = "--config"
  /// The value of a flag or a variable that takes back what lies below it.
  static let defaultWord = "default"
  /// The environment variable that names the configuration file.
  public static let fileVariable = prefix + "CONFIG"

  /// How somebody wrote it.
  fileprivate func name(in source: LayeredConfiguration.Source) -> String {
    switch source {
    case .standard: key
    case .file(let path, let line): "\(path):\(line): \(key)"
    case .variable(let name), .flag(let name): name
    }
  }
}
