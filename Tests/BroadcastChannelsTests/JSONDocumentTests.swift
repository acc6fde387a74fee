import Foundation
import Testing

@testable import BroadcastChannels

/// RFC 8259, with Foundation's reader as an independent judge where the two must agree.
@Suite struct JSONDocumentTests {
  static let accepted = [
    "null", "true", "false", "0", "-0", "12", "-1.5", "1e5", "1E+5", "1.25e-3", "\"\"", "\"a\"", "[]", "{}",
    " [ ] ", "\t{\r\n}\n", "[1,2]", #"{"a":1,"b":[{}]}"#, #"{"":0}"#, #""\"\\\/\b\f\n\r\t""#, #""\u00e9""#,
    #""\uD83C\uDFC6""#, "\"🏆\"", "\"\u{7F}\"", "\"\u{2028}\"", "9007199254740993", "[[[[]]]]",
    #"{"A":1,"a":2}"#, "\"/\"", #""\u0041\u005A""#,
  ]
  static let rejected = [
    "", " ", "nul", "nulll", "True", "truefalse", "01", "-01", "00", "+1", ".5", "1.", "1.e5", "1e", "1e+",
    "-", "--1", "0x10", "NaN", "Infinity", "-Infinity", "1 2", "[", "]", "[1", "[1,", "[,1]",
    "[1 2]", "{", "}", #"{"a"}"#, #"{"a":}"#, #"{,}"#, #"{a:1}"#, "{'a':1}", #"{"a" 1}"#,
    #"{"a":1 "b":2}"#, #"{1:1}"#, "\"", "\"a", "'a'", #""\x""#, #""\u12""#, #""\u12G4""#, #""\"#,
    "\"\n\"", "\"\t\"", "\"\u{0}\"", "\"\u{1F}\"", "{}}", "[]]", "{} x", "// c\n1", "/* c */ 1", "[1}",
    "\u{A0}1",
  ]

  static func judge(_ text: [UInt8]) -> Bool {
    (try? JSONSerialization.jsonObject(with: Data(text), options: .fragmentsAllowed)) != nil
  }

  @Test(arguments: accepted)
  func `JSON is read`(text: String) {
    #expect(throws: Never.self) { try document(text) }
    #expect(Self.judge(Array(text.utf8)))
  }

  @Test(arguments: rejected)
  func `what is not JSON is refused`(text: String) {
    #expect(throws: JSONSyntaxError.self) { try document(text) }
    #expect(!Self.judge(Array(text.utf8)))
  }

  /// RFC 8259 leaves these to the reader, or Foundation is more lenient than it: a name twice is "unpredictable", a
  /// byte-order mark "MAY" be ignored, a lone surrogate is no Unicode, and the depth is ours. Foundation 6.3 on Linux
  /// takes a comma before a closing bracket.
  @Test(
    arguments: [
      "[1,]", #"{"a":1,}"#, #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#, "\u{FEFF}1", #""\uD83C""#,
      #""\uDFC6\uD83C""#, #""\uD83Cx""#,
      String(repeating: "[", count: 65) + String(repeating: "]", count: 65),
    ])
  func `what readers disagree about is refused`(text: String) {
    #expect(throws: JSONSyntaxError.self) { try document(text) }
  }

  @Test func `64 levels are read`() {
    let text = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
    #expect(throws: Never.self) { try document(text) }
  }

  @Test func `a hundred thousand brackets are refused, not a crash`() {
    let error = #expect(throws: JSONSyntaxError.self) { try document(String(repeating: "[", count: 100_000)) }
    #expect(error?.message.contains("64") == true)
  }

  @Test(arguments: [
    [0x22, 0xFF, 0x22], [0x22, 0xC0, 0xAF, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22], [0x22, 0xC3, 0x22],
  ])
  func `a string that is not UTF-8 is refused`(bytes: [Int]) {
    let bytes = bytes.map { UInt8($0) }
    #expect(throws: JSONSyntaxError.self) { try JSONDocument(bytes) }
    #expect(!Self.judge(bytes))
  }

  /// Every prefix and every single changed byte of a text, read by both: an enumeration instead of a fuzzer.
  @Test func `both readers agree on every damaged text`() {
    let text = Array(#"{"a":[1,-2.5e+1,true,null,"\u00e9\n"],"b":{}}"#.utf8)
    for length in 1..<text.count {
      let prefix = Array(text[..<length])
      #expect(!Self.judge(prefix) && (try? JSONDocument(prefix)) == nil)
    }
    for index in text.indices {
      for byte in UInt8(0x20)..<0x7F {
        var damaged = text
        damaged[index] = byte
        let damagedText = String(decoding: damaged, as: UTF8.self)
        // A name that became a repetition is ours to refuse.
        guard !damagedText.hasSuffix(#""a":{}}"#), !damagedText.hasPrefix(#"{"b""#) else { continue }
        #expect(((try? JSONDocument(damaged)) != nil) == Self.judge(damaged), "\(damagedText)")
      }
    }
  }

  @Test(
    arguments: [
      (#""\uD83C\uDFC6 \u00e9\/\\""#, "🏆 é/\\"), (#""a\tb""#, "a\tb"), ("\"\"", ""), (#""\u0000""#, "\0"),
    ])
  func `escapes are undone`(text: String, value: String) throws {
    #expect(try document(text).root.string == value)
  }

  @Test(
    arguments: [
      ("9007199254740993", 9_007_199_254_740_993), ("5.0", 5), ("5e0", 5), ("1e3", 1_000), ("-0", 0),
      ("5.5", nil), ("9223372036854775807", .max), ("9223372036854775808", nil), ("1e300", nil),
    ] as [(String, Int64?)])
  func `a number keeps its text and is an integer when it is whole`(text: String, int: Int64?) throws {
    let number = try #require(try document(text).root.number)
    #expect(number.text == text && number.int == int)
  }

  @Test func `a value's bytes are those that were written`() throws {
    let text = #"{ "aps" : { "n" : 1.50 , "é" : "\u00e9" } }"#
    let document = try document(text)
    let aps = try #require(document.root["aps"])
    #expect(document.bytes(of: aps) == Array(#"{ "n" : 1.50 , "é" : "\u00e9" }"#.utf8))
    #expect(JSONText(compacting: document.bytes(of: aps)).string == #"{"n":1.50,"é":"\u00e9"}"#)
  }

  @Test(arguments: [(#"{"a b" : " \" c\\" }"#, #"{"a b":" \" c\\"}"#), ("[\n1,\r\n\t2 ]", "[1,2]")])
  func `compacting takes white space between tokens only`(text: String, compact: String) {
    #expect(JSONText(compacting: text.utf8).string == compact)
  }

  @Test(
    arguments: [
      ("{\n  \"a\": tru\n}", 2, 8), ("[1,\n 2,\n ]", 3, 2), ("{\"a\":1,\n\"a\":2}", 2, 1), ("[1", 1, 3),
      ("\"é\" x", 1, 6), ("", 1, 1), ("\n\n\"abc", 3, 1),
    ])
  func `an error has its line and byte column`(text: String, line: Int, column: Int) {
    let error = #expect(throws: JSONSyntaxError.self) { try document(text) }
    #expect(error?.position == SourcePosition(line: line, column: column))
  }

  @Test func `a line of a longer file has that file's number`() {
    let error = #expect(throws: JSONSyntaxError.self) { try JSONDocument(Array("[x]".utf8), firstLine: 7) }
    #expect(error?.position == SourcePosition(line: 7, column: 2))
  }

  @Test(arguments: [
    "// c\n1", "1 // c", "/* a\n */1/**/", "[1,// one\n2/* two */]", "/***/1", #"["//","/*"]"#,
  ])
  func `comments are white space where they are allowed`(text: String) {
    #expect(throws: Never.self) { try document(text, comments: true) }
  }

  @Test(arguments: ["/* c", "/* c *", "/*/ 1", "/ 1", "1 /", "# c\n1", "// c"])
  func `half a comment is refused`(text: String) {
    #expect(throws: JSONSyntaxError.self) { try document(text, comments: true) }
  }

  @Test(arguments: ["", "a\"b\\c", "\n\r\t\u{0}\u{1F}\u{7F}", "🏆 é \u{2028}", "/"])
  func `a quoted text is JSON that Foundation reads back`(text: String) throws {
    let quoted = Data(JSONWriter.quoted(text).utf8)
    #expect(try JSONSerialization.jsonObject(with: quoted, options: .fragmentsAllowed) as? String == text)
  }

  @Test(arguments: [
    (1, "1"), (0, "0"), (-3, "-3"), (0.25, "0.250"), (1.5, "1.500"), (2.0004, "2"), (1e12, "1000000000000"),
  ])
  func `seconds are written to the millisecond`(value: Double, text: String) {
    #expect(JSONWriter.seconds(value) == text)
  }

  @Test func `an object leaves out what has no value`() {
    #expect(JSONWriter.object(["a": "1", "b": nil, "c\"": "[]"]) == #"{"a":1,"c\"":[]}"#)
  }
}
