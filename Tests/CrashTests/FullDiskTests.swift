import ChildProcesses
import Foundation
import TestSupport
import Testing

/// The real server on a disk that is full: what has to be kept is refused, everything else goes on, and so does the server when
/// there is room again.
@Suite("A full disk", .serialized) struct FullDiskTests {
  private static let isRoot = geteuid() == 0

  private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
    "touchline-full-\(UUID())"
  ).path

  init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

  @Test("no file may grow any more: prlimit --fsize") func limited() async throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try await survive("\(folder)/channels.sqlite") { program in
      // Less than the log has already.
      try Self.run("prlimit", "--pid", "\(program)", "--fsize=40000:")
    } makeRoom: { program in
      try Self.run("prlimit", "--pid", "\(program)", "--fsize=1000000000:")
    }
  }

  @Test("a small file system is full", .enabled(if: isRoot, "mounting one needs root")) func small()
    async throws
  {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    do { try Self.run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder) } catch {
      print("skipped: no file system can be mounted here (\(error))")
      return
    }
    defer { try? Self.run("umount", "-l", folder) }
    let ballast = "\(folder)/ballast"
    try await survive("\(folder)/channels.sqlite") { _ in
      // As large as it goes.
      _ = FileManager.default.createFile(atPath: ballast, contents: Data())
      let handle = try #require(FileHandle(forWritingAtPath: ballast))
      while (try? handle.write(contentsOf: Data(count: 4_096))) != nil {}
      try? handle.close()
    } makeRoom: { _ in
      try FileManager.default.removeItem(atPath: ballast)
    }
  }

  private func survive(
    _ store: String, fill: (Int32) throws -> Void, makeRoom: (Int32) throws -> Void
  ) async throws {
    let program = try Touchline.start([
      "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", store,
    ])
    let line = try await program.lines(1)[0]
    let port = try #require(line.split(separator: ":").last.flatMap { UInt16($0) })
    let client = Client(port: port)
    let publisher = Publisher(seed: 1)
    try publisher.begin(client)
    for number in 0..<20 { try publisher.publish(client, number.isMultiple(of: 2)) }

    try fill(program.processIdentifier)
    // The log has some room of its own left, perhaps; then nothing is taken any more.
    var refusal: Client.Answer?
    for _ in 0..<2_000 where refusal == nil {
      let answer = try publisher.tryToPublish(client)
      if answer.status != 200 { refusal = answer }
    }
    let refused = try #require(refusal, "the disk took everything")
    #expect(refused.status == 503 && refused.body.contains("ServiceUnavailable"))
    #expect(refused.headers["retry-after"] == "1" && refused.headers["apns-unique-id"] == nil)
    for _ in 0..<20 {
      #expect(try publisher.tryToPublish(client).status == 503)
      // What is stored nowhere goes on.
      try publisher.publish(client, false)
    }
    #expect(try client.create(#"{"app":"com.example.crash"}"#).status == 503)
    #expect(try client.send("GET", "/healthz").status == 200)
    #expect(program.errors.lines.filter { $0.contains("the store failed") }.count == 1)

    try makeRoom(program.processIdentifier)
    _ = try await program.notice("the store works again")
    for _ in 0..<5 { #expect(try publisher.tryToPublish(client).status == 200) }
    try publisher.publish(client, true)

    program.signal(SIGKILL)
    _ = try await program.ending()
    let second = try Touchline.start([
      "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", store,
    ])
    let again = try await second.lines(1)[0]
    try publisher.check(port: try #require(again.split(separator: ":").last.flatMap { UInt16($0) }))
    second.signal(SIGTERM)
    #expect(try await second.ending().code == 0)
  }

  private struct Failed: Error {
    let ending: ChildProcess.Ending
  }

  private static func run(_ arguments: String...) throws {
    let ending = try Program("/usr/bin/env", arguments).ending()
    guard ending == .exited(0) else { throw Failed(ending: ending) }
  }
}
