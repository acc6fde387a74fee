import EventLoop
import Foundation
import Soak

/// `touchline soak`: thousands of simulated activities, faults, and a verdict.
enum SoakCommand: Command {
  static let usage = CommandUsage(
    name: "soak", synopsis: "[--profile NAME] [OPTIONS]",
    summary: "Put thousands of simulated activities on channels, and verify the rules.",
    options: [
      Option(
        "--profile", "NAME",
        "smoke (20 s), match (a script at speed), kick-off, goal (bursts) or overnight; options win over it"),
      Option("--channels", "N", "channels, each with a publisher (default 4)"),
      Option("--subscribers", "N", "simulated activities, spread over the channels (default 200)"),
      Option("--rate", "R", "messages a second into each channel (default 2)"),
      Option("--script", "FILE", "play a match script into each channel instead"),
      Option("--speed", "N", "how many times faster than real the script is played (default 1)"),
      Option("--duration", "D", "how long, such as 30s, 10m or 8h (default 60s)"),
      Option("--ramp", "D", "the time over which the subscribers arrive (default 5s)"),
      Option("--mix", "WEIGHTS", "how often each priority is chosen (default 10=6,5=3,1=1)"),
      Option("--churn", "PCT", "percent of the subscribers that are replaced in a minute (default 10)"),
      Option("--slow", "PCT", "percent that stop reading now and then (default 2)"),
      Option("--offline", "PCT", "percent that go offline now and then, and resume (default 5)"),
      Option("--stale-in", "D", "from a message to its stale date; 0 for none (default 30s)"),
      Option(
        "--restart-server", "N", "restart the soak's own server so often, every other time with SIGKILL"),
      Option("--no-faults", nil, "cut no connections, let no clock jump, send nothing twice, flood nothing"),
      Option(
        "--processes", "N",
        "spread the subscribers over so many processes; one more judges (default 1: all in one)"),
      Option("--server", "URL", "a server that runs already, on this machine (default: a server of its own)"),
      Option("--tls", nil, "let the soak's own server speak TLS: https and wss"),
      Option("--allow-remote", "HOST", "let --server be another machine: name its host again"),
    ] + ClientOptions.access.dropFirst() + [
      Option("--seed", "N", "make the same choices again (default: another one each time; it is printed)"),
      Option("--report", "DIR", "write report.json and report.html there"),
      Option(
        "--fail-on", "LIST",
        "fail also beyond these: p50=T, p90=T, p99=T, p99.9=T, max=T, rss=MB, failed-connections=N, bottleneck"
      ),
      Option("--part", nil, "be one of the processes of --processes: what a soak starts, not a person"),
      ParentProcess.option,
    ],
    notes: """
      Every subscriber runs the rules of a real activity: what it shows, when it is stale, how it ends. What it received
      and showed is held against what the publishers sent: order and gaps, conflation only for the slow and never of an
      alert or an end, budgets and windows, stale dates, the newest state after coming back, nothing after the end or a
      dismissal, acknowledgements, and the bytes themselves; that every publish is answered, and rightly; that whoever wants
      to be subscribed is, within 10 s, on a channel that exists, and is not cut off while it reads. A violation is printed
      with its seed, channel, seq and time, and some of each rule when there are many.

      Conditions of --fail-on: p50 to p99.9 and max are latencies such as 50ms or 1s; rss is what the soak's own server
      takes at most, in MB; failed-connections is a count, without those that failed because the soak had stopped its own
      server; bottleneck, without a number, is met when the soak itself was too slow. A latency condition fails where nothing was delivered.

      With --allow-remote the clocks of both machines must agree: what came when is judged. A soak that finds them apart
      breaks off.

      Exit 0: everything held. 1: a violation, a condition of --fail-on, a process that ended by itself or not as it
      should, or nothing checked. 2: the command line makes no sense. Ctrl-C ends early, with the verdict of what ran.
      docs/soak-report.schema.json describes report.json.
      """,
    examples: [
      "touchline soak --profile smoke",
      "touchline soak --subscribers 5000 --duration 30m --restart-server 2 --report soak",
      "touchline soak --script Channels/nba-finals-2016.match.jsonl --speed 300 --subscribers 1000",
      "touchline soak --subscribers 10000 --processes 2 --tls",
      "touchline soak --server http://127.0.0.1:8080 --seed 17 --fail-on p99=50ms",
      "touchline soak --server https://127.0.0.1:8443 --key keys/AuthKey_ABC123DEFG.p8",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    if arguments.has("--part") { return try SoakPart.run(arguments) }
    let options = try SoakOptions(arguments)
    Console.endsWithReader.withLock { $0 = false }
    if let folder = options.report { try SoakOutput.prepare(folder) }
    try checkDescriptors(options)
    let run = try SoakRun(options)
    return try run.run()
  }

  private static func checkDescriptors(_ options: SoakOptions) throws(CommandFailure) {
    EventLoop.makeRoomForDescriptors()
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    // The server has them all, and is started by this process where it is the soak's own.
    let clients = options.server == nil ? options.settings.subscribers : options.share
    let wanted = clients + options.settings.channels + 64
    guard limit.rlim_cur >= rlim_t(wanted) else {
      throw CommandFailure(
        "\(options.settings.subscribers) subscribers need \(wanted) descriptors, and a process may open \(limit.rlim_cur); raise the hard limit (ulimit -Hn), or take fewer"
      )
    }
  }
}
