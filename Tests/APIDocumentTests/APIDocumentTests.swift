import Foundation
import Testing

/// docs/openapi.yaml and docs/asyncapi.yaml are promises: Python programs, which know nothing of this code, hold
/// running servers to them.
@Suite(.serialized) struct APIDocumentTests {
  @Test func openAPI() throws { try check("openapi.yaml", with: "check_openapi.py") }

  @Test func asyncAPI() throws { try check("asyncapi.yaml", with: "check_asyncapi.py") }

  private func check(_ document: String, with checker: String) throws {
    let server = try DocumentedServer(store: nil)
    defer { server.stop() }
    let troubled = try DocumentedServer(store: TroubledStore())
    defer { troubled.stop() }

    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let documents = folder.appending(path: "../../docs").standardizedFileURL
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = [
      "-B", folder.appending(path: checker).path, documents.appending(path: document).path,
      "\(server.port)", "\(troubled.port)",
    ]
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    var output = ""
    while case let data = pipe.fileHandleForReading.availableData, !data.isEmpty {
      output += String(decoding: data, as: UTF8.self)
      if output.contains("shut down\n") { troubled.shutDown() }
    }
    process.waitUntilExit()
    #expect(process.terminationStatus == 0, "\(output)")
  }
}
