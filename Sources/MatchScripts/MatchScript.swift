import BroadcastChannels
import Foundation

/// A match as a script: what is published into a channel, and when.
///
/// The text is JSON lines. The first may name the channel, or define it; each further line is one message. Times are
/// relative, so that a script can be played today, at any speed, or rehearsed on virtual time.
public struct MatchScript: Sendable {
  /// The channel that a script is written for.
  public enum Target: Sendable {
    /// A channel of `Channels/` or of the server.
    case named(ChannelAlias)
    /// A definition of its own.
    case defined(ChannelDefinition)
  }

  /// One message of a script.
  public struct Step: Sendable {
    /// When it is sent, in seconds from the start.
    public let at: Double
    /// What it does.
    public let event: Payload.Event
    /// How urgently.
    public let priority: Priority
    /// The `content-state` object.
    public let contentState: JSONText?
    /// The `relevance-score` as it was written.
    public let relevanceScore: String?
    /// The `alert` object.
    public let alert: JSONText?
    /// Seconds from sending to the stale date; negative for one that is past already.
    public let staleIn: Double?
    /// Seconds from sending to the dismissal date.
    public let dismissIn: Double?
    /// Seconds from sending for which a policy-1 channel stores the message.
    public let expiresIn: Double?
    /// Seconds added to the timestamp, to model a late or out-of-order message.
    public let timestampShift: Double
    /// The line of the file, from 1.
    public let line: Int

    /// Makes a step.
    public init(
      at: Double, event: Payload.Event = .update, priority: Priority = .immediate, contentState: JSONText?,
      relevanceScore: String? = nil, alert: JSONText? = nil, staleIn: Double? = nil, dismissIn: Double? = nil,
      expiresIn: Double? = nil, timestampShift: Double = 0, line: Int
    ) {
      self.at = at
      self.event = event
      self.priority = priority
      self.contentState = contentState
      self.relevanceScore = relevanceScore
      self.alert = alert
      self.staleIn = staleIn
      self.dismissIn = dismissIn
      self.expiresIn = expiresIn
      self.timestampShift = timestampShift
      self.line = line
    }
  }

  /// The channel of the first line; nil without one.
  public let target: Target?
  /// The messages, in the order of their times.
  public let steps: [Step]

  /// Makes a script.
  public init(target: Target?, steps: [Step]) {
    self.target = target
    self.steps = steps
  }

  /// Seconds from the start to the last message.
  public var duration: Double { steps.last?.at ?? 0 }
}

extension MatchScript.Step {
  /// The `aps` object as it is sent at a moment.
  ///
  /// - Parameters:
  ///   - now: the moment of sending, from which timestamp, stale and dismissal dates are computed. Stale and dismissal
  ///     dates are rounded up to whole Unix seconds, so that a state is never stale early.
  ///   - speed: how many times faster than real the script is played: spans shrink with it. `timestamp-shift` doesn't,
  ///     because timestamps are whole seconds.
  public func aps(sentAt now: Date, speed: Double = 1) -> [UInt8] {
    let seconds = now.timeIntervalSince1970
    func date(in span: Double?) -> String? {
      span.map { span in
        let date = Int64((seconds + span / speed - 1e-6).rounded(.up))
        // A date that is past stays past at any speed.
        return String(span < 0 ? min(date, Int64(seconds.rounded(.down))) : date)
      }
    }
    let text = JSONWriter.object([
      "timestamp": String(Int64((seconds + timestampShift).rounded(.down))),
      "event": JSONWriter.quoted(event.rawValue),
      "content-state": contentState?.string,
      "stale-date": date(in: staleIn),
      "dismissal-date": event == .end ? date(in: dismissIn) : nil,
      "relevance-score": relevanceScore,
      "alert": alert?.string,
    ])
    return Array(text.utf8)
  }

  /// The expiration as it is sent at a moment, in Unix seconds; 0 on a channel that stores nothing.
  public func expiration(sentAt now: Date, speed: Double = 1, storagePolicy: StoragePolicy) -> Int64 {
    guard storagePolicy == .latest, let expiresIn else { return 0 }
    return max(1, Int64((now.timeIntervalSince1970 + expiresIn / speed - 1e-6).rounded(.up)))
  }
}
