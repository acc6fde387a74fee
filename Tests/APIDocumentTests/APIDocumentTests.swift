import ChildProcesses
import Foundation
import TestSupport
import Testing

/// docs/openapi.yaml and docs/asyncapi.yaml are promises: Python programs, which know nothing of this code, hold
/// running servers to them.
///
/// Both wait more than they work, for other programs and for what takes seconds to happen: they run side by side, and hold
/// up no other test.
@Suite struct APIDocumentTests {
  @Test func openAPI() async throws { try await check("openapi.yaml", with: "check_openapi.py") }

  @Test func asyncAPI() async throws { try await check("asyncapi.yaml", with: "check_asyncapi.py") }

  private func check(_ document: String, with checker: String) async throws {
    let (status, output) = try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try Self.run(document, checker) }) }
    }
    #expect(status == .exited(0), "\(output)")
  }

  /// Runs a checker against three servers of its own, and gives how it ended and what it printed.
  private static func run(_ document: String, _ checker: String) throws -> (ChildProcess.Ending, String) {
    let server = try DocumentedServer()
    let troubled = try DocumentedServer(store: TroubledStore())
    let access = try AccessFolder()
    let guarded = try DocumentedServer(access: access)
    try access.write(port: guarded.port, tlsPort: #require(guarded.tlsPort))
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let documents = folder.appending(path: "../../docs").standardizedFileURL
    let program = try Program(
      "/usr/bin/python3",
      [
        "-B", folder.appending(path: checker).path, documents.appending(path: document).path,
        "\(server.port)", "\(troubled.port)", access.handover,
      ])
    var output = ""
    var isKeyWithdrawn = false
    while case let data = program.read(), !data.isEmpty {
      output += String(decoding: data, as: UTF8.self)
      if output.contains("shut down\n") { troubled.shutDown() }
      if output.contains("withdraw\n"), !isKeyWithdrawn {
        isKeyWithdrawn = true
        try access.withdrawKey()
        guarded.reload()
      }
    }
    let ending = program.ending()
    for server in [server, troubled, guarded] { try server.stop() }
    return (ending, output)
  }
}
