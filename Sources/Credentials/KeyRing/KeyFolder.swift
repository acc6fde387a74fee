import BroadcastChannels
import Foundation

extension KeyRing {
  /// What is wrong with a folder of keys, file by file.
  public struct Broken: Error, CustomStringConvertible {
    /// One line a problem: the file, its line and column where it has lines, what is wrong and what was expected.
    public let lines: [String]
    /// The lines.
    public var description: String { lines.joined(separator: "\n") }
  }

  /// Reads a folder of keys: `teams.json`, and for each key `AuthKey_<key id>.p8` or `<key id>.pem`. Other files are
  /// left alone.
  public init(folder: String) throws(Broken) {
    let names: [String]
    do {
      names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    } catch {
      throw Broken(lines: [
        "\(folder): error: the folder of keys can't be read; does it exist, and may this user read it?"
      ])
    }
    var files = KeyFiles(folder: folder)
    for name in names where !name.hasPrefix(".") { files.read(name) }
    let teams = files.path("teams.json")
    guard names.contains("teams.json") else {
      throw Broken(
        lines: files.problems + [
          "\(teams): error: is missing; it says which team and apps each key is for: {\"TEAM123456\": {\"keys\": [\"ABC123DEFG\"], \"apps\": [\"com.example.scores\"]}}"
        ])
    }
    guard let text = files.bytes(of: "teams.json") else { throw Broken(lines: files.problems) }
    do throws(Findings) {
      try self.init(teams: text, keys: files.keys, broken: files.broken, notes: files.notes)
    } catch {
      throw Broken(lines: files.problems + error.all.map { "\(teams):\($0)" })
    }
    guard files.problems.isEmpty else { throw Broken(lines: files.problems) }
  }
}

/// The key files of a folder, read one by one.
private struct KeyFiles {
  let folder: String
  var keys: [KeyID: VerifyingKey] = [:]
  /// Keys whose file can't be used.
  var broken: Set<KeyID> = []
  var notes: [String] = []
  var problems: [String] = []

  func path(_ name: String) -> String { folder.hasSuffix("/") ? folder + name : "\(folder)/\(name)" }

  mutating func bytes(of name: String) -> [UInt8]? {
    let path = path(name)
    guard FileAccess.isRegular(path) || !FileManager.default.fileExists(atPath: path) else {
      problems.append("\(path): error: is no file")
      return nil
    }
    guard let handle = FileHandle(forReadingAtPath: path),
      let data = try? handle.read(upToCount: Limits.keyFileBytes + 1)
    else {
      let isThere = FileManager.default.fileExists(atPath: path)
      problems.append(
        "\(path): error: can't be read" + (isThere ? "; does this user have the right to?" : ""))
      return nil
    }
    guard data.count <= Limits.keyFileBytes else {
      problems.append("\(path): error: has more than \(Limits.keyFileBytes) bytes; that can't be meant")
      return nil
    }
    return Array(data)
  }

  mutating func read(_ name: String) {
    let stem: String
    if name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") {
      stem = String(name.dropFirst(8).dropLast(3))
    } else if name.hasSuffix(".pem") {
      stem = String(name.dropLast(4))
    } else if name.hasSuffix(".p8") {
      stem = ""
    } else {
      return
    }
    let path = path(name)
    guard let id = KeyID(stem) else {
      problems.append(
        "\(path): error: the name doesn't tell the key's id; AuthKey_<key id>.p8 or <key id>.pem was expected, the id being \(IdentifierText.rule)"
      )
      return
    }
    guard let bytes = bytes(of: name) else {
      broken.insert(id)
      return
    }
    do throws(KeyError) {
      let key = try VerifyingKey(pem: bytes, source: path)
      if let other = keys[id], !other.isSame(as: key) {
        problems.append("\(path): error: another file has a different key with the same id; keep one of them")
      }
      keys[id] = key
      if key.cameWithPrivateHalf, FileAccess.isOpenToOthers(path) {
        notes.append(
          "\(path): others on this machine can read this private key; chmod 600 it, or keep only its public half here"
        )
      }
    } catch {
      broken.insert(id)
      problems.append("\(path): error: \(error.message)")
    }
  }
}
