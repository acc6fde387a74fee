import Credentials
import Foundation
import TestSupport
import Testing

/// A folder for a server that checks tokens and client certificates, and what its clients show: the keys of two teams, a
/// client authority with certificates, and `access.json`, from which the Python programs have all of it.
final class AccessFolder {
  /// A key whose file is in the folder of keys.
  private struct Key {
    let id: KeyID
    let team: TeamID
    let signing: SigningKey

    init(_ id: String, of team: String, in folder: URL) throws {
      self.id = try #require(KeyID(id))
      self.team = try #require(TeamID(team))
      signing = try SigningKey.generate()
      let file = folder.appending(path: "AuthKey_\(id).p8")
      try Data(try signing.pem()).write(to: file)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }

    func provider(age: Double) throws -> String {
      try ProviderToken.mint(key: signing, keyID: id, team: team, at: Date(timeIntervalSinceNow: -age))
    }

    func subscriber(_ channels: [String], from begin: Double = 0, to end: Double = 3_600) throws -> String {
      try SubscriberToken.mint(
        key: signing, keyID: id, team: team, channels: channels, issuedAt: Date(timeIntervalSinceNow: begin),
        expires: Date(timeIntervalSinceNow: end))
    }
  }

  private let folder: URL
  private let scores, lost, news: Key

  /// The server's folder of keys.
  var keys: String { keyFolder.path }
  /// The authority of the client certificates.
  var clientAuthority: String { folder.appending(path: "ca.pem").path }
  /// Where the server makes its own certificate.
  var tls: String { folder.appending(path: "tls").path }
  /// What the Python programs read.
  var handover: String { folder.appending(path: "access.json").path }

  private var keyFolder: URL { folder.appending(path: "keys") }

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "api-documents-\(UUID())")
    let keyFolder = folder.appending(path: "keys")
    try FileManager.default.createDirectory(at: keyFolder, withIntermediateDirectories: true)
    scores = try Key("SCORESKEY1", of: "TEAMSCORES", in: keyFolder)
    lost = try Key("LOSTKEY001", of: "TEAMSCORES", in: keyFolder)
    news = try Key("NEWSKEY001", of: "TEAMNEWS01", in: keyFolder)
    try writeTeams(#""SCORESKEY1", "LOSTKEY001""#)
    try makeAuthority()
    for (name, subject) in [
      ("scores", "/UID=com.example.scores/CN=Apple Push Services: com.example.scores"),
      ("nobody", "/CN=nobody"),
      ("production", "/CN=Apple Production IOS Push Services: com.example.scores"),
    ] {
      try makeCertificate(name, subject)
    }
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  private func writeTeams(_ keysOfScores: String) throws {
    let text = #"""
      {"TEAMSCORES": {"keys": [\#(keysOfScores)], "apps": ["com.example.scores"]},
       "TEAMNEWS01": {"keys": ["NEWSKEY001"], "apps": ["com.example.news"]}}
      """#
    try Data(text.utf8).write(to: keyFolder.appending(path: "teams.json"))
  }

  /// Takes the key of the token `lost` away. The server has to be told.
  func withdrawKey() throws {
    try FileManager.default.removeItem(at: keyFolder.appending(path: "AuthKey_\(lost.id).p8"))
    try writeTeams(#""SCORESKEY1""#)
  }

  // MARK: What clients show

  private struct Contents: Encodable {
    struct Ending: Encodable {
      let token: String
      let ends: Double
    }

    let port, tlsPort: UInt16
    let authority, certificates: String
    let provider, another, oldProvider, news: String
    let subscriber, other, oldSubscriber, lost: String
    let brief: [Ending]
  }

  /// Writes ``handover``.
  ///
  /// Of the tokens that end soon a program takes the first that it still can use: so no test depends on when it gets
  /// there.
  func write(port: UInt16, tlsPort: UInt16) throws {
    let brief = try [4.0, 8, 16, 32, 64, 128].map { seconds in
      Contents.Ending(
        token: try scores.subscriber(["vip"], to: seconds), ends: Date().timeIntervalSince1970 + seconds)
    }
    let contents = try Contents(
      port: port, tlsPort: tlsPort, authority: "\(tls)/ca.pem",
      certificates: folder.path, provider: scores.provider(age: 0), another: scores.provider(age: 5),
      oldProvider: scores.provider(age: 3_610), news: news.provider(age: 0),
      subscriber: scores.subscriber(["vip"]), other: scores.subscriber(["box"]),
      oldSubscriber: scores.subscriber(["vip"], from: -60, to: -1), lost: lost.subscriber(["vip"]),
      brief: brief)
    try JSONEncoder().encode(contents).write(to: URL(filePath: handover))
  }

  // MARK: Certificates, by the openssl command

  private func makeAuthority() throws {
    try openssl(
      "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout ca.key",
      ["-subj", "/CN=Client authority"], makes: "ca.pem")
  }

  private func makeCertificate(_ name: String, _ subject: String) throws {
    try openssl(
      "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout \(name).key", ["-subj", subject],
      makes: "\(name).csr")
    try openssl(
      "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2", makes: "\(name).pem")
  }

  private func openssl(_ words: String, _ more: [String] = [], makes file: String) throws {
    let arguments = words.split(separator: " ").map(String.init) + more + ["-out", file]
    let output = try run("/usr/bin/env", ["-C", folder.path, "openssl"] + arguments)
    let isThere = FileManager.default.fileExists(atPath: folder.appending(path: file).path)
    try #require(isThere, "openssl \(words): \(output)")
  }
}
