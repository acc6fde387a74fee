import Foundation
import LiveActivities

/// What a wide terminal has room for beside the phone: the four facts of the chosen activity, kept apart, and its numbers.
struct DetailsScene {
  let text: ActivityText
  let missed: Int
  /// The activity's push token, if it has one.
  var token: String?

  private var activity: DeviceActivity { text.activity }

  func lines(_ columns: Int) -> [StyledLine] {
    let outline = Outline(title: (StyledLine(PhoneText.fitted(activity.name, columns), .bold), StyledLine()))
    let lines = rows.flatMap { row in
      PhoneText.wrapped(row.value, columns - 14).enumerated().map { index, part in
        StyledLine(index == 0 ? row.name : "", .dim).exactly(10) + StyledLine(part, row.style)
      }
    }
    return outline.around(lines, columns)
  }

  private var rows: [(name: String, value: String, style: Style)] {
    let data = activity.activity
    let app = activity.definition.settings.app.identifier
    let isFrequent = activity.definition.settings.frequentUpdates
    let isOff = text.settings.infrequentApps.contains(app)
    return [
      ("app", app, .normal),
      ("event", activity.isEventOngoing ? "goes on" : "is over", activity.isEventOngoing ? .live : .ended),
      ("data", dataWord.text, dataWord.style),
      ("card", activity.isHidden ? "hidden" : "shown", .normal),
      (
        "action", activity.unconfirmed.map { "\($0.action.title): not confirmed" } ?? "none waits",
        activity.isActionUnconfirmed ? .alert : .normal
      ),
      ("budget", "\(activity.budgetLeft(at: text.now)) of \(activity.hourlyBudget) an hour left", .normal),
      ("merged", "\(activity.mergedCount)", .normal),
      ("frequent", isFrequent ? (isOff ? "switched off" : "on") : "not asked for", .normal),
      ("missed", "\(missed)", missed > 0 ? .stale : .normal),
      ("ignored", "\(data.ignoredOlder) older, \(data.ignoredAfterEnd) after the end", .normal),
      ("relevance", data.relevanceScore.map { String(format: "%g", $0) } ?? "none", .normal),
      ("position", activity.position?.description ?? "none yet", .dim),
    ] + (token.map { [("token", $0, .dim)] } ?? [])
  }

  private var dataWord: (text: String, style: Style) {
    if activity.activity.contentState == nil { return ("none yet", .dim) }
    if activity.isStale { return ("stale", .stale) }
    guard let stale = activity.activity.staleDate, activity.isEventOngoing else {
      return ("current", .normal)
    }
    return ("stale \(PresentationTemplate.relative(stale.timeIntervalSince(text.now)))", .normal)
  }
}
