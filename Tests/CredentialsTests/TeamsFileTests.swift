import Credentials
import Foundation
import Testing

@Suite("Adding a key to teams.json")
struct TeamsFileTests {
  private func added(
    _ text: String, team: String = "TEAM123456", apps: [String] = []
  ) throws -> String? {
    let file = try TeamsFile(Array(text.utf8))
    let bytes = file.adding(
      key: try #require(KeyID("NEWKEY0001")), team: try #require(TeamID(team)),
      apps: try apps.map { try #require(AppPattern($0)) })
    return bytes.map { String(decoding: $0, as: UTF8.self) }
  }

  @Test("a key joins its team's list, and apps that it doesn't have yet")
  func sameTeam() throws {
    let text = #"{"TEAM123456": {"apps": ["a.b"], "keys": ["ABC123DEFG"]}} // end"#
    #expect(
      try added(text)
        == #"{"TEAM123456": {"apps": ["a.b"], "keys": ["ABC123DEFG", "NEWKEY0001"]}} // end"#)
    #expect(
      try added(text, apps: ["a.b", "c.*", "d"])
        == #"{"TEAM123456": {"apps": ["a.b", "c.*", "d"], "keys": ["ABC123DEFG", "NEWKEY0001"]}} // end"#)
  }

  @Test("a team that isn't there is added behind the last one, or as the first")
  func otherTeam() throws {
    let text = #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"]} /* last */}"#
    #expect(
      try added(text, team: "OTHER98765", apps: ["c.d"])
        == #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.b"]},"# + "\n"
        + #"  "OTHER98765": { "keys": ["NEWKEY0001"], "apps": ["c.d"] } /* last */}"#)
    #expect(
      try added("/* none */ {}", apps: ["c.d"])
        == "/* none */ {\n" + #"  "TEAM123456": { "keys": ["NEWKEY0001"], "apps": ["c.d"] }"# + "\n}")
  }

  @Test("nothing is written that a server would refuse")
  func refused() throws {
    let text = #"{"TEAM123456": {"keys": ["ABC123DEFG"], "apps": ["a.*"]}}"#
    #expect(try added(text, team: "OTHER98765", apps: ["a.b"]) == nil)
    #expect(try added(text, team: "OTHER98765") == nil)
    #expect(try added(#"{"TEAM123456": {"keys": ["NEWKEY0001"], "apps": ["a.*"]}}"#) == nil)
  }
}
