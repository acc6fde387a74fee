import LiveActivities

/// Whatever shows a watch: lines for a person, lines for a script, or a phone on the screen.
protocol WatchDisplay: AnyObject {
  /// Whether the watch goes on when no activity is left, until the person quits.
  var outlivesActivities: Bool { get }
  /// Something changed on the device.
  func show(_ line: WatchLine)
  /// Something is to be told about the connection or a start.
  func show(_ notice: WatchNotice)
  /// The device has a push token from now on.
  func show(_ token: TokenNotice)
  /// Everything that happened together has been shown.
  func settle()
  /// The watch is over; the terminal is given back.
  func close()
}

/// What is to be told and is no change of an activity.
enum WatchNotice: CustomStringConvertible {
  case subscribed(String)
  case resumed(String, missed: Int)
  case countsAnew(String)
  case missedBefore(String, count: Int)
  case waiting(String)
  case lost(String, retryIn: Double)
  case networkOff
  case networkOn
  case kept(DeviceActivity)
  case notStarted(String, StartError, said: String?)
  case finished(String, String)
  case fileFailed(String)
  case tokensBack
  case tokenLost(String, String)
  case startRefused(String)

  var description: String {
    switch self {
    case .subscribed(let name): "\(name): subscribed"
    case .resumed(let name, 0): "\(name): resumed, nothing missed"
    case .resumed(let name, let count): "\(name): resumed, \(Self.messages(count)) missed"
    case .countsAnew(let name): "\(name): the server counts anew; messages may have been missed"
    case .missedBefore(let name, let count): "\(name): \(Self.messages(count)) missed before this one"
    case .waiting(let name): "waiting for the channel \"\(name)\""
    case .lost(let problem, let wait): "\(problem); trying again in \(String(format: "%.1f", wait)) s"
    case .networkOff: "the network is off"
    case .networkOn: "the network is on again"
    case .kept(let activity):
      "\(activity.name): kept from before, \(activity.activity.state.rawValue)"
        + (activity.position.map { ", at \($0)" } ?? "")
    case .notStarted(let name, let error, let said): "\(name): \(said ?? error.description)"
    case .finished(let name, let why): "\(name): \(why)"
    case .fileFailed(let why): why
    case .tokensBack: "push tokens: registered again"
    case .tokenLost(let name, let why): "\(name): no push token: \(why)"
    case .startRefused(let why): "a start by push was refused: \(why)"
    }
  }

  private static func messages(_ count: Int) -> String { "\(count) \(count == 1 ? "message" : "messages")" }
}

/// One line a change on standard output; notices on standard error.
final class PlainWatch: WatchDisplay {
  private let namesChannels: Bool
  private let locale: String

  init(namesChannels: Bool, locale: String) {
    self.namesChannels = namesChannels
    self.locale = locale
  }

  var outlivesActivities: Bool { false }

  func show(_ line: WatchLine) {
    if let text = line.plain(name: namesChannels ? line.change.name : nil, locale: locale) {
      Console.print(text)
    }
  }

  func show(_ notice: WatchNotice) { Console.note("\(notice)".printable) }
  func show(_ token: TokenNotice) { Console.print(token.plain) }
  func settle() {}
  func close() {}
}

/// One JSON object a change on standard output; notices on standard error.
final class JSONWatch: WatchDisplay {
  var outlivesActivities: Bool { false }
  func show(_ line: WatchLine) { if let text = line.json { Console.print(text) } }
  func show(_ notice: WatchNotice) { Console.note("\(notice)".printable) }
  func show(_ token: TokenNotice) { Console.print(token.json) }
  func settle() {}
  func close() {}
}
