// Real matches as scripts.
//
// The openfootball project (public domain, https://github.com/openfootball) writes down who scored, in which
// minute, and the score at half-time, at full time, after extra time and of the shoot-out. That is enough to
// play a match again: the order of events and both teams' goals are facts. Where the seconds went is not in
// the data, so the timetable is a model, the same for every match (see `OpenFootballTimetable`).
//
// The files are written by hand, and 20 years of them differ in form. Reading is therefore lenient about form
// (old and new keys, teams as text or object, minutes as number or text) and strict about meaning: what can't
// be read is reported with its line, and a match whose numbers contradict each other is refused, not guessed
// at.

import BroadcastChannels

/// A file of the openfootball project: the matches of one competition.
///
/// Understood are the files of its `worldcup.json`, `euro.json`, `copa-america.json` and `football.json`
/// repositories.
public struct OpenFootballFeed: Sendable {
  /// The competition, such as "World Cup 2022".
  public let name: String
  /// The matches, in the order of the file.
  public let matches: [OpenFootballMatch]

  /// Reads a file.
  ///
  /// - Parameter bytes: JSON in UTF-8.
  /// - Throws: everything that can't be read, each with its line and key and what was expected.
  public init(file bytes: [UInt8]) throws(Findings) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes)
    } catch {
      throw Findings([Finding(error)])
    }
    var reader = OpenFootballReader(document: document)
    let (name, matches) = reader.feed()
    guard reader.findings.isEmpty else { throw Findings(reader.findings) }
    self.name = name
    self.matches = matches
  }
}
