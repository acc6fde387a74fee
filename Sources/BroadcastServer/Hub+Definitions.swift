import BroadcastChannels

/// Channels that files describe.
extension Hub {
  /// What became of a definition.
  enum Installed {
    case created, changed, unchanged
  }

  /// Whether a definition file can be taken over.
  ///
  /// - Throws: when the file asks for another storage policy or app than the stored channel has: Apple lets neither
  ///   change.
  func checkInstalling(_ definition: ChannelDefinition) throws(AnswerError) {
    guard let alias = definition.alias, let room = knownRoom(alias.name) else { return }
    let old = room.channel.settings
    guard old.app == definition.settings.app, old.storagePolicy == definition.settings.storagePolicy else {
      throw AnswerError(
        status: 409, reason: "ChannelDiffers",
        message:
          "the store holds \"\(alias)\" with another app or storage policy, which can't change later; delete that channel first or rename the file"
      )
    }
  }

  /// Takes over a definition file's rules for the channel that it describes, or makes the channel.
  ///
  /// - Throws: as ``checkInstalling(_:)`` and ``create(_:)``.
  func install(_ definition: ChannelDefinition) throws(AnswerError) -> Installed {
    try checkInstalling(definition)
    guard let alias = definition.alias, let room = knownRoom(alias.name) else {
      _ = try create(definition)
      return .created
    }
    guard room.definition != definition else { return .unchanged }
    room.replaceDefinition(definition, now: now)
    return .changed
  }
}
