import Foundation
import TestSupport
import Testing

/// Kills the real server at random moments under load, again and again, and holds it to every answer that it gave.
///
/// `TOUCHLINE_SEED=17 TOUCHLINE_ROUNDS=1000 swift test --filter CrashTests` chooses what happens and how often. The moment of the
/// kill is counted in answers; what is under way at that moment is the machine's.
@Suite("Crashes", .serialized) struct CrashTests {
  private static let seed =
    ProcessInfo.processInfo.environment["TOUCHLINE_SEED"].flatMap { UInt64($0) }
    ?? UInt64.random(in: 0..<1_000_000)
  private static let rounds =
    ProcessInfo.processInfo.environment["TOUCHLINE_ROUNDS"].flatMap { Int($0) } ?? 50

  private final class Folder {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("touchline-crash-\(UUID())").path
    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(atPath: path) }
  }

  private func start(_ store: String) async throws -> (program: RunningProgram, port: UInt16) {
    let program = try Touchline.start([
      "serve", "--listen", "127.0.0.1:0", "--provider-listen", "off", "--store", store, "--log-level",
      "error",
    ])
    let line = try await program.lines(1)[0]
    return (program, try #require(line.split(separator: ":").last.flatMap { UInt16($0) }, "\(line)"))
  }

  @Test("what was answered with success is there after kill -9") func kill() async throws {
    print("crash rounds: TOUCHLINE_SEED=\(Self.seed) TOUCHLINE_ROUNDS=\(Self.rounds)")
    let folder = try Folder()
    let store = "\(folder.path)/channels.sqlite"
    var random = SplitMix64(seed: Self.seed)
    let publishers = (0..<3).map { Publisher(seed: Self.seed &* 31 &+ UInt64($0)) }
    let pipeliner = Pipeliner()
    for round in 0...Self.rounds {
      let (program, port) = try await start(store)
      do {
        for publisher in publishers {
          if round == 0 { try publisher.begin(Client(port: port)) } else { try publisher.check(port: port) }
        }
        if round == 0 { try pipeliner.begin(Client(port: port)) } else { try pipeliner.check(port: port) }
        guard round < Self.rounds else {
          program.signal(SIGTERM)
          #expect(try await program.ending().code == 0)
          break
        }
        try load(publishers.map { $0.run } + [pipeliner.run], port, until: 20 + random.below(400)) {
          program.signal(SIGKILL)
        }
      } catch {
        program.signal(SIGKILL)
        Issue.record("round \(round), TOUCHLINE_SEED=\(Self.seed): \(error)")
        return
      }
      _ = try await program.ending()
    }
    print("crash rounds: \(publishers.map(\.promises).reduce(pipeliner.promises, +)) promises were kept")
  }

  /// Lets all publishers go on until so many answers came; then the server is killed under them.
  private func load(
    _ publishers: [@Sendable (UInt16, () -> Void) throws -> Void], _ port: UInt16, until last: Int,
    _ kill: @escaping @Sendable () -> Void
  ) throws {
    let answers = Box(0)
    let ended = Box<[String?]>([])
    for publisher in publishers {
      Thread {
        var problem: String?
        do {
          try publisher(port) {
            answers.change {
              $0 += 1
              if $0 == last { kill() }
            }
          }
        } catch {
          problem = "\(error)"
          kill()
        }
        ended.change { $0.append(problem) }
      }.start()
    }
    try ended.wait("the publishers to notice", seconds: 60) { $0.count == publishers.count }
    if let problem = ended.value.compactMap(\.self).first { throw Broken(description: problem) }
  }
}
