import BroadcastChannels
import Foundation
import LiveActivities

/// What the presentations of one activity say at a moment, and what there is to say about it.
struct ActivityText {
  let activity: DeviceActivity
  let view: PhoneView
  let settings: DeviceSettings
  let now: Date

  private var definition: ChannelDefinition { activity.definition }

  private var context: PresentationContext {
    PresentationContext(
      state: activity.activity.contentState, attributes: definition.attributes,
      hidden: view.isLocked ? definition.sensitive : [], now: now)
  }

  /// A presentation's lines; for a channel without templates its values with their names.
  func lines(_ presentation: Presentation) -> [String] {
    guard activity.activity.contentState != nil else { return [] }
    guard definition.presentations.isEmpty else {
      return PresentationText.lines(presentation, definition, context)
    }
    switch presentation {
    case .compactLeading, .expandedLeading, .minimal: return [activity.name]
    case .compactTrailing, .expandedTrailing, .expandedCenter: return []
    default: return values
    }
  }

  private var values: [String] {
    guard let bytes = activity.activity.contentState?.bytes,
      let members = try? JSONDocument(bytes).root.members
    else { return [] }
    let places = members.map(\.name).filter { name in !name.contains { " {}|.?".contains($0) } }
      .map { "\($0) {\($0)}" }
    guard let template = try? PresentationTemplate(places.joined(separator: " · ")) else { return [] }
    return template.lines(in: context)
  }

  /// What VoiceOver speaks.
  func sentence(_ presentation: Presentation) -> String {
    guard activity.activity.contentState != nil else { return "\(activity.name), no data yet" }
    // One that has no sentence of its own is spoken as the Lock Screen.
    let spoken = definition.accessibility[presentation] == nil ? .lockScreen : presentation
    let text =
      definition.presentations.isEmpty
      ? values.joined(separator: ", ") : PresentationText.sentence(spoken, definition, context)
    switch activity.activity.state {
    case .stale: return "\(text), out of date"
    case .ended: return "\(text), final"
    case .pending, .active, .dismissed: return text
    }
  }

  /// The alert that lights the screen now.
  var alert: String? {
    guard let alert = activity.alert?.alert else { return nil }
    let texts = [alert.title, alert.body].compactMap {
      $0?.localized(settings.locale, strings: definition.strings)
    }
    return texts.isEmpty ? nil : texts.joined(separator: ": ")
  }

  /// The last word of the bundle id.
  var app: String {
    definition.settings.app.identifier.split(separator: ".").last.map(String.init)
      ?? definition.settings.app.identifier
  }

  /// One word for the state.
  var word: (String, Style) {
    switch activity.activity.state {
    case .pending: ("pending", .dim)
    case .active: activity.activity.contentState == nil ? ("waiting", .dim) : ("live", .live)
    case .stale: ("stale", .stale)
    case .ended: ("final", .ended)
    case .dismissed: ("dismissed", .dim)
    }
  }

  /// The style of the activity's figures.
  var style: Style {
    switch activity.activity.state {
    case .stale: .stale
    case .ended, .dismissed: .ended
    case .pending, .active: .normal
    }
  }

  /// Everything that holds besides the data: its age, the budget, the unconfirmed action.
  var notes: [(text: String, style: Style)] {
    var notes = [age].compactMap { $0 }
    if activity.isOverBudget {
      let count = activity.mergedCount
      notes.append((count > 0 ? "over budget: \(count) merged" : "over budget: an update waits", .stale))
    } else if activity.mergedCount > 0 {
      notes.append(("\(activity.mergedCount) merged", .dim))
    }
    if let action = activity.unconfirmed?.action { notes.append(("confirming \(action.title)…", .alert)) }
    if activity.definition.settings.frequentUpdates,
      settings.infrequentApps.contains(definition.settings.app.identifier)
    {
      notes.append(("frequent updates off", .dim))
    }
    return notes
  }

  private var age: (text: String, style: Style)? {
    let updated = activity.updatedAt.map { ago($0) }
    switch activity.activity.state {
    case .pending: return ("begins \(ago(activity.activity.startedAt))", .dim)
    case .active: return updated.map { ("updated \($0)", .dim) } ?? ("waiting for the first message", .dim)
    case .stale: return ("last updated \(updated ?? "never")", .stale)
    case .ended:
      let ended = activity.activity.endedAt.map { "ended \(ago($0))" }
      let leaves = activity.activity.dismissalDate.map { "leaves \(ago($0))" }
      return ([ended, leaves].compactMap { $0 }.joined(separator: ", "), .ended)
    case .dismissed: return nil
    }
  }

  private func ago(_ date: Date) -> String {
    PresentationTemplate.relative(date.timeIntervalSince(now))
  }
}
