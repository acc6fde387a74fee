import Foundation
import TestSupport
import Testing

@Suite("the server's log")
struct ServerLogTests {
  private static let unlimited =
    #"{"app": "com.example.scores", "budget": {"capacity": null}, "publish-rate": {"per-second": null}}"#

  /// Starts a server from a shell that arranges its standard error, in a folder of its own with a channel `final`.
  private func serve(
    _ shell: String, _ options: [String], _ body: (RunningProgram, String, Folder) async throws -> Void
  ) async throws {
    let executable = try #require(Touchline.executable)
    try await withFolder { folder in
      try FileManager.default.createDirectory(
        atPath: folder.path("channels"), withIntermediateDirectories: true)
      try folder.write("channels/final.json", Self.unlimited)
      let words = [
        "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", "memory", "--channels",
        "channels",
      ]
      let program = try RunningProgram(
        URL(fileURLWithPath: "/bin/bash"),
        ["-c", "cd \"$0\" && \(shell)", folder.url.path, executable.path] + words + options)
      let address = try await program.lines(1)[0].replacing("listening on ", with: "")
      try await body(program, address, folder)
      program.signal(SIGTERM)
      let ending = try await program.ending()
      #expect(ending.code == 0, "\(ending.errors)")
    }
  }

  @Test("a log that nobody reads holds up nothing")
  func fullPipe() async throws {
    // The shell holds the pipe open, and reads nothing; 64 KiB fit into it.
    try await serve(#"mkfifo log && exec 3<>log && exec "$@" 2>log"#, ["--log-level", "debug"]) {
      _, address, _ in
      let lines = String(repeating: "{\"n\":1}\n", count: 2_000)
      let publish = try await Touchline.run(
        ["publish", "final", "--lines", "--server", address], input: Array(lines.utf8))
      #expect(publish.code == 0 && publish.lines.count == 2_000, "\(publish.errors)")
    }
  }

  private struct Line: Decodable {
    let ts: Date
    let level, event, message: String
    let request, channel, remote, status: String?
  }

  @Test("as JSON it is one object a line, with the request's id")
  func json() async throws {
    let id = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
    try await serve(
      #"exec "$@""#, ["--log-format", "json", "--log-level", "debug"]
    ) { program, address, _ in
      let curl = try RunningProgram(
        URL(fileURLWithPath: "/usr/bin/curl"),
        [
          "-sS", "\(address)/4/broadcasts/apps/com.example.scores", "-H", "apns-channel-id: final",
          "-H", "apns-push-type: liveactivity", "-H", "apns-request-id: \(id)", "-H",
          "authorization: bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0.c2VjcmV0", "-d", "{}",
        ])
      _ = try await curl.ending()
      try await program.notice("\"event\":\"request\"")
      let decoder = JSONDecoder()
      decoder.dateDecodingStrategy = .custom { decoder in
        let text = try decoder.singleValueContainer().decode(String.self)
        return try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
      }
      let lines = try program.errors.lines.map { try decoder.decode(Line.self, from: Data($0.utf8)) }
      #expect(lines.contains { $0.event == "started" && $0.level == "info" })
      #expect(lines.allSatisfy { abs($0.ts.timeIntervalSinceNow) < 3_600 })
      let request = try #require(lines.first { $0.event == "request" })
      #expect(request.request == id && request.status == "400" && request.remote == "127.0.0.1")
      #expect(!program.errors.text.contains("c2VjcmV0") && !program.errors.text.contains("eyJpc3M"))
    }
  }

  @Test("under systemd's journal the lines have its levels, and no time of their own")
  func journal() async throws {
    try await serve(
      #"exec 2>log && JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@""#, []
    ) { _, _, folder in
      let lines = try await eventually("two lines of the log") {
        let text = try String(contentsOfFile: folder.path("log"), encoding: .utf8)
        let lines = text.split(separator: "\n")
        return lines.count >= 2 && text.hasSuffix("\n") ? lines : nil
      }
      #expect(lines.allSatisfy { $0.hasPrefix("<6>info ") }, "\(lines)")
    }
  }

  @Test("a server goes on when nobody takes its addresses")
  func closedOutput() async throws {
    let executable = try #require(Touchline.executable)
    try await withFolder { folder in
      let program = try RunningProgram(
        URL(fileURLWithPath: "/bin/bash"),
        [
          "-c", #"exec "$@" >&-"#, "bash", executable.path, "serve", "--listen", "127.0.0.1:0",
          "--provider-listen", "off", "--store", folder.path("channels.sqlite"),
        ])
      let line = try await program.notice(" serves 0 channels on http://127.0.0.1:")
      let address = "http://127.0.0.1:\(try #require(line.split(separator: ":").last))"
      let created = try await Touchline.run(["channel", "create", "final", "--server", address])
      #expect(created.code == 0, "\(created.errors)")
      program.signal(SIGTERM)
      #expect(try await program.ending().code == 0)
    }
  }

  /// What it opened in the place of standard output would take the result otherwise.
  @Test("a command fails when there is no standard output to print its result on")
  func closedOutputOfClients() async throws {
    let executable = try #require(Touchline.executable)
    try await withServer { server in
      let program = try RunningProgram(
        URL(fileURLWithPath: "/bin/bash"), ["-c", #"exec "$0" health >&-"#, executable.path],
        environment: ["TOUCHLINE_SERVER": server.address])
      let ending = try await program.ending()
      #expect(ending.code == 1)
      #expect(ending.errors == "touchline: standard output can't be written: Bad file descriptor\n")
    }
  }
}
