import BroadcastChannels
import Credentials
import Foundation
import SubscriberProtocol

/// Who has which push token: registers devices, passes pushes on, and remembers the tokens that are no more.
///
/// It lives in memory: a device that comes back to a restarted server gets new tokens, which its app has to report to the
/// sender as it does after Apple's rotations.
final class PushRegistry {
  private var environment: HubEnvironment
  private var tokens: [PushToken: RegisteredToken] = [:]
  private var tokensOf: [ObjectIdentifier: Set<PushToken>] = [:]
  private var past = Newest<PushToken, PastToken>(limit: Limits.pastPushTokens)
  /// What became of the last pushes, over all tokens.
  private(set) var records = Newest<UniqueID, PushRecord>(limit: Limits.pushRecords)

  init(environment: HubEnvironment) { self.environment = environment }

  private var now: Date { environment.now() }

  // MARK: Finding

  /// How many tokens there are.
  var count: Int { tokens.count }

  /// The token that is in use, or the one that was.
  func find(_ token: PushToken) -> (current: RegisteredToken?, past: PastToken?) {
    (tokens[token], past[token])
  }

  // MARK: Devices

  /// Gives a device a token, or the one again that it proves to be its own. What waits for it comes right after `answer`.
  func register(
    _ registration: PushRegistration, for device: any RegisteredDevice, requestID: String?,
    answer: (RegisteredFrame) -> Void
  ) throws(AnswerError) {
    if let kept = registration.kept, let known = tokens[kept.token] {
      guard isSameSecret(known.secret.utf8, kept.secret.utf8) else {
        throw AnswerError(
          status: 400, reason: "WrongSecret",
          message:
            "the secret is not the one that came with this token; register without a token to get a new one")
      }
      guard known.registration.kind == registration.kind, known.registration.app == registration.app else {
        throw AnswerError(
          status: 400, reason: RefusalReason.badRequestParams.rawValue,
          message:
            "the token was registered as the \(known.registration.kind) token of \(known.registration.app)")
      }
      if known.device !== device { try checkRoom(for: device) }
      take(known, to: device)
      answer(frame(known, replaces: nil, requestID))
      if let step = known.inbox.returned(at: now) { carryOut([step], of: known) }
      return
    }
    try checkRoom(for: device)
    guard tokens.count < Limits.pushTokens else {
      throw AnswerError(
        status: 400, reason: "TooManyTokens",
        message: "the server holds \(Limits.pushTokens) tokens, the most it can")
    }
    let kept = KeptPushToken(token: newToken(), secret: PushToken.randomHex(using: &environment.random))
    let inbox = PushInbox(
      kind: registration.kind, app: registration.app, id: ChannelID.random(using: &environment.random),
      frequentUpdates: registration.frequentUpdates, now: now)
    let entry = RegisteredToken(registration, kept, inbox: inbox)
    tokens[kept.token] = entry
    take(entry, to: device)
    answer(frame(entry, replaces: registration.kept?.token, requestID))
  }

  private func checkRoom(for device: any RegisteredDevice) throws(AnswerError) {
    guard (tokensOf[ObjectIdentifier(device)]?.count ?? 0) < Limits.pushTokensPerSession else {
      throw AnswerError(
        status: 400, reason: "TooManyTokens",
        message: "a session registers at most \(Limits.pushTokensPerSession) tokens; open another one")
    }
  }

  /// Gives a device another token in the place of one: senders that use the old one are told that it has expired.
  func rotate(
    _ token: PushToken, of device: any RegisteredDevice, requestID: String?
  ) throws(AnswerError) -> RegisteredFrame {
    let entry = try owned(token, device)
    retire(entry, .expiredToken, "the device has a newer token; send to that one")
    entry.token = newToken()
    tokens[entry.token] = entry
    tokensOf[ObjectIdentifier(device), default: []].insert(entry.token)
    return frame(entry, replaces: token, requestID)
  }

  /// Takes a token out of use.
  func unregister(
    _ token: PushToken, of device: any RegisteredDevice, reason: UnregisterReason
  ) throws(AnswerError) {
    let entry = try owned(token, device)
    switch reason {
    case .ended: end(entry, .expiredToken, "the activity has ended")
    case .switchedOff: end(entry, .unregistered, "the device takes no pushes to this token any more")
    }
  }

  /// Notes that a push was received, and perhaps displayed.
  func acknowledge(
    _ token: PushToken, uniqueID: String, isDisplayed: Bool, of device: any RegisteredDevice
  ) throws(AnswerError) {
    let entry = try owned(token, device)
    let id = UniqueID(text: uniqueID.lowercased())
    entry.inbox.acknowledge(id)
    guard let record = records[id], record.inbox == entry.inbox.id, record.sentAt != nil else {
      throw AnswerError(
        status: 400, reason: RefusalReason.badRequestParams.rawValue,
        message: "no push \"\(uniqueID.prefix(60))\" was sent to this token lately")
    }
    record.isAcknowledged = true
    if isDisplayed { record.isDisplayed = true }
  }

  /// A connection is gone. Its tokens wait for their device.
  func closed(_ device: any RegisteredDevice) {
    for token in tokensOf.removeValue(forKey: ObjectIdentifier(device)) ?? [] {
      guard let entry = tokens[token], entry.device === device || entry.device == nil else { continue }
      entry.device = nil
      entry.absence = environment.schedule(Limits.awayPushTokenSeconds) { [weak self, weak entry] in
        guard let self, let entry else { return }
        end(entry, .unregistered, "the device has not come back")
      }
    }
  }

  private func owned(_ token: PushToken, _ device: any RegisteredDevice) throws(AnswerError)
    -> RegisteredToken
  {
    guard let entry = tokens[token], entry.device === device else {
      throw AnswerError(
        status: 400, reason: "UnknownToken",
        message: "this session has registered no such token; register it, with its secret, first")
    }
    return entry
  }

  private func take(_ entry: RegisteredToken, to device: any RegisteredDevice) {
    if let old = entry.device, old !== device {
      tokensOf[ObjectIdentifier(old)]?.remove(entry.token)
      old.tokenMoved(entry.token)
    }
    entry.absence?()
    entry.absence = nil
    entry.device = device
    tokensOf[ObjectIdentifier(device), default: []].insert(entry.token)
  }

  private func end(_ entry: RegisteredToken, _ reason: RefusalReason, _ detail: String) {
    retire(entry, reason, detail)
    entry.window?.cancel()
    entry.absence?()
    entry.device = nil
  }

  /// The token is no more, whatever becomes of what it led to.
  private func retire(_ entry: RegisteredToken, _ reason: RefusalReason, _ detail: String) {
    tokens[entry.token] = nil
    if let device = entry.device { tokensOf[ObjectIdentifier(device)]?.remove(entry.token) }
    past.add(
      entry.token,
      PastToken(
        app: entry.inbox.app, reason: reason, detail: detail, since: now, lastAnswer: entry.inbox.lastAnswer))
  }

  private func newToken() -> PushToken { PushToken.random(using: &environment.random) }

  private func frame(_ entry: RegisteredToken, replaces: PushToken?, _ requestID: String?) -> RegisteredFrame
  {
    RegisteredFrame(
      kept: KeptPushToken(token: entry.token, secret: entry.secret), kind: entry.registration.kind,
      app: entry.registration.app, activity: entry.registration.activity, replaces: replaces,
      requestID: requestID)
  }

  // MARK: Pushes

  /// Makes a message of what a sender asked for.
  func message(
    _ payload: Payload, requestID: RequestID?, priority: Priority, expiration: Expiration, collapseID: String?
  ) -> Message {
    Message(
      uniqueID: UniqueID.random(using: &environment.random), requestID: requestID, priority: priority,
      expiration: expiration,
      payload: payload, collapseID: collapseID)
  }

  /// Takes a push in and passes on what the rules let out.
  func accept(_ message: Message, for entry: RegisteredToken) throws(Refusal) -> PushAnswer {
    let now = now
    let answer = try entry.inbox.accept(message, isConnected: entry.device != nil, at: now)
    if answer.isRepetition {
      // The rules know a channel's outcomes; whether the device was there then is in the record.
      guard let first = records[answer.uniqueID] else { return answer }
      return answer.repeating(first.answered)
    }
    records.add(
      message.uniqueID,
      PushRecord(
        message, to: entry.inbox, outcome: answer.outcome, acceptedAt: now))
    carryOut(answer.steps, of: entry)
    scheduleAdvance(entry)
    return answer
  }

  /// Lets out what waits in the windows: the server stops.
  func shutDown() {
    for entry in tokens.values where entry.inbox.nextDeadline != nil {
      carryOut(entry.inbox.finish(isConnected: entry.device != nil, at: now), of: entry)
      scheduleAdvance(entry)
    }
  }

  private func carryOut(_ steps: [PushStep], of entry: RegisteredToken) {
    for step in steps {
      let record = records[step.uniqueID]
      record?.outcome = step.outcome
      guard let delivery = step.delivery else { continue }
      record?.sentAt = delivery.sent
      entry.device?.push(OutgoingPush(delivery, token: entry.token, inbox: entry.inbox.id))
    }
  }

  /// What became of a push on its device's connection.
  func pushed(_ id: UniqueID, _ fate: PushFate) {
    switch fate {
    case .written: records[id]?.isWritten = true
    case .superseded: records[id]?.outcome = .superseded
    }
  }

  private func scheduleAdvance(_ entry: RegisteredToken) {
    let deadline = entry.inbox.nextDeadline
    guard entry.window?.deadline != deadline else { return }
    entry.window?.cancel()
    entry.window = nil
    guard let deadline else { return }
    // No window is longer, but for a clock that was set back.
    let seconds = min(Limits.windowSeconds, max(0, deadline.timeIntervalSince(now)))
    let cancel = environment.schedule(seconds) { [weak self, weak entry] in
      guard let self, let entry else { return }
      entry.window = nil
      carryOut(entry.inbox.advance(to: self.now, isConnected: entry.device != nil), of: entry)
      scheduleAdvance(entry)
    }
    entry.window = (deadline, cancel)
  }
}
