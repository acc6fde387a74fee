import BroadcastChannels
import Foundation

/// A content state on the command line: as text, from a file (`@FILE`), or from standard input (`-`).
enum StateArgument {
  static func read(_ text: String, _ arguments: Arguments) throws -> JSONText {
    let isFile = text.hasPrefix("@") || text == "-"
    let bytes = isFile ? try Files.read(text == "-" ? "-" : String(text.dropFirst())) : Array(text.utf8)
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes)
    } catch {
      guard isFile else { throw arguments.error("--state is not JSON: \(error)") }
      throw CommandFailure("\(text): not JSON: \(error)")
    }
    guard document.root.members != nil else {
      throw arguments.error("--state is \(document.root.described); an object was expected")
    }
    return JSONText(compacting: bytes)
  }
}

/// A date on the command line, from 1970 to 9999: payloads and tokens count in Unix seconds.
enum TimeText {
  static let rule = "Unix seconds, or a date such as 2026-12-18T15:00:00Z, up to the year 9999,"

  static func date(_ text: String) -> Date? {
    let seconds = Double(text) ?? (try? Date(text, strategy: .iso8601))?.timeIntervalSince1970
    guard let seconds, (0...Double(Limits.latestUnixSeconds)).contains(seconds) else { return nil }
    return Date(timeIntervalSince1970: seconds)
  }
}
