// Why: an X509 of OpenSSL is freed by hand and made field by field. This class owns one, makes the two kinds that the
// development authority needs, and answers the few questions it has.

import COpenSSL
import Foundation

/// Owns an X509. It never changes once it is made.
final class Certificate {
  let pointer: OpaquePointer

  private init(owning pointer: OpaquePointer) { self.pointer = pointer }

  deinit { X509_free(pointer) }

  // MARK: Reading and writing

  /// The first certificate of a PEM text; nil when there is none that can be read.
  convenience init?(pem: [UInt8]) {
    let pointer = OpenSSLMemory.reading(pem) { PEM_read_bio_X509($0, nil, refusePassword, nil) }
    guard let pointer else { return nil }
    self.init(owning: pointer)
  }

  /// The certificate as PEM; nil when OpenSSL has no memory.
  var pem: [UInt8]? { OpenSSLMemory.written { PEM_write_bio_X509($0, pointer) } }

  // MARK: Making

  /// What is written into a new certificate.
  struct Content {
    /// The subject's common name, cut to the 64 characters that it may have (RFC 5280, A.1).
    var commonName: String
    /// The first second in which it is good.
    var from: Date
    /// The last.
    var until: Date
    /// Extensions in the order given, in the words of OpenSSL's configuration (x509v3_config(5)).
    var extensions: [(id: Int32, value: String)]
  }

  /// Makes a certificate.
  ///
  /// - Parameters:
  ///   - key: the key that it is for.
  ///   - issuer: who signs: a certificate and its key; nil when the certificate signs itself.
  /// - Returns: nil when OpenSSL refuses a value, or has no memory.
  static func make(
    _ content: Content, for key: KeyHandle, issuer: (certificate: Certificate, key: KeyHandle)?
  ) -> Certificate? {
    defer { ERR_clear_error() }
    guard let pointer = X509_new() else { return nil }
    let certificate = Certificate(owning: pointer)
    let name = Array(content.commonName.prefix(64).utf8)
    // Version 3 is written as 2 (RFC 5280, 4.1.2.1). The lengths of -1 and 0 and the set 0 mean a new part of the
    // name at its end (X509_NAME_add_entry_by_txt(3)).
    guard X509_set_version(pointer, 2) == 1, setRandomSerial(pointer),
      X509_NAME_add_entry_by_txt(
        X509_get_subject_name(pointer), "CN", MBSTRING_UTF8, name, Int32(name.count), -1, 0) == 1,
      X509_set_issuer_name(pointer, X509_get_subject_name(issuer?.certificate.pointer ?? pointer)) == 1,
      ASN1_TIME_set(X509_getm_notBefore(pointer), time_t(content.from.timeIntervalSince1970)) != nil,
      ASN1_TIME_set(X509_getm_notAfter(pointer), time_t(content.until.timeIntervalSince1970)) != nil,
      X509_set_pubkey(pointer, key.pointer) == 1
    else { return nil }
    for (id, value) in content.extensions {
      guard let made = certificate.makeExtension(id, value, issuer: issuer?.certificate) else { return nil }
      defer { X509_EXTENSION_free(made) }
      // The certificate keeps a copy (X509_add_ext(3)).
      guard X509_add_ext(pointer, made, -1) == 1 else { return nil }
    }
    // Gives the length of the signature, 0 for a failure (X509_sign(3)).
    guard X509_sign(pointer, issuer?.key.pointer ?? key.pointer, EVP_sha256()) > 0 else { return nil }
    return certificate
  }

  private func makeExtension(_ id: Int32, _ value: String, issuer: Certificate?) -> OpaquePointer? {
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, issuer?.pointer ?? pointer, pointer, nil, nil, 0)
    return X509V3_EXT_conf_nid(nil, &context, id, value)
  }

  /// 127 random bits: never negative, and no two alike (RFC 5280, 4.1.2.2, allows up to 159).
  private static func setRandomSerial(_ pointer: OpaquePointer) -> Bool {
    guard let number = BN_new() else { return false }
    defer { BN_free(number) }
    return BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1
      && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(pointer)) != nil
  }

  // MARK: Questions

  /// The first second in which it is good; nil when the certificate holds no readable date.
  var from: Date? { date(X509_get0_notBefore(pointer)) }

  /// The last second in which it is good; nil when the certificate holds no readable date.
  var until: Date? { date(X509_get0_notAfter(pointer)) }

  private func date(_ time: UnsafePointer<ASN1_TIME>?) -> Date? {
    defer { ERR_clear_error() }
    var parts = tm()
    guard ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
    return Date(timeIntervalSince1970: Double(timegm(&parts)))
  }

  /// SHA-256 of the certificate, as browsers and the openssl command show it: `AB:CD:…`.
  var fingerprint: String {
    defer { ERR_clear_error() }
    var digest = [UInt8](repeating: 0, count: 32)
    guard X509_digest(pointer, EVP_sha256(), &digest, nil) == 1 else { return "" }
    return digest.map { String(format: "%02X", $0) }.joined(separator: ":")
  }

  /// Whether a private key is this certificate's.
  func belongs(to key: KeyHandle) -> Bool {
    defer { ERR_clear_error() }
    return X509_check_private_key(pointer, key.pointer) == 1
  }

  /// Whether another certificate issued this one.
  func isIssued(by authority: Certificate) -> Bool {
    defer { ERR_clear_error() }
    guard let key = X509_get0_pubkey(authority.pointer) else { return false }
    return X509_check_issued(authority.pointer, pointer) == X509_V_OK && X509_verify(pointer, key) == 1
  }

  /// Whether it may issue others.
  var isAuthority: Bool {
    defer { ERR_clear_error() }
    return X509_check_ca(pointer) >= 1
  }

  /// Whether an extension says exactly what it would say in a new certificate.
  func hasExtension(_ id: Int32, _ value: String) -> Bool {
    defer { ERR_clear_error() }
    let place = X509_get_ext_by_NID(pointer, id, -1)
    guard place >= 0, let own = X509_get_ext(pointer, place),
      let wanted = makeExtension(id, value, issuer: nil)
    else { return false }
    defer { X509_EXTENSION_free(wanted) }
    return ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(own), X509_EXTENSION_get_data(wanted)) == 0
  }
}
