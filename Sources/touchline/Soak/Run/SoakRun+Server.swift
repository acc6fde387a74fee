import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import Soak
import SubscriberSwarm

/// The soak's own server, and what is done to it.
extension SoakRun {
  /// The process of the soak's own server.
  var serverWatch: ProcessWatch? { own?.pid.map { ProcessWatch(pid: $0) } }

  func watchServer() {
    guard let own else { return }
    let isRunning = stage == .preparing || stage == .running
    if let signal = stopSignal {
      guard !own.isRunning else {
        guard isRunning, now - lastStop > Self.mostEnding else { return }
        stopSignal = nil
        return breakOff(
          own.told("still runs \(Decimals.text(Self.mostEnding, 0)) s after it was told to end"))
      }
      stopSignal = nil
      guard isRunning else { return }
      if signal == SIGTERM, let problem = own.badEnding { return breakOff(problem) }
      do throws(CommandFailure) {
        try own.start { [self] access in
          lastStop = now
          if let stop = stops.popLast() { stops.append(stop.lowerBound...max(stop.lowerBound, now)) }
          verifier.observe(.serverStopped, at: now)
          verifier.observe(.serverStarted, at: now)
          serve(access)
        }
      } catch {
        fail(error.message)
      }
    } else if own.pid != nil, !own.isRunning, isRunning {
      breakOff(own.told("ended by itself"))
    }
  }

  func restart(_ signal: Int32, at now: Double) {
    guard let own, own.isRunning else { return }
    let name = signal == SIGKILL ? SoakSample.killed : SoakSample.restarted
    count(fault: name)
    meter.mark(name)
    verifier.observe(.serverStopped, at: now)
    lastStop = now
    stops.append(now...Double.infinity)
    meter.serverStops(serverWatch)
    stopSignal = signal
    own.end(signal)
  }

  func count(fault: String) { totals.faults[fault, default: 0] += 1 }

  /// One client sends as fast as it can and reads nothing: it may lose its connection, and nobody else may notice.
  func beginFlood(at now: Double) {
    guard let headers = try? access.headers() else { return }
    count(fault: "flood of one client")
    meter.mark("flood")
    flood = swarm?.connect(path: "/v1/events", tag: Self.floodTag, headers: headers, isNarrow: true)
  }

  /// What the plan of the messages does at this moment is shown.
  func markBurst(at now: Double) {
    guard let every = settings.burstEvery, elapsed(now) < settings.duration else { return }
    meter.mark(SoakSample.burst)
    agenda.add(.burst, at: start + ((elapsed(now) / every).rounded() + 1) * every)
  }

  private func sendFlood(_ connection: Swarm.ID) {
    swarm?.setPaused(true, connection)
    let frame = Array("{\"type\":\"unsubscribe\",\"channel\":\"nobody\"}".utf8)
    for _ in 0..<5_000 { swarm?.send(frame, on: connection) }
    loop.schedule(after: 2) { [weak self] in self?.swarm?.close(connection, reset: true) }
  }

  /// Asks the server about the newest messages of each channel.
  func ask(_ now: Double) {
    let client = HTTPClient(loop: loop, tls: access.tls)
    guard let headers = try? access.headers() else { return }
    for (channel, publisher) in publishers.enumerated() {
      for question in verifier.questions(channel: channel, atMost: Self.asked, after: lastStop + 1) {
        let path = "/v1/channels/\(ChannelID.pathSegment(publisher.id))/messages/\(question.uniqueID)"
        client.send(url: access.address.http(path), headers: headers) { [self] result in
          guard case .success(let response) = result, stage != .ended,
            // A server that so many come to at once may ask them to wait.
            ![429, 503].contains(response.status)
          else { return }
          answers += 1
          waiting.append((self.now, Self.record(response, channel, question.number)))
        }
        questions += 1
      }
    }
  }

  /// What the server's answer about a message says.
  private static func record(
    _ response: HTTPClientResponse, _ channel: Int, _ number: Int
  ) -> Observation {
    guard response.status == 200, let root = (try? JSONDocument(response.body))?.root,
      let written = root["written"]?.number?.int, let acknowledged = root["acknowledged"]?.number?.int,
      let displayed = root["displayed"]?.number?.int
    else {
      return .unrecorded(channel: channel, number: number, problem: "answered \(response.status)")
    }
    return .record(
      channel: channel, number: number, written: Int(written), acknowledged: Int(acknowledged),
      displayed: Int(displayed))
  }

  /// Seconds that the server may take to end: twice what it gives its connections, and the disk, and a busy machine's.
  static let mostEnding = 12.0
  /// Messages a channel that the server is asked about.
  private static let asked = 25
}

extension SoakRun: SwarmHandler {
  func opened(_ connection: Swarm.ID, tag: Int) {
    if tag == Self.floodTag { sendFlood(connection) } else { publisherOpened(tag, connection) }
  }

  func received(_ text: ArraySlice<UInt8>, _ connection: Swarm.ID, tag: Int) {
    guard stage == .running, tag != Self.floodTag else { return }
    publisherReceived(tag, Array(text), at: now)
  }

  func closed(_ connection: Swarm.ID, tag: Int, code: UInt16?, problem: String?, wasOpen: Bool) {
    guard stage == .running, tag != Self.floodTag else { return }
    if wasOpen {
      totals.closeCodes[code.map { "\($0)" } ?? problem ?? "no code", default: 0] += 1
      verifier.observe(.publisherClosed(channel: tag, code: code.map(Int.init), problem: problem), at: now)
    }
    if !wasOpen, let refusal = SoakRefusal.message(problem) { return fail(refusal) }
    publisherClosed(tag, at: now)
  }
}
