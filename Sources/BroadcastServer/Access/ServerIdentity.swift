import Credentials
import EventLoop
import Foundation

extension ServerConfiguration {
  /// Whether somebody said which certificates to use, or that there must be some.
  var namesCertificates: Bool { certificate != nil || clientAuthority != nil || usesTLS }

  /// The certificate that the server shows, and whose clients' it takes.
  ///
  /// - Throws: when the development authority's files can't be made or read. Named files are read by the listener.
  func identity(_ log: ServerLog) throws -> TLSIdentity {
    let authority = clientAuthority.map {
      // Not required in the handshake: who has none is told the API's reason, and may have a token.
      TLSIdentity.ClientAuthority(certificates: .file($0), isRequired: false)
    }
    if let certificate, let certificateKey {
      return TLSIdentity(
        certificateChain: .file(certificate), privateKey: .file(certificateKey), clientAuthority: authority)
    }
    let environment = ProcessInfo.processInfo.environment
    let development = try DevelopmentAuthority(
      folder: tlsFolder ?? DevelopmentAuthority.standardFolder(store: store, environment: environment),
      now: Date())
    for note in development.notes { log(.warning, .certificate, note) }
    if development.outcome != .kept {
      log(
        .info, .certificate,
        "a development certificate was made in \(development.folder); 'touchline trust --tls-dir \(development.folder)' tells how to trust it"
      )
    }
    return TLSIdentity(
      certificateChain: .file(development.certificatePath), privateKey: .file(development.keyPath),
      clientAuthority: authority)
  }
}
