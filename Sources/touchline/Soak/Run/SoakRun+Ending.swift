import BroadcastClient
import BroadcastServer
import Foundation
import Soak

/// The end of a run, in time or early: the last words of its parts, the verdict, and what is left behind.
extension SoakRun {
  func endEarly() {
    switch stage {
    case .running:
      meter.endedEarly = true
      stop()
    case .preparing, .stopping: fail("ended before its verdict")
    case .ended: break
    }
  }

  /// Ends a run that can't go on, with the verdict of what ran, which isn't good.
  func breakOff(_ reason: String) {
    guard stage != .preparing else { return fail(reason) }
    guard stage != .ended else { return }
    brokenOff = brokenOff ?? reason
    meter.endedEarly = true
    if stage == .running { stop() }
  }

  /// Lets the devices stop; the verdict follows when all of them have told everything.
  func stop() {
    sample(now, isLast: true)
    stage = .stopping
    stoppedAt = now
    for part in parts { part.end() }
    finishWhenHeard()
  }

  func finishWhenHeard() {
    guard stage == .stopping else { return }
    guard parts.allSatisfy(\.hasEnded) else {
      if now - stoppedAt > Self.patience { fail("a process of the soak doesn't end") }
      return
    }
    finish(at: now)
  }

  private func finish(at now: Double) {
    stage = .ended
    judgeWaiting(until: .infinity)
    for channel in publishers.indices { countUnanswered(channel, at: now) }
    // Nothing that came due later was done.
    verifier.finish(at: stoppedAt, isEarly: meter.endedEarly)
    let report = makeReport(at: now)
    guard let own, own.isRunning, brokenOff == nil else { return conclude(report) }
    // Not from within a step of what is closed here.
    loop.schedule(after: 0) { [self] in
      closeConnections()
      own.end(SIGTERM)
      awaitEnd(of: own, since: self.now, report)
    }
  }

  /// How the server ends belongs to the verdict.
  private func awaitEnd(of own: OwnServer, since start: Double, _ report: SoakReport) {
    guard !own.isRunning || now - start > Self.mostEnding else {
      loop.schedule(after: 0.02) { [self] in awaitEnd(of: own, since: start, report) }
      return
    }
    var report = report
    if let problem = own.badEnding { report.verdict.fail(problem) }
    conclude(report)
  }

  private func conclude(_ report: SoakReport) {
    screen.end()
    if let own, own.logLines > 0 {
      Console.note(
        "the soak's server wrote \(own.logLines) lines to its log; the last:\n\(own.lastWords.printable)")
    }
    SoakOutput.print(report)
    do {
      if let folder = options.report { try SoakOutput.write(report, to: folder) }
      outcome = .success(report.verdict.passed ? 0 : 1)
    } catch {
      outcome = .failure(CommandFailure("the report can't be written: \(error.localizedDescription)"))
    }
    leave()
  }

  func fail(_ message: String) {
    guard stage != .ended else { return }
    stage = .ended
    outcome = .failure(CommandFailure(message))
    leave()
  }

  /// On somebody else's server nothing is left behind.
  private func leave() {
    // Not from within a step of what is closed here.
    loop.schedule(after: 0) { [self] in
      closeConnections()
      guard own == nil else { return loop.stop() }
      let administration = ChannelAdministration(loop: loop, server: access)
      var left = publishers.count { !$0.id.isEmpty }
      if left == 0 { loop.stop() }
      for publisher in publishers where !publisher.id.isEmpty {
        administration.delete(publisher.id) { [loop] _ in
          left -= 1
          if left == 0 { loop.stop() }
        }
      }
    }
  }

  /// What a whole run must not leave undone.
  private var unfinished: [String] {
    var found: [String] = []
    let unsent = publishers.reduce(0) { $0 + $1.waiting.count }
    if unsent > 0 { found.append("\(unsent) messages were never sent: their publishers had no connection") }
    if questions > 0, answers == 0 {
      found.append("the server answered none of \(questions) questions about its messages")
    }
    return found
  }

  private func makeReport(at now: Double) -> SoakReport {
    let status = status()
    var totals = totals
    totals.add(status.totals)
    totals.conflated = verifier.conflated
    let latency = meter.latency.summary
    let cpu = serverWatch?.cpuSeconds ?? meter.lastServerCPU
    let server = own.map { _ in meter.serverCost(cpu: cpu, deliveries: totals.deliveries) }
    let soak = meter.soakCost(
      deliveries: totals.deliveries, lagP99: status.lagP99, lagMax: status.lagMax)
    let failures =
      (brokenOff.map { [$0] } ?? []) + (meter.endedEarly ? [] : unfinished)
      + options.conditions.compactMap { $0.failure(latency, totals, server, soak) }
    return SoakReport(
      program: "touchline \(TouchlineVersion.current)", started: start, seconds: elapsed(now),
      settings: settings, profile: options.profile?.rawValue, script: options.script?.name,
      processes: options.processes, tls: access.address.isSecure, endedEarly: meter.endedEarly,
      server: own == nil ? "\(access)" : "a server of its own, \(access)",
      verdict: SoakVerdict(verifier, failedConditions: failures), totals: totals, latency: latency,
      latencyFromSending: meter.fromSending.summary, windowLatency: meter.fromWindow.summary,
      publishLatency: meter.publishing.summary, serverCost: server, soakCost: soak, samples: meter.samples)
  }
}
