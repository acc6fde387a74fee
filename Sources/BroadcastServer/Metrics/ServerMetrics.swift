import BroadcastChannels

/// What is counted while the server runs, as plain numbers on the loop's thread. What can be asked for at any time, such as
/// how many channels there are, is not counted but looked at when somebody scrapes.
final class ServerMetrics {
  /// Deliveries of all channels, also of those that are gone.
  var deliveries = DeliveryCounts()

  /// Accepted publishes by what was done with each; `repeated` for a known request id.
  private(set) var publishes: [String: Int] = [:]
  /// Refused publishes by reason.
  private(set) var refusedPublishes: [String: Int] = [:]
  /// Accepted pushes to one device by what was done with each.
  private(set) var pushes: [String: Int] = [:]
  /// Refused pushes to one device by reason.
  private(set) var refusedPushes: [String: Int] = [:]
  /// Answers of the provider API, and of publish frames, by status.
  private(set) var answers: [Int: Int] = [:]
  /// Clients that were turned away, by the limit.
  private(set) var refusedClients: [String: Int] = [:]
  /// Ended sessions by close code.
  private(set) var closings: [String: Int] = [:]

  /// Seconds from a request to its answer.
  private(set) var answering = Histogram.quick
  /// Seconds that messages waited in a delivery window.
  private(set) var windowWaits = Histogram.windows
  /// Seconds from a message's being let out to the last of its subscribers, on each loop that has some.
  private(set) var fanOutSeconds = Histogram.quick
  /// Subscribers that messages were let out to, on each loop that has some.
  private(set) var fanOutSizes = Histogram.sizes
  /// Seconds of the store's transactions with a sync, because something in them was promised.
  private(set) var syncedCommits = Histogram.quick
  /// Seconds of those without.
  private(set) var otherCommits = Histogram.quick
  /// How often the store failed.
  private(set) var storeFailures = 0
  /// Seconds by which the loop was late.
  private(set) var loopLag = Histogram.quick

  // MARK: Counting

  /// A provider's request was answered.
  func answered(_ request: LoggedRequest, status: Int, _ facts: RequestFacts, seconds: Double) {
    answers[status, default: 0] += 1
    answering.observe(max(0, seconds))
    if let publication = facts.publication {
      let result = publication.result
      publishes[result.isRepetition ? "repeated" : result.outcome.rawValue, default: 0] += 1
    } else if let push = facts.push {
      pushes[push.answer.isRepetition ? "repeated" : push.answer.outcome.rawValue, default: 0] += 1
    } else if let reason = facts.refusal?.reason {
      if request.transport == "WebSocket" || request.path.hasPrefix("/4/") {
        refusedPublishes[reason, default: 0] += 1
      } else if request.path.hasPrefix("/3/") {
        refusedPushes[reason, default: 0] += 1
      }
    }
  }

  /// A message that came through a delivery window is let out.
  func waited(seconds: Double) { windowWaits.observe(seconds) }

  /// Messages went out together, and everybody was served.
  func fannedOut(_ pass: FannedOut) {
    fanOutSizes.observe(Double(pass.subscribers))
    fanOutSeconds.observe(max(0, pass.seconds))
  }

  /// The store has written something.
  func storeCommit(seconds: Double, isSynced: Bool) {
    if isSynced { syncedCommits.observe(seconds) } else { otherCommits.observe(seconds) }
  }

  /// The store could not do what it was asked for.
  func storeFailed() { storeFailures += 1 }

  /// A timer came late.
  func late(seconds: Double) { loopLag.observe(max(0, seconds)) }

  /// A client was turned away.
  func refusedClient(_ limit: ClientLimit) { refusedClients[limit.rawValue, default: 0] += 1 }

  /// A session ended. Codes that clients make up count together.
  func sessionClosed(code: UInt16?) {
    let name = code.map { Self.closeCodes.contains($0) ? String($0) : "other" } ?? "none"
    closings[name, default: 0] += 1
  }

  /// What the protocol has (docs/subscriber-protocol.md), and what browsers send.
  static let closeCodes: [UInt16] = [
    1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1011, 1012, 1013, 4001, 4003, 4004,
  ]
}

/// What turns a client away before anything else is looked at.
enum ClientLimit: String, CaseIterable {
  case descriptors, connections
  case addressConnections = "address-connections"
  case addressRequests = "address-requests"
  case addressCredentials = "address-credentials"
}
