import Credentials
import Foundation
import Testing

/// A key whose file is in a folder of keys.
struct Key {
  let id: KeyID
  let team: TeamID
  let signing: SigningKey

  init(_ id: String, _ team: String) throws {
    self.id = try #require(KeyID(id))
    self.team = try #require(TeamID(team))
    signing = try SigningKey.generate()
  }

  /// A provider token, made some seconds ago.
  func token(age: Double = 0) throws -> String {
    try ProviderToken.mint(key: signing, keyID: id, team: team, at: Date(timeIntervalSinceNow: -age))
  }

  /// A provider token with a header and claims of one's own.
  func token(header: String? = nil, claims: String) throws -> String {
    let header = header ?? #"{"alg":"ES256","kid":"\#(id)"}"#
    let signed = "\(base64URL(Array(header.utf8))).\(base64URL(Array(claims.utf8)))"
    return "\(signed).\(base64URL(try signing.signature(of: Array(signed.utf8))))"
  }

  func subscriberToken(_ channels: [String], endsIn seconds: Double = 60, age: Double = 0) throws -> String {
    try SubscriberToken.mint(
      key: signing, keyID: id, team: team, channels: channels, issuedAt: Date(timeIntervalSinceNow: -age),
      expires: Date(timeIntervalSinceNow: seconds))
  }

  private func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
      "=", with: "")
  }
}

/// A folder of keys for two teams: one with the app that the tests use, and one with another.
final class Keys {
  let folder: TestFolder
  let scores: Key
  let news: Key

  init(subscribe: String = "open") throws {
    folder = try TestFolder()
    scores = try Key("SCORESKEY1", "TEAMSCORES")
    news = try Key("NEWSKEY001", "TEAMNEWS01")
    for key in [scores, news] { try add(key) }
    try writeTeams(
      #"""
      {"TEAMSCORES": {"keys": ["SCORESKEY1"], "apps": ["com.example.scores"], "subscribe": "\#(subscribe)"},
       "TEAMNEWS01": {"keys": ["NEWSKEY001"], "apps": ["com.example.news.*"]}}
      """#)
  }

  func writeTeams(_ text: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder.path)/teams.json"))
  }

  func add(_ key: Key) throws {
    let path = "\(folder.path)/AuthKey_\(key.id).p8"
    try Data(try key.signing.pem()).write(to: URL(fileURLWithPath: path))
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }

  func remove(_ key: Key) throws {
    try FileManager.default.removeItem(atPath: "\(folder.path)/AuthKey_\(key.id).p8")
  }
}

extension Request {
  /// The same with a provider's or a subscriber's token.
  func token(_ token: String, scheme: String = "bearer") -> Request {
    header("authorization", "\(scheme) \(token)")
  }
}
