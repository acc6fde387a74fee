import BroadcastChannels
import Credentials
import Foundation
import Testing

@Suite("The folder of keys")
struct KeyRingTests {
  let key: SigningKey
  let keyID: KeyID

  init() throws {
    key = try SigningKey.generate()
    keyID = try #require(KeyID("ABC123DEFG"))
  }

  static let teams = #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["com.example.scores"]}}"#

  private func findings(_ text: String) throws -> [String] {
    let keys = [keyID: try key.verifyingKey()]
    do throws(Findings) {
      _ = try KeyRing(teams: Array(text.utf8), keys: keys)
      return []
    } catch {
      return error.all.map(\.description)
    }
  }

  private func broken(_ folder: Folder) -> [String] {
    do throws(KeyRing.Broken) {
      _ = try KeyRing(folder: folder.path)
      return []
    } catch {
      return error.lines.map { $0.replacing("\(folder.path)/", with: "") }
    }
  }

  @Test("Apple's .p8 files and public .pem files are read, with their team; other files are left alone")
  func files() throws {
    let folder = try Folder()
    try folder.write(try key.pem(), "AuthKey_ABC123DEFG.p8")
    try folder.write(try SigningKey.generate().verifyingKey().pem(), "ZYX987WVUT.pem", mode: 0o644)
    try folder.write(
      "// ours\n{\"TEAM123456\": {\"keys\": [\"ABC123DEFG\", /* old */ \"ZYX987WVUT\"], \"apps\": [\"com.example.*\"]}}",
      "teams.json")
    try folder.write("notes", "README.md")
    try folder.write("x", ".hidden.pem")
    let ring = try KeyRing(folder: folder.path)
    #expect(ring.key(keyID)?.team.id.text == "TEAM123456")
    #expect(try ring.key(#require(KeyID("ZYX987WVUT")))?.team.id.text == "TEAM123456")
    #expect(try ring.key(#require(KeyID("AAAAAAAAAA"))) == nil)
    #expect(ring.team(owning: try bundle("com.example.scores"))?.id.text == "TEAM123456")
    #expect(ring.notes == [])
  }

  @Test("a private key that others can read is noted, a public one is not")
  func permissions() throws {
    let folder = try Folder()
    try folder.write(try key.pem(), "AuthKey_ABC123DEFG.p8", mode: 0o644)
    try folder.write(Self.teams, "teams.json")
    let notes = try KeyRing(folder: folder.path).notes
    #expect(notes.count == 1)
    #expect(
      notes.first?.contains("AuthKey_ABC123DEFG.p8: others on this machine can read this private key") == true
    )
    try folder.write(try key.verifyingKey().pem(), "AuthKey_ABC123DEFG.p8", mode: 0o644)
    #expect(try KeyRing(folder: folder.path).notes == [])
  }

  @Test("everything that is wrong in a folder is told at once, file by file")
  func brokenFolder() throws {
    let folder = try Folder()
    try folder.write("hello", "AuthKey_ABC123DEFG.p8")
    try folder.write(try key.pem(), "AuthKey_short.p8")
    try folder.write(try key.pem(), "mykey.pem")
    try folder.write(try key.pem(), "ZYX987WVUT.pem")
    try folder.write(
      "{\n \"TEAM123456\": {\"keys\": [\"ABC123DEFG\", \"NOFILE1234\"], \"aps\": []}}", "teams.json")
    let lines = broken(folder)
    for expected in [
      "AuthKey_ABC123DEFG.p8: error: is not PEM",
      "AuthKey_short.p8: error: the name doesn't tell the key's id",
      "mykey.pem: error: the name doesn't tell the key's id",
      "teams.json:1:1: error: no team names the key ZYX987WVUT",
      "teams.json:2:40: error: TEAM123456.keys: there is no file for the key NOFILE1234",
      "teams.json:2:55: error: TEAM123456.aps: is no key of a team; did you mean \"apps\"?",
      "teams.json:2:16: error: TEAM123456.apps: is missing",
    ] {
      #expect(lines.contains { $0.hasPrefix(expected) }, "\(expected)\n\(lines.joined(separator: "\n"))")
    }
    #expect(lines.count == 7, "\(lines.joined(separator: "\n"))")
  }

  @Test("a folder that isn't there, or has no teams.json, says so")
  func missing() throws {
    let folder = try Folder()
    try folder.write(try key.pem(), "AuthKey_ABC123DEFG.p8")
    #expect(broken(folder).first?.hasPrefix("teams.json: error: is missing; it says which team") == true)
    let error = #expect(throws: KeyRing.Broken.self) { try KeyRing(folder: "/nowhere/keys") }
    #expect(error?.description.contains("/nowhere/keys: error: the folder of keys can't be read") == true)
  }

  @Test("a folder or a pipe in a key's place is told, and doesn't hang")
  func noFile() throws {
    let folder = try Folder()
    try FileManager.default.createDirectory(
      atPath: folder.file("ABC123DEFG.pem"), withIntermediateDirectories: true)
    #expect(mkfifo(folder.file("AuthKey_ZYX987WVUT.p8"), 0o600) == 0)
    try folder.write(Self.teams, "teams.json")
    #expect(broken(folder).contains("ABC123DEFG.pem: error: is no file"))
    #expect(broken(folder).contains("AuthKey_ZYX987WVUT.p8: error: is no file"))
  }

  @Test("two files with one id must hold one key")
  func twoFiles() throws {
    let folder = try Folder()
    try folder.write(try key.pem(), "AuthKey_ABC123DEFG.p8")
    try folder.write(try key.verifyingKey().pem(), "ABC123DEFG.pem")
    try folder.write(Self.teams, "teams.json")
    #expect(broken(folder) == [])
    try folder.write(try SigningKey.generate().verifyingKey().pem(), "ABC123DEFG.pem")
    #expect(broken(folder).first?.contains("a different key with the same id") == true)
  }

  @Test(
    "each mistake in teams.json has its place and what was expected",
    arguments: [
      ("{", "1:2: error: not JSON"),
      ("[]", "1:1: error: is an array; an object of teams was expected"),
      (
        #"{"team": {"keys": ["ABC123DEFG"], "apps": ["a.b"]}}"#,
        "1:2: error: team: is no team id: 10 characters"
      ),
      (#"{"TEAM123456": []}"#, "1:16: error: TEAM123456: is an array; an object was expected"),
      (
        #"{"TEAM123456": {"keys": ["abc"], "apps": ["a.b"]}}"#,
        "1:26: error: TEAM123456.keys: has the string \"abc\"; a key id was expected"
      ),
      (
        #"{"TEAM123456": {"keys": [], "apps": ["a.b"]}}"#,
        "1:25: error: TEAM123456.keys: is empty; an array of key ids"
      ),
      (
        #"{"TEAM123456": {"keys": "ABC123DEFG", "apps": ["a.b"]}}"#,
        "1:25: error: TEAM123456.keys: is the string"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["*"]}}"#,
        "1:50: error: TEAM123456.apps: has the string \"*\"; a bundle id such as"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b.push-type.liveactivity"]}}"#,
        "1:50: error: TEAM123456.apps: has the string"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG", "ABC123DEFG"], "apps": ["a.b"]}}"#,
        "1:40: error: TEAM123456.keys: the key ABC123DEFG stands twice in this list"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"]}, "OTHER98765": {"keys": ["ABC123DEFG"], "apps": ["c.d"]}}"#,
        "1:83: error: OTHER98765.keys: the key ABC123DEFG stands in the team TEAM123456 as well"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.*"]}, "OTHER98765": {"keys": ["ABC123DEFG"], "apps": ["a.b.c"]}}"#,
        "1:107: error: OTHER98765.apps: \"a.b.c\" and \"a.*\" of the team TEAM123456 mean the same app"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"], "subscribe": "tokens"}}"#,
        "1:71: error: TEAM123456.subscribe: is the string \"tokens\"; \"open\" or \"token\" was expected"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"], "subscribe": {"a.c": "token"}}}"#,
        "1:72: error: TEAM123456.subscribe.a.c: is no app of this team; did you mean \"a.b\"?"
      ),
      (
        #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"], "subscribe": {"a.b": true}}}"#,
        "1:79: error: TEAM123456.subscribe.a.b: is true; \"open\" or \"token\" was expected"
      ),
    ])
  func mistakes(_ text: String, _ expected: String) throws {
    let found = try findings(text)
    #expect(found.contains { $0.hasPrefix(expected) }, "\(found.joined(separator: "\n"))")
  }

  @Test("who may subscribe is the team's rule, or the app's own, and an app of no team is for nobody")
  func subscribing() throws {
    func rule(_ subscribe: String, _ app: String) throws -> SubscribeRule {
      let text = #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["com.example.*"]\#(subscribe)}}"#
      return try KeyRing(teams: Array(text.utf8), keys: [keyID: key.verifyingKey()])
        .subscribeRule(for: bundle(app))
    }
    #expect(try rule("", "com.example.scores") == .open)
    #expect(try rule(#", "subscribe": "token""#, "com.example.scores") == .token)
    #expect(try rule(#", "subscribe": "token""#, "org.example.scores") == .token)
    #expect(try rule(#", "subscribe": {"com.example.scores": "token"}"#, "com.example.scores") == .token)
    #expect(try rule(#", "subscribe": {"com.example.scores": "token"}"#, "com.example.news") == .open)
  }
}
