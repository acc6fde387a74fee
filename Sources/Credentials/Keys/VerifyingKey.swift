import COpenSSL

/// The public half of a P-256 key, which checks signatures (ES256).
///
/// Nothing here needs constant time: key, message and signature are all known to whoever sent the token.
public struct VerifyingKey {
  /// Bytes of an ES256 signature: r and s, 32 each (RFC 7518, 3.4).
  public static let signatureBytes = 64

  private let handle: KeyHandle
  /// Whether the text also held the private half, which a server doesn't need.
  let cameWithPrivateHalf: Bool

  /// Reads a public key (`PUBLIC KEY`), or the public half of a private one. The private half isn't kept.
  ///
  /// - Parameters:
  ///   - pem: PEM, not encrypted.
  ///   - source: the file's name, for messages.
  public init(pem: [UInt8], source: String) throws(KeyError) {
    let (key, half) = try KeyHandle.read(pem: pem, source: source)
    switch half {
    case .secret: try self.init(publicHalfOf: key, source: source)
    case .open: self.init(handle: key, cameWithPrivateHalf: false)
    }
  }

  private init(handle: KeyHandle, cameWithPrivateHalf: Bool) {
    self.handle = handle
    self.cameWithPrivateHalf = cameWithPrivateHalf
  }

  init(publicHalfOf key: KeyHandle, source: String) throws(KeyError) {
    guard let pem = OpenSSLMemory.written({ PEM_write_bio_PUBKEY($0, key.pointer) }) else {
      throw KeyError(source: source, message: "has no public half")
    }
    self.init(handle: try KeyHandle.read(pem: pem, source: source).key, cameWithPrivateHalf: true)
  }

  /// The key as PEM (`PUBLIC KEY`).
  public func pem() throws(KeyError) -> [UInt8] {
    guard let pem = OpenSSLMemory.written({ PEM_write_bio_PUBKEY($0, handle.pointer) }) else {
      throw KeyError(source: "OpenSSL", message: "can't write the key as PEM")
    }
    return pem
  }

  /// Whether two keys are the same.
  func isSame(as other: VerifyingKey) -> Bool {
    defer { ERR_clear_error() }
    return EVP_PKEY_eq(handle.pointer, other.handle.pointer) == 1
  }

  /// Whether a signature, r and s of 32 bytes each, is this key's for a message.
  ///
  /// r or s of 0, or beyond the curve's order, is no signature; OpenSSL checks that (X9.62, 7.4.1).
  public func isValid(signature: [UInt8], of message: [UInt8]) -> Bool {
    defer { ERR_clear_error() }
    guard signature.count == Self.signatureBytes, let der = Self.der(signature),
      let context = EVP_MD_CTX_new()
    else { return false }
    defer { EVP_MD_CTX_free(context) }
    // 0 means wrong, below 0 another failure: only 1 is right (EVP_DigestVerify(3)).
    return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1
      && EVP_DigestVerify(context, der, der.count, message, message.count) == 1
  }

  /// The pair as OpenSSL wants it: DER.
  private static func der(_ signature: [UInt8]) -> [UInt8]? {
    signature.withUnsafeBufferPointer { buffer -> [UInt8]? in
      guard let base = buffer.baseAddress, let pair = ECDSA_SIG_new() else { return nil }
      defer { ECDSA_SIG_free(pair) }
      let half = signatureBytes / 2
      let r = BN_bin2bn(base, Int32(half), nil)
      let s = BN_bin2bn(base + half, Int32(half), nil)
      // "set0" takes the numbers over only when it succeeds (ECDSA_SIG_set0(3)).
      guard let r, let s, ECDSA_SIG_set0(pair, r, s) == 1 else {
        BN_free(r)
        BN_free(s)
        return nil
      }
      var encoded: UnsafeMutablePointer<UInt8>?
      let length = i2d_ECDSA_SIG(pair, &encoded)
      guard length > 0, let encoded else { return nil }
      // OPENSSL_free() is a macro of this (OPENSSL_malloc(3)).
      defer { CRYPTO_free(encoded, #file, #line) }
      return Array(UnsafeBufferPointer(start: encoded, count: Int(length)))
    }
  }
}
