import BroadcastChannels
import Foundation
import SubscriberProtocol

/// A message as it came to the device: through a channel, or as a push to one of its tokens.
struct Arrival {
  enum Way {
    /// `missed` messages were left out right before it.
    case channel(MessageFrame, missed: Int)
    case push(PushFrame)
  }

  let way: Way
  /// When it came.
  let at: Date

  init(_ frame: MessageFrame, missed: Int, at: Date) {
    way = .channel(frame, missed: missed)
    self.at = at
  }

  init(_ frame: PushFrame, at: Date) {
    way = .push(frame)
    self.at = at
  }

  var payload: Payload {
    switch way {
    case .channel(let frame, _): frame.payload
    case .push(let frame): frame.payload
    }
  }

  var priority: Priority {
    switch way {
    case .channel(let frame, _): frame.priority
    case .push(let frame): frame.priority
    }
  }

  var uniqueID: String {
    switch way {
    case .channel(let frame, _): frame.uniqueID
    case .push(let frame): frame.uniqueID
    }
  }

  /// Seconds from the server to the device.
  var latency: Double {
    switch way {
    case .channel(let frame, _): at.timeIntervalSince1970 - frame.sent
    case .push(let frame): at.timeIntervalSince1970 - frame.sent
    }
  }

  /// Its place in its channel's order; a push has none.
  var position: StreamPosition? { if case .channel(let frame, _) = way { frame.position } else { nil } }

  /// Messages that were left out right before it.
  var missed: Int { if case .channel(_, let missed) = way { missed } else { 0 } }

  var isPush: Bool { if case .push = way { true } else { false } }
}
