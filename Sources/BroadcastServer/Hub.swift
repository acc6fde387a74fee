import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import SubscriberProtocol

/// The surroundings that the hub's rules run in: a clock, a timer, chance, and a place where to wait for the disk. The server
/// gives the real ones; a test gives its own.
public struct HubEnvironment {
  /// What time it is.
  public var now: () -> Date
  /// Seconds that only grow, whatever is done to the clock; their zero has no meaning.
  public var clock: () -> Double
  /// Calls back after some seconds; the returned closure cancels.
  public var schedule: (_ seconds: Double, _ body: @escaping () -> Void) -> () -> Void
  /// Where ids come from.
  public var random: any RandomNumberGenerator
  /// Does some work of the store, on whatever thread, and comes back with what came of it; one after the other.
  public var perform:
    (_ work: @escaping @Sendable () -> StoreError?, _ done: @escaping (StoreError?) -> Void) -> Void
  /// Calls back when what comes together has come, so that it can be stored together.
  public var atEndOfTurn: (_ body: @escaping () -> Void) -> Void

  /// Makes an environment. By default seconds are those of `now`, and the store's work is done at once, and the caller waits
  /// for it.
  public init(
    now: @escaping () -> Date,
    clock: (() -> Double)? = nil,
    schedule: @escaping (_ seconds: Double, _ body: @escaping () -> Void) -> () -> Void,
    random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
    perform:
      @escaping (
        _ work: @escaping @Sendable () -> StoreError?, _ done: @escaping (StoreError?) -> Void
      ) -> Void = { work, done in done(work()) },
    atEndOfTurn: @escaping (_ body: @escaping () -> Void) -> Void = { $0() }
  ) {
    self.now = now
    self.clock = clock ?? { now().timeIntervalSinceReferenceDate }
    self.schedule = schedule
    self.random = random
    self.perform = perform
    self.atEndOfTurn = atEndOfTurn
  }
}

/// Who hears of pressed buttons: a session of the channel's publisher.
protocol IntentListener: AnyObject {
  func hear(_ intent: IntentFrame)
}

/// Holds the channels and carries messages from publishers to subscribers.
///
/// The rules are ``Channel``'s; the hub gives them the time, stores what was promised before it is answered, and hands
/// deliveries to the fan-out. It is used from one thread, the loop's.
final class Hub {
  var environment: HubEnvironment
  /// To the main loop's own subscribers.
  let fanOut: FanOut
  /// The loops that have the other subscribers; nil with one loop alone.
  var loops: DeliveryLoops?
  /// Told of a channel that was deleted.
  var deleted: (ChannelRoom) -> Void = { _ in }
  let writer: StoreWriter
  /// What is counted of everything that happens here.
  let metrics = ServerMetrics()
  private let store: any ChannelStore
  let log: ServerLog
  private(set) var rooms: [ChannelID: ChannelRoom] = [:]
  private var aliases: [ChannelAlias: ChannelRoom] = [:]
  private var roomsOfApp: [BundleID: [ChannelRoom]] = [:]
  /// Channels that are being stored: their aliases are taken, and they count.
  private var comingAliases: Set<ChannelAlias> = []
  private var comingOfApp: [BundleID: Int] = [:]

  /// Whether the server stops: publishers are refused with `Shutdown`.
  var isShuttingDown = false

  /// Whether what has to be kept could be kept until now.
  var isStoreWorking: Bool { writer.isWorking }

  /// Channels that there may be.
  private let mostChannels: Int

  /// - Parameter loop: the loop of the connections, see ``FanOut``.
  init(
    store: any ChannelStore, environment: HubEnvironment, log: ServerLog, loop: EventLoop? = nil,
    mostChannels: Int = Limits.channels
  ) {
    fanOut = FanOut(loop: loop)
    self.mostChannels = mostChannels
    self.store = store
    self.environment = environment
    self.log = log
    writer = StoreWriter(store: store, environment: environment, log: log, metrics: metrics)
    writer.onRecovery = { [weak self] in self?.storeWorksAgain() }
  }

  var now: Date { environment.now() }

  /// A name for a request that came without one.
  func newRequestID() -> RequestID { RequestID.random(using: &environment.random) }

  // MARK: Channels

  /// Takes over what the store holds.
  func load() throws(StoreError) {
    for stored in try store.load() {
      var state = stored.state
      // A channel that stores nothing doesn't write each sequence number down, so it starts a new epoch: its
      // subscribers learn that they may have missed something, which is the truth.
      if stored.definition.settings.storagePolicy == .none { state.position = newPosition() }
      add(StoredChannel(id: stored.id, definition: stored.definition, state: state))
    }
    forgetAnswersLater()
  }

  /// Makes a channel. It is there when it was stored, and only then.
  ///
  /// - Parameter done: is called with the channel, or with `AliasTaken`, `CannotCreateChannelConfig` when the app has its
  ///   limit of channels, `ServiceUnavailable` when the store fails.
  func create(
    _ definition: ChannelDefinition, _ done: @escaping (Result<ChannelRoom, AnswerError>) -> Void
  ) {
    let app = definition.settings.app
    if let refusal = refusal(of: definition) { return done(.failure(refusal)) }
    let id = ChannelID.random(using: &environment.random)
    let stored = StoredChannel(id: id, definition: definition, state: ChannelState(position: newPosition()))
    if let alias = definition.alias { comingAliases.insert(alias) }
    comingOfApp[app, default: 0] += 1
    writer.write(.create(stored), isPromised: true) { [self] error in
      if let alias = definition.alias { comingAliases.remove(alias) }
      comingOfApp[app] = comingOfApp[app].flatMap { $0 > 1 ? $0 - 1 : nil }
      guard error == nil else { return done(.failure(.storeFailed)) }
      log(
        .info, .channelCreated,
        "channel \(id)\(definition.alias.map { " (\($0))" } ?? "") created for \(app)",
        ["channel": id.base64, "alias": definition.alias?.name, "app": app.identifier])
      done(.success(add(stored)))
    }
  }

  private func refusal(of definition: ChannelDefinition) -> AnswerError? {
    if isShuttingDown { return AnswerError(.shuttingDown) }
    if let alias = definition.alias, aliases[alias] != nil || comingAliases.contains(alias) {
      return AnswerError(
        status: 409, reason: "AliasTaken",
        message: "the alias \"\(alias)\" belongs to another channel; choose another name")
    }
    let app = definition.settings.app
    guard (roomsOfApp[app]?.count ?? 0) + (comingOfApp[app] ?? 0) < Limits.channelsPerApp else {
      return AnswerError(
        Refusal(
          .cannotCreateChannelConfig,
          "the app \(app) has \(Limits.channelsPerApp) channels, the most that are allowed; delete one first")
      )
    }
    guard rooms.count + comingOfApp.values.reduce(0, +) < mostChannels else {
      return AnswerError(
        Refusal(
          .cannotCreateChannelConfig,
          "the server has \(mostChannels) channels of all apps, the most that it can hold; delete one first")
      )
    }
    return writer.takesPromises ? nil : .storeFailed
  }

  /// Deletes a channel; its subscribers are told when the store has forgotten it.
  ///
  /// - Parameter done: is called with what went wrong.
  func delete(_ room: ChannelRoom, _ done: @escaping (AnswerError?) -> Void) {
    guard !room.isBeingDeleted, writer.takesPromises else { return done(.storeFailed) }
    room.isBeingDeleted = true
    writer.write(.delete(room.id), isPromised: true, undo: { room.isBeingDeleted = false }) { [self] error in
      guard error == nil else { return done(.storeFailed) }
      var channel = room.channel
      room.carryOut(channel.finish(at: now))
      rooms[room.channel.id] = nil
      if let alias = room.definition.alias { aliases[alias] = nil }
      roomsOfApp[room.channel.settings.app]?.removeAll { $0 === room }
      room.close()
      deleted(room)
      log(
        .info, .channelDeleted,
        "channel \(room.channel.id)\(room.definition.alias.map { " (\($0))" } ?? "") deleted",
        ["channel": room.id.base64, "alias": room.definition.alias?.name])
      done(nil)
    }
  }

  @discardableResult
  private func add(_ stored: StoredChannel) -> ChannelRoom {
    let room = ChannelRoom(
      channel: Channel(
        id: stored.id, alias: stored.definition.alias, settings: stored.definition.settings,
        state: stored.state, now: now),
      definition: stored.definition, hub: self)
    rooms[stored.id] = room
    if let alias = stored.definition.alias { aliases[alias] = room }
    roomsOfApp[stored.definition.settings.app, default: []].append(room)
    // A window that was open when the last process ended goes on.
    room.scheduleAdvance()
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
  /// - Parameter isSeen: whether whoever asks may know of a channel.
  /// - Throws: `BadChannelId` for text that can be neither, `ChannelNotRegistered` for an unknown one, with a near
  ///   alias where there is one that may be known.
  func room(named name: String, among isSeen: (ChannelRoom) -> Bool) throws(Refusal) -> ChannelRoom {
    if let room = knownRoom(name) { return room }
    if ChannelAlias(name) != nil {
      let seen = aliases.count <= Limits.suggestedWords ? aliases.filter { isSeen($0.value) } : [:]
      let near = seen.keys.map(\.name)
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

  /// The channel with this id, if there is one.
  func room(_ id: ChannelID) -> ChannelRoom? { rooms[id] }

  /// The channel with this id or alias, if there is one.
  func knownRoom(_ name: String) -> ChannelRoom? {
    if let id = ChannelID(name), let room = rooms[id] { return room }
    return ChannelAlias(name).flatMap { aliases[$0] }
  }
}
