import BroadcastChannels
import BroadcastClient
import Foundation
import MatchScripts
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// The publisher of one channel. It sends when a message is due, whatever became of those before: a slow server makes
/// latencies longer, not messages fewer.
struct SoakPublisher {
  /// A request that is to be answered, once or twice.
  struct Request {
    let publication: Publication
    /// Its frame, which is sent again when the connection is lost before the answer.
    let frame: [UInt8]
    /// How many answers are still to come.
    var expected: Int
    var accepted = 0
    let sentAt: Double
    let due: Double

    var number: Int { publication.number }
  }

  /// What latencies are counted from.
  struct Published {
    let due: Double
    let sentAt: Double
    /// Whether it has priority 10: within its budget it is delivered at once.
    let isImmediate: Bool
    /// What the server did with it; nil before its answer.
    var outcome: Outcome?
  }

  private let defined: ChannelDefinition?
  private let soak: SoakSettings
  let channel: Int
  /// What is to be sent.
  var plan: PublicationPlan
  var next: Publication?
  /// The channel's id.
  private(set) var id = ""
  /// The channel's rules, as the server has them.
  private(set) var settings = ChannelSettings(app: .scores)
  var connection: Swarm.ID?
  var isOpen = false
  /// What became due while there was no connection.
  var waiting: [Publication] = []
  /// How long it stays away when its connection is gone. Its messages are due, whatever happens to it.
  var wait = ReturnWait(longest: 0.4)
  var requests: [String: Request] = [:]
  /// The request that was accepted last.
  var accepted: (id: String, request: Request)?
  /// The newest messages, by their numbers.
  var recent: [Int: Published] = [:]
  /// Deliveries of those that came before the answer: when each was let out, and when it arrived.
  var unanswered: [Int: [(letOut: Double, at: Double)]] = [:]
  /// What is left of the budget, in percent; nil before the first answer, or without a limit.
  var budgetLeft: Double?

  /// Messages whose latencies are counted: more than come in while one is under way.
  static let remembered = 4_096
  /// Messages that wait at most, for a connection or for an answer: those of half a minute at the highest rate.
  static let mostWaiting = 32_768
  /// Deliveries of a message that wait for its answer at most: it takes milliseconds.
  static let mostUnanswered = 16_384

  init(_ channel: Int, _ options: SoakOptions) {
    self.channel = channel
    soak = options.settings
    defined = options.script?.definition
    plan = PublicationPlan(channel: channel, settings: options.settings, script: options.script?.script)
    next = plan.next()
  }

  func definition(named name: String) -> ChannelDefinition {
    let alias = ChannelAlias(name)
    guard var definition = defined else { return soak.definition(ofChannel: channel, alias: alias) }
    definition.alias = alias
    return definition.running(at: soak.speed)
  }

  mutating func isRegistered(as information: ChannelInformation) {
    id = information.id
    settings = information.definition.settings
  }

  /// What is counted of a message has been counted.
  mutating func forget(_ number: Int) {
    recent[number] = nil
    unanswered[number] = nil
  }
}

extension SoakRun {
  func planPublication(_ channel: Int) {
    guard let next = publishers[channel].next else { return }
    agenda.add(.publish(channel: channel), at: start + next.due)
  }

  func connectPublisher(_ channel: Int) {
    guard publishers[channel].connection == nil, let swarm else { return }
    verifier.observe(.publisherWants(channel: channel), at: now)
    publishers[channel].wait.connects()
    do throws(RequestFailure) {
      publishers[channel].connection = swarm.connect(
        path: "/v1/events", tag: channel, headers: try access.headers())
    } catch {
      return fail("\(error)")
    }
    if publishers[channel].connection == nil {
      agenda.add(.reconnectPublisher(channel: channel), at: now + 0.2)
    }
  }

  func publisherOpened(_ channel: Int, _ connection: Swarm.ID) {
    publishers[channel].isOpen = true
    publishers[channel].wait.succeeded()
    verifier.observe(.publisherConnected(channel: channel), at: now)
    // As a publisher does that has lost the answer to its last request.
    if settings.faults, let last = publishers[channel].accepted, publishers[channel].requests[last.id] == nil
    {
      count(fault: "asked again")
      publishers[channel].requests[last.id] = last.request
    }
    // Whether these were accepted nobody knows: the same request again is published once, whatever became of the server.
    for (id, request) in publishers[channel].requests.sorted(by: { $0.value.number < $1.value.number }) {
      publishers[channel].requests[id]?.expected = 1
      swarm?.send(request.frame, on: connection)
    }
    let waiting = publishers[channel].waiting
    publishers[channel].waiting = []
    for publication in waiting { send(publication, channel, at: now) }
  }

  func publisherClosed(_ channel: Int, at now: Double) {
    publishers[channel].connection = nil
    publishers[channel].isOpen = false
    let wait = publishers[channel].wait.next(using: &random)
    agenda.add(.reconnectPublisher(channel: channel), at: now + wait)
  }

  func publish(_ channel: Int, at now: Double) {
    guard let publication = publishers[channel].next else { return }
    publishers[channel].next = publishers[channel].plan.next()
    planPublication(channel)
    let waiting = publishers[channel].waiting.count + publishers[channel].requests.count
    guard waiting < SoakPublisher.mostWaiting else {
      return breakOff(
        "\(waiting) messages of the publisher of channel \(channel) wait for \(publishers[channel].isOpen ? "an answer" : "a connection")"
      )
    }
    if publishers[channel].isOpen {
      send(publication, channel, at: now)
    } else {
      publishers[channel].waiting.append(publication)
    }
  }

  private func send(_ publication: Publication, _ channel: Int, at now: Double) {
    guard let connection = publishers[channel].connection else { return }
    let due = start + publication.due
    let date = Date(timeIntervalSince1970: now)
    let speed = options.script == nil ? 1 : settings.speed
    let policy = publishers[channel].settings.storagePolicy
    let aps = publication.aps(sentAt: date, speed: speed)
    let expiration = publication.step.expiration(sentAt: date, speed: speed, storagePolicy: policy)
    let isEnd = publication.step.event == .end
    verifier.observe(
      .sent(
        channel: channel,
        Sent(
          number: publication.number, due: due, digest: SoakArrival.digest(aps),
          priority: publication.step.priority,
          timestamp: Int64((now + publication.step.timestampShift).rounded(.down)),
          isIrreplaceable: isEnd || publication.step.alert != nil, isEnd: isEnd,
          storedUntil: policy == .latest && expiration > 0 ? Double(expiration) : nil)), at: now)
    publishers[channel].recent[publication.number] = SoakPublisher.Published(
      due: due, sentAt: now, isImmediate: publication.step.priority == .immediate)
    publishers[channel].forget(publication.number - SoakPublisher.remembered)
    totals.published += 1
    meter.sent()
    let requestID = RequestID.random(using: &random)
    let frame = ClientFrame.publish(
      publishers[channel].id, aps: aps, priority: publication.step.priority, expiration: expiration,
      requestID: requestID)
    publishers[channel].requests[requestID.text] = SoakPublisher.Request(
      publication: publication, frame: frame, expected: publication.isSentTwice ? 2 : 1, sentAt: now, due: due
    )
    swarm?.send(frame, on: connection)
    if publication.isSentTwice {
      count(fault: "sent twice")
      swarm?.send(frame, on: connection)
    }
  }

  func publisherReceived(_ channel: Int, _ text: [UInt8], at now: Double) {
    guard let frame = try? ServerFrame.read(text) else { return }
    switch frame {
    case .published(let answer):
      guard let request = answered(answer.requestID, channel, isAccepted: true) else { return }
      verifier.observe(
        .accepted(
          channel: channel, number: request.publication.number, uniqueID: answer.uniqueID,
          outcome: answer.outcome, isRepetition: answer.isRepetition, again: request.accepted > 1), at: now)
      guard request.accepted == 1 else { return }
      countLatencies(of: request.publication.number, channel, answer.outcome)
      meter.publishing.record(now - request.due)
      totals.outcomes[answer.outcome.rawValue, default: 0] += 1
      meter.answered(answer.outcome)
      let budget = (try? JSONDocument(answer.budget.bytes))?.root["priority-10"]
      if let left = budget?["remaining"]?.number?.double, let all = budget?["limit"]?.number?.double, all > 0
      {
        publishers[channel].budgetLeft = left / all * 100
      }
    case .error(let error):
      guard let request = answered(error.requestID, channel, isAccepted: false) else { return }
      totals.refusals[error.reason, default: 0] += 1
      meter.isRefused()
      // Of two, the second may be taken where the first was not.
      guard request.expected == 0, request.accepted == 0 else { return }
      verifier.observe(
        .refused(channel: channel, number: request.publication.number, reason: error.reason), at: now)
      // An end is worth another try; anything else is out of date by then.
      guard request.publication.step.event == .end else { return }
      loop.schedule(after: (error.retryAfter ?? 0.2) + 0.02) { [weak self] in
        guard let self, stage == .running, publishers[channel].isOpen else { return }
        send(request.publication, channel, at: self.now)
      }
    case .goodbye(let seconds): publishers[channel].wait.isAsked(seconds)
    default: break
    }
  }

  /// Counts an answer, and forgets the request after its last one.
  private func answered(
    _ requestID: String?, _ channel: Int, isAccepted: Bool
  ) -> SoakPublisher.Request? {
    guard let requestID, var request = publishers[channel].requests[requestID] else { return nil }
    request.expected -= 1
    if isAccepted {
      request.accepted += 1
      publishers[channel].accepted = (requestID, request)
    }
    publishers[channel].requests[requestID] = request.expected > 0 ? request : nil
    return request
  }
}
