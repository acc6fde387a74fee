import BroadcastChannels
import ChannelStore
import Foundation
import TestSupport

/// What a store must hold, by a test's own record: channels in their order, as text that can be compared.
struct Ledger {
  private(set) var channels: [StoredChannel] = []

  mutating func apply(_ batch: StoreBatch) {
    for change in batch.changes { apply(change) }
  }

  private mutating func apply(_ change: StoreChange) {
    switch change {
    case .create(let channel): channels.append(channel)
    case .delete(let id): channels.removeAll { $0.id == id }
    case .define(let id, let definition, let levels):
      channels = channels.map { channel in
        guard channel.id == id else { return channel }
        var state = channel.state
        if let levels { (state.budget, state.rate) = (levels.budget, levels.rate) }
        return StoredChannel(id: id, definition: definition, state: state)
      }
    case .save(let id, let change):
      channels = channels.map { channel in
        guard channel.id == id else { return channel }
        var state = channel.state
        state.apply(change)
        return StoredChannel(id: id, definition: channel.definition, state: state)
      }
    }
  }

  func after(_ batch: StoreBatch) -> Ledger {
    var copy = self
    copy.apply(batch)
    return copy
  }

  var text: String { Self.text(channels) }

  static func text(_ channels: [StoredChannel]) -> String {
    channels.map { channel in
      let state = channel.state
      let level = { (level: TokenBucket.Level?) in
        level.map { "\($0.tokens) at \($0.asOf.timeIntervalSince1970)" } ?? "full"
      }
      let message = { (message: Message) in
        "\(message.uniqueID) \(message.priority) \(message.expiration) \(String(decoding: message.payload.aps, as: UTF8.self))"
      }
      return """
        \(channel.id) \(channel.definition.alias?.name ?? "-") \(channel.definition.json)
          \(state.position), budget \(level(state.budget)), rate \(level(state.rate))
          newest \(state.newest.map { "\($0.position) \($0.sent.timeIntervalSince1970) \(message($0.message))" } ?? "none")
          waiting until \(state.deadline?.timeIntervalSince1970 ?? 0): \(state.waiting.map(message))
          answered \(state.answers.map { "\($0.number) \($0.requestID) \($0.uniqueID) \($0.outcome) \($0.at.timeIntervalSince1970)" })
        """
    }.joined(separator: "\n")
  }
}

/// Batches by chance: channels come, move on and go.
struct Batches {
  var random: SplitMix64
  private var made = 0

  init(seed: UInt64) { random = SplitMix64(seed: seed) }

  private mutating func number() -> Int {
    made += 1
    return made
  }

  /// A batch for a store that holds what the ledger says.
  mutating func next(_ ledger: Ledger, isPromised: Bool) throws -> StoreBatch {
    var batch = StoreBatch()
    if isPromised, ledger.channels.count < 2 || random.chance(15) {
      batch.add(.create(try channel()), isPromised: true)
    }
    var channels = ledger.channels
    if isPromised, channels.count > 4, random.chance(20) {
      batch.add(.delete(channels.remove(at: random.below(channels.count)).id), isPromised: true)
    }
    for channel in channels where batch.isEmpty || random.chance(40) {
      batch.add(.save(channel.id, try change(of: channel.state)), isPromised: isPromised)
    }
    return batch
  }

  private mutating func channel() throws -> StoredChannel {
    let number = number()
    let padding = String(repeating: "x", count: random.below(3_000))
    let json =
      #"{"app":"com.example.scores","message-storage-policy":1,"attributes-type":"Match","attributes":{"name":"\#(padding)"}}"#
    return StoredChannel(
      id: ChannelID.random(using: &random),
      definition: try ChannelDefinition(file: Array(json.utf8), alias: ChannelAlias("channel-\(number)")),
      state: ChannelState(position: StreamPosition(epoch: "e\(number)", sequence: 0)))
  }

  private mutating func change(of state: ChannelState) throws -> ChannelChange {
    let position = StreamPosition(epoch: state.position.epoch, sequence: state.position.sequence + 1)
    let level = { (number: Int) in
      TokenBucket.Level(tokens: Double(number) / 7, asOf: Date(timeIntervalSince1970: Double(number)))
    }
    var newest: Delivery?
    if random.chance(60) {
      newest = Delivery(message: try message(), position: position, sent: Date(timeIntervalSince1970: 1.5))
    }
    var waiting: [Message]?
    if random.chance(30) { waiting = try (0..<random.below(4)).map { _ in try message() } }
    let last = state.answers.last?.number ?? -1
    let answers = (0..<random.below(4)).map { index in
      AnsweredRequest(
        number: last + 1 + index, requestID: RequestID.random(using: &random),
        uniqueID: UniqueID(text: "u\(number())"), outcome: .windowed, at: Date(timeIntervalSince1970: 2.25))
    }
    let forgets = random.chance(10) && !state.answers.isEmpty
    return ChannelChange(
      position: position, budget: level(number()), rate: random.chance(50) ? level(number()) : nil,
      deadline: waiting?.isEmpty == false ? Date(timeIntervalSince1970: 9) : nil, newest: newest,
      waiting: waiting, answers: answers,
      firstAnswer: forgets ? state.answers[state.answers.count / 2].number : 0, forgetsAnswers: forgets)
  }

  private mutating func message() throws -> Message {
    let number = number()
    let padding = String(repeating: "y", count: random.below(random.chance(20) ? 4_500 : 200))
    let aps =
      #"{"timestamp":\#(number),"event":"update","content-state":{"n":\#(number),"text":"\#(padding)"}}"#
    return Message(
      uniqueID: UniqueID(text: "u\(number)"), requestID: nil, priority: .considerate, expiration: .at(99),
      payload: try Payload(body: Array("{\"aps\":\(aps)}".utf8)))
  }
}
