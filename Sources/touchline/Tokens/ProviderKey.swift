import BroadcastChannels
import Credentials
import Foundation

/// A provider's signing key with its id and its team, as a command line names them.
struct ProviderKey {
  let key: SigningKey
  let keyID: KeyID
  let team: TeamID

  /// Reads the key. Its id comes from `--key-id` or the file's name, its team from `--team` or from `teams.json` beside
  /// the file.
  init(file path: String, _ arguments: Arguments) throws {
    let named = try Self.team(arguments)
    let pem = try Files.read(path)
    keyID = try Self.keyID(arguments, path: path)
    team = try named ?? Self.team(of: keyID, path: path)
    key = try SigningKey(pem: pem, source: path)
  }

  /// The team that the command line names.
  static func team(_ arguments: Arguments) throws(UsageError) -> TeamID? {
    try arguments.value("--team", "a team's id of \(IdentifierText.rule)", { TeamID($0) })
  }

  private static func keyID(_ arguments: Arguments, path: String) throws(UsageError) -> KeyID {
    if let id = try arguments.value("--key-id", "a key's id of \(IdentifierText.rule)", { KeyID($0) }) {
      return id
    }
    let name = URL(fileURLWithPath: path).deletingPathExtension().lastPathComponent
    guard let id = KeyID(name.hasPrefix("AuthKey_") ? String(name.dropFirst(8)) : name) else {
      throw arguments.error(
        "the file's name \"\(name)\" doesn't tell the key's id, as AuthKey_ABC123DEFG.p8 does; rename it\(arguments.command == "token" ? ", or say --key-id KID" : "")"
      )
    }
    return id
  }

  /// The team that `teams.json` beside the key names for it.
  private static func team(of key: KeyID, path: String) throws -> TeamID {
    let teams = URL(fileURLWithPath: path).deletingLastPathComponent().appendingPathComponent("teams.json")
      .path
    guard FileManager.default.fileExists(atPath: teams) else {
      throw CommandFailure("say the team's id with --team: there is no \(teams) that would tell it")
    }
    let bytes = try Files.read(teams)
    let file: TeamsFile
    do throws(Findings) {
      file = try TeamsFile(bytes)
    } catch {
      throw CommandFailure(error.all.map { "\(teams):\($0)" }.joined(separator: "\n"))
    }
    guard let team = file.team(of: key) else {
      throw CommandFailure(
        "\(teams) has no team with the key \(key); add it there, or say the team with --team")
    }
    return team.id
  }
}
