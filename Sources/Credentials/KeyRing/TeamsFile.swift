import BroadcastChannels

/// The text of `teams.json`, for commands that look something up or add a key.
public struct TeamsFile {
  private let bytes: [UInt8]
  private let document: JSONDocument
  /// The teams, in the order of the file. Whether there are files for their keys is not looked at.
  public let teams: [Team]

  /// Reads a file.
  ///
  /// - Throws: everything that is wrong with it, each with its line and key and what was expected.
  public init(_ bytes: [UInt8]) throws(Findings) {
    self.bytes = bytes
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes, comments: true)
    } catch {
      throw Findings([Finding(error)])
    }
    var reader = TeamsReader(document: document, keyIDs: nil)
    teams = reader.teams()
    guard reader.findings.isEmpty else { throw Findings(reader.findings) }
  }

  /// The team that a key signs for.
  public func team(of key: KeyID) -> Team? { teams.first { $0.keys.contains(key) } }

  /// A new file with one team.
  public static func text(key: KeyID, team: TeamID, apps: [AppPattern]) -> [UInt8] {
    Array("{\n  \(member(key: key, team: team, apps: apps))\n}\n".utf8)
  }

  /// The file with a key added to a team, which is added as well when it isn't there. Nothing else of the text changes:
  /// comments and line breaks stay as somebody wrote them.
  ///
  /// - Parameter apps: apps that the team has from now on, beside those that it has.
  /// - Returns: nil when the result would not be a good file, as with a key or app that another team has.
  public func adding(key: KeyID, team id: TeamID, apps: [AppPattern]) -> [UInt8]? {
    var insertions: [(offset: Int, text: String)] = []
    if let team = teams.first(where: { $0.id == id }), let value = document.root[id.text] {
      insertions.append(insertion("\"\(key)\"", into: value["keys"]?.elements?.last))
      let new = apps.filter { !team.apps.contains($0) }.map { JSONWriter.quoted($0.description) }
      if !new.isEmpty {
        insertions.append(insertion(new.joined(separator: ", "), into: value["apps"]?.elements?.last))
      }
    } else {
      let member = Self.member(key: key, team: id, apps: apps)
      if let last = document.root.members?.last {
        insertions.append((last.value.range.upperBound, ",\n  \(member)"))
      } else {
        insertions.append((document.root.range.lowerBound + 1, "\n  \(member)\n"))
      }
    }
    var edited = bytes
    for (offset, text) in insertions.sorted(by: { $0.offset > $1.offset }) {
      edited.insert(contentsOf: text.utf8, at: offset)
    }
    return (try? TeamsFile(edited)).map { _ in edited }
  }

  /// Behind the last element; a list of a good file is never empty.
  private func insertion(_ text: String, into last: JSONValue?) -> (offset: Int, text: String) {
    (last?.range.upperBound ?? 0, ", \(text)")
  }

  private static func member(key: KeyID, team: TeamID, apps: [AppPattern]) -> String {
    let names = apps.map { JSONWriter.quoted($0.description) }.joined(separator: ", ")
    return "\"\(team)\": { \"keys\": [\"\(key)\"], \"apps\": [\(names)] }"
  }
}
