import COpenSSL

/// The private half of a P-256 key, which signs tokens (ES256).
///
/// It can't be printed: no description of it holds any of the key. OpenSSL's P-256 code takes the same time whatever the
/// key is, and makes a fresh secret number for each signature.
public struct SigningKey {
  let handle: KeyHandle

  /// Reads a private key, such as Apple's `AuthKey_<key id>.p8`.
  ///
  /// - Parameters:
  ///   - pem: PKCS#8 (`PRIVATE KEY`) or SEC 1 (`EC PRIVATE KEY`), not encrypted.
  ///   - source: the file's name, for messages.
  public init(pem: [UInt8], source: String) throws(KeyError) {
    let (key, half) = try KeyHandle.read(pem: pem, source: source)
    guard half == .secret else {
      throw KeyError(
        source: source, message: "holds the public half of a key; signing needs the private one")
    }
    handle = key
  }

  private init(handle: KeyHandle) { self.handle = handle }

  /// Makes a new key.
  public static func generate() throws(KeyError) -> SigningKey {
    guard let handle = KeyHandle.generate() else {
      throw KeyError(source: "OpenSSL", message: "can't make a key on P-256")
    }
    return SigningKey(handle: handle)
  }

  /// The key as PKCS#8 PEM: a secret, for a file that only its owner can read.
  public func pem() throws(KeyError) -> [UInt8] {
    let pem = OpenSSLMemory.written { bio in
      PEM_write_bio_PKCS8PrivateKey(bio, handle.pointer, nil, nil, 0, nil, nil)
    }
    guard let pem else { throw KeyError(source: "OpenSSL", message: "can't write the key as PEM") }
    return pem
  }

  /// The public half.
  public func verifyingKey() throws(KeyError) -> VerifyingKey {
    try VerifyingKey(publicHalfOf: handle, source: "OpenSSL")
  }

  /// Signs a message with ECDSA and SHA-256.
  ///
  /// - Returns: 64 bytes, r and s of 32 bytes each in big-endian order (RFC 7518, 3.4). OpenSSL gives the two as DER.
  public func signature(of message: [UInt8]) throws(KeyError) -> [UInt8] {
    guard let der = derSignature(of: message), let signature = Self.fixed(der) else {
      throw KeyError(source: "OpenSSL", message: "can't sign with this key")
    }
    return signature
  }

  private func derSignature(of message: [UInt8]) -> [UInt8]? {
    defer { ERR_clear_error() }
    guard let context = EVP_MD_CTX_new() else { return nil }
    defer { EVP_MD_CTX_free(context) }
    // The first call tells the longest that the signature can be, the second how long it is (EVP_DigestSign(3)).
    var length = 0
    guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1,
      EVP_DigestSign(context, nil, &length, message, message.count) == 1
    else { return nil }
    var der = [UInt8](repeating: 0, count: length)
    guard EVP_DigestSign(context, &der, &length, message, message.count) == 1 else { return nil }
    return Array(der.prefix(length))
  }

  private static func fixed(_ der: [UInt8]) -> [UInt8]? {
    defer { ERR_clear_error() }
    return der.withUnsafeBufferPointer { buffer -> [UInt8]? in
      var next = buffer.baseAddress
      guard let pair = d2i_ECDSA_SIG(nil, &next, buffer.count) else { return nil }
      defer { ECDSA_SIG_free(pair) }
      var signature = [UInt8](repeating: 0, count: VerifyingKey.signatureBytes)
      let half = Int32(VerifyingKey.signatureBytes / 2)
      let isWritten = signature.withUnsafeMutableBufferPointer { out -> Bool in
        guard let base = out.baseAddress else { return false }
        return BN_bn2binpad(ECDSA_SIG_get0_r(pair), base, half) == half
          && BN_bn2binpad(ECDSA_SIG_get0_s(pair), base + Int(half), half) == half
      }
      return isWritten ? signature : nil
    }
  }
}

extension SigningKey: CustomStringConvertible {
  /// That it is a key, and nothing of it.
  public var description: String { "a private key on P-256" }
}
