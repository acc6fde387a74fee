import BroadcastChannels

/// What a person, and the system, have set on a device. Apple keeps the numbers secret; here each is a setting.
public struct DeviceSettings: Sendable, Hashable, Codable {
  /// Activities of one app that may be alive at once. Developers report about 5.
  public var activitiesPerApp = 5
  /// Activities that may be alive at once on the whole device.
  public var activitiesOnDevice = 16
  /// Apps whose Live Activities the person has switched off, by bundle id.
  public var disabledApps: Set<String> = []
  /// Apps whose frequent updates the person has switched off, by bundle id.
  public var infrequentApps: Set<String> = []
  /// Updates at priority 10 an hour for each activity.
  public var hourlyBudget = 60
  /// The same where the app declares frequent updates and the person allows them.
  public var frequentHourlyBudget = 240
  /// Seconds for which updates at priorities 5 and 1 are collected before the newest is shown; 0 shows each at once. The
  /// channel has grouped them already.
  public var groupingSeconds = 0.0
  /// Seconds for which an alert lights the screen and expands the island.
  public var alertSeconds = 5.0
  /// The language of alerts.
  public var locale = "en"

  /// The defaults.
  public init() {}
}

/// Why an activity can't start.
public enum StartError: Error, Sendable, Hashable {
  /// The person has switched off Live Activities for the app.
  case disabled(app: String)
  /// The app has its limit of activities.
  case tooManyOfApp(app: String, limit: Int)
  /// The device has its limit of activities.
  case tooManyOnDevice(limit: Int)
  /// Attributes and content state together are too large.
  case tooLarge(bytes: Int)
  /// There is no such channel.
  case unknownChannel(name: String)
  /// The person dismissed this activity; it doesn't come back by itself.
  case dismissedByPerson(name: String)
  /// A push asked for an activity that is on the device already.
  case alreadyStarted(name: String)
}

extension StartError: CustomStringConvertible {
  /// What was wrong and what to do.
  public var description: String {
    switch self {
    case .disabled(let app):
      "Live Activities of \(app) are switched off on this device; switch them on in its settings"
    case .tooManyOfApp(let app, let limit):
      "\(app) has \(limit) activities on this device, the most an app may have; end one first"
    case .tooManyOnDevice(let limit): "this device shows \(limit) activities, the most it can; end one first"
    case .tooLarge(let bytes):
      "attributes and content state are \(bytes) bytes together; an activity holds \(Limits.activityStateBytes)"
    case .unknownChannel(let name): "there is no channel \"\(name)\"; create it, or mend the name"
    case .dismissedByPerson(let name):
      "the person dismissed the activity of \"\(name)\"; it doesn't come back by itself (take another --device file to start anew)"
    case .alreadyStarted(let name):
      "the activity of \"\(name)\" is on this device already; it is not started a second time"
    }
  }
}
