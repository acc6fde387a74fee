// Why: what a person sees of a device is a value. The scene takes the device, the state of the screen and the time, and
// gives lines; it knows no terminal, so that tests read it as text, and `watch` only has to put it on the screen.

import BroadcastChannels
import Foundation
import LiveActivities

/// A device drawn as a phone.
public enum PhoneScene {
  /// The widest phone; a wider terminal has it in its middle.
  private static let phoneColumns = 72
  /// From how many columns on the details have room beside the phone.
  private static let detailsFrom = 112

  /// Draws a device.
  ///
  /// - Parameters:
  ///   - columns: from 40; with fewer, lines end in an ellipsis.
  ///   - rows: from 12; with fewer, the lower lines are left out.
  /// - Returns: `rows` lines, each exactly `columns` wide by `DisplayWidth`.
  public static func render(
    device: Device, view: PhoneView, columns: Int, rows: Int, now: Date
  ) -> [StyledLine] {
    guard columns > 0, rows > 0 else { return [] }
    let scene = Scene(device: device, view: view, now: now)
    let bottom = scene.status(columns, compact: rows < 16)
    let body = scene.body(columns, max(0, rows - bottom.count))
    let drawn = view.isAlwaysOn ? body.map { $0.restyled(alwaysOn) } : body
    return Array((drawn + bottom).prefix(rows)).map { $0.exactly(columns) }
  }

  private static func alwaysOn(_ style: Style) -> Style { .dim }

  /// The chosen card's name: what is selected in the view while it is there, or else the first one.
  public static func selected(_ device: Device, _ view: PhoneView) -> String? {
    let names = device.lockScreen.map(\.name)
    return view.selected.flatMap { names.contains($0) ? $0 : nil } ?? names.first
  }

  private struct Scene {
    let view: PhoneView
    let now: Date
    let cards: [ActivityText]
    let island: [ActivityText]
    let pending: [ActivityText]
    let selected: ActivityText?

    init(device: Device, view: PhoneView, now: Date) {
      self.view = view
      self.now = now
      func text(_ activity: DeviceActivity) -> ActivityText {
        ActivityText(activity: activity, view: view, settings: device.settings, now: now)
      }
      cards = device.lockScreen.map(text)
      island = device.island.map(text)
      pending = device.activities.filter { $0.activity.state == .pending }.map(text)
      let name = PhoneScene.selected(device, view)
      selected = cards.first { $0.activity.name == name }
    }

    private var presentation: Presentation {
      if view.isSmall { return .small }
      return view.isStandBy ? .standby : .lockScreen
    }

    func status(_ columns: Int, compact: Bool) -> [StyledLine] {
      StatusLines(view: view, selected: selected, presentation: presentation, now: now)
        .lines(columns, compact: compact)
    }

    /// What is above the status lines: exactly `rows` lines.
    func body(_ columns: Int, _ rows: Int) -> [StyledLine] {
      let lines: [StyledLine]
      if view.isHelpShown {
        lines = middle(HelpScene.lines(columns, rows), columns, rows)
      } else if view.isSmall {
        lines = middle(small(min(columns, 30)), columns, rows)
      } else if view.isStandBy {
        lines = middle(standBy(columns), columns, rows)
      } else {
        lines = phone(columns, rows)
      }
      let missing = max(0, rows - lines.count)
      return lines.prefix(rows) + [StyledLine](repeating: StyledLine(), count: missing)
    }

    private func middle(_ lines: [StyledLine], _ columns: Int, _ rows: Int) -> [StyledLine] {
      let above = max(0, rows - lines.count) / 2
      return [StyledLine](repeating: StyledLine(), count: above) + lines.map { $0.centred(columns) }
    }

    // MARK: Upright

    private func phone(_ columns: Int, _ rows: Int) -> [StyledLine] {
      let width = min(columns, phoneColumns)
      let screen = screen(width, rows)
      guard columns >= detailsFrom, let selected else { return screen.map { $0.centred(columns) } }
      let detailColumns = min(46, columns - width - 2)
      let name = selected.activity.name
      let details = DetailsScene(
        text: selected, missed: view.missed[name] ?? 0, token: view.pushTokens[name]
      ).lines(detailColumns)
      let margin = StyledLine(String(repeating: " ", count: (columns - width - 2 - detailColumns) / 2))
      return screen.indices.map { row in
        let right = row < details.count ? details[row] : StyledLine()
        return margin + screen[row].exactly(width) + StyledLine("  ") + right
      }
    }

    /// The phone's screen, with its outline where there is room.
    private func screen(_ columns: Int, _ rows: Int) -> [StyledLine] {
      guard columns >= 60, rows >= 20 else { return upright(columns, rows) }
      var content = upright(columns - 4, rows - 2)
      content += [StyledLine](repeating: StyledLine(), count: max(0, rows - 2 - content.count))
      return Outline(style: .border).around(content, columns)
    }

    private func upright(_ columns: Int, _ rows: Int) -> [StyledLine] {
      let island = IslandScene(
        texts: island, expanded: expanded, selected: selected?.activity.name, isFlat: rows < 13)
      var lines = island.lines(columns).map { $0.centred(columns) }
      if rows >= 16 {
        let lock = view.isLocked ? "🔒 " : ""
        lines.append(StyledLine(lock + view.clock(now, seconds: false), .bold).centred(columns))
      }
      if island.isFlat, let alert = expanded?.alert {
        lines += PhoneText.wrapped("🔔 \(alert)", columns, limit: 1).map { StyledLine($0, .alert) }
      }
      var below = pending.map { text in
        StyledLine("⧗ \(PhoneText.fitted(text.activity.name, columns / 2)) \(text.notes[0].text)", .dim)
      }
      below += view.refusals.sorted { $0.key < $1.key }.flatMap { name, why in
        PhoneText.wrapped("✗ \(name): \(why)", columns, limit: 2).map { StyledLine($0, .failure) }
      }
      below = Array(below.prefix(max(0, rows / 3)))
      let room = rows - lines.count - below.count
      lines += LockScreenScene(texts: cards, selected: selected?.activity.name).lines(columns, room)
      if cards.isEmpty, room > 1 {
        lines += [
          StyledLine(),
          StyledLine(pending.isEmpty ? "no Live Activity" : "nothing yet", .dim).centred(columns),
        ]
        // Whoever waits to be started is told by what.
        lines += view.startTokens.sorted { $0.key < $1.key }.flatMap { name, token in
          [StyledLine(), StyledLine("push-to-start token of \(name)", .dim).centred(columns)]
            + PhoneText.wrapped(token, columns, limit: 4).map { StyledLine($0).centred(columns) }
        }
      }
      return Array((lines + below).prefix(rows))
    }

    /// An alert expands the newest one; a person's finger the chosen one.
    private var expanded: ActivityText? {
      let alerting = island.filter { $0.activity.alert != nil }
      if let newest = alerting.max(by: { until($0) < until($1) }) { return newest }
      guard view.isExpanded else { return nil }
      return island.first { $0.activity.name == selected?.activity.name } ?? island.first
    }

    private func until(_ text: ActivityText) -> Date { text.activity.alert?.until ?? .distantPast }

    // MARK: StandBy and small

    private func standBy(_ columns: Int) -> [StyledLine] {
      guard let text = selected else {
        return [StyledLine(view.clock(now, seconds: false), .bold), StyledLine("no Live Activity", .dim)]
      }
      var lines = [StyledLine("StandBy  \(view.clock(now, seconds: false))", .dim), StyledLine()]
      for line in text.lines(.standby).prefix(Presentation.standby.lines) {
        let style: Style = text.style == .normal ? .bold : text.style
        lines += PhoneText.wrapped(line, columns - 4, limit: 2).map { StyledLine($0, style) } + [StyledLine()]
      }
      if let alert = text.alert {
        lines += PhoneText.wrapped("🔔 \(alert)", columns - 4, limit: 2).map { StyledLine($0, .alert) }
      }
      lines.append(
        StyledLine("\(PhoneText.fitted(text.activity.name, 40)) · ", .dim)
          + StyledLine(text.word.0, text.word.1))
      if let note = text.notes.first {
        lines.append(StyledLine(PhoneText.fitted(note.text, columns - 4), note.style))
      }
      return lines
    }

    /// The Smart Stack: a card a activity, no buttons.
    private func small(_ columns: Int) -> [StyledLine] {
      guard !cards.isEmpty else { return [StyledLine("no Live Activity", .dim)] }
      let lines = cards.prefix(4).flatMap { text in
        let isSelected = text.activity.name == selected?.activity.name
        let title = StyledLine(PhoneText.fitted(text.activity.name, 14), .dim)
        let outline = Outline(
          isHeavy: isSelected, style: isSelected ? .selectedBorder : .border,
          title: (title, StyledLine(text.word.0, text.word.1)))
        let style: Style = text.style == .normal ? .bold : text.style
        let content = text.lines(.small).prefix(Presentation.small.lines).map {
          StyledLine(PhoneText.fitted($0, columns - 4), style).centred(columns - 4)
        }
        return outline.around(
          content.isEmpty ? [StyledLine("–", .dim).centred(columns - 4)] : content, columns)
      }
      return lines + [StyledLine("no buttons in the watch and in the car", .dim).centred(columns + 10)]
    }
  }
}
