import BroadcastChannels
import Credentials
import EventLoop

extension LayeredConfiguration {
  /// Reads what the settings name, as a server does that starts with them, and adds what is wrong to the problems. Nothing is
  /// made or changed; ports and the store are not tried.
  public mutating func tryOut() {
    let configuration = configuration
    var ring: KeyRing?
    tryOut("keys") { ring = try configuration.keys.map { try KeyRing(folder: $0) } }
    tryOut("metrics-token") { _ = try MetricsAccess(configuration) }
    if let certificate = configuration.certificate, let key = configuration.certificateKey {
      tryOut("tls-cert") {
        try TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key)).check()
      }
    }
    if let authority = configuration.clientAuthority {
      tryOut("client-ca") { try ClientTLS(authority: .file(authority)).check() }
    }
    let access = AccessControl(configuration, keys: ring, now: { .distantPast })
    if access.isOpen, configuration.isReachable, !configuration.isOpenToAll, configuration.keys == nil {
      add(
        OpenToAll(configuration).description,
        for: configuration.listen.isLoopback ? "provider-listen" : "listen")
    }
    guard let folder = configuration.channels else { return }
    do throws(ChannelLibrary.Broken) {
      // Without the keys nobody can tell whether a definition goes with them.
      let areKeysBroken = configuration.keys != nil && ring == nil
      for definition in try ChannelLibrary.load(folder: folder) where !areKeysBroken {
        tryOut("channels") {
          do throws(AnswerError) {
            try access.checkDefinition(definition)
          } catch {
            throw DefinitionConflict(alias: definition.alias?.name ?? "", problem: error.message)
          }
        }
      }
    } catch {
      for line in error.lines { add(line, for: "channels") }
    }
  }

  private mutating func tryOut(_ key: String, _ body: () throws -> Void) {
    do { try body() } catch { add("\(error)".replacing("\n", with: "; "), for: key) }
  }
}
