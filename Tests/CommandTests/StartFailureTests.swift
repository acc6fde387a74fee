// The real program where something is missing from its beginning: descriptors, a folder, room.

import ChildProcesses
import Foundation
import TestSupport
import Testing

@Suite("A start that fails", .serialized) struct StartFailureTests {
  private func shell(_ limits: String, _ arguments: String) throws -> RunningProgram {
    let touchline = try #require(Touchline.executable).path
    return try RunningProgram(
      URL(fileURLWithPath: "/bin/sh"), ["-c", "\(limits); exec \(touchline) \(arguments)"], environment: [:])
  }

  @Test("a client without descriptors says so and ends", arguments: 6...14) func client(_ count: Int)
    async throws
  {
    let program = try shell("ulimit -n \(count)", "health --server http://127.0.0.1:9")
    program.closeInput()
    let ending = try await program.ending()
    // 127 is the loader's, which finds no library then. With fewer than six libuv itself gives up.
    #expect(ending.code == 1 || ending.code == 127, "\(ending.code): \(ending.errors)")
    #expect(!ending.errors.isEmpty)
  }

  /// Nobody waits for the loops that never began: their seconds would add up to more than the test waits.
  @Test("a server that can't have all of its loops says so and ends", arguments: 6...40)
  func server(_ count: Int) async throws {
    let program = try shell(
      "ulimit -n \(count)",
      "serve --listen 127.0.0.1:0 --provider-listen off --store memory --loops 20")
    try await eventually("a server, or its end") {
      program.output.text.contains("listening on") || program.output.hasEnded ? () : nil
    }
    let isServing = program.output.text.contains("listening on")
    program.signal(SIGTERM)
    let ending = try await program.ending()
    #expect(ending.code == (isServing ? 0 : 1) || ending.code == 127, "\(ending.code): \(ending.errors)")
    #expect(!ending.errors.isEmpty)
  }

  /// Each freed block is filled with the byte by which SQLite knows a connection that failed to open.
  @Test("a store in a folder that isn't there is let go of once") func missingFolder() async throws {
    try await withFolder { folder in
      let path = folder.path("missing/channels.sqlite")
      let program = try shell(
        "export GLIBC_TUNABLES=glibc.malloc.perturb=186:glibc.malloc.tcache_count=0",
        "serve --listen 127.0.0.1:0 --provider-listen off --store '\(path)'")
      let ending = try await program.ending()
      #expect(ending.code == 1 && ending.errors.contains("it can't be opened or made"), "\(ending)")
    }
  }

  @Test("a store for which there is no room leaves nothing behind") func noRoom() async throws {
    try await withFolder { folder in
      let path = folder.path("channels.sqlite")
      let program = try shell(
        "ulimit -f 0", "serve --listen 127.0.0.1:0 --provider-listen off --store '\(path)'")
      let ending = try await program.ending()
      #expect(ending.code == 1 && ending.errors.contains("the store \(path) can't be used"), "\(ending)")
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
    }
  }
}
