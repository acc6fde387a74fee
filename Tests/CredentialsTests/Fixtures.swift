import BroadcastChannels
import Credentials
import Foundation
import Testing

/// A folder of its own for a test, removed at the end.
final class Folder {
  let path: String

  init() throws {
    path =
      FileManager.default.temporaryDirectory.appendingPathComponent("touchline-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  func write(_ bytes: [UInt8], _ name: String, mode: Int = 0o600) throws {
    try Data(bytes).write(to: URL(fileURLWithPath: file(name)))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file(name))
  }

  func write(_ text: String, _ name: String) throws { try write(Array(text.utf8), name) }

  func read(_ name: String) throws -> String {
    try String(contentsOfFile: file(name), encoding: .utf8)
  }

  func mode(_ name: String) throws -> Int {
    let attributes = try FileManager.default.attributesOfItem(atPath: name.isEmpty ? path : file(name))
    return try #require(attributes[.posixPermissions] as? Int)
  }
}

/// Two teams with a key each, and the tokens that they sign.
struct TwoTeams {
  static let now = Date(timeIntervalSince1970: 1_800_000_000)

  let keyID: KeyID
  let otherKeyID: KeyID
  let team: TeamID
  let otherTeam: TeamID
  let key: SigningKey
  let otherKey: SigningKey

  init() throws {
    keyID = try #require(KeyID("ABC123DEFG"))
    otherKeyID = try #require(KeyID("ZYX987WVUT"))
    team = try #require(TeamID("TEAM123456"))
    otherTeam = try #require(TeamID("OTHER98765"))
    key = try SigningKey.generate()
    otherKey = try SigningKey.generate()
  }

  func ring() throws -> KeyRing {
    try KeyRing(
      teams: Array(
        #"""
        { "TEAM123456": { "keys": ["ABC123DEFG"], "apps": ["com.example.scores", "com.example.news.*"] },
          "OTHER98765": { "keys": ["ZYX987WVUT"], "apps": ["org.example.other"], "subscribe": "token" } }
        """#.utf8), keys: [keyID: key.verifyingKey(), otherKeyID: otherKey.verifyingKey()])
  }

  /// Any header and claims, signed as they are.
  func signed(_ header: String, _ claims: String, by other: SigningKey? = nil) throws -> String {
    let text = "\(base64URL(Array(header.utf8))).\(base64URL(Array(claims.utf8)))"
    return "\(text).\(base64URL(try (other ?? key).signature(of: Array(text.utf8))))"
  }

  /// A provider token with these claims.
  func provider(_ claims: String) throws -> String {
    try signed(#"{"alg":"ES256","kid":"ABC123DEFG"}"#, claims)
  }
}

/// Base64url without padding, by Foundation.
func base64URL(_ bytes: [UInt8]) -> String {
  Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
    .replacing("=", with: "")
}

func bundle(_ text: String) throws -> BundleID { try #require(BundleID(text)) }
