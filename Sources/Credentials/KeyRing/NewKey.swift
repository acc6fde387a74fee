import BroadcastChannels
import Foundation

/// A new signing key in a folder of keys: its file, and its place in `teams.json`.
public struct NewKey: Sendable {
  /// The key's id.
  public let keyID: KeyID
  /// The team that it signs for.
  public let team: TeamID
  /// The private key's file, which only its owner can read.
  public let path: String
  /// `teams.json`.
  public let teamsPath: String

  /// A key that can't be made, and what to do.
  public struct Failure: Error, CustomStringConvertible {
    /// What is wrong, where, and what to do.
    public let description: String
  }

  /// Makes a key. No file is overwritten; `teams.json` keeps its comments.
  ///
  /// - Parameters:
  ///   - folder: made when it isn't there.
  ///   - team: nil for the one team that the file has, or for a new one when it has none.
  ///   - apps: apps that the team has from now on, beside those that it has; a new team without any gets
  ///     `standardApps`.
  public init(
    folder: String, team: TeamID?, apps: [AppPattern], standardApps: [AppPattern],
    using generator: inout some RandomNumberGenerator
  ) throws(Failure) {
    let lock: FolderLock
    do throws(FileAccess.Failure) {
      try FileAccess.makePrivateFolder(folder)
      lock = try FolderLock(folder)
    } catch {
      throw Failure(description: "\(error)")
    }
    defer { withExtendedLifetime(lock) {} }
    let base = folder.hasSuffix("/") ? folder : "\(folder)/"
    teamsPath = base + "teams.json"
    let file = try Self.read(teamsPath)
    let id = KeyID.random(using: &generator)
    if let team {
      self.team = team
    } else if let file, let only = file.teams.first {
      guard file.teams.count == 1 else {
        let names = file.teams.map(\.id.text).joined(separator: ", ")
        throw Failure(description: "\(teamsPath) has several teams; say which with --team: \(names)")
      }
      self.team = only.id
    } else {
      self.team = TeamID.random(using: &generator)
    }
    keyID = id
    path = "\(base)AuthKey_\(id).p8"
    let teamID = self.team
    let isNew = file?.teams.contains { $0.id == teamID } != true
    let own = apps.isEmpty && isNew ? standardApps : apps
    let text =
      file.map { $0.adding(key: id, team: teamID, apps: own) }
      ?? TeamsFile.text(key: id, team: teamID, apps: own)
    guard let text, (try? TeamsFile(text)) != nil else {
      throw Failure(
        description:
          "\(teamsPath): an app of \(own.map(\.description).joined(separator: ", ")) belongs to another team there; choose others with --app"
      )
    }
    try Self.write(text, teamsPath, key: path)
  }

  private static func read(_ path: String) throws(Failure) -> TeamsFile? {
    guard FileManager.default.fileExists(atPath: path) else { return nil }
    guard let data = FileManager.default.contents(atPath: path) else {
      throw Failure(description: "\(path) can't be read; does this user have the right to?")
    }
    do throws(Findings) {
      return try TeamsFile(Array(data))
    } catch {
      throw Failure(description: error.all.map { "\(path):\($0)" }.joined(separator: "\n"))
    }
  }

  /// The key first: a team that names a key without a file would keep a server from starting.
  private static func write(_ teams: [UInt8], _ teamsPath: String, key path: String) throws(Failure) {
    let pem: [UInt8]
    do throws(KeyError) {
      pem = try SigningKey.generate().pem()
    } catch {
      throw Failure(description: "\(error)")
    }
    do throws(FileAccess.Failure) {
      try FileAccess.write(pem, to: path, mode: 0o600, replacing: false)
    } catch {
      throw Failure(description: "\(error)")
    }
    do throws(FileAccess.Failure) {
      try FileAccess.write(
        teams, to: teamsPath, mode: FileAccess.mode(of: teamsPath) ?? 0o644, replacing: true)
    } catch {
      unlink(path)
      throw Failure(description: "\(error)")
    }
  }
}
