import Foundation
import Testing

@testable import BroadcastChannels

/// Source: facts/broadcast-api.md, the traps: a device decodes a content state with Swift's default strategies.
@Suite struct ContentStateSchemaTests {
  typealias PropertyType = ContentStateSchema.PropertyType

  static func findings(_ type: String, _ value: String) throws -> [Finding] {
    let type = try #require(PropertyType(swift: type))
    let schema = ContentStateSchema(properties: [ContentStateSchema.Property(name: "x", type: type)])
    let document = try document(#"{"x":\#(value)}"#)
    return schema.findings(for: document.root, key: "aps.content-state", in: document)
  }

  /// Reading recurses: 60 KB of brackets once ended the server.
  @Test func `a type has sixteen levels at most`() {
    func arrays(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + "Int" + String(repeating: "]", count: depth)
    }
    #expect(PropertyType(swift: arrays(16))?.swift == arrays(16))
    for text in [arrays(17), arrays(30_000), "Int" + String(repeating: "?", count: 60_000)] {
      #expect(PropertyType(swift: text) == nil)
    }
  }

  @Test(
    arguments: [
      ("Int", "1"), ("Int", "-1"), ("Double", "1.5"), ("Double", "2"), ("Float", "1e3"), ("String", #""""#),
      ("Bool", "false"), ("Date", "693068400"), ("Date", "0.5"), ("URL", #""https://example.com/a""#),
      ("UUID", #""2288CF3F-70D8-46A6-97D7-DD5D00867127""#), ("Int?", "null"), ("Int?", "3"), ("[Int]", "[]"),
      ("[String]", #"["a","b"]"#), ("[Int?]", "[1,null]"), ("[[Int]]", "[[1],[]]"),
      ("[String: Int]", #"{"a":1}"#),
      ("[String:[Date?]]?", #"{"a":[null,5]}"#), ("[String: [String: Bool]]", #"{"a":{"b":true}}"#),
    ])
  func `a value of the declared type decodes`(type: String, value: String) throws {
    #expect(try Self.findings(type, value).isEmpty)
  }

  @Test(
    arguments: [
      ("Int", "1.5", ""), ("Int", #""1""#, ""), ("Int", "true", ""), ("Int", "null", ""),
      ("Double", #""1""#, ""),
      ("String", "1", ""), ("String", "null", ""), ("Bool", "0", ""), ("Bool", #""true""#, ""),
      ("Date", "null", ""), ("URL", "1", ""), ("UUID", #""goal-1""#, ""), ("Int?", #""x""#, ""),
      ("[Int]", "1", ""), ("[Int]", "{}", ""), ("[Int]", #"[1,"2"]"#, "[1]"), ("[Int]", "[null]", "[0]"),
      ("[String: Int]", "[]", ""), ("[String: Int]", #"{"a":1,"b":"2"}"#, ".b"),
      ("[[Int]]", "[[1],[1,true]]", "[1][1]"),
    ])
  func `another type is an error at its key`(type: String, value: String, path: String) throws {
    let findings = try Self.findings(type, value)
    #expect(findings.map(\.brief) == ["error state-type aps.content-state.x\(path) line 1"])
  }

  @Test func `a date as text is told how Swift reads dates`() throws {
    let findings = try Self.findings("Date", #""2022-12-18T15:00:00Z""#)
    #expect(findings.map(\.kind) == ["state-type"])
    #expect(findings.first?.message.contains("seconds since 2001-01-01") == true)
  }

  @Test func `Unix seconds in a Date are told with both dates`() throws {
    let findings = try Self.findings("Date?", "1671375600")
    #expect(findings.map(\.brief) == ["warning state-date aps.content-state.x line 1"])
    // 1671375600 is 2022-12-18 15:00 UTC. Counted from 2001 it is 978307200 s later: 2649682800, 2053-12-18 15:00.
    let message = try #require(findings.first?.message)
    for part in ["2022-12-18T15:00:00Z", "2053-12-18T15:00:00Z", "978307200"] {
      #expect(message.contains(part))
    }
  }

  @Test func `milliseconds in a Date are told`() throws {
    let findings = try Self.findings("Date", "1671375600000")
    #expect(findings.map(\.kind) == ["state-date"])
    #expect(findings.first?.message.contains("milliseconds") == true)
  }

  @Test func `a missing property is an error unless it is optional`() throws {
    let definition = try DefinitionTests.read(
      members: #""content-state": {"a": "Int", "b": "Int?", "c": {"d": "String"}, "e": "[Int]"}"#)
    let document = try document(#"{"c":{}, "f":1, "E":[]}"#)
    let findings = try #require(definition.contentState).findings(for: document.root, key: "s", in: document)
    let expected = [
      "error state-missing s.a line 1", "error state-missing s.c.d line 1", "error state-missing s.e line 1",
      "warning state-unknown s.E line 1", "warning state-unknown s.f line 1",
    ]
    #expect(findings.map(\.brief).sorted() == expected)
    #expect(findings.contains { $0.key == "s.E" && $0.message.contains(#"did you mean "e"?"#) })
  }

  @Test func `null is not a missing optional struct but a wrong type`() throws {
    let definition = try DefinitionTests.read(members: #""content-state": {"c": {"d": "String"}}"#)
    let document = try document(#"{"c":null}"#)
    let findings = try #require(definition.contentState).findings(for: document.root, key: "s", in: document)
    #expect(findings.map(\.brief) == ["error state-type s.c line 1"])
  }

  @Test(arguments: [
    "", "int", "Foo", "[Int", "Int]", "[]", "?", "[String:]", "[Int: String]", "Int!", "Array<Int>", "[:]",
  ])
  func `what is no known Swift type is refused`(text: String) {
    #expect(PropertyType(swift: text) == nil)
  }

  @Test(arguments: ["Int", "Date?", "[String]", "[String: [Int?]]?", "[[String: Double]]"])
  func `a type is written as Swift writes it`(text: String) {
    #expect(PropertyType(swift: text)?.swift == text)
  }

  // MARK: Foundation's own decoder as the judge

  private struct State<Value: Decodable>: Decodable {
    let x: Value
  }

  static func decodes<Value: Decodable>(_: Value.Type, _ value: String) -> Bool {
    (try? JSONDecoder().decode(State<Value>.self, from: Data(#"{"x":\#(value)}"#.utf8))) != nil
  }

  static let values = [
    "0", "1", "-1", "1.5", "5.0", "1e3", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "true", "false", "null", #""""#, #""a""#, #""1""#, #""true""#, #""a b""#, #""https://example.com/a""#,
    #""2288cf3f-70d8-46a6-97d7-dd5d00867127""#, "[]", "[1]", "[1.5]", "[null]", #"["a"]"#, "[[1]]", "{}",
    #"{"a":1}"#, #"{"a":null}"#, #"{"a":"b"}"#, #"{"a":[1]}"#,
  ]

  @Test(arguments: values)
  func `a state has an error exactly when JSONDecoder fails`(value: String) throws {
    let judged: [(type: String, decodes: Bool)] = [
      ("Int", Self.decodes(Int.self, value)), ("Double", Self.decodes(Double.self, value)),
      ("String", Self.decodes(String.self, value)), ("Bool", Self.decodes(Bool.self, value)),
      ("Date", Self.decodes(Date.self, value)), ("URL", Self.decodes(URL.self, value)),
      ("UUID", Self.decodes(UUID.self, value)), ("Int?", Self.decodes(Int?.self, value)),
      ("[Int]", Self.decodes([Int].self, value)), ("[Int?]", Self.decodes([Int?].self, value)),
      ("[[Int]]", Self.decodes([[Int]].self, value)),
      ("[String: Int]", Self.decodes([String: Int].self, value)),
      ("[String: String]?", Self.decodes([String: String]?.self, value)),
    ]
    for (type, decodes) in judged {
      let errors = try Self.findings(type, value).filter { $0.severity == .error }
      #expect(errors.isEmpty == decodes, "\(type) from \(value)")
    }
  }

  @Test func `JSONDecoder reads a Date as seconds since 2001`() throws {
    let state = try JSONDecoder().decode(State<Date>.self, from: Data(#"{"x":693068400}"#.utf8))
    // 2022-12-18 15:00 UTC: 1671375600 - 978307200 = 693068400.
    #expect(state.x == Date(timeIntervalSince1970: 1_671_375_600))
  }
}
