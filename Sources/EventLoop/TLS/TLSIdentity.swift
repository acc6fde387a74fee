// Why: what an operator says about a secure listener, as a value: it can be made, compared and replaced
// (HTTPServer.reload(tls:)) without touching OpenSSL.

/// PEM text, and what to call it in an error.
public enum PEMSource: Sendable, Hashable {
  /// A file, read when the server is made and again with each reload.
  case file(String)
  /// Bytes at hand; `name` stands for the path in errors.
  case bytes([UInt8], name: String)

  /// The path or the name.
  public var name: String {
    switch self {
    case .file(let path): path
    case .bytes(_, let name): name
    }
  }
}

/// What a server shows its clients, and what it asks of them.
public struct TLSIdentity: Sendable, Equatable {
  /// Which clients' certificates are asked for and trusted.
  public struct ClientAuthority: Sendable, Equatable {
    /// The certificates, one or more, that sign the clients' ones.
    public var certificates: PEMSource
    /// A client without a certificate is refused in the handshake. Otherwise it is let in, and
    /// ``HTTPPeer/clientCertificate`` is nil. A certificate that is not trusted is refused in either case.
    public var isRequired: Bool

    /// Makes an authority.
    public init(certificates: PEMSource, isRequired: Bool) {
      self.certificates = certificates
      self.isRequired = isRequired
    }
  }

  /// The server's certificate, followed by those that signed it, the root excepted.
  public var certificateChain: PEMSource
  /// The key of the first certificate, not encrypted.
  public var privateKey: PEMSource
  /// Whose clients are trusted; nil asks for no certificate.
  public var clientAuthority: ClientAuthority?

  /// Makes an identity; nothing is read yet.
  public init(
    certificateChain: PEMSource, privateKey: PEMSource, clientAuthority: ClientAuthority? = nil
  ) {
    self.certificateChain = certificateChain
    self.privateKey = privateKey
    self.clientAuthority = clientAuthority
  }

  /// Reads all of it, as a server does.
  /// - Throws: ``EventLoopError/badTLSFile(path:reason:)``.
  public func check() throws(EventLoopError) { _ = try TLSContext(self) }
}

/// What a verified client certificate says of its owner.
public struct PeerCertificate: Sendable, Equatable {
  /// The user ids (UID, OID 0.9.2342.19200300.100.1.1) of the subject, in order; Apple puts a bundle id there.
  public var userIDs: [String]
  /// The common names (CN) of the subject, in order.
  public var commonNames: [String]
  /// The DNS names, mail addresses and URIs of the subject alternative name.
  public var alternativeNames: [String]
  /// When it expires, in seconds since 1970.
  public var notAfter: Int

  /// Makes a description, for tests of a service.
  public init(
    userIDs: [String] = [], commonNames: [String] = [], alternativeNames: [String] = [], notAfter: Int = 0
  ) {
    self.userIDs = userIDs
    self.commonNames = commonNames
    self.alternativeNames = alternativeNames
    self.notAfter = notAfter
  }
}
