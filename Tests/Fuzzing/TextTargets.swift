import BroadcastChannels
import BroadcastClient
import EventLoop
import Foundation
import MatchScripts

@testable import BroadcastServer

/// Short texts from headers, paths and command lines.
enum TextTargets {
  static let all = [
    FuzzTarget(name: "names", check: names), FuzzTarget(name: "durations", check: durations),
    FuzzTarget(name: "type", check: type), FuzzTarget(name: "redaction", check: redaction),
    FuzzTarget(name: "request-query", check: requestQuery),
  ]

  private static func names(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let position = StreamPosition(text) {
      require(position.sequence >= 0 && !position.epoch.isEmpty, "no place")
      require(StreamPosition(position.description) == position, "a place is another one")
    }
    if let id = ChannelID(text) {
      require(id.base64.utf8.elementsEqual(text.utf8), "an id was changed")
      require(Data(base64Encoded: text)?.base64EncodedString() == text, "an id that isn't canonical")
      require(id.pathSegment.removingPercentEncoding == text, "a path leads to another channel")
    }
    if let alias = ChannelAlias(text) {
      require(
        alias.name.utf8.elementsEqual(text.utf8) && text.utf8.count <= Limits.aliasCharacters, "an alias")
    }
    if let app = BundleID(text) { require(app.identifier.utf8.elementsEqual(text.utf8), "a bundle id") }
    if RequestID(text) != nil { require(UUID(uuidString: text) != nil, "a request id that is no UUID") }
    if let token = PushToken(text) { require(PushToken(token.hex) == token, "a push token is another one") }
    if let address = ServerAddress(text) {
      require(ServerAddress(address.description) == address, "an address is another one")
    }
    var address = ListenAddress(port: 1)
    if address.read(text) {
      require(!address.host.isEmpty, "listening nowhere")
      var again = ListenAddress(port: 2)
      require(again.read(address.description) && again == address, "listening elsewhere")
    }
  }

  private static func durations(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    for seconds in [DurationText.seconds(text), DurationText.clock(text)] {
      guard let seconds else { continue }
      require(seconds.isFinite, "a duration without end")
      _ = DurationText.clock(seconds)
      _ = DurationText.described(seconds)
    }
  }

  private static func type(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let type = ContentStateSchema.PropertyType(swift: text) else { return }
    require(ContentStateSchema.PropertyType(swift: type.swift) == type, "written again, it is another type")
  }

  private static func redaction(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    for redacted in [Redaction.text(text), Redaction.path(text), Redaction.path("/3/device/\(text)")] {
      require(redacted.utf8.count <= Limits.requestLogTextBytes + 3, "\(redacted.utf8.count) bytes are kept")
      var run = 0
      for byte in redacted.utf8 {
        run = Character(Unicode.Scalar(byte)).isHexDigit ? run + 1 : 0
        require(run < 40, "a device token is left: \(redacted)")
      }
      let words = redacted.split { !($0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_")) }
      require(
        !words.contains { $0.hasPrefix("eyJ") && $0.count > 12 }, "a provider token is left: \(redacted)")
    }
    let path = Redaction.path("/3/device/\(text.filter { $0 != "/" })")
    require(path.unicodeScalars.count <= "/3/device/".count + 9, "a device token is left: \(path)")
    let kind = Redaction.authorization(text)
    require(kind.utf8.count <= "bearer, key ".utf8.count + 10, "an authorization is left: \(kind)")
  }

  /// Arguments as a query would have them, `name=value&name=value`.
  private static func requestQuery(_ bytes: [UInt8]) {
    let pairs = String(decoding: bytes, as: UTF8.self).split(separator: "&").map { pair in
      let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (name: String(sides[0]), value: sides.count == 2 ? String(sides[1]) : "")
    }
    do throws(AnswerError) {
      let query = try RequestQuery(pairs)
      require((0...Limits.requestLogEntries).contains(query.limit), "a limit of \(query.limit)")
      for span in query.filter.statuses { require((100...599).contains(span.lowerBound), "a status") }
      let log = RequestLog(epoch: "e", log: .silent)
      for number in 0..<3 {
        let request = LoggedRequest(HTTPRequest(method: "GET", path: "/4/x"), at: fuzzedNow, clock: 0)
        log.add(request, status: 200 + 100 * number, RequestFacts(), clock: 0)
      }
      require((try? JSONDocument(Array(log.answer(query).utf8))) != nil, "an answer that is no JSON")
    } catch {
      require(
        error.status == 400 && error.message.contains("was expected") || error.message.contains("argument"),
        "\(error)")
    }
  }
}
