import Foundation

/// The built program.
package enum Touchline {
  /// Beside the test bundle, wherever the build put that.
  package static let executable: URL? = {
    var places = [Bundle.main.bundleURL, Bundle.main.executableURL].compactMap { $0 }
    places += Bundle.allBundles.map(\.bundleURL)
    places += CommandLine.arguments.filter { $0.contains("/") }.map { URL(fileURLWithPath: $0) }
    places.append(URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath())
    for place in places {
      var folder = place
      for _ in 0..<4 {
        let candidate = folder.appendingPathComponent("touchline")
        if isProgram(candidate) { return candidate }
        folder.deleteLastPathComponent()
      }
    }
    return nil
  }()

  private struct NotBuilt: Error, CustomStringConvertible {
    let description = "there is no built touchline beside the tests; swift build --build-tests makes it"
  }

  private static func isProgram(_ url: URL) -> Bool {
    let isFile = (try? url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile) == true
    return isFile && FileManager.default.isExecutableFile(atPath: url.path)
  }

  /// Starts a command that goes on until its end or a signal.
  package static func start(
    _ arguments: [String], environment: [String: String] = [:]
  ) throws -> RunningProgram {
    guard let executable else { throw NotBuilt() }
    return try RunningProgram(executable, arguments, environment: environment)
  }

  /// Runs a command to its end.
  package static func run(
    _ arguments: [String], input: [UInt8] = [], environment: [String: String] = [:]
  ) async throws -> Ending {
    let program = try start(arguments, environment: environment)
    program.send(input)
    program.closeInput()
    return try await program.ending()
  }
}
