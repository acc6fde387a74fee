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

/// A date on the command line.
enum TimeText {
  static let rule = "Unix seconds, or a date such as 2026-12-18T15:00:00Z,"

  static func date(_ text: String) -> Date? {
    if let seconds = Double(text), seconds.isFinite { return Date(timeIntervalSince1970: seconds) }
    return try? Date(text, strategy: .iso8601)
  }
}
