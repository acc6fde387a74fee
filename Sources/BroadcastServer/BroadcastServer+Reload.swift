import BroadcastChannels
import Credentials
import EventLoop
import Foundation

/// What SIGHUP does. Each part is taken over whole or not at all, and says in one line what changed.
extension BroadcastServer {
  /// Takes over settings that may change while the server runs, and reads keys, certificates and channel definitions again.
  ///
  /// What is broken leaves the old in use. Sessions whose key is gone are closed with 4003; a channel whose definition is gone
  /// stays. Settings that need a restart are named in a warning.
  ///
  /// - Parameter fresh: the settings as they are now in file, environment and flags; nil when they are the same.
  public func reload(_ fresh: LayeredConfiguration? = nil) {
    guard !isStopping else { return }
    let next = fresh.flatMap { reloadSettings($0) } ?? configuration
    reloadKeys(next.keys)
    reloadCertificates(next)
    reloadChannels(next.channels)
    tellOfAppsWithoutTeam()
  }

  /// The same with settings that could not even be read: they stay, and the rest is read again.
  public func reload(refused problem: String) {
    guard !isStopping else { return }
    refuseSettings(problem, others: 0)
    reload()
  }

  // MARK: Settings

  /// - Returns: the new settings, of which paths are not used yet; nil when they are broken.
  private func reloadSettings(_ fresh: LayeredConfiguration) -> ServerConfiguration? {
    let next = fresh.configuration
    let access: MetricsAccess
    do throws(MetricsAccess.BrokenToken) {
      access = try MetricsAccess(next)
    } catch {
      refuseSettings(error.description, others: fresh.problems.count)
      return nil
    }
    guard fresh.problems.isEmpty else {
      refuseSettings(fresh.problems[0].description, others: fresh.problems.count - 1)
      return nil
    }
    let old = configuration
    let changed = Setting.all.filter { !$0.isSame(in: old, next) }
    let later = changed.filter { needsRestart($0, next) }
    let now = changed.filter { setting in !later.contains { $0.key == setting.key } }
    configuration.logLevel = next.logLevel
    configuration.logFormat = next.logFormat
    configuration.origins = next.origins
    configuration.keepAlive = next.keepAlive
    configuration.metricsAccess = next.metricsAccess
    configuration.metricsToken = next.metricsToken
    service.local.origins = Origins(allowed: next.origins)
    service.local.monitoring.access = access
    sweep.use(next.keepAlive)
    hub.loops?.use(next.keepAlive)
    // Told whichever of the two levels shows it.
    log.setLowest(min(old.logLevel, next.logLevel))
    let changes = now.map { "\($0.key) \($0.value(old).plain) -> \($0.value(next).plain)" }
    log(
      .info, .settingsReloaded,
      "the settings were read again: \(changes.isEmpty ? "none changed" : changes.joined(separator: ", "))")
    if !later.isEmpty {
      log(
        .warning, .restartNeeded, "\(later.map(\.key).joined(separator: ", ")): changed, and needs a restart")
    }
    log.setLowest(next.logLevel)
    return next
  }

  private func refuseSettings(_ problem: String, others: Int) {
    let more = others == 0 ? "" : "; \(others) more, which 'touchline serve --check-config' tells"
    log(
      .error, .settingsRefused, "the settings stay as they were: \(problem)\(more)")
  }

  private func needsRestart(_ setting: Setting, _ next: ServerConfiguration) -> Bool {
    switch setting.key {
    // Other keys are one thing, to begin or to end checking another.
    case "keys": (configuration.keys == nil) != (next.keys == nil)
    case "client-ca": (configuration.clientAuthority == nil) != (next.clientAuthority == nil)
    default: setting.change == .restart
    }
  }

  // MARK: Keys and certificates

  private func reloadKeys(_ folder: String?) {
    guard let old = keys, let folder = folder ?? configuration.keys else { return }
    do {
      let new = try KeyRing(folder: folder)
      for note in new.notes { log(.warning, .keys, note) }
      let added = new.keyIDs.subtracting(old.keyIDs).map(\.text).sorted()
      let gone = old.keyIDs.subtracting(new.keyIDs).map(\.text).sorted()
      keys = new
      configuration.keys = folder
      access.use(new)
      registry.recheckAccess()
      let changes = [
        added.isEmpty ? nil : "new \(added.joined(separator: ", "))",
        gone.isEmpty ? nil : "gone \(gone.joined(separator: ", "))",
      ].compactMap(\.self)
      log(
        .info, .keysReloaded,
        "the keys were read again: \(new.teams.count) teams, \(new.keyIDs.count) keys, \(changes.isEmpty ? "the same ones" : changes.joined(separator: ", "))"
      )
    } catch {
      log(
        .error, .keysRefused, "the keys stay as they were: \("\(error)".replacing("\n", with: "; "))")
    }
  }

  /// Channels that nobody may subscribe to, because nobody could sign for it.
  func tellOfAppsWithoutTeam() {
    guard let keys else { return }
    let orphans = hub.allRooms.filter {
      $0.definition.subscribe == nil && keys.team(owning: $0.channel.settings.app) == nil
    }
    for app in Set(orphans.map(\.channel.settings.app)).sorted(by: { $0.identifier < $1.identifier }) {
      log(
        .warning, .keys,
        "\(app) is an app of no team, and nobody may subscribe to its channels; add it to a team in teams.json, or say \"subscribe\": \"open\" in their definitions"
      )
    }
  }

  private func reloadCertificates(_ next: ServerConfiguration) {
    let secure = [configuration.usesTLS ? main : nil, provider].compactMap(\.self)
    guard !secure.isEmpty else { return }
    var used = configuration
    used.certificate = next.certificate
    used.certificateKey = next.certificateKey
    used.tlsFolder = next.tlsFolder
    if used.clientAuthority != nil, next.clientAuthority != nil {
      used.clientAuthority = next.clientAuthority
    }
    do {
      let before = secure[0].certificateExpiry
      let identity = try used.identity(log)
      // Checked before any port takes it, so that they don't come to differ.
      try identity.check()
      for server in secure { try server.reload(tls: identity) }
      configuration = used
      let after = secure[0].certificateExpiry
      let end = after.map { Date(timeIntervalSince1970: Double($0)).formatted(.iso8601) } ?? "?"
      log(
        .info, .certificatesReloaded,
        "the certificates were read again: good until \(end)\(before == after ? ", as before" : "")")
    } catch {
      log(
        .error, .certificatesRefused, "the certificates stay as they were: \(error)")
    }
  }

  // MARK: Channels

  private func reloadChannels(_ folder: String?) {
    guard let folder else {
      configuration.channels = nil
      return
    }
    let definitions: [ChannelDefinition]
    do throws(ChannelLibrary.Broken) {
      definitions = try ChannelLibrary.load(folder: folder)
    } catch {
      return refuseChannels(error.lines[0], others: error.lines.count - 1)
    }
    // Everything is looked at before anything is changed.
    let conflicts = definitions.compactMap { definition -> String? in
      do throws(AnswerError) {
        try access.checkDefinition(definition)
        try hub.checkInstalling(definition)
        return nil
      } catch {
        return "\(folder)/\(definition.alias?.name ?? "").json: \(error.message)"
      }
    }
    guard conflicts.isEmpty else { return refuseChannels(conflicts[0], others: conflicts.count - 1) }
    install(definitions, from: folder)
  }

  private func refuseChannels(_ problem: String, others: Int) {
    log(
      .error, .channelsRefused,
      "the channels stay as they were: \(problem)\(others == 0 ? "" : "; \(others) more problems")")
  }

  private func install(_ definitions: [ChannelDefinition], from folder: String) {
    var names: [Hub.Installed: [String]] = [:]
    for definition in definitions {
      let name = definition.alias?.name ?? ""
      do throws(AnswerError) {
        let installed = try hub.install(definition) { [weak self] in
          // What was made is made; the next SIGHUP makes the rest.
          self?.refuseChannels("\(folder)/\(name).json: \($0.message)", others: 0)
        }
        names[installed, default: []].append(name)
      } catch {
        return refuseChannels("\(folder)/\(name).json: \(error.message)", others: 0)
      }
    }
    // Who may subscribe stands in a definition, too.
    if names[.changed] != nil { registry.recheckAccess() }
    configuration.channels = folder
    let aliases = Set(definitions.compactMap(\.alias))
    for alias in definedAliases.subtracting(aliases).sorted(by: { $0.name < $1.name })
    where hub.knownRoom(alias.name) != nil {
      log(
        .warning, .definitionGone,
        "channel \(alias): its definition is gone from \(folder); the channel stays ('touchline channel delete \(alias)' deletes it)",
        ["alias": alias.name])
    }
    definedAliases = aliases
    let changes = [("created", Hub.Installed.created), ("changed", .changed)].compactMap { word, installed in
      names[installed].map { "\(word) \($0.joined(separator: ", "))" }
    }
    log(
      .info, .channelsReloaded,
      "the channel definitions were read again: \((changes + ["\(names[.unchanged]?.count ?? 0) unchanged"]).joined(separator: "; "))"
    )
  }
}
