import Foundation
import TestSupport
import Testing

/// A subscriber lives through a crash of its server: it comes back, says where it stood, and gets what is newer, once.
@Suite("A subscriber and a crash", .serialized) struct ReconnectTests {
  private func start(_ store: String, port: UInt16 = 0) async throws -> (
    program: RunningProgram, port: UInt16
  ) {
    let program = try Touchline.start([
      "serve", "--listen", "127.0.0.1:\(port)", "--provider-listen", "off", "--store", store, "--log-level",
      "error",
    ])
    let line = try await program.lines(1)[0]
    return (program, try #require(line.split(separator: ":").last.flatMap { UInt16($0) }, "\(line)"))
  }

  @Test("watch goes on after kill -9, shows nothing twice, and misses nothing that was stored")
  func watch() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("touchline-watch-\(UUID())")
      .path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let store = "\(folder)/channels.sqlite"
    let (first, port) = try await start(store)
    let client = Client(port: port)
    let definition = #"{"app":"com.example.crash","message-storage-policy":1,"content-state":{"n":"Int"}}"#
    let made = try client.send(
      "POST", "/v1/channels", [], #"{"alias":"final","definition":\#(definition)}"#)
    #expect(made.status == 201)
    let watch = try Touchline.start([
      "watch", "final", "--format", "json", "--server", "http://127.0.0.1:\(port)",
    ])
    try await watch.notice("final: ")
    func publish(_ number: Int, _ client: Client) throws {
      let publication = Publication(number: number, requestID: UUID().uuidString)
      #expect(try client.publish(publication, to: "final", stored: true).status == 200)
    }
    try publish(1, client)
    try await watch.lines(1)

    // Nobody is there: what is published meanwhile is stored by the time that watch is back.
    first.signal(SIGKILL)
    _ = try await first.ending()
    let (second, _) = try await start(store, port: port)
    try publish(2, Client(port: port))
    try publish(3, Client(port: port))
    var shown: [[String: Any]] = []
    _ = try await eventually("watch to show the third message of \(watch.output.text)") {
      shown = try watch.output.lines.map { try Client.object($0) }
      return shown.last?["seq"] as? Int == 3 ? () : nil
    }
    let numbers = shown.compactMap { $0["seq"] as? Int }
    // The second was stored for a moment alone: whoever was back in time saw it.
    #expect(numbers == [1, 2, 3] || numbers == [1, 3], "\(shown)")
    #expect(Set(shown.compactMap { $0["epoch"] as? String }).count == 1)
    #expect(shown.last?["missed"] as? Int == (numbers.count == 2 ? 1 : 0))

    // Coming back without news brings nothing.
    second.signal(SIGKILL)
    _ = try await second.ending()
    let (third, _) = try await start(store, port: port)
    let again = Client(port: port)
    // The subscriber counts itself in when it is back.
    _ = try await eventually("watch to come back") {
      let told = try again.send("GET", "/v1/channels/final")
      return try Client.object(told.body)["subscribers"] as? Int == 1 ? () : nil
    }
    try publish(4, again)
    let lines = try await eventually("the fourth message") {
      let lines = try watch.output.lines.map { try Client.object($0) }
      return lines.last?["seq"] as? Int == 4 ? lines : nil
    }
    #expect(lines.count == shown.count + 1)
    for program in [watch, third] {
      program.signal(SIGTERM)
      _ = try await program.ending()
    }
  }
}
