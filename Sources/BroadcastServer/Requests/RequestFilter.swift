import BroadcastChannels
import Foundation

/// Which entries of the request log are asked for.
struct RequestFilter {
  /// Statuses, each from its first to its last: `4xx` is 400 to 499. Empty for all.
  var statuses: [ClosedRange<Int>] = []
  /// A channel's id or alias.
  var channel: String?
  /// A bundle id.
  var app: String?
  /// Who asks; nil when everybody may see everything. A provider sees what came with its own token or certificate, and
  /// what was asked about its apps, by whomever.
  var reader: Provider?

  func takes(_ entry: RequestEntry) -> Bool {
    if !statuses.isEmpty, !statuses.contains(where: { $0.contains(entry.status) }) { return false }
    if let channel, channel != entry.channel, channel != entry.alias { return false }
    if let reader, reader.name != entry.provider, entry.app.flatMap({ BundleID($0) }).map(reader.owns) != true
    {
      return false
    }
    return app == nil || app == entry.app
  }
}

/// The arguments of `GET /v1/requests`.
struct RequestQuery {
  static let names = ["limit", "after", "status", "channel", "app"]
  /// Entries of an answer where nobody says how many.
  static let standardLimit = 100

  var filter = RequestFilter()
  /// The entry after which the answer begins; nil for the newest ones.
  var after: StreamPosition?
  var limit = standardLimit

  /// Reads the arguments of a URL.
  ///
  /// - Throws: `BadRequestParams` for an unknown argument, one that comes twice, or a value that can't be.
  init(_ arguments: [(name: String, value: String)]) throws(AnswerError) {
    var seen: Set<String> = []
    for (name, value) in arguments {
      guard Self.names.contains(name) else {
        let hint = Suggestion.phrase(for: name, among: Self.names)
        let known = Self.names.joined(separator: ", ")
        throw Self.wrong("\"\(name.prefix(60))\" is no argument here\(hint); there are \(known)")
      }
      guard seen.insert(name).inserted else { throw Self.wrong("\(name) is given twice; once was expected") }
      switch name {
      case "limit":
        guard let number = Int(value), (0...Limits.requestLogEntries).contains(number) else {
          throw Self.wrong(name, value, "a whole number from 0 to \(Limits.requestLogEntries)")
        }
        limit = number
      case "after": after = try Self.position(name, value)
      case "status":
        for item in value.split(separator: ",", omittingEmptySubsequences: false) {
          filter.statuses.append(try Self.status(item, in: value))
        }
      case "channel": filter.channel = value
      default: filter.app = value
      }
    }
  }

  /// Reads the id of an entry.
  static func position(_ name: String, _ text: String) throws(AnswerError) -> StreamPosition {
    guard let position = StreamPosition(text) else {
      throw wrong(name, text, "an entry's id, or what \"next\" said,")
    }
    return position
  }

  private static func status(_ item: Substring, in value: String) throws(AnswerError) -> ClosedRange<Int> {
    if item.count == 3, let number = Int(item), (100...599).contains(number) { return number...number }
    if item.count == 3, item.hasSuffix("xx"), let digit = item.first?.wholeNumberValue,
      (1...5).contains(digit)
    {
      return digit * 100...digit * 100 + 99
    }
    throw wrong("status", value, "a status such as 200 or 4xx, or several with commas between them,")
  }

  private static func wrong(_ name: String, _ value: String, _ expected: String) -> AnswerError {
    wrong("\(name) is \"\(value.prefix(60))\"; \(expected) was expected")
  }

  private static func wrong(_ message: String) -> AnswerError {
    AnswerError(status: 400, reason: "BadRequestParams", message: message)
  }
}
