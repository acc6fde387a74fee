/// The reader behind ``JSONDocument``: one pass over the bytes, RFC 8259 to the letter, no copy of what it skips.
struct JSONReader {
  private let bytes: UnsafeBufferPointer<UInt8>
  private let comments: Bool
  private var at = 0
  private var depth = 0

  private struct Failure: Error {
    let message: String
    let offset: Int
  }

  static func read(_ text: [UInt8], comments: Bool, firstLine: Int) throws(JSONSyntaxError) -> JSONValue {
    // The buffer is not kept beyond this call.
    let result: Result<JSONValue, Failure> = text.withUnsafeBufferPointer { buffer in
      var reader = JSONReader(bytes: buffer, comments: comments)
      do throws(Failure) { return .success(try reader.document()) } catch { return .failure(error) }
    }
    switch result {
    case .success(let value): return value
    case .failure(let failure):
      let position = SourcePosition(offset: failure.offset, in: text, firstLine: firstLine)
      throw JSONSyntaxError(message: failure.message, offset: failure.offset, position: position)
    }
  }

  private init(bytes: UnsafeBufferPointer<UInt8>, comments: Bool) {
    self.bytes = bytes
    self.comments = comments
  }

  // MARK: Grammar

  private mutating func document() throws(Failure) -> JSONValue {
    if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF {
      throw Failure(
        message: "the text starts with a byte-order mark; save it as UTF-8 without one", offset: 0)
    }
    try skipSpace()
    if at == bytes.count {
      throw Failure(message: "the text is empty; a JSON value was expected", offset: at)
    }
    let root = try value()
    try skipSpace()
    if at < bytes.count { throw unexpected("the end of the text") }
    return root
  }

  private mutating func value() throws(Failure) -> JSONValue {
    guard at < bytes.count else { throw unexpected("a value") }
    let start = at
    let content: JSONValue.Content
    switch bytes[at] {
    case UInt8(ascii: "{"): content = .object(try nested { reader throws(Failure) in try reader.object() })
    case UInt8(ascii: "["): content = .array(try nested { reader throws(Failure) in try reader.array() })
    case UInt8(ascii: "\""): content = .string(try string())
    case UInt8(ascii: "t"): content = try word("true", .bool(true))
    case UInt8(ascii: "f"): content = try word("false", .bool(false))
    case UInt8(ascii: "n"): content = try word("null", .null)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): content = .number(try number())
    default: throw unexpected("a value")
    }
    return JSONValue(content: content, range: start..<at)
  }

  private mutating func nested<T>(_ body: (inout JSONReader) throws(Failure) -> T) throws(Failure) -> T {
    depth += 1
    guard depth <= Limits.jsonDepth else {
      throw Failure(message: "nested more than \(Limits.jsonDepth) levels deep", offset: at)
    }
    let result = try body(&self)
    depth -= 1
    return result
  }

  private mutating func object() throws(Failure) -> [JSONMember] {
    var members: [JSONMember] = []
    var names: Set<String> = []
    at += 1
    try skipSpace()
    if take("}") { return members }
    while true {
      guard at < bytes.count, bytes[at] == UInt8(ascii: "\"") else {
        throw unexpected("a name in double quotes")
      }
      let offset = at
      let name = try string()
      guard names.insert(name).inserted else {
        throw Failure(message: "the name \"\(name)\" stands twice in one object", offset: offset)
      }
      try skipSpace()
      guard take(":") else { throw unexpected("\":\" after the name \"\(name)\"") }
      try skipSpace()
      members.append(JSONMember(name: name, offset: offset, value: try value()))
      try skipSpace()
      if take("}") { return members }
      guard take(",") else { throw unexpected("\",\" or \"}\"") }
      try skipSpace()
    }
  }

  private mutating func array() throws(Failure) -> [JSONValue] {
    var elements: [JSONValue] = []
    at += 1
    try skipSpace()
    if take("]") { return elements }
    while true {
      elements.append(try value())
      try skipSpace()
      if take("]") { return elements }
      guard take(",") else { throw unexpected("\",\" or \"]\"") }
      try skipSpace()
    }
  }

  private mutating func number() throws(Failure) -> JSONNumber {
    let start = at
    _ = take("-")
    if !take("0") { try digits() }
    if take(".") { try digits() }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      try digits()
    }
    if at < bytes.count, isDigit(bytes[at]) {
      throw Failure(message: "a number can't start with 0", offset: start)
    }
    return JSONNumber(text: String(decoding: bytes[start..<at], as: UTF8.self))
  }

  private mutating func digits() throws(Failure) {
    guard at < bytes.count, isDigit(bytes[at]) else { throw unexpected("a digit") }
    while at < bytes.count, isDigit(bytes[at]) { at += 1 }
  }

  private mutating func word(_ text: StaticString, _ content: JSONValue.Content) throws(Failure)
    -> JSONValue.Content
  {
    let matches = text.withUTF8Buffer { word in
      at + word.count <= bytes.count && bytes[at..<at + word.count].elementsEqual(word)
    }
    guard matches else { throw unexpected("a value") }
    at += text.utf8CodeUnitCount
    return content
  }

  // MARK: Strings

  private mutating func string() throws(Failure) -> String {
    let opening = at
    at += 1
    let start = at
    while at < bytes.count, bytes[at] != UInt8(ascii: "\""), bytes[at] != UInt8(ascii: "\\"),
      bytes[at] >= 0x20
    { at += 1 }
    if at < bytes.count, bytes[at] == UInt8(ascii: "\"") {
      let text = try utf8(bytes[start..<at], from: start)
      at += 1
      return text
    }
    return try escapedString(opening: opening, start: start)
  }

  private mutating func escapedString(opening: Int, start: Int) throws(Failure) -> String {
    var units = Array(bytes[start..<at])
    while at < bytes.count {
      let byte = bytes[at]
      switch byte {
      case UInt8(ascii: "\""):
        let text = try utf8(units[...], from: start)
        at += 1
        return text
      case UInt8(ascii: "\\"):
        try escape(into: &units)
      case ..<0x20:
        throw Failure(
          message: "a control character in a string must be written as an escape such as \\n", offset: at)
      default:
        units.append(byte)
        at += 1
      }
    }
    throw Failure(message: "the string that starts here has no closing quote", offset: opening)
  }

  private mutating func escape(into units: inout [UInt8]) throws(Failure) {
    let start = at
    at += 1
    guard at < bytes.count else { throw unexpected("an escape") }
    let byte = bytes[at]
    at += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): units.append(byte)
    case UInt8(ascii: "b"): units.append(0x08)
    case UInt8(ascii: "f"): units.append(0x0C)
    case UInt8(ascii: "n"): units.append(0x0A)
    case UInt8(ascii: "r"): units.append(0x0D)
    case UInt8(ascii: "t"): units.append(0x09)
    case UInt8(ascii: "u"):
      var scalar = UInt32(try hexadecimal())
      if (0xD800..<0xDC00).contains(scalar), at + 1 < bytes.count, bytes[at] == UInt8(ascii: "\\"),
        bytes[at + 1] == UInt8(ascii: "u")
      {
        at += 2
        let low = UInt32(try hexadecimal())
        guard (0xDC00..<0xE000).contains(low) else {
          throw Failure(message: "half of a surrogate pair", offset: start)
        }
        scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
      }
      guard let unicode = Unicode.Scalar(scalar) else {
        throw Failure(message: "half of a surrogate pair", offset: start)
      }
      units.append(contentsOf: String(Character(unicode)).utf8)
    default: throw Failure(message: "an escape that JSON doesn't have", offset: start)
    }
  }

  private mutating func hexadecimal() throws(Failure) -> UInt16 {
    guard at + 4 <= bytes.count else { throw unexpected("four hexadecimal digits") }
    var unit: UInt16 = 0
    for byte in bytes[at..<at + 4] {
      guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
        throw unexpected("four hexadecimal digits")
      }
      unit = unit << 4 | UInt16(digit)
    }
    at += 4
    return unit
  }

  private func utf8(_ units: some Collection<UInt8>, from start: Int) throws(Failure) -> String {
    guard let text = String(validating: units, as: UTF8.self) else {
      throw Failure(message: "the string that starts here is not valid UTF-8", offset: start)
    }
    return text
  }

  // MARK: White space

  private mutating func skipSpace() throws(Failure) {
    while at < bytes.count {
      switch bytes[at] {
      case 0x20, 0x09, 0x0A, 0x0D: at += 1
      case UInt8(ascii: "/") where comments: try skipComment()
      default: return
      }
    }
  }

  private mutating func skipComment() throws(Failure) {
    let start = at
    at += 1
    if take("/") {
      while at < bytes.count, bytes[at] != 0x0A { at += 1 }
    } else if take("*") {
      while at + 1 < bytes.count, !(bytes[at] == UInt8(ascii: "*") && bytes[at + 1] == UInt8(ascii: "/")) {
        at += 1
      }
      guard at + 1 < bytes.count else {
        throw Failure(message: "the comment that starts here has no end", offset: start)
      }
      at += 2
    } else {
      throw unexpected("a comment")
    }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard at < bytes.count, bytes[at] == UInt8(ascii: character) else { return false }
    at += 1
    return true
  }

  private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

  private func unexpected(_ expected: String) -> Failure {
    guard at < bytes.count else {
      return Failure(message: "the text ends where \(expected) was expected", offset: at)
    }
    let found =
      (0x21..<0x7F).contains(bytes[at])
      ? "\"\(Character(Unicode.Scalar(bytes[at])))\""
      : "the byte 0x\(String(bytes[at], radix: 16, uppercase: true))"
    return Failure(message: "found \(found) where \(expected) was expected", offset: at)
  }
}
