import BroadcastChannels
import Foundation

/// The JSON reader, and the payloads that are read with it.
enum JSONTargets {
  static let all = [
    FuzzTarget(name: "json", check: json), FuzzTarget(name: "json-comments", check: comments),
    FuzzTarget(name: "payload") { payload($0, to: .channel) },
    FuzzTarget(name: "device-payload") { payload($0, to: .device) },
  ]

  // MARK: JSON

  private static func json(_ bytes: [UInt8]) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes)
    } catch {
      requireSound(error, bytes)
      if !mayDiffer(error) { require(!foundationReads(bytes), "Foundation reads it: \(error)") }
      return
    }
    // Foundation refuses numbers beyond a Double, which are kept as text here.
    if !hasHugeNumber(document.root) { require(foundationReads(bytes), "Foundation doesn't read it") }
    requireRanges(document.root, of: document)
    requireSame(document.root, written(document.root), "written again")
    let compact = JSONText(compacting: bytes)
    requireSame(document.root, compact.bytes, "compacted")
    require(JSONText(compacting: compact.bytes) == compact, "compacting twice changes it")
  }

  private static func comments(_ bytes: [UInt8]) {
    do throws(JSONSyntaxError) {
      let document = try JSONDocument(bytes, comments: true)
      requireRanges(document.root, of: document)
      requireSame(document.root, written(document.root), "written again")
    } catch {
      requireSound(error, bytes)
    }
    // Whoever allows comments allows everything else as well.
    if let plain = try? JSONDocument(bytes) {
      guard let document = try? JSONDocument(bytes, comments: true) else {
        return require(false, "JSON without comments isn't read")
      }
      require(isSame(plain.root, document.root), "allowing comments changes the value")
    }
  }

  private static func requireSound(_ error: JSONSyntaxError, _ bytes: [UInt8]) {
    require((0...bytes.count).contains(error.offset), "the error is at \(error.offset) of \(bytes.count)")
    requireInside(error.position, bytes)
    require(!error.message.isEmpty, "an error without a message")
  }

  /// What is refused here and not by Foundation: a name twice, deep nesting, a byte-order mark, and a comma before a
  /// closing bracket.
  private static func mayDiffer(_ error: JSONSyntaxError) -> Bool {
    [
      "stands twice", "levels deep", "byte-order mark", "surrogate", "found \"]\" where a value",
      "found \"}\" where a name",
    ].contains { error.message.contains($0) }
      // Foundation takes text with zero bytes for UTF-16 or UTF-32 (RFC 4627, section 3).
      || error.message.contains("0x0 ") || error.message.contains("control character")
  }

  private static func foundationReads(_ bytes: [UInt8]) -> Bool {
    (try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)) != nil
  }

  private static func hasHugeNumber(_ value: JSONValue) -> Bool {
    switch value.content {
    case .number(let number): !number.double.isFinite
    case .array(let elements): elements.contains(where: hasHugeNumber)
    case .object(let members): members.contains { hasHugeNumber($0.value) }
    default: false
    }
  }

  /// The bytes of each value are that value.
  private static func requireRanges(_ value: JSONValue, of document: JSONDocument) {
    requireSame(value, document.bytes(of: value), "cut out", comments: true)
    for member in value.members ?? [] {
      require(document.bytes[member.offset] == UInt8(ascii: "\""), "a name doesn't begin with a quote")
      require(member.offset < member.value.range.lowerBound, "a value stands before its name")
    }
    // The parts of a part are looked at with the whole, or the cost would be that of its square.
    for part in value.elements ?? value.members?.map(\.value) ?? [] {
      require(
        value.range.lowerBound < part.range.lowerBound && part.range.upperBound < value.range.upperBound,
        "a part reaches beyond its whole")
    }
  }

  private static func requireSame(
    _ value: JSONValue, _ bytes: [UInt8], _ how: String, comments: Bool = false
  ) {
    guard let again = try? JSONDocument(bytes, comments: comments) else {
      return require(false, "\(how), it isn't read")
    }
    require(isSame(value, again.root), "\(how), it is another value")
  }

  static func isSame(_ a: JSONValue, _ b: JSONValue) -> Bool {
    switch (a.content, b.content) {
    case (.null, .null): true
    case (.bool(let a), .bool(let b)): a == b
    case (.number(let a), .number(let b)): a == b
    // Byte for byte: Swift's own == takes é for e with an accent.
    case (.string(let a), .string(let b)): a.utf8.elementsEqual(b.utf8)
    case (.array(let a), .array(let b)): a.count == b.count && zip(a, b).allSatisfy { isSame($0, $1) }
    case (.object(let a), .object(let b)):
      a.count == b.count
        && zip(a, b).allSatisfy { $0.name.utf8.elementsEqual($1.name.utf8) && isSame($0.value, $1.value) }
    default: false
    }
  }

  private static func written(_ value: JSONValue) -> [UInt8] { Array(text(value).utf8) }

  private static func text(_ value: JSONValue) -> String {
    switch value.content {
    case .null: "null"
    case .bool(let bool): String(bool)
    case .number(let number): number.text
    case .string(let text): JSONWriter.quoted(text)
    case .array(let elements): "[\(elements.map(text).joined(separator: ","))]"
    case .object(let members):
      "{\(members.map { "\(JSONWriter.quoted($0.name)):\(text($0.value))" }.joined(separator: ","))}"
    }
  }

  // MARK: Payloads

  /// A definition whose content state the seeds' states fit, more or less.
  private static let definition = try? ChannelDefinition(
    file: Array(
      #"""
      {"app": "com.example.scores", "attributes": {"home": "Spain"},
       "content-state": {"home": "Int", "away": "Int", "clock": "String?", "kickoff": "Date?", "names": "[String]",
         "table": "[String: Int]?", "nested": {"id": "UUID?", "link": "URL?"}},
       "strings": {"en": {"GOAL": "Goal!"}, "es": {}}}
      """#.utf8), alias: nil)

  private static func payload(_ bytes: [UInt8], to destination: Payload.Destination) {
    let findings = PayloadDiagnosis.findings(
      body: bytes, to: destination, definition: definition, now: fuzzedNow)
    requireInside(findings, bytes)
    do throws(PayloadError) {
      let payload = try Payload(body: bytes, to: destination)
      require(bytes.firstRange(of: payload.aps) != nil, "the aps bytes are not the publisher's")
      require(!findings.contains { $0.kind == "refused" || $0.kind == "not-json" }, "found bad, and accepted")
      let again = try Payload(
        body: Array("{\"aps\":".utf8) + payload.aps + Array("}".utf8), to: destination)
      require(
        again.aps == payload.aps && again.timestamp == payload.timestamp && again.event == payload.event
          && again.contentState == payload.contentState && again.staleDate == payload.staleDate
          && again.dismissalDate == payload.dismissalDate && again.alert == payload.alert
          && again.relevanceScore == payload.relevanceScore && again.start == payload.start,
        "the same aps is another payload")
      require(payload.contentState != nil || payload.event == .end, "an update without a state")
    } catch {
      require((0...bytes.count).contains(error.offset), "the error is at \(error.offset)")
      require(findings.contains { $0.severity == .error }, "refused, and found good: \(error)")
    }
  }
}
