import BroadcastChannels
import Foundation

/// A device as a state file keeps it between runs: activities, positions, budgets, and what the person has set.
///
/// Definitions and content states stay the JSON that they are, so a newer definition format is refused by the reader
/// that knows it. An alert that lit the screen is not kept: it was seen, or it was not.
public struct DeviceSnapshot: Sendable, Codable {
  /// The format that this version writes, and the newest that it reads.
  public static let currentFormat = 1

  /// Why a snapshot can't become a device.
  public enum Problem: Error, Sendable, Hashable {
    /// A newer Touchline wrote it.
    case newerFormat(Int)
    /// It isn't consistent in itself.
    case broken(String)
  }

  /// The format that it was written in.
  public let format: Int
  /// What the person and the system had set.
  public let settings: DeviceSettings
  /// The activities in the order of their starts, dismissed ones included.
  public let activities: [Activity]

  /// One activity.
  public struct Activity: Sendable, Codable {
    let name: String
    let definition: String
    let alias: String?
    let number: Int
    let data: Data
    let position: String?
    let updatedAt: Date?
    let unconfirmedAction: String?
    let unconfirmedIntent: String?
    let mergedCount: Int
    let budget: TokenBucket
    let waiting: Waiting?
    /// nil in files of versions that knew channels only.
    let isOnChannel: Bool?

    /// The activity's data.
    struct Data: Codable {
      let startedAt: Date
      let state: LiveActivity.State
      let contentState: String?
      let timestamp: Int64?
      let staleDate: Date?
      let endedAt: Date?
      let dismissalDate: Date?
      let isDismissedByPerson: Bool
      let isPresented: Bool
      /// nil in files of versions that told it from the state alone.
      let isStale: Bool?
      let relevanceScore: Double?
      let ignoredOlder: Int
      let ignoredAfterEnd: Int
    }

    /// An update that waits for the budget or its group.
    struct Waiting: Codable {
      let aps: String
      let due: Date
      let isOverBudget: Bool
    }
  }

  /// Takes a device's state.
  public init(_ device: Device) {
    format = Self.currentFormat
    settings = device.settings
    activities = device.activities.map(Activity.init)
  }
}

extension DeviceSnapshot.Activity {
  init(_ activity: DeviceActivity) {
    name = activity.name
    definition = activity.definition.json
    alias = activity.definition.alias?.name
    number = activity.number
    data = Data(activity.activity)
    position = activity.position?.description
    updatedAt = activity.updatedAt
    unconfirmedAction = activity.unconfirmed?.action.name
    unconfirmedIntent = activity.unconfirmed?.intent
    mergedCount = activity.mergedCount
    isOnChannel = activity.isOnChannel
    budget = activity.budget
    waiting = activity.waiting.map {
      Waiting(
        aps: String(decoding: $0.payload.aps, as: UTF8.self), due: $0.due, isOverBudget: $0.isOverBudget)
    }
  }

  /// The activity that was kept.
  func restored() throws(DeviceSnapshot.Problem) -> DeviceActivity {
    let definition: ChannelDefinition
    do throws(Findings) {
      definition = try ChannelDefinition(
        file: Array(self.definition.utf8), alias: alias.flatMap { ChannelAlias($0) })
    } catch {
      throw .broken("the definition of \"\(name)\" can't be read: \(error.all.first.map { "\($0)" } ?? "")")
    }
    var activity = DeviceActivity(
      name: name, definition: definition, activity: LiveActivity(try data.checked(name)), number: number,
      budget: budget)
    if let position {
      guard let place = StreamPosition(position) else {
        throw .broken("the position \"\(position)\" of \"\(name)\" is not EPOCH:SEQ")
      }
      activity.position = place
    }
    activity.updatedAt = updatedAt
    activity.mergedCount = mergedCount
    activity.isOnChannel = isOnChannel ?? true
    if let id = unconfirmedIntent,
      let action = definition.actions.first(where: { $0.name == unconfirmedAction })
    {
      activity.unconfirmed = (action, id)
    }
    if let waiting {
      do throws(PayloadError) {
        let payload = try Payload(body: Array("{\"aps\":\(waiting.aps)}".utf8))
        activity.waiting = (payload, waiting.due, waiting.isOverBudget)
      } catch {
        throw .broken("the waiting update of \"\(name)\" can't be read: \(error)")
      }
    }
    return activity
  }
}

extension DeviceSnapshot.Activity.Data {
  init(_ activity: LiveActivity) {
    startedAt = activity.startedAt
    state = activity.state
    contentState = activity.contentState?.string
    timestamp = activity.timestamp
    staleDate = activity.staleDate
    endedAt = activity.endedAt
    dismissalDate = activity.dismissalDate
    isDismissedByPerson = activity.isDismissedByPerson
    isPresented = activity.isPresented
    isStale = activity.isStale
    relevanceScore = activity.relevanceScore
    ignoredOlder = activity.ignoredOlder
    ignoredAfterEnd = activity.ignoredAfterEnd
  }

  /// What no activity can be: an ended card without the dates that end it would stay for ever.
  func checked(_ name: String) throws(DeviceSnapshot.Problem) -> Self {
    if state == .ended, endedAt == nil || dismissalDate == nil {
      throw .broken("\"\(name)\" has ended, and has no date for it")
    }
    if let contentState, (try? JSONDocument(Array(contentState.utf8)).root.members) == nil {
      throw .broken("the content state of \"\(name)\" is no JSON object")
    }
    return self
  }
}
