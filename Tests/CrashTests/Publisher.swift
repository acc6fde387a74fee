import Foundation
import TestSupport

/// A promise that was not kept.
struct Broken: Error, CustomStringConvertible {
  let description: String

  static func unless(_ holds: Bool, _ text: @autoclosure () -> String) throws {
    if !holds { throw Broken(description: text()) }
  }
}

/// A publisher with channels of its own. It writes down what it was answered, and holds the server to it after a crash.
///
/// `@unchecked` is safe: a publisher is used by one thread at a time, its own while the server runs, the test's after it has
/// joined that.
final class Publisher: @unchecked Sendable {
  /// A channel that only this publisher publishes to.
  final class Channel {
    let id: String
    let isStored: Bool
    /// What was accepted at priority 10: each is a delivery, and costs a token.
    var accepted = 0
    var newest: Int?
    /// What a repetition of the last requests is answered.
    var answers: [(publication: Publication, uniqueID: String)] = []
    /// Alerts that wait in the window.
    var waiting: [String] = []
    /// Alerts that were let out.
    var letOut = 0
    var epoch: String?
    /// What was asked when the server went down.
    var unknown: Publication?

    init(id: String, isStored: Bool) {
      self.id = id
      self.isStored = isStored
    }
  }

  static let capacity = 1_000_000
  private var random: SplitMix64
  private var number = 0
  private var channels: [Channel] = []
  private var alive: Set<String> = []
  private var gone: [String] = []
  private var unknownDeletion: String?
  /// Answers that were checked after a crash.
  private(set) var promises = 0

  init(seed: UInt64) { random = SplitMix64(seed: seed) }

  private func definition(_ policy: Int) -> String {
    #"{"app":"com.example.crash","message-storage-policy":\#(policy),"budget":{"capacity":\#(Self.capacity),"refill-per-hour":0,"over-budget":"reject"},"publish-rate":{"per-second":null},"windows":{"5":60,"1":60}}"#
  }

  /// Makes the channels that stay.
  func begin(_ client: Client) throws {
    for policy in [1, 0, 1] {
      let answer = try client.create(definition(policy))
      try Broken.unless(answer.status == 201, "a channel was answered \(answer.status) \(answer.body)")
      let id = try Client.object(answer.body)["id"] as? String ?? ""
      channels.append(Channel(id: id, isStored: policy == 1))
    }
  }

  // MARK: Under load

  /// Publishes, creates and deletes until the server is gone.
  ///
  /// - Parameter answered: called after each answer.
  func run(port: UInt16, answered: () -> Void) throws {
    let client = Client(port: port)
    do {
      while true {
        switch random.below(20) {
        case 0: try create(client)
        case 1: try delete(client)
        case 2: try repeatRequest(client)
        case 3, 4, 5: try wait(client)
        default: try publish(client, to: channels[random.below(2)])
        }
        answered()
      }
    } catch is Client.Gone {}
  }

  private func create(_ client: Client) throws {
    let answer = try client.create(definition(random.below(2)))
    try Broken.unless(answer.status == 201, "a channel was answered \(answer.status) \(answer.body)")
    if let id = try Client.object(answer.body)["id"] as? String { alive.insert(id) }
  }

  private func delete(_ client: Client) throws {
    guard let id = alive.sorted().first else { return }
    unknownDeletion = id
    let answer = try client.delete(id)
    try Broken.unless(answer.status == 204, "a deletion was answered \(answer.status) \(answer.body)")
    unknownDeletion = nil
    alive.remove(id)
    gone.append(id)
  }

  private func publication(isAlert: Bool = false) -> Publication {
    number += 1
    return Publication(number: number, requestID: UUID().uuidString.lowercased(), isAlert: isAlert)
  }

  private func publish(_ client: Client, to channel: Channel) throws {
    let publication = publication()
    channel.unknown = publication
    try accept(
      publication, try client.publish(publication, to: channel.id, stored: channel.isStored), channel)
  }

  /// An alert into the window of the channel for that. A window that is full would end early.
  private func wait(_ client: Client) throws {
    let channel = channels[2]
    guard channel.waiting.count < 12 else { return }
    let publication = publication(isAlert: true)
    channel.unknown = publication
    try accept(publication, try client.publish(publication, to: channel.id, stored: true), channel)
  }

  /// Publishes to the channel that stores, or to the other one, which must work.
  func publish(_ client: Client, _ isStored: Bool) throws {
    try publish(client, to: channels[isStored ? 0 : 1])
  }

  /// Publishes to the channel that stores. What is refused has not happened.
  func tryToPublish(_ client: Client) throws -> Client.Answer {
    let publication = publication()
    let answer = try client.publish(publication, to: channels[0].id, stored: true)
    if answer.status == 200 { try accept(publication, answer, channels[0]) }
    return answer
  }

  private func accept(_ publication: Publication, _ answer: Client.Answer, _ channel: Channel) throws {
    try Broken.unless(answer.status == 200, "\(publication) was answered \(answer.status) \(answer.headers)")
    let uniqueID = answer.headers["apns-unique-id"] ?? ""
    channel.answers = channel.answers.suffix(19) + [(publication, uniqueID)]
    channel.unknown = nil
    if publication.isAlert {
      channel.waiting.append(uniqueID)
    } else {
      channel.accepted += 1
      channel.newest = publication.number
    }
  }

  private func repeatRequest(_ client: Client) throws {
    for channel in channels { try repeatOne(client, channel, channel.answers.count - 1) }
  }

  private func repeatOne(_ client: Client, _ channel: Channel, _ index: Int) throws {
    guard index >= 0 else { return }
    let (publication, uniqueID) = channel.answers[index]
    let answer = try client.publish(publication, to: channel.id, stored: channel.isStored)
    try Broken.unless(
      answer.status == 200 && answer.headers["touchline-repeated"] == "true"
        && answer.headers["apns-unique-id"] == uniqueID,
      "\(publication) was repeated and answered \(answer.status) \(answer.headers), not \(uniqueID)")
    promises += 1
  }

  // MARK: After a crash

  /// Holds the server to everything that it answered before it went down.
  func check(port: UInt16) throws {
    let client = Client(port: port)
    try checkChannels(client)
    for channel in channels.prefix(2) { try check(channel, client, port) }
    try checkWindow(client, port)
    for channel in channels {
      for index in channel.answers.indices { try repeatOne(client, channel, index) }
    }
  }

  private func checkChannels(_ client: Client) throws {
    let list = try client.send("GET", "/v1/channels")
    let listed = try Client.object(list.body)["channels"] as? [[String: Any]] ?? []
    let ids = Set(listed.compactMap { $0["id"] as? String })
    if let id = unknownDeletion {
      if !ids.contains(id) {
        alive.remove(id)
        gone.append(id)
      }
      unknownDeletion = nil
    }
    try Broken.unless(alive.isSubset(of: ids), "channels are lost: \(alive.subtracting(ids))")
    try Broken.unless(ids.isDisjoint(with: gone), "deleted channels are back: \(ids.intersection(gone))")
    promises += alive.count + gone.count
  }

  private func check(_ channel: Channel, _ client: Client, _ port: UInt16) throws {
    guard let told = try client.channel(channel.id) else {
      throw Broken(description: "channel \(channel.id) is lost")
    }
    let quota = (told["budget"] as? [String: Any])?["priority-10"] as? [String: Any]
    let spent = Self.capacity - (quota?["remaining"] as? Int ?? 0)
    let happened = spent - channel.accepted
    try Broken.unless(
      happened == 0 || (happened == 1 && channel.unknown != nil),
      "\(spent) tokens are spent, not \(channel.accepted)\(channel.unknown == nil ? "" : " or one more")")
    if channel.isStored {
      let epoch = told["epoch"] as? String
      try Broken.unless(channel.epoch == nil || channel.epoch == epoch, "a new epoch")
      channel.epoch = epoch
      try Broken.unless(told["seq"] as? Int == spent, "seq is \(told["seq"] ?? "?") after \(spent) messages")
      let newest = happened == 1 ? channel.unknown?.number : channel.newest
      if let newest {
        let message = try Listener(port: port, channel: channel.id).message()
        let state = (message["aps"] as? [String: Any])?["content-state"] as? [String: Any]
        try Broken.unless(
          state?["n"] as? Int == newest && message["seq"] as? Int == spent,
          "\(message) is stored, not number \(newest)")
        // Who has it already doesn't get it again: the next one comes first.
        let late = try Listener(port: port, channel: channel.id, since: "\(epoch ?? ""):\(spent)")
        try settle(channel, client, happened: happened == 1)
        try publish(client, to: channel)
        let next = try late.message()
        try Broken.unless(next["seq"] as? Int == spent + 1, "after resuming at \(spent), \(next) came")
      }
    }
    try settle(channel, client, happened: happened == 1)
    promises += channel.accepted > 0 ? 3 : 0
  }

  /// Sends what was under way again: it happens once, whether it did before or not.
  private func settle(_ channel: Channel, _ client: Client, happened: Bool) throws {
    guard let publication = channel.unknown else { return }
    let answer = try client.publish(publication, to: channel.id, stored: channel.isStored)
    try Broken.unless(
      (answer.headers["touchline-repeated"] == "true") == happened,
      "\(publication) \(happened ? "happened" : "did not happen") and was answered \(answer.headers)")
    try accept(publication, answer, channel)
  }

  /// What waited goes on waiting, and comes out before what is newer, each once and in its order.
  private func checkWindow(_ client: Client, _ port: UInt16) throws {
    let channel = channels[2]
    let known = channel.waiting
    let unknown = channel.unknown
    if let unknown {
      let answer = try client.publish(unknown, to: channel.id, stored: true)
      try accept(unknown, answer, channel)
    }
    let told = try client.channel(channel.id)
    let before = told?["seq"] as? Int
    try Broken.unless(
      before == channel.accepted + channel.letOut,
      "seq is \(before ?? -1), not \(channel.accepted + channel.letOut)")
    let listener = try Listener(
      port: port, channel: channel.id, since: "\(told?["epoch"] ?? ""):\(before ?? 0)")
    try publish(client, to: channel)
    let last = channel.answers.last?.uniqueID
    var heard: [String] = []
    while heard.last != last { heard.append(try listener.message()["unique-id"] as? String ?? "") }
    try Broken.unless(
      heard.dropLast().elementsEqual(channel.waiting),
      "\(heard.dropLast()) came out of the window, not \(channel.waiting)")
    promises += known.count
    channel.letOut += channel.waiting.count
    channel.waiting = []
  }
}
