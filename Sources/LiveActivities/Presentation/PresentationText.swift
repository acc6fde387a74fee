import BroadcastChannels

/// A definition's presentations as text.
public enum PresentationText {
  /// The lines of a presentation in a context; empty when the definition has no template for it, or a broken one, which
  /// `check` tells.
  public static func lines(
    _ presentation: Presentation, _ definition: ChannelDefinition, _ context: PresentationContext
  ) -> [String] {
    guard let text = definition.presentations[presentation], let template = try? PresentationTemplate(text)
    else {
      return []
    }
    return template.lines(in: context)
  }

  /// The sentence that VoiceOver speaks for a presentation: the definition's own, or else the Lock Screen's text.
  public static func sentence(
    _ presentation: Presentation, _ definition: ChannelDefinition, _ context: PresentationContext
  ) -> String {
    guard let text = definition.accessibility[presentation], let template = try? PresentationTemplate(text)
    else {
      return lines(.lockScreen, definition, context).joined(separator: ", ")
    }
    return template.lines(in: context).joined(separator: " ")
  }
}
