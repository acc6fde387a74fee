import BroadcastChannels
import BroadcastServer
import Foundation

/// A server's settings from the command line, the environment and a file.
struct ServeSettings {
  /// The options that are settings, and those of the configuration itself.
  static let options =
    Setting.all.map { Option($0) } + [
      Option(Setting.fileFlag, "FILE", "a JSON file with these settings; also TOUCHLINE_CONFIG"),
      Option(
        "--check-config", nil,
        "print the settings with where each comes from, and end; exit 1 when one is wrong"),
      Option(
        "--format", "plain|json", "with --check-config: for a person, or one JSON object (default plain)"),
    ]

  /// The variables, for the manual.
  static let environmentHelp =
    Setting.all.map { (name: $0.variable, help: "as \($0.flag), which wins") }
    + [(name: Setting.fileVariable, help: "as \(Setting.fileFlag), which wins")]

  private let arguments: Arguments
  private let path: String?

  init(_ arguments: Arguments) throws(CommandFailure) {
    self.arguments = arguments
    path = arguments[Setting.fileFlag] ?? ClientOptions.environment(Setting.fileVariable)
    guard let path else { return }
    var status = stat()
    guard path != "-", stat(path, &status) != 0 || [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT) else {
      throw CommandFailure(
        "the configuration \"\(path)\" is no regular file; SIGHUP reads it again, which a pipe can't be")
    }
  }

  /// Reads everything; the file anew each time.
  ///
  /// - Throws: when the file can't be read.
  func read() throws(CommandFailure) -> LayeredConfiguration {
    let file = try path.map { path throws(CommandFailure) in (path: path, bytes: try Files.read(path)) }
    return LayeredConfiguration(
      file: file, variables: ProcessInfo.processInfo.environment, foreign: ClientOptions.variables,
      flags: arguments.values)
  }

  /// Reads everything, and refuses what is wrong all at once.
  ///
  /// - Throws: ``UsageError`` when it is the command line alone that is wrong, otherwise ``CommandFailure``.
  func readOrRefuse() throws -> ServerConfiguration {
    let layers = try read()
    guard !layers.problems.isEmpty else { return layers.configuration }
    let lines = layers.problems.map(\.description)
    let isUsage = layers.problems.allSatisfy { problem in
      if case .flag = problem.source { true } else { false }
    }
    guard !isUsage else { throw arguments.error(lines.joined(separator: "\n")) }
    throw CommandFailure(
      lines.count == 1 ? lines[0] : "the settings can't be used:\n\(lines.joined(separator: "\n"))")
  }

  // MARK: --check-config

  /// Prints the settings, or everything that is wrong with them.
  ///
  /// - Returns: the exit code.
  func check() throws -> Int32 {
    let isJSON = try ClientOptions.isJSON(arguments)
    var layers = try read()
    layers.tryOut()
    if isJSON {
      Console.print(Self.json(layers))
    } else if layers.problems.isEmpty {
      Console.printText(Self.plain(layers))
    }
    if !isJSON { for problem in layers.problems { Console.note("touchline serve: \(problem)") } }
    return layers.problems.isEmpty ? 0 : 1
  }

  private static func plain(_ layers: LayeredConfiguration) -> String {
    let rows = Setting.all.map { setting in
      (setting.key, setting.shown(in: layers.configuration), layers.source(of: setting).described)
    }
    let widths = (rows.map(\.0.count).max() ?? 0, rows.map(\.1.count).max() ?? 0)
    return rows.map { "\($0.0.padded(to: widths.0))  \($0.1.padded(to: widths.1))  \($0.2)\n" }.joined()
  }

  private static func json(_ layers: LayeredConfiguration) -> String {
    // Where a path can't be used somebody may have put the secret itself.
    let broken = Set(layers.problems.map(\.key))
    let settings = Setting.all.map { setting in
      let members: KeyValuePairs<String, String?> = [
        "value": broken.contains(setting.key) ? "null" : setting.json(in: layers.configuration),
        "source": layers.source(of: setting).json,
        "reload": String(setting.change == .reload),
      ]
      return "\(JSONWriter.quoted(setting.key)):\(JSONWriter.object(members))"
    }
    let problems = layers.problems.map { problem in
      JSONWriter.object([
        "key": problem.key.map(JSONWriter.quoted), "source": problem.source.json,
        "message": JSONWriter.quoted(problem.message), "line": JSONWriter.quoted(problem.description),
      ])
    }
    return JSONWriter.object([
      "settings": "{\(settings.joined(separator: ","))}", "problems": "[\(problems.joined(separator: ","))]",
    ])
  }
}

extension Option {
  fileprivate init(_ setting: Setting) {
    self.init(
      setting.flag, setting.placeholder, setting.longHelp, isValueOptional: setting.isFlagAlone)
  }
}

extension LayeredConfiguration.Source {
  /// For a person.
  fileprivate var described: String {
    switch self {
    case .standard: "default"
    case .file(let path, let line): "\(path):\(line)"
    case .variable(let name): "environment \(name)"
    case .flag(let name): "flag \(name)"
    }
  }

  fileprivate var json: String {
    switch self {
    case .standard: JSONWriter.object(["kind": "\"default\""])
    case .file(let path, let line):
      JSONWriter.object(["kind": "\"file\"", "name": JSONWriter.quoted(path), "line": String(line)])
    case .variable(let name):
      JSONWriter.object(["kind": "\"environment\"", "name": JSONWriter.quoted(name)])
    case .flag(let name): JSONWriter.object(["kind": "\"flag\"", "name": JSONWriter.quoted(name)])
    }
  }
}
