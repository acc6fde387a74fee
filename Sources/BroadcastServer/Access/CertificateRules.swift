import BroadcastChannels
import EventLoop

/// What a client certificate entitles to.
///
/// Apple's certificates name the app in the subject: its user id is the bundle id, its common name a kind and the
/// bundle id, such as `Apple Push Services: com.example.scores`. A certificate of one's own may do the same, or have
/// the bundle id alone as its common name.
/// Source: Apple, "Establishing a certificate-based connection to APNs".
struct CertificateRules {
  let environment: ServerConfiguration.Environment

  /// - Throws: `BadCertificate` when no app is named, `BadCertificateEnvironment` for one of the other environment.
  func provider(_ certificate: PeerCertificate) throws(AnswerError) -> Provider {
    let kinds = certificate.commonNames.map { Self.parts($0).kind }
    for (kind, other) in [("Apple Development", .production), ("Apple Production", .development)]
      as [Mismatch]
    where environment == other && kinds.contains(where: { $0.hasPrefix(kind) }) {
      throw AnswerError(
        Refusal(
          .badCertificateEnvironment,
          "the client certificate is an \"\(kind)\" one, and this server stands in for \(environment.rawValue); use another, or start it with --environment"
        ))
    }
    let names = certificate.userIDs + certificate.commonNames.map { Self.parts($0).name }
    let apps = Set(
      names.compactMap { BundleID($0) }.filter { !$0.hasPushTypeSuffix && $0.identifier.contains(".") })
    guard let first = apps.min(by: { $0.identifier < $1.identifier }) else {
      throw AnswerError(
        Refusal(
          .badCertificate,
          "the client certificate's subject names no app; a UID or CN that is a bundle id was expected"))
    }
    return Provider(
      name: "the certificate of \(first)", keyID: nil, team: nil, owns: { apps.contains($0) }, expires: nil)
  }

  private typealias Mismatch = (kind: String, environment: ServerConfiguration.Environment)

  /// `Apple Push Services: com.example.scores` taken apart.
  private static func parts(_ commonName: String) -> (kind: String, name: String) {
    guard let colon = commonName.firstIndex(of: ":") else { return ("", commonName) }
    let name = commonName[commonName.index(after: colon)...].drop { $0 == " " }
    return (String(commonName[..<colon]), String(name))
  }
}
