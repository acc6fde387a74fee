import BroadcastChannels
import Foundation
import LiveActivities
import Soak
import SubscriberProtocol
import SubscriberSwarm

/// One place among the subscribers, and the device that has it at the moment.
struct SoakDevice {
  var plan: SubscriberPlan
  /// What happens to it next, by plan.
  var next: SubscriberAction?
  /// The real thing: the rules of a Live Activity. Nil while no device has the place.
  var activity: LiveActivity?
  var connection: Swarm.ID?
  var isSubscribed = false
  /// Whether its network is gone.
  var isOffline = false
  var isPaused = false
  /// Whether the card is gone, and the channel was left because of it.
  var isUnsubscribing = false
  var isDone = false
  /// The message that it received last.
  var position: StreamPosition?
  /// Seconds by which its clock is ahead.
  var clockOffset: Double = 0
  /// From when on its latencies count: not while it catches up.
  var countsFrom: Double = .infinity
  var received: (sequence: Int, numbers: [Int], displayed: [Int], sequences: [Int]) = (0, [], [], [])
  var unanswered: [(sequence: Int, numbers: [Int], displayed: [Int])] = []
  var isGoingToAcknowledge = false
  /// How long it stays away when its connection is gone.
  var wait = ReturnWait(longest: 2)

  /// Acknowledgements that wait for an answer at most: those of minutes. A server that answers none gets no more of them.
  static let mostUnanswered = 256

  /// The connection is gone.
  mutating func connectionEnded() {
    connection = nil
    // A card that is gone needs no connection.
    if activity?.state == .dismissed { isDone = true }
    isSubscribed = false
    isUnsubscribing = false
    isPaused = false
    received = (0, [], [], [])
    unanswered = []
  }

  init(index: Int, settings: SoakSettings) { plan = SubscriberPlan(index: index, settings: settings) }
}

/// What one delivered text says, read once for all who receive it.
struct SoakText {
  enum Content {
    case message(SoakArrival, Payload)
    case other(ServerFrame)
    case unreadable
  }

  let content: Content
}
