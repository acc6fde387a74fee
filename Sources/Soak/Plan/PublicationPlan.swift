import BroadcastChannels
import Foundation
import MatchScripts

/// One message that a publisher is to send.
public struct Publication: Sendable {
  /// Its number in its channel, from 1; it travels in the payload, so that a delivery names what was published.
  public let number: Int
  /// When it is due, in seconds from the start of the run.
  public let due: Double
  /// What it says.
  public let step: MatchScript.Step
  /// Whether the publisher sends it twice, under the same request id.
  public let isSentTwice: Bool

  /// The `aps` object as it is sent at a moment.
  public func aps(sentAt now: Date, speed: Double = 1) -> [UInt8] {
    Array("{\"soak\":\(number),".utf8) + step.aps(sentAt: now, speed: speed).dropFirst()
  }

  /// The number that an `aps` object carries; nil for one that no soak has sent.
  public static func number(in aps: some Collection<UInt8>) -> Int? {
    let start = Array("{\"soak\":".utf8)
    guard aps.starts(with: start) else { return nil }
    let digits = aps.dropFirst(start.count).prefix { (0x30...0x39).contains($0) }
    return digits.isEmpty || digits.count > 15 ? nil : digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }
}

/// What is published into one channel, one message after the other, by seed or by a script.
public struct PublicationPlan: Sendable, IteratorProtocol {
  private let settings: SoakSettings
  private let script: MatchScript?
  private var random: SeededGenerator
  private var number = 0
  private var clock: Double = 0
  private var nextBurst: Double
  private var burstLeft = 0
  private var home = 0
  private var away = 0
  private var hasEnded = false
  private var hasStraggled = false
  /// Characters that fill up each state: some channels have large ones.
  private let padding: Int

  /// Bytes of a large state: nearly the 4 KB that Apple lets pass, so that slow readers soon have more than their sockets hold.
  private static let largeState = 3_800
  /// Seconds after the end at which a publisher that doesn't know of it sends once more: cards are ended then, and not gone.
  private static let stragglesAfter: Double = 1.5
  /// Seconds by which the timestamp of a late feed is older than it should be.
  private static let lateBy: Double = 5
  /// Seconds for which an ended card stays: long enough to be seen ended, short enough for a test.
  private static let dismissIn: Double = 2

  /// Makes a channel's plan.
  ///
  /// - Parameter script: what is played; nil to publish at the rate of the settings.
  public init(channel: Int, settings: SoakSettings, script: MatchScript? = nil) {
    self.settings = settings
    self.script = script
    random = SeededGenerator(seed: settings.seed, stream: 1_000_000 + UInt64(channel))
    nextBurst = settings.burstEvery ?? .infinity
    padding = channel % 4 >= 2 ? Self.largeState : 0
  }

  /// Seconds from the start to the last message.
  public var duration: Double { script.map { $0.duration / settings.speed } ?? settings.duration }

  /// The next message, in the order of their times; nil after the last. With faults, one follows the end.
  public mutating func next() -> Publication? {
    guard !hasEnded else { return straggler() }
    number += 1
    if let script {
      guard number <= script.steps.count else {
        hasEnded = true
        guard script.steps.last?.event != .end else { return nil }
        return Publication(number: number, due: duration, step: end(at: duration), isSentTwice: false)
      }
      let step = script.steps[number - 1]
      return Publication(
        number: number, due: step.at / settings.speed, step: step, isSentTwice: isSentTwice())
    }
    let isBurst = step(forward: random.between(0.5, 1.5) / settings.rate)
    guard clock < settings.duration else {
      hasEnded = true
      return Publication(
        number: number, due: settings.duration, step: end(at: settings.duration), isSentTwice: false)
    }
    return Publication(
      number: number, due: clock, step: update(isBurst: isBurst), isSentTwice: isSentTwice())
  }

  /// Moves the clock to the next message. A burst comes before what was next, all of it at one moment.
  private mutating func step(forward gap: Double) -> Bool {
    if burstLeft > 0 {
      burstLeft -= 1
      return true
    }
    if clock + gap >= nextBurst, let every = settings.burstEvery {
      clock = nextBurst
      nextBurst += every
      burstLeft = settings.burstSize - 1
      return true
    }
    clock += gap
    return false
  }

  private mutating func straggler() -> Publication? {
    guard settings.faults, script == nil, !hasStraggled else { return nil }
    hasStraggled = true
    number += 1
    let due = settings.duration + Self.stragglesAfter
    let step = MatchScript.Step(at: due, contentState: state(), expiresIn: 3_600, line: number)
    return Publication(number: number, due: due, step: step, isSentTwice: false)
  }

  private mutating func isSentTwice() -> Bool { settings.faults && random.chance(3) }

  private mutating func update(isBurst: Bool) -> MatchScript.Step {
    let priority: Priority
    let drawn = random.below(settings.mix.total)
    if isBurst || drawn < settings.mix.immediate {
      priority = .immediate
    } else {
      priority = drawn < settings.mix.immediate + settings.mix.considerate ? .considerate : .passive
    }
    // Those at priority 5 wait in a window, where nothing may take their place.
    let isGoal = isBurst || (priority != .passive && random.chance(10))
    let isLate = random.chance(3) && settings.faults && priority == .immediate && !isGoal
    if isGoal { if random.chance(50) { home += 1 } else { away += 1 } }
    // One in five goes stale before the next message is likely to come.
    let staleIn = settings.staleIn > 0 ? (random.chance(20) ? 1 : settings.staleIn) : nil
    return MatchScript.Step(
      at: clock, priority: priority, contentState: state(), relevanceScore: isGoal ? "100" : nil,
      alert: isGoal
        ? JSONText(compacting: "{\"title\":\"Goal\",\"body\":\"\(home)–\(away)\"}".utf8) : nil,
      staleIn: staleIn, expiresIn: 3_600, timestampShift: isLate ? -Self.lateBy : 0, line: number)
  }

  /// At priority 5, which costs no budget: a channel that drops or refuses over budget must not lose its end.
  private func end(at due: Double) -> MatchScript.Step {
    MatchScript.Step(
      at: due, event: .end, priority: .considerate, contentState: state(), dismissIn: Self.dismissIn,
      expiresIn: 3_600, line: number)
  }

  private func state() -> JSONText {
    let fill = padding > 0 ? ",\"commentary\":\"\(String(repeating: "·", count: padding / 2))\"" : ""
    return JSONText(
      compacting: "{\"home\":\(home),\"away\":\(away),\"clock\":\"\(Int(clock))″\"\(fill)}".utf8)
  }
}

extension SoakSettings {
  /// The rules of a channel. They differ by its number, so that a run meets every policy: storing or not, and demoting,
  /// dropping or refusing what is over budget.
  public func definition(ofChannel channel: Int, alias: ChannelAlias?) -> ChannelDefinition {
    let policies: [FrequencyBudget.OverBudget] = [.demote, .drop, .demote, .reject]
    let immediate = rate * Double(mix.immediate) / Double(mix.total)
    // Less than what is published at 10, and little at a time, so that a short run meets the budget, too.
    let refill = max(60, (immediate * 0.7 * 3_600).rounded())
    let capacity = max(4, Int(immediate * 2)) + (burstEvery == nil ? 0 : burstSize)
    let settings = ChannelSettings(
      app: .scores, storagePolicy: channel % 2 == 0 ? .none : .latest, frequentUpdates: true,
      budget: FrequencyBudget(
        capacity: capacity, refillPerHour: refill, overBudget: policies[(channel + channel / 4) % 4]),
      windows: DeliveryWindows(considerate: 1, passive: 2),
      publishRate: PublishRate(
        perSecond: max(20, rate * 4), burst: max(40, Int(rate * 8) + 2 * burstSize)))
    return ChannelDefinition(alias: alias, settings: settings)
  }
}
