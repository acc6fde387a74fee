import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import SubscriberProtocol

/// The surroundings that the hub's rules run in: a clock, a timer and chance. The server gives the real ones; a test
/// gives its own.
public struct HubEnvironment {
  /// What time it is.
  public var now: () -> Date
  /// Calls back after some seconds; the returned closure cancels.
  public var schedule: (_ seconds: Double, _ body: @escaping () -> Void) -> () -> Void
  /// Where ids come from.
  public var random: any RandomNumberGenerator

  /// Makes an environment.
  public init(
    now: @escaping () -> Date,
    schedule: @escaping (_ seconds: Double, _ body: @escaping () -> Void) -> () -> Void,
    random: any RandomNumberGenerator = SystemRandomNumberGenerator()
  ) {
    self.now = now
    self.schedule = schedule
    self.random = random
  }
}

/// Who receives a channel: a session with a connection behind it.
protocol Subscriber: AnyObject {
  /// What deliveries may be written to directly.
  var connection: Connection? { get }
  /// Takes a delivery, now or when the connection has room again.
  func deliver(_ broadcast: Broadcast)
  /// Takes what a pass has from a number on. The socket took the first `taken` bytes of it already.
  func deliver(_ pass: FanOutPass, from next: Int, taken: Int)
  /// Its place in the room's table has changed.
  func moved(to place: Int, in room: ChannelRoom)
  /// The channel was deleted: nothing more will come.
  func channelDeleted(_ room: ChannelRoom)
}

/// Who hears of pressed buttons: a session of the channel's publisher.
protocol IntentListener: AnyObject {
  func hear(_ intent: IntentFrame)
  /// The channel was deleted: nothing more will come.
  func channelDeleted(_ room: ChannelRoom)
}

/// Holds the channels and carries messages from publishers to subscribers.
///
/// The rules are ``Channel``'s; the hub gives them the time, stores what was promised before it is answered, and hands
/// deliveries to the fan-out. It is used from one thread, the loop's.
final class Hub {
  private(set) var environment: HubEnvironment
  let fanOut: FanOut
  /// What is counted of everything that happens here.
  let metrics = ServerMetrics()
  private let store: any ChannelStore
  private let log: ServerLog
  private var rooms: [ChannelID: ChannelRoom] = [:]
  private var aliases: [ChannelAlias: ChannelRoom] = [:]
  private var roomsOfApp: [BundleID: [ChannelRoom]] = [:]

  /// Whether the server stops: publishers are refused with `Shutdown`.
  private(set) var isShuttingDown = false

  /// - Parameter loop: the loop of the connections, see ``FanOut``.
  init(
    store: any ChannelStore, environment: HubEnvironment, log: ServerLog, loop: EventLoop? = nil
  ) {
    fanOut = FanOut(loop: loop)
    self.store = store
    self.environment = environment
    self.log = log
  }

  var now: Date { environment.now() }

  /// A name for a request that came without one.
  func newRequestID() -> RequestID { RequestID.random(using: &environment.random) }

  // MARK: Channels

  /// Takes over what the store holds.
  func load() throws(StoreError) {
    for stored in try store.load() {
      // A channel that stores nothing doesn't write each sequence number down, so it starts a new epoch: its
      // subscribers learn that they may have missed something, which is the truth.
      let position = stored.definition.settings.storagePolicy == .latest ? stored.position : newPosition()
      add(stored, at: position)
    }
  }

  /// Makes a channel.
  ///
  /// - Throws: `AliasTaken`, `CannotCreateChannelConfig` when the app has its limit of channels, `ServiceUnavailable`
  ///   when the store fails.
  func create(_ definition: ChannelDefinition) throws(AnswerError) -> ChannelRoom {
    if isShuttingDown {
      throw AnswerError(Refusal(.shutdown, "the server is shutting down; try again later"))
    }
    if let alias = definition.alias, aliases[alias] != nil {
      throw AnswerError(
        status: 409, reason: "AliasTaken",
        message: "the alias \"\(alias)\" belongs to another channel; choose another name")
    }
    let app = definition.settings.app
    guard (roomsOfApp[app]?.count ?? 0) < Limits.channelsPerApp else {
      throw AnswerError(
        Refusal(
          .cannotCreateChannelConfig,
          "the app \(app) has \(Limits.channelsPerApp) channels, the most that are allowed; delete one first")
      )
    }
    let id = ChannelID.random(using: &environment.random)
    let stored = StoredChannel(id: id, definition: definition, position: newPosition(), newest: nil)
    do throws(StoreError) {
      try store.create(stored)
    } catch {
      throw unavailable(error)
    }
    log(
      .info, .channelCreated, "channel \(id)\(definition.alias.map { " (\($0))" } ?? "") created for \(app)",
      ["channel": id.base64, "alias": definition.alias?.name, "app": app.identifier])
    return add(stored, at: stored.position)
  }

  /// Deletes a channel; its subscribers are told.
  func delete(_ room: ChannelRoom) throws(AnswerError) {
    do throws(StoreError) {
      try store.delete(room.channel.id)
    } catch {
      throw unavailable(error)
    }
    var channel = room.channel
    room.carryOut(channel.finish(at: now))
    rooms[room.channel.id] = nil
    if let alias = room.definition.alias { aliases[alias] = nil }
    roomsOfApp[room.channel.settings.app]?.removeAll { $0 === room }
    room.close()
    log(
      .info, .channelDeleted,
      "channel \(room.channel.id)\(room.definition.alias.map { " (\($0))" } ?? "") deleted",
      ["channel": room.id.base64, "alias": room.definition.alias?.name])
  }

  @discardableResult
  private func add(_ stored: StoredChannel, at position: StreamPosition) -> ChannelRoom {
    let room = ChannelRoom(
      channel: Channel(
        id: stored.id, alias: stored.definition.alias, settings: stored.definition.settings,
        position: position,
        stored: stored.newest, now: now),
      definition: stored.definition, hub: self)
    rooms[stored.id] = room
    if let alias = stored.definition.alias { aliases[alias] = room }
    roomsOfApp[stored.definition.settings.app, default: []].append(room)
    return room
  }

  private func newPosition() -> StreamPosition {
    StreamPosition(epoch: StreamPosition.randomEpoch(using: &environment.random), sequence: 0)
  }

  // MARK: Finding

  /// All channels, in the order of their creation for each app.
  var allRooms: [ChannelRoom] {
    roomsOfApp.sorted { $0.key.identifier < $1.key.identifier }.flatMap(\.value)
  }

  /// The channels of an app, in the order of their creation.
  func rooms(of app: BundleID) -> [ChannelRoom] { roomsOfApp[app] ?? [] }

  /// How many channels there are.
  var channelCount: Int { rooms.count }

  /// Finds a channel by its id or alias.
  ///
  /// - Throws: `BadChannelId` for text that can be neither, `ChannelNotRegistered` for an unknown one, with a near
  ///   alias where there is one.
  func room(named name: String) throws(Refusal) -> ChannelRoom {
    if let room = knownRoom(name) { return room }
    if ChannelAlias(name) != nil {
      let near = aliases.count <= Limits.suggestedWords ? aliases.keys.map(\.name) : []
      throw Refusal(
        .channelNotRegistered,
        "no channel has the id or alias \"\(name)\"\(Suggestion.phrase(for: name, among: near))")
    }
    if ChannelID(name) != nil {
      throw Refusal(.channelNotRegistered, "no channel has the id \"\(name)\"; was it deleted?")
    }
    // A "+" that was not percent-encoded in a URL arrives as a blank.
    let hint = name.contains { " %".contains($0) } ? "; in a URL, percent-encode + / =" : ""
    throw Refusal(.badChannelID, "\"\(name)\" is no channel id (base64 with padding) and no alias\(hint)")
  }

  /// The channel with this id or alias, if there is one.
  func knownRoom(_ name: String) -> ChannelRoom? {
    if let id = ChannelID(name), let room = rooms[id] { return room }
    return ChannelAlias(name).flatMap { aliases[$0] }
  }

  // MARK: Publishing

  /// Checks and publishes into a channel, in the documented order: policy against expiration, then the payload.
  func publish(
    _ payload: Result<Payload, Refusal>, requestID: RequestID?, priority: Priority, expiration: Expiration,
    into room: ChannelRoom
  ) throws(AnswerError) -> Publication {
    let message: Message
    do throws(Refusal) {
      try room.channel.checkExpiration(expiration)
      message = Message(
        uniqueID: UniqueID.random(using: &environment.random), requestID: requestID, priority: priority,
        expiration: expiration, payload: try payload.get())
    } catch {
      throw AnswerError(error)
    }
    let before = room.sentSoFar
    let result = try publish(message, into: room)
    let findings = result.isRepetition ? [] : diagnose(message.payload, in: room)
    return Publication(message, result, in: room, before: before, findings: findings)
  }

  /// Publishes into a channel.
  ///
  /// What has to be durable is stored before the channel's new state counts: when the store fails, nothing has
  /// happened and the publisher is told to try again.
  private func publish(_ message: Message, into room: ChannelRoom) throws(AnswerError) -> PublishResult {
    if isShuttingDown {
      throw AnswerError(Refusal(.shutdown, "the server is shutting down; try again later"))
    }
    let now = now
    let before = room.channel.checkpoint
    let result: PublishResult
    do throws(Refusal) { result = try room.channel.publish(message, at: now) } catch {
      throw AnswerError(error)
    }
    do throws(StoreError) {
      try keep(room.channel, since: before)
    } catch {
      room.channel.restore(before, forgetting: message.requestID)
      throw unavailable(error)
    }
    settle(message, result, in: room, at: now)
    return result
  }

  private func settle(_ message: Message, _ result: PublishResult, in room: ChannelRoom, at now: Date) {
    if !result.isRepetition { room.accepted(message, result.outcome, at: now) }
    room.carryOut(result.effects)
  }

  /// Lets a channel's window end.
  func advance(_ room: ChannelRoom) { letOut(room) { $0.advance(to: now) } }

  /// Refuses publishers from now on, and lets out what waits in the windows, to everybody at once.
  func shutDown() {
    isShuttingDown = true
    for room in rooms.values where room.channel.nextDeadline != nil { letOut(room) { $0.finish(at: now) } }
    for room in rooms.values { room.finishFanOut() }
  }

  private func letOut(_ room: ChannelRoom, _ change: (inout Channel) -> [ChannelEffect]) {
    let before = room.channel.checkpoint
    let effects = change(&room.channel)
    do throws(StoreError) {
      try keep(room.channel, since: before)
    } catch {
      // The messages were answered 2xx already: those who are connected get them all the same.
      log(
        .error, .store, "\(error); the newest message of channel \(room.channel.id) is not stored",
        ["channel": room.id.base64])
    }
    room.carryOut(effects)
  }

  private func keep(_ channel: Channel, since before: Channel.Checkpoint) throws(StoreError) {
    guard channel.settings.storagePolicy == .latest, channel.position != before.position else { return }
    let isNew = channel.stored?.position != before.stored?.position
    try store.save(channel.id, position: channel.position, newest: isNew ? channel.stored : nil)
  }

  private func unavailable(_ error: StoreError) -> AnswerError {
    metrics.storeFailed()
    log(.error, .store, "\(error)")
    return AnswerError(
      Refusal(.serviceUnavailable, "the server can't store this now; try again later", retryAfter: 1))
  }

  // MARK: Diagnosis

  /// Finds what would go wrong with a payload on a device, and logs each kind once a channel.
  private func diagnose(_ payload: Payload, in room: ChannelRoom) -> [Finding] {
    let body = Array("{\"aps\":".utf8) + payload.aps + Array("}".utf8)
    let findings = PayloadDiagnosis.findings(body: body, definition: room.definition, now: now)
    for finding in findings where room.isFirst(finding) {
      log(
        .warning, .payload,
        "channel \(room.channel.alias?.name ?? room.channel.id.base64): \(Redaction.text(finding.key)) \(Redaction.text(finding.message)) [\(finding.kind); further cases are not logged]",
        ["channel": room.id.base64, "alias": room.channel.alias?.name, "kind": finding.kind])
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
