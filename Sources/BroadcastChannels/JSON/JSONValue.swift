// JSON that remembers where it stood.
//
// Two promises need the place of every value in its text. The publisher's `aps` bytes reach subscribers unchanged,
// so a payload is checked without being encoded again; and whoever wrote a definition, a script or a payload is told
// the line of what is wrong. Foundation's readers give neither ranges nor lines for values that are well-formed JSON
// but wrong, so this one small reader is ours. Writing JSON is left to Foundation.

/// One JSON value and the bytes it stood in.
public struct JSONValue: Sendable {
  /// What a value is.
  public enum Content: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object([JSONMember])
  }

  /// What the value is.
  public let content: Content
  /// Where its first and last byte are in the document.
  public let range: Range<Int>
}

/// One member of a JSON object.
public struct JSONMember: Sendable {
  /// The name, unescaped.
  public let name: String
  /// Offset of the name's opening quote in the document.
  public let offset: Int
  /// The value.
  public let value: JSONValue
}

/// A number as it was written, so that nothing is lost between `9007199254740993` and a floating-point value.
public struct JSONNumber: Sendable, Hashable {
  /// The text in the document.
  public let text: String

  /// The number as floating point.
  public var double: Double { Double(text) ?? .nan }

  /// The number as an integer, when it is one (also written `5.0` or `5e0`) and fits 64 bits.
  public var int: Int64? { Int64(text) ?? Int64(exactly: double) }
}

extension JSONValue {
  /// The members, when the value is an object.
  public var members: [JSONMember]? { if case .object(let members) = content { members } else { nil } }
  /// The elements, when the value is an array.
  public var elements: [JSONValue]? { if case .array(let elements) = content { elements } else { nil } }
  /// The text, when the value is a string.
  public var string: String? { if case .string(let text) = content { text } else { nil } }
  /// The number, when the value is one.
  public var number: JSONNumber? { if case .number(let number) = content { number } else { nil } }
  /// The truth value, when the value is one.
  public var bool: Bool? { if case .bool(let bool) = content { bool } else { nil } }
  /// Whether the value is `null`.
  public var isNull: Bool { if case .null = content { true } else { false } }

  /// The value of a member of an object.
  public subscript(name: String) -> JSONValue? { members?.first { $0.name == name }?.value }

  /// What the value is, in words for a message: "a string", "the number 3".
  public var described: String {
    switch content {
    case .null: "null"
    case .bool(let bool): "\(bool)"
    case .number(let number): "the number \(number.text)"
    case .string(let text):
      text.count <= 40 ? "the string \"\(text)\"" : "a string of \(text.count) characters"
    case .array: "an array"
    case .object: "an object"
    }
  }
}

/// A JSON text and the value it holds.
public struct JSONDocument: Sendable {
  /// The text.
  public let bytes: [UInt8]
  /// The value.
  public let root: JSONValue
  /// The number of the text's first line in its file.
  public let firstLine: Int

  /// Reads a text.
  ///
  /// - Parameters:
  ///   - bytes: UTF-8.
  ///   - comments: whether `//` and `/* */` comments are white space, as in channel definitions.
  ///   - firstLine: the number of the first line, for a line out of a longer file.
  /// - Throws: where and why the text is not JSON (RFC 8259), has a name twice in one object, or nests too deeply.
  public init(_ bytes: [UInt8], comments: Bool = false, firstLine: Int = 1) throws(JSONSyntaxError) {
    self.bytes = bytes
    self.firstLine = firstLine
    self.root = try JSONReader.read(bytes, comments: comments, firstLine: firstLine)
  }

  /// The bytes of a value, as they were written.
  public func bytes(of value: JSONValue) -> [UInt8] { Array(bytes[value.range]) }

  /// The place of a byte.
  public func position(of offset: Int) -> SourcePosition {
    SourcePosition(offset: offset, in: bytes, firstLine: firstLine)
  }
}

/// A place in a text that a person can go to.
public struct SourcePosition: Sendable, Hashable {
  /// The line, from 1.
  public let line: Int
  /// The column in bytes, from 1.
  public let column: Int

  /// Makes a position.
  public init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  init(offset: Int, in bytes: [UInt8], firstLine: Int) {
    let before = bytes[..<min(offset, bytes.count)]
    line = firstLine + before.count { $0 == UInt8(ascii: "\n") }
    let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    column = before.count - start + 1
  }
}

/// Why a text is not JSON.
public struct JSONSyntaxError: Error, Sendable, Hashable {
  /// What was found and what was expected.
  public let message: String
  /// Offset of the byte at which reading stopped.
  public let offset: Int
  /// The same as line and column.
  public let position: SourcePosition
}

extension JSONSyntaxError: CustomStringConvertible {
  /// The message with its place.
  public var description: String { "line \(position.line), column \(position.column): \(message)" }
}
