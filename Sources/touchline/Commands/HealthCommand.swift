import BroadcastChannels
import BroadcastClient

/// `touchline health`: whether a server works, for whoever watches it.
enum HealthCommand: Command {
  static let usage = CommandUsage(
    name: "health",
    synopsis: "[--ready] [--timeout DURATION] [--server URL] [--format plain|json]",
    summary: "Ask a server whether it works: exit 0, or 1 with the reason.",
    options: [
      Option(
        "--ready", nil, "ask whether it should get work: not while it drains or is without its store"),
      Option("--timeout", "DURATION", "how long to wait for the answer (default 5s)"),
      ClientOptions.server,
      Option(
        "--ca", "FILE", "trust these authorities of an https server (default: the system's and our own)"),
      ClientOptions.format,
    ],
    environment: Array(ClientOptions.environmentHelp.prefix(2)),
    notes: """
      For container health checks, scripts and probes. It takes no token. A server that can't be reached, doesn't answer in
      time or says that it doesn't work is exit 1; the reason goes to standard error.
      """,
    examples: [
      "touchline health",
      "touchline health --ready --server https://scores.example.com && echo go",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.positional(0...0, "no argument")
    let isJSON = try ClientOptions.isJSON(arguments)
    let seconds = try ClientOptions.duration("--timeout", arguments) ?? 5
    guard seconds > 0, seconds <= Limits.healthCheckSeconds else {
      throw arguments.error("--timeout must be above 0 and at most \(Int(Limits.healthCheckSeconds)) s")
    }
    let client = try ClientRun()
    let check = HealthCheck(loop: client.loop, server: try ClientOptions.strangersAccess(arguments))
    check.ask(arguments.has("--ready") ? .ready : .healthy, timeout: seconds) { result in
      switch result {
      case .success(let answer):
        Console.print(isJSON ? answer : "ok")
        client.finish(0)
      case .failure(let failure): client.fail(failure.description)
      }
    }
    return try client.run()
  }
}
