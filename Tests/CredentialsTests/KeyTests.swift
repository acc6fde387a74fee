import Credentials
import Foundation
import Testing
import TestSupport

@Suite("Keys")
struct KeyTests {
  /// RFC 7515, appendix A.3: the key's coordinates as SubjectPublicKeyInfo. The 26 bytes in front are P-256's constant
  /// part (RFC 5480, 2): SEQUENCE, ecPublicKey, prime256v1, BIT STRING, and 04 for an uncompressed point.
  static let rfcKey: String = {
    let prefix: [UInt8] = [
      0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86,
      0x48,
      0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
    ]
    let x: [UInt8] = [
      127, 205, 206, 39, 112, 246, 196, 93, 65, 131, 203, 238, 111, 219, 75, 123, 88, 7, 51, 53, 123, 233,
      239, 19,
      186, 207, 110, 60, 123, 209, 84, 69,
    ]
    let y: [UInt8] = [
      199, 241, 68, 205, 27, 189, 155, 126, 135, 44, 223, 237, 185, 238, 185, 244, 179, 105, 93, 110, 169, 11,
      36,
      173, 138, 70, 35, 40, 133, 136, 229, 173,
    ]
    return
      "-----BEGIN PUBLIC KEY-----\n\(Data(prefix + x + y).base64EncodedString())\n-----END PUBLIC KEY-----\n"
  }()

  /// Found by fuzzing: OpenSSL reads both halves as they stand. Byte 40 of PKCS#8 is in the private one (RFC 5915).
  @Test("a private key whose halves don't belong together is refused")
  func damaged() throws {
    let pem = String(decoding: try SigningKey.generate().pem(), as: UTF8.self)
    let text = pem.split(separator: "\n").dropFirst().dropLast().joined()
    var der = try #require(Data(base64Encoded: text))
    der[40] ^= 1
    let damaged = "-----BEGIN PRIVATE KEY-----\n\(der.base64EncodedString())\n-----END PRIVATE KEY-----\n"
    for read in [
      { _ = try SigningKey(pem: $0, source: "k.p8") }, { _ = try VerifyingKey(pem: $0, source: "k.p8") },
    ] as [([UInt8]) throws -> Void] {
      let error = #expect(throws: KeyError.self) { try read(Array(damaged.utf8)) }
      #expect(error?.message.contains("don't belong together") == true)
    }
  }

  static let rfcSigned =
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

  /// RFC 7515, A.3.1: R and S.
  static let rfcSignature: [UInt8] = [
    14, 209, 33, 83, 121, 99, 108, 72, 60, 47, 127, 21, 88, 7, 212, 2, 163, 178, 40, 3, 58, 249, 124, 126, 23,
    129,
    154, 195, 22, 158, 166, 101, 197, 10, 7, 211, 140, 60, 112, 229, 216, 241, 45, 175, 8, 74, 84, 128, 166,
    101,
    144, 197, 242, 147, 80, 154, 143, 63, 127, 138, 131, 163, 84, 213,
  ]

  @Test("the signature of RFC 7515, A.3 holds, and doesn't with any bit changed")
  func rfcVector() throws {
    let key = try VerifyingKey(pem: Array(Self.rfcKey.utf8), source: "RFC 7515")
    let message = Array(Self.rfcSigned.utf8)
    #expect(key.isValid(signature: Self.rfcSignature, of: message))
    for place in Self.rfcSignature.indices {
      var changed = Self.rfcSignature
      changed[place] ^= 1
      #expect(!key.isValid(signature: changed, of: message))
    }
    #expect(!key.isValid(signature: Self.rfcSignature, of: message + [0]))
  }

  @Test("r and s of 0, of ones, or of the wrong length are no signature")
  func impossibleSignatures() throws {
    let key = try SigningKey.generate().verifyingKey()
    for signature in [
      [UInt8](repeating: 0, count: 64), [UInt8](repeating: 255, count: 64), [],
      [UInt8](repeating: 1, count: 63),
      Self.rfcSignature + [0],
    ] {
      #expect(!key.isValid(signature: signature, of: [1, 2, 3]))
    }
  }

  @Test("a new key signs, its PEM is read back, and the public half alone can't sign")
  func roundTrip() throws {
    let key = try SigningKey.generate()
    let pem = try key.pem()
    #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
    let signature = try SigningKey(pem: pem, source: "a").signature(of: [1, 2, 3])
    #expect(signature.count == 64)
    let open = try key.verifyingKey()
    #expect(open.isValid(signature: signature, of: [1, 2, 3]))
    #expect(try VerifyingKey(pem: pem, source: "a").isValid(signature: signature, of: [1, 2, 3]))
    #expect(try !SigningKey.generate().verifyingKey().isValid(signature: signature, of: [1, 2, 3]))
    let openPEM = try open.pem()
    #expect(String(decoding: openPEM, as: UTF8.self).hasPrefix("-----BEGIN PUBLIC KEY-----\n"))
    #expect(throws: KeyError.self) { try SigningKey(pem: openPEM, source: "a") }
  }

  @Test("the openssl command accepts what is signed here")
  func independentVerification() throws {
    let folder = try Folder()
    let key = try SigningKey.generate()
    let message = Array("header.claims".utf8)
    let signature = try key.signature(of: message)
    try folder.write(message, "message")
    try folder.write(try key.verifyingKey().pem(), "key.pem")
    // DER by hand: two INTEGERs, with a 0 in front where the first bit is set, and no needless 0 (X.690, 8.3).
    func integer(_ half: ArraySlice<UInt8>) -> [UInt8] {
      var bytes = Array(half.drop { $0 == 0 })
      if (bytes.first ?? 0x80) >= 0x80 { bytes.insert(0, at: 0) }
      return [0x02, UInt8(bytes.count)] + bytes
    }
    let body = integer(signature[..<32]) + integer(signature[32...])
    try folder.write([0x30, UInt8(body.count)] + body, "signature")
    let output = try run(
      "/usr/bin/openssl",
      [
        "dgst", "-sha256", "-verify", folder.file("key.pem"), "-signature", folder.file("signature"),
        folder.file("message"),
      ])
    #expect(output.contains("Verified OK"), "\(output)")
  }

  @Test("a key that the openssl command made is read, with the parameters that old commands put in front")
  func foreignKeys() throws {
    let folder = try Folder()
    _ = try run(
      "/usr/bin/openssl", ["ecparam", "-name", "prime256v1", "-genkey", "-out", folder.file("sec1.pem")])
    _ = try run(
      "/usr/bin/openssl",
      ["pkcs8", "-topk8", "-nocrypt", "-in", folder.file("sec1.pem"), "-out", folder.file("k.p8")])
    _ = try run(
      "/usr/bin/openssl", ["ec", "-in", folder.file("sec1.pem"), "-pubout", "-out", folder.file("pub.pem")])
    let open = try VerifyingKey(pem: Array(try folder.read("pub.pem").utf8), source: "pub.pem")
    for name in ["sec1.pem", "k.p8"] {
      let key = try SigningKey(pem: Array(try folder.read(name).utf8), source: name)
      #expect(open.isValid(signature: try key.signature(of: [7]), of: [7]))
    }
  }

  @Test("what is no P-256 key is refused with the file's name and what it is")
  func wrongKeys() throws {
    let folder = try Folder()
    let openssl: [(String, [String])] = [
      ("rsa.pem", ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out"]),
      ("p384.pem", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out"]),
      ("k1.pem", ["ecparam", "-name", "secp256k1", "-genkey", "-out"]),
      ("ed.pem", ["genpkey", "-algorithm", "ED25519", "-out"]),
      (
        "encrypted.pem",
        [
          "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes-128-cbc", "-pass",
          "pass:secret",
          "-out",
        ]
      ),
      (
        "certificate.pem",
        [
          "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
          "-keyout",
          "/dev/null", "-out",
        ]
      ),
    ]
    for (name, words) in openssl { _ = try run("/usr/bin/openssl", words + [folder.file(name)]) }
    _ = try run(
      "/usr/bin/openssl",
      ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder.file("k.pem")])
    _ = try run(
      "/usr/bin/openssl",
      [
        "ec", "-in", folder.file("k.pem"), "-aes128", "-passout", "pass:secret", "-out",
        folder.file("legacy.pem"),
      ])
    let good = try SigningKey.generate().pem()
    try folder.write([], "empty.pem")
    try folder.write("hello\n", "text.pem")
    try folder.write(Array(good.prefix(80)), "cut.pem")
    try folder.write(good + good, "two.pem")
    try folder.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "junk.pem")
    let cases = [
      ("rsa.pem", "holds a key of the type RSA"), ("p384.pem", "holds a key on the curve secp384r1"),
      ("k1.pem", "holds a key on the curve secp256k1"), ("ed.pem", "holds a key of the type ED25519"),
      ("encrypted.pem", "holds an encrypted key"), ("legacy.pem", "holds an encrypted key"),
      ("certificate.pem", "holds a certificate; a key was expected"), ("empty.pem", "is empty"),
      ("text.pem", "is not PEM"), ("cut.pem", "holds no key that can be read"), ("two.pem", "holds 2 keys"),
      ("junk.pem", "holds no key that can be read"),
    ]
    for (name, message) in cases {
      let error = #expect(throws: KeyError.self) {
        try VerifyingKey(pem: Array(try folder.read(name).utf8), source: name)
      }
      #expect(error?.description.hasPrefix("\(name): ") == true)
      #expect(error?.message.contains(message) == true, "\(name): \(error?.message ?? "")")
    }
  }

  @Test("printing a key shows nothing of it")
  func description() throws {
    let key = try SigningKey.generate()
    #expect("\(key)" == "a private key on P-256")
    #expect(!"\(String(reflecting: key))".contains("BEGIN"))
  }

  @Test(
    "secrets are the same byte by byte, whatever their lengths",
    arguments: [
      ("", "", true), ("abc", "abc", true), ("abc", "abd", false), ("abc", "abcd", false), ("", "a", false),
    ])
  func secrets(_ one: String, _ other: String, _ isSame: Bool) {
    #expect(isSameSecret(one.utf8, other.utf8) == isSame)
  }
}
