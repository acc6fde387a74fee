// A server as an operator runs it, and the programs that deploy/ is for. What isn't installed skips its tests, with the
// reason in their output.

import Foundation
import TestSupport
import Testing

/// The project's folder.
let project = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
  .deletingLastPathComponent()

/// A file of the project, as text.
func text(of path: String) throws -> String {
  try String(contentsOf: project.appendingPathComponent(path), encoding: .utf8)
}

/// Programs that are not ours.
enum Tool {
  /// `deploy/setup --tests` unpacks it there: installing it would start a server on port 80.
  static let nginx = find("nginx", also: ".build/tools/usr/sbin")
  /// The same for Prometheus, which would begin to scrape.
  static let prometheus = find("prometheus", also: ".build/tools/usr/bin")
  static let promtool = find("promtool", also: ".build/tools/usr/bin")
  static let systemdAnalyze = find("systemd-analyze")
  static let strace = find("strace")
  static let curl = find("curl")
  static let sqlite = find("sqlite3")

  private static func find(_ name: String, also folder: String? = nil) -> URL? {
    let folders = folder.map { [project.appendingPathComponent($0).path] } ?? []
    return (folders + ["/usr/bin", "/usr/sbin", "/bin", "/sbin"])
      .map { URL(fileURLWithPath: $0).appendingPathComponent(name) }
      .first { FileManager.default.isExecutableFile(atPath: $0.path) }
  }
}

/// What a test says that can't run here.
func missing(_ name: String) -> Comment { "\(name) isn't there; deploy/setup --tests brings it" }

/// Runs a program that must succeed, and gives what it printed.
@discardableResult
func succeed(_ program: URL?, _ arguments: [String], environment: [String: String] = [:]) async throws
  -> String
{
  let program = try #require(program)
  let running = try RunningProgram(program, arguments, environment: environment)
  running.closeInput()
  let ending = try await running.ending()
  try #require(
    ending.code == 0,
    "\(program.lastPathComponent) \(arguments.joined(separator: " ")): \(ending.output)\(ending.errors)")
  return ending.output + ending.errors
}

/// A server with both ports, its own certificates, and a channel `final`.
struct DeployedServer {
  let program: RunningProgram
  let port: UInt16
  let providerPort: UInt16
  let folder: URL

  var address: String { "http://127.0.0.1:\(port)" }
  var authority: String { folder.appendingPathComponent("tls/ca.pem").path }
  var certificate: String { folder.appendingPathComponent("tls/server.pem").path }

  /// Starts it.
  ///
  /// - Parameter settings: more keys of the configuration file, as JSON members.
  init(
    in folder: URL, settings: [String] = [], options: [String] = [], environment: [String: String] = [:]
  ) async throws {
    self.folder = folder
    let file = folder.appendingPathComponent("touchline.json")
    let store = settings.contains { $0.hasPrefix("\"store\"") } ? [] : [#""store": "memory""#]
    let members = [#""listen": "127.0.0.1:0""#, #""provider-listen": "127.0.0.1:0""#] + store + settings
    try "{\(members.joined(separator: ", "))}".write(to: file, atomically: true, encoding: .utf8)
    program = try Touchline.start(
      ["serve", "--config", file.path, "--tls-dir", folder.appendingPathComponent("tls").path] + options,
      environment: environment)
    let ports = try await program.lines(2).map { line in
      try #require(line.split(separator: ":").last.flatMap { UInt16($0) }, "\(line)")
    }
    (port, providerPort) = (ports[0], ports[1])
  }

  /// Runs a client's command that must succeed.
  @discardableResult
  func command(_ arguments: String...) async throws -> String {
    let ending = try await Touchline.run(arguments, environment: ["TOUCHLINE_SERVER": address])
    try #require(ending.code == 0, "\(arguments.joined(separator: " ")): \(ending.errors)")
    return ending.output
  }

  /// How many sessions it has.
  func sessions() throws -> Int {
    let socket = try RawSocket(port: port)
    socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    let body = try #require(socket.readAll().components(separatedBy: "\r\n\r\n").last)
    let object = try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
    return try #require(object?["sessions"] as? Int, "\(body)")
  }

  /// Stops it, and checks that it ended well.
  func stop() async throws {
    program.signal(SIGTERM)
    let ending = try await program.ending()
    #expect(ending.code == 0, "\(ending.errors)")
  }
}

/// Runs a test's body with a folder of its own, and removes it.
func withFolder(_ body: (URL) async throws -> Void) async throws {
  let folder = FileManager.default.temporaryDirectory.appendingPathComponent("touchline-\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  try await body(folder)
}

/// A port that was free a moment ago, for programs that can't tell which one they took.
func freePort() throws -> UInt16 {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  defer { close(descriptor) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  let bound = withUnsafeMutablePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
    }
  }
  guard bound else { throw POSIXError(.EADDRINUSE) }
  return UInt16(bigEndian: address.sin_port)
}
