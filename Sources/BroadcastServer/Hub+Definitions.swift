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
  /// - Parameter failed: is called when the channel can't be made.
  /// - Returns: what becomes of it. A channel that is made is there when it was stored.
  /// - Throws: as ``checkInstalling(_:)``.
  func install(
    _ definition: ChannelDefinition, failed: @escaping (AnswerError) -> Void
  ) throws(AnswerError) -> Installed {
    try checkInstalling(definition)
    guard let alias = definition.alias, let room = knownRoom(alias.name) else {
      create(definition) { if case .failure(let error) = $0 { failed(error) } }
      return .created
    }
    guard room.definition != definition else { return .unchanged }
    let before = room.channel.checkpoint
    room.replaceDefinition(definition, now: now)
    // The file says the same at the next start: nobody has to wait for it.
    // What was spent goes with it, because it is kept even when the channel's new state can't be.
    writer.write(.define(room.id, definition, room.channel.levels), isPromised: false) { _ in }
    keep(room, since: before) { _ in }
    return .changed
  }
}
