// Why: names in a certificate are ASN.1 strings in one of several encodings; everything above wants UTF-8.

import COpenSSL

extension PeerCertificate {
  init(_ certificate: Certificate) {
    let subject = X509_get_subject_name(certificate.raw)
    self.init(
      userIDs: Self.values(of: NID_userId, in: subject),
      commonNames: Self.values(of: NID_commonName, in: subject),
      alternativeNames: Self.alternativeNames(certificate), notAfter: certificate.notAfter ?? 0)
  }

  private static func values(of kind: Int32, in name: OpaquePointer?) -> [String] {
    var values: [String] = []
    var index = X509_NAME_get_index_by_NID(name, kind, -1)
    while index >= 0 {
      if let entry = X509_NAME_get_entry(name, index), let text = text(X509_NAME_ENTRY_get_data(entry)) {
        values.append(text)
      }
      index = X509_NAME_get_index_by_NID(name, kind, index)
    }
    return values
  }

  private static func alternativeNames(_ certificate: Certificate) -> [String] {
    guard let list = X509_get_ext_d2i(certificate.raw, NID_subject_alt_name, nil, nil) else { return [] }
    let stack = OpaquePointer(list)
    defer { GENERAL_NAMES_free(stack) }
    var names: [String] = []
    for index in 0..<max(0, OPENSSL_sk_num(stack)) {
      guard let item = OPENSSL_sk_value(stack, index) else { continue }
      let name = item.assumingMemoryBound(to: GENERAL_NAME.self).pointee
      // The three kinds share one representation, IA5String (x509v3.h, GENERAL_NAME_st).
      guard [GEN_DNS, GEN_EMAIL, GEN_URI].contains(name.type), let text = text(name.d.ia5) else { continue }
      names.append(text)
    }
    return names
  }

  private static func text(_ string: UnsafePointer<ASN1_STRING>?) -> String? {
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = ASN1_STRING_to_UTF8(&bytes, string)
    guard count >= 0, let bytes else {
      ERR_clear_error()
      return nil
    }
    defer { CRYPTO_free(bytes, #file, #line) }
    return String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
  }
}
