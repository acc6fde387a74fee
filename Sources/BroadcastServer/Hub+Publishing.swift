import BroadcastChannels
import ChannelStore
import Foundation

/// How messages get into channels and out of their windows, and what is stored before anybody hears of it.
///
/// The rules run at once, and further messages stand on what came out. With policy 1 the answer and the deliveries wait until
/// the store has the channel's new state: what was answered is never taken back, and no sequence number is seen twice. When the
/// store fails, every message that waits is undone and refused. With policy 0 the deliveries wait for nothing, and the answer
/// waits until the operating system has the spent budget and the request id; a store that fails, or a disk that stands still,
/// refuses nobody there.
extension Hub {
  // MARK: Publishing

  /// Checks and publishes into a channel, in the documented order: policy against expiration, then the payload.
  ///
  /// - Parameter done: is called once, for each channel in the order of the calls.
  func publish(
    _ payload: Result<Payload, Refusal>, requestID: RequestID?, priority: Priority, expiration: Expiration,
    into room: ChannelRoom, _ done: @escaping (Result<Publication, AnswerError>) -> Void
  ) {
    let now = now
    let before = room.channel.checkpoint
    let message: Message
    let result: PublishResult
    do throws(AnswerError) {
      message = try self.message(
        payload, requestID: requestID, priority: priority, expiration: expiration, for: room)
      do throws(Refusal) { result = try room.channel.publish(message, at: now) } catch {
        throw AnswerError(error)
      }
    } catch {
      return inOrder(room) { _ in done(.failure(error)) }
    }
    let budget = room.channel.budgetReport(at: now)
    if result.isRepetition {
      return inOrder(room) { error in
        guard error == nil else { return done(.failure(.storeFailed)) }
        let sent = room.sentSoFar
        done(.success(Publication(message, result, in: room, before: sent, budget: budget, findings: [])))
      }
    }
    guard room.isPromising else {
      let publication = settle(message, result, budget, in: room, at: now)
      return keep(room, since: before) { _ in done(.success(publication)) }
    }
    keep(room, since: before, forgetting: requestID) { [self] error in
      guard error == nil else { return done(.failure(.storeFailed)) }
      done(.success(settle(message, result, budget, in: room, at: now)))
    }
  }

  private func message(
    _ payload: Result<Payload, Refusal>, requestID: RequestID?, priority: Priority, expiration: Expiration,
    for room: ChannelRoom
  ) throws(AnswerError) -> Message {
    do throws(Refusal) {
      try room.channel.checkExpiration(expiration)
      let payload = try payload.get()
      if isShuttingDown { throw Refusal.shuttingDown }
      guard !room.isBeingDeleted, !room.isPromising || writer.takesPromises else { throw Refusal.storeFailed }
      return Message(
        uniqueID: UniqueID.random(using: &environment.random), requestID: requestID, priority: priority,
        expiration: expiration, payload: payload)
    } catch {
      throw AnswerError(error)
    }
  }

  /// What was published counts: it is recorded, and what it let out goes out.
  private func settle(
    _ message: Message, _ result: PublishResult, _ budget: BudgetReport, in room: ChannelRoom, at now: Date
  ) -> Publication {
    let sent = room.sentSoFar
    room.accepted(message, result.outcome, at: now)
    room.carryOut(result.effects)
    let findings = diagnose(message, in: room)
    return Publication(message, result, in: room, before: sent, budget: budget, findings: findings)
  }

  // MARK: Time

  /// Lets a channel's window end.
  func advance(_ room: ChannelRoom) { letOut(room) { $0.advance(to: now) } }

  /// Refuses publishers from now on, and lets out what waits in the windows, to everybody at once.
  ///
  /// - Parameter done: is called when the store has all of it, or has failed: what waited in a window then waits in the store.
  func shutDown(_ done: @escaping () -> Void) {
    isShuttingDown = true
    for room in rooms.values where room.channel.nextDeadline != nil { letOut(room) { $0.finish(at: now) } }
    writer.whenIdle { [self] in
      for room in rooms.values { room.shard.finishFanOut() }
      loops?.finishFanOut()
      done()
    }
  }

  private func letOut(_ room: ChannelRoom, _ change: (inout Channel) -> [ChannelEffect]) {
    guard !room.isBeingDeleted else { return }
    let before = room.channel.checkpoint
    let effects = change(&room.channel)
    guard room.isPromising else {
      // As with what is published: waiting for the store, these would be overtaken, and who subscribes meanwhile would get what
      // its position says that it has.
      room.carryOut(effects)
      return keep(room, since: before) { _ in }
    }
    keep(room, since: before) { error in
      if error == nil { room.carryOut(effects) }
    }
  }

  /// Windows whose time came while the store had failed end now.
  func storeWorksAgain() {
    for room in rooms.values { room.scheduleAdvance() }
  }

  /// Lets go of answers to request ids whose time has passed, in memory and in the store, now and then.
  func forgetAnswersLater() {
    _ = environment.schedule(Limits.forgetAnswersSeconds) { [weak self] in
      guard let self else { return }
      for room in rooms.values where !room.isBeingDeleted && room.channel.hasOutdatedAnswers(at: now) {
        let before = room.channel.checkpoint
        room.channel.forgetAnswers(at: now)
        keep(room, since: before) { _ in }
      }
      forgetAnswersLater()
    }
  }

  // MARK: Storing

  /// Stores what changed of a channel, and then goes on.
  ///
  /// - Parameters:
  ///   - id: the request that is forgotten when the store fails.
  ///   - finish: gets an error when the channel is back where it was. That happens with policy 1 alone.
  func keep(
    _ room: ChannelRoom, since before: Channel.Checkpoint, forgetting id: RequestID? = nil,
    _ finish: @escaping (StoreError?) -> Void
  ) {
    guard writer.isDurable, let change = room.channel.change(since: before) else {
      return inOrder(room, finish)
    }
    let save = StoreChange.save(room.id, change)
    guard room.isPromising else {
      room.group = writer.write(save, isPromised: false) { _ in finish(nil) }
      return
    }
    let after = room.channel.checkpoint
    room.hold(before)
    room.group = writer.write(save, isPromised: true, undo: { room.undo(to: before, forgetting: id) }) {
      error in
      if error == nil { room.release(after) }
      finish(error)
    }
  }

  /// Goes on when everything before it was stored. What stands on something that the store has failed to keep gets the error.
  private func inOrder(_ room: ChannelRoom, _ finish: @escaping (StoreError?) -> Void) {
    guard let group = room.group, !group.isOver else {
      room.group = nil
      return finish(nil)
    }
    let isPromised = room.isPromising
    writer.wait(for: group, isPromised: isPromised) { finish(isPromised ? $0 : nil) }
  }

  // MARK: Diagnosis

  /// Finds what would go wrong with a payload on a device, and logs each kind once a channel.
  private func diagnose(_ message: Message, in room: ChannelRoom) -> [Finding] {
    let payload = message.payload
    let body = Array("{\"aps\":".utf8) + payload.aps + Array("}".utf8)
    let findings = PayloadDiagnosis.findings(body: body, definition: room.definition, now: now)
    for finding in findings where room.isFirst(finding) {
      log.payload(
        finding, of: "channel \(room.channel.alias?.name ?? room.channel.id.base64)",
        [
          "channel": room.id.base64, "alias": room.channel.alias?.name, "kind": finding.kind,
          "request": message.requestID?.text,
        ])
    }
    return findings
  }

  /// Logs something about a channel's publisher once.
  func note(_ kind: String, _ message: String, in room: ChannelRoom) {
    guard room.isFirst(kind) else { return }
    log(
      .info, .omission, "channel \(room.channel.alias?.name ?? room.channel.id.base64): \(message)",
      ["channel": room.id.base64, "alias": room.channel.alias?.name])
  }
}
