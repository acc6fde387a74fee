import Foundation
import TestSupport
import Testing

@Suite("touchline token")
struct TokenTests {
  /// What `new-key` prints.
  struct Made {
    let keyID, team, key, teams: String

    init(_ ending: Ending) throws {
      try #require(ending.code == 0, "\(ending.errors)")
      let values = ending.lines.map { String($0.dropFirst(12)) }
      try #require(values.count == 4)
      (keyID, team, key, teams) = (values[0], values[1], values[2], values[3])
    }
  }

  private func newKey(_ folder: Folder, _ options: String...) async throws -> Made {
    try Made(try await Touchline.run(["token", "new-key", "--dir", folder.path("keys")] + options))
  }

  private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

  private func mode(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  struct Shown: Decodable {
    struct Header: Decodable { let alg, kid: String, typ: String? }
    struct Claims: Decodable { let iss: String, iat: Int, exp: Int?, channels: [String]? }
    let kind: String
    let header: Header
    let claims: Claims
    let issued, ends, secondsLeft: Double?
    let good: Bool?
    let reason, detail: String?
  }

  @Test("a new key is private, stands in teams.json, mints a token, and the token is judged good")
  func wholeWay() async throws {
    try await withFolder { folder in
      let made = try await newKey(
        folder, "--team", "TEAM123456", "--app", "com.example.scores, com.example.news.*")
      #expect(made.team == "TEAM123456")
      #expect(made.key == folder.path("keys/AuthKey_\(made.keyID).p8"))
      #expect(try mode(made.key) == 0o600 && mode(folder.path("keys")) == 0o700)
      #expect(
        try text(made.teams) == """
          {
            "TEAM123456": { "keys": ["\(made.keyID)"], "apps": ["com.example.scores", "com.example.news.*"] }
          }

          """)
      let minted = try await Touchline.run(["token", "mint", "--key", made.key])
      #expect(minted.code == 0 && minted.errors == "")
      #expect(minted.lines.count == 1 && minted.output.split(separator: ".").count == 3)
      let shown = try await Touchline.run(
        ["token", "show", "--keys", folder.path("keys"), "--strict", "--format", "json"],
        input: Array(minted.output.utf8))
      #expect(shown.code == 0 && shown.errors == "")
      let token: Shown = try decoded(shown.output)
      #expect(token.kind == "provider" && token.good == true && token.reason == nil)
      #expect(token.header.alg == "ES256" && token.header.kid == made.keyID && token.header.typ == nil)
      #expect(token.claims.iss == "TEAM123456")
      #expect(token.ends == token.issued.map { $0 + 3_600 })
    }
  }

  @Test("a subscriber token names its channels and ends")
  func subscriber() async throws {
    try await withFolder { folder in
      let made = try await newKey(folder)
      let minted = try await Touchline.run([
        "token", "mint", "--key", made.key, "--subscriber", "--channel", "final, AAECAwQFBgcICQoLDA0ODw==",
        "--for", "4h",
        "--at", "1800000000",
      ])
      #expect(minted.code == 0, "\(minted.errors)")
      let show = ["token", "show", "--keys", folder.path("keys"), "--format", "json", "--at"]
      let good = try await Touchline.run(show + ["1800014399"], input: Array(minted.output.utf8))
      let token: Shown = try decoded(good.output)
      #expect(good.code == 0 && token.kind == "subscriber" && token.good == true && token.secondsLeft == 1)
      #expect(token.header.typ == "touchline-subscribe+jwt")
      #expect(
        token.claims.channels == ["final", "AAECAwQFBgcICQoLDA0ODw=="] && token.claims.exp == 1_800_014_400)
      let late = try await Touchline.run(show + ["1800014400"], input: Array(minted.output.utf8))
      #expect(late.code == 1)
      let ended: Shown = try decoded(late.output)
      #expect(ended.good == false && ended.reason == "ExpiredSubscriberToken")
    }
  }

  @Test("for a person, a token is a few lines, without its signature; a pasted header will do")
  func plain() async throws {
    try await withFolder { folder in
      let made = try await newKey(folder, "--team", "TEAM123456")
      let minted = try await Touchline.run([
        "token", "mint", "--key", made.key, "--at", "2027-01-15T08:00:00Z",
      ])
      let token = minted.output.trimmingCharacters(in: .newlines)
      let shown = try await Touchline.run(
        ["token", "show", "--at", "2027-01-15T08:10:00Z"],
        input: Array("Authorization: Bearer \(token)\n".utf8))
      #expect(
        shown.output == """
          kind        provider token
          header      {"alg":"ES256","kid":"\(made.keyID)"}
          claims      {"iss":"TEAM123456","iat":1800000000}
          issued      2027-01-15T08:00:00Z, 10m00s ago
          ends        2027-01-15T09:00:00Z, in 50m00s
          verdict     not checked: say where the keys are with --keys DIR

          """)
      #expect(shown.code == 0)
      let signature = try #require(token.split(separator: ".").last)
      #expect(!shown.output.contains(signature))
      let late = try await Touchline.run(
        ["token", "show", token, "--keys", folder.path("keys"), "--at", "2027-01-15T10:00:00Z"])
      #expect(late.code == 1)
      #expect(
        late.output.contains("verdict     refused: ExpiredProviderToken: the provider token is 7200 s old"))
    }
  }

  @Test("a second key joins the team; comments and layout of teams.json stay, and no key is overwritten")
  func secondKey() async throws {
    try await withFolder { folder in
      let first = try await newKey(folder)
      let secret = try text(first.key)
      #expect(try text(first.teams).contains(#""apps": ["com.example.*"]"#))
      let commented = """
        // Ours since 2026.
        { "\(first.team)": {
            "apps": ["com.example.*" /* all */],
            "keys": [
              "\(first.keyID)" // on the build machine
            ] } }
        """
      try folder.write("keys/teams.json", commented)
      let second = try await newKey(folder, "--app", "org.example.x,com.example.*")
      #expect(second.team == first.team && second.keyID != first.keyID)
      #expect(
        try text(first.teams)
          == commented.replacing("\"com.example.*\" ", with: "\"com.example.*\", \"org.example.x\" ")
          .replacing("\"\(first.keyID)\"", with: "\"\(first.keyID)\", \"\(second.keyID)\""))
      let other = try await newKey(folder, "--team", "OTHER98765", "--app", "net.example.y")
      #expect(other.team == "OTHER98765")
      #expect(try text(first.key) == secret)
      for key in [first, second, other] {
        let minted = try await Touchline.run(["token", "mint", "--key", key.key])
        let shown = try await Touchline.run(
          ["token", "show", "-", "--keys", folder.path("keys")], input: Array(minted.output.utf8))
        #expect(shown.code == 0, "\(shown.output)\(shown.errors)")
      }
      let unclear = try await Touchline.run(["token", "new-key", "--dir", folder.path("keys")])
      #expect(unclear.code == 1)
      #expect(unclear.errors.contains("say which with --team: \(first.team), OTHER98765"))
      let taken = try await Touchline.run(
        [
          "token", "new-key", "--dir", folder.path("keys"), "--team", "OTHER98765", "--app",
          "com.example.scores",
        ])
      #expect(taken.code == 1 && taken.errors.contains("belongs to another team"))
      try folder.write("keys/teams.json", "{ \"x\": 1 }")
      let broken = try await Touchline.run(["token", "new-key", "--dir", folder.path("keys")])
      #expect(broken.code == 1 && broken.errors.contains("teams.json:1:3: error: x: is no team id"))
      #expect(try text(first.teams) == "{ \"x\": 1 }")
      let files = try FileManager.default.contentsOfDirectory(atPath: folder.path("keys"))
      #expect(files.count == 4, "\(files)")
    }
  }

  @Test("a key from elsewhere mints with --key-id and --team; a key that can't sign is told by its file")
  func foreignKeys() async throws {
    try await withFolder(["broken.p8": "hello"]) { folder in
      let made = try await newKey(folder)
      let elsewhere = folder.path("signing.pem")
      try FileManager.default.copyItem(atPath: made.key, toPath: elsewhere)
      let unnamed = try await Touchline.run(["token", "mint", "--key", elsewhere])
      #expect(unnamed.code == 2 && unnamed.errors.contains("or say --key-id KID"))
      let noTeam = try await Touchline.run(["token", "mint", "--key", elsewhere, "--key-id", "ABC123DEFG"])
      #expect(noTeam.code == 1 && noTeam.errors.contains("say the team's id with --team"))
      let minted = try await Touchline.run(
        ["token", "mint", "--key", elsewhere, "--key-id", "ABC123DEFG", "--team", "TEAM123456"])
      #expect(minted.code == 0 && minted.output.hasPrefix("eyJ"))
      let refused = try await Touchline.run(
        ["token", "show", "--keys", folder.path("keys")], input: Array(minted.output.utf8))
      #expect(refused.code == 1)
      #expect(
        refused.output.contains(
          "refused: InvalidProviderToken: the provider token: the key ABC123DEFG is not known"))
      let broken = try await Touchline.run(
        [
          "token", "mint", "--key", folder.path("broken.p8"), "--key-id", "ABC123DEFG", "--team",
          "TEAM123456",
        ])
      #expect(broken.code == 1 && broken.errors.contains("broken.p8: is not PEM") && broken.output == "")
    }
  }

  @Test(
    "what is no token is told, without being repeated",
    arguments: ["secret", "a.b.c", "", "-----BEGIN PRIVATE KEY-----"])
  func noToken(_ text: String) async throws {
    let ending = try await Touchline.run(["token", "show"], input: Array(text.utf8))
    #expect(ending.code == 1 && ending.output == "")
    #expect(ending.errors.contains("this is no token: "))
    #expect(!ending.errors.contains("secret") && !ending.errors.contains("BEGIN"))
  }

  @Test(
    "a command line that makes no sense exits 2",
    arguments: [
      (["token"], "one of new-key, mint and show is missing"),
      (["token", "mnt"], "there is no \"token mnt\"; did you mean \"mint\"?"),
      (["token", "mint"], "--key FILE is missing"),
      (["token", "mint", "--key", "k", "--channel", "a"], "--channel goes with --subscriber"),
      (["token", "mint", "--key", "k", "--subscriber"], "--channel CHANNEL,… is missing"),
      (["token", "mint", "--key", "k", "--subscriber", "--channel", "a,*"], "--channel has \"*\""),
      (["token", "mint", "--key", "k", "--subscriber", "--channel", "a,"], "--channel has \"\""),
      (
        ["token", "mint", "--key", "k", "--subscriber", "--channel", "a", "--for", "31d"], "--for is \"31d\""
      ),
      (["token", "mint", "--key", "k", "--team", "x"], "--team is \"x\"; a team's id of 10 characters"),
      (["token", "mint", "--key", "k", "--at", "1e300"], "--at is \"1e300\""),
      (["token", "mint", "--key", "k", "--keys", "d"], "--keys goes with show only"),
      (["token", "new-key", "--app", "*"], "--app has \"*\"; a bundle id such as"),
      (["token", "new-key", "x"], "\"x\" is one argument too many"),
      (["token", "show", "a", "b"], "\"b\" is one argument too many"),
      (["token", "show", "--strict"], "--strict goes with --keys DIR"),
    ])
  func nonsense(_ words: [String], _ message: String) async throws {
    let ending = try await Touchline.run(words)
    #expect(ending.code == 2 && ending.output == "")
    #expect(ending.errors.contains(message), "\(ending.errors)")
  }
}
