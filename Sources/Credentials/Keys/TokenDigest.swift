import COpenSSL

/// The SHA-256 of a token: what stands for it in caches, so that no token is kept.
///
/// Comparing digests needs no constant time. An attacker who learned how many bytes of a digest agree would have to
/// find tokens by their digest to make use of it, which SHA-256 prevents; and a token that isn't signed is refused
/// whatever its digest is.
struct TokenDigest: Sendable, Hashable {
  private var words = SIMD4<UInt64>()

  init(_ text: String) {
    var text = text
    defer { ERR_clear_error() }
    let isMade = text.withUTF8 { token in
      withUnsafeMutableBytes(of: &words) { digest in
        EVP_Digest(token.baseAddress, token.count, digest.baseAddress, nil, EVP_sha256(), nil) == 1
      }
    }
    // Only without memory, or without SHA-256 in the library. Two tokens must never be taken for one.
    precondition(isMade, "OpenSSL has no SHA-256")
  }
}
