import BroadcastChannels
import Foundation
import LiveActivities
import MatchScripts

/// A whole match on virtual time: a script goes through a channel's rules and one device, without a server, in a blink.
///
/// The three state machines are the same that the server and `touchline watch` run. Time jumps from one thing that happens
/// to the next: a message of the script, the end of a delivery window, a deadline of the device.
public struct Rehearsal {
  /// Something that happened, in the channel or on the device.
  public struct Event: Sendable {
    /// Seconds from the start.
    public let at: Double
    /// What it was: a change of the activity, or what the channel did with a message.
    public let cause: String
    /// The activity's state then.
    public let state: LiveActivity.State
    /// What the activity shows then.
    public let contentState: JSONText?
    /// The script's line that it belongs to; nil for what time alone did.
    public let line: Int?
    /// The alert that lit the screen.
    public let alert: Alert?
    /// What else there is to say about it.
    public let note: String?
  }

  /// What a presentation showed at a moment.
  public struct Moment: Sendable {
    /// Seconds from the start.
    public let at: Double
    /// The activity then.
    public let activity: DeviceActivity
  }

  /// The script.
  public let script: MatchScript
  /// The definition that it runs by.
  public let definition: ChannelDefinition
  /// What happened, in order.
  public private(set) var events: [Event] = []
  /// What was asked to be shown.
  public private(set) var moments: [Moment] = []
  /// Messages that were left when the card was gone.
  public private(set) var unsent = 0
  /// The sizes of the payloads in bytes, with their lines.
  public private(set) var sizes: [(bytes: Int, line: Int)] = []

  private static let name = "rehearsal"
  /// Virtual time zero unless one is asked for: a whole Unix second, the same in every run.
  public static let standardStart = Date(timeIntervalSince1970: 1_800_000_000)

  private let start: Date
  private var channel: Channel
  private var device: Device
  private var random = SystemRandomNumberGenerator()
  private var lines: [UniqueID: Int] = [:]
  private var looks: [Double]

  /// Runs a script.
  ///
  /// - Parameters:
  ///   - definition: the rules and what the app shows.
  ///   - settings: the device's; its limits and budgets.
  ///   - looks: moments, in seconds, at which the presentations are recorded.
  ///   - start: the date of virtual time zero, cut to a whole second as timestamps are. It matters to what counts from
  ///     or to a date inside the content state.
  /// - Throws: why the activity can't start.
  public init(
    _ script: MatchScript, definition: ChannelDefinition, settings: DeviceSettings = DeviceSettings(),
    looks: [Double] = [], start: Date = Self.standardStart
  ) throws(StartError) {
    self.start = Date(timeIntervalSince1970: start.timeIntervalSince1970.rounded(.down))
    self.script = script
    self.definition = definition
    self.looks = looks.sorted()
    channel = Channel(
      id: ChannelID.random(using: &random), alias: definition.alias, settings: definition.settings,
      position: StreamPosition(epoch: "rehearsal", sequence: 0), now: self.start)
    device = Device(settings: settings)
    try device.start(Self.name, definition: definition, at: self.start)
    run()
  }

  private var activity: LiveActivity? { device[Self.name]?.activity }
  private var isOver: Bool { activity?.state == .dismissed }

  private mutating func run() {
    for (index, step) in script.steps.enumerated() {
      let now = start.addingTimeInterval(step.at)
      pass(until: now)
      if isOver {
        unsent = script.steps.count - index
        break
      }
      publish(step, at: now)
    }
    pass(until: .distantFuture)
    while let look = looks.first {
      looks.removeFirst()
      record(look)
    }
  }

  // MARK: Time

  /// Passes deadlines in their order, as long as the card is there.
  private mutating func pass(until end: Date) {
    while !isOver, let next = [channel.nextDeadline, device.nextDeadline].compactMap({ $0 }).min(),
      next <= end
    {
      look(until: next)
      carryOut(channel.advance(to: next), at: next)
      record(device.advance(to: next), line: nil)
    }
    if end < .distantFuture { look(until: end) }
  }

  private mutating func look(until now: Date) {
    while let look = looks.first, start.addingTimeInterval(look) < now {
      looks.removeFirst()
      record(look)
    }
  }

  private mutating func record(_ look: Double) {
    if let activity = device[Self.name] { moments.append(Moment(at: look, activity: activity)) }
  }

  // MARK: Messages

  private mutating func publish(_ step: MatchScript.Step, at now: Date) {
    let aps = step.aps(sentAt: now)
    let body = Array("{\"aps\":".utf8) + aps + Array("}".utf8)
    sizes.append((body.count, step.line))
    let payload: Payload
    do throws(PayloadError) {
      guard body.count <= Limits.broadcastPayloadBytes else {
        note("rejected", step.line, "PayloadTooLarge: the payload is \(body.count) bytes", at: now)
        return
      }
      payload = try Payload(body: body)
    } catch {
      note("rejected", step.line, error.refusal.description, at: now)
      return
    }
    let seconds = step.expiration(sentAt: now, storagePolicy: definition.settings.storagePolicy)
    let message = Message(
      uniqueID: UniqueID.random(using: &random), requestID: nil, priority: step.priority,
      expiration: Expiration(unixSeconds: seconds) ?? .once, payload: payload)
    lines[message.uniqueID] = step.line
    do throws(Refusal) {
      let result = try channel.publish(message, at: now)
      if result.outcome != .delivered { note(result.outcome.rawValue, step.line, nil, at: now) }
      carryOut(result.effects, at: now)
    } catch {
      note("rejected", step.line, error.description, at: now)
    }
  }

  private mutating func carryOut(_ effects: [ChannelEffect], at now: Date) {
    for effect in effects {
      switch effect {
      case .supersede(let message): note("superseded", lines[message.uniqueID], nil, at: now)
      case .deliver(let delivery):
        let line = lines[delivery.message.uniqueID]
        let changes = device.receive(
          delivery.message.payload, priority: delivery.message.priority, position: delivery.position,
          for: Self.name, at: now)
        record(changes, line: line)
      }
    }
  }

  // MARK: Recording

  private mutating func record(_ changes: [Device.Change], line: Int?) {
    for change in changes {
      switch change.kind {
      case .activity(let data):
        events.append(
          Event(
            at: seconds(data.at), cause: data.cause.rawValue, state: data.state,
            contentState: data.contentState,
            line: line, alert: nil, note: nil))
      case .deferred(let until, let isOverBudget):
        let why = isOverBudget ? "the device's budget is spent" : "grouped"
        let wait = until < .distantFuture ? " until \(DurationText.clock(seconds(until)))" : ""
        note("deferred", line, "\(why); waits\(wait)", at: change.at)
      case .alert(let alert):
        events.append(
          Event(
            at: seconds(change.at), cause: "alert", state: activity?.state ?? .active,
            contentState: activity?.contentState, line: line, alert: alert, note: nil))
      case .confirmed: break
      }
    }
  }

  private mutating func note(_ cause: String, _ line: Int?, _ note: String?, at now: Date) {
    events.append(
      Event(
        at: seconds(now), cause: cause, state: activity?.state ?? .active,
        contentState: activity?.contentState,
        line: line, alert: nil, note: note))
  }

  private func seconds(_ date: Date) -> Double { date.timeIntervalSince(start) }

  /// The wall-clock date of a moment, for what ticks by itself.
  public func date(at seconds: Double) -> Date { start.addingTimeInterval(seconds) }

  // MARK: Findings

  /// What `check` finds in the script's messages, each kind and key once.
  public var findings: [Finding] {
    var seen: Set<String> = []
    return ScriptCheck.findings(script, definition: definition, start: start)
      .filter { seen.insert("\($0.kind) \($0.key)").inserted }
  }
}
