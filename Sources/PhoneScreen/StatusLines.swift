import BroadcastChannels
import Foundation
import LiveActivities

/// The lines at the bottom: what VoiceOver speaks of the chosen card, what there is to tell, and the state of things.
struct StatusLines {
  let view: PhoneView
  let selected: ActivityText?
  let presentation: Presentation
  let now: Date

  func lines(_ columns: Int, compact: Bool) -> [StyledLine] {
    var lines: [StyledLine] = []
    if let selected, !compact || view.toast == nil {
      let label = columns >= 60 ? " VoiceOver " : " VO "
      let sentence = PhoneText.fitted(
        selected.sentence(presentation), max(1, columns - DisplayWidth.of(label) - 1))
      lines.append(StyledLine([.init(label, .key), .init(sentence, .dim)]))
    }
    // Where there is room its row is always there, so that nothing jumps.
    if view.toast != nil || !compact {
      lines.append(StyledLine(" \(PhoneText.fitted(view.toast ?? "", columns - 2))", .alert))
    }
    return lines + [status(columns)]
  }

  private func status(_ columns: Int) -> StyledLine {
    let missed = view.missed.values.reduce(0, +)
    var left = connection(columns)
    left = left + StyledLine(" · missed \(missed)", missed > 0 ? .stale : .status)
    if let activity = selected?.activity {
      let all = columns >= 48 ? "/\(activity.hourlyBudget)" : ""
      let count = "\(activity.budgetLeft(at: now))\(all)"
      left = left + StyledLine(" · budget \(count)", activity.isOverBudget ? .stale : .status)
    }
    let help = columns >= 60 ? StyledLine([.init("  ?", .key), .init(" help ", .status)]) : StyledLine()
    let clock = StyledLine(
      " " + view.clock(now, seconds: columns >= 48) + (columns >= 60 ? "" : " "), .status)
    return StyledLine.ends(left, clock + help, columns)
  }

  private func connection(_ columns: Int) -> StyledLine {
    switch view.connection {
    case .connecting: StyledLine(" ○ connecting", .status)
    case .online: StyledLine(" ● online", .live)
    case .off: StyledLine(" ○ network off", .failure)
    case .lost(let why):
      StyledLine(
        columns >= 100 ? " ○ offline: \(PhoneText.fitted(why, columns / 2))" : " ○ offline", .failure)
    }
  }
}
