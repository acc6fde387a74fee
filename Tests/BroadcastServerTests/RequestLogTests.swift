import BroadcastChannels
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

@Suite("The request log") struct RequestLogTests {
  private func log(_ count: Int) -> RequestLog {
    let log = RequestLog(epoch: "e", log: .silent)
    for number in 0..<count { add(to: log, path: "/4/\(number)") }
    return log
  }

  private func add(
    to log: RequestLog, path: String = "/4/x", status: Int = 200,
    _ change: (inout RequestFacts) -> Void = { _ in }
  ) {
    var facts = RequestFacts()
    change(&facts)
    let request = LoggedRequest(HTTPRequest(method: "POST", path: path), at: Date(), clock: 0)
    log.add(request, status: status, facts, clock: 0)
  }

  private struct Listed: Decodable, Equatable {
    struct Entry: Decodable, Equatable { let id, path: String }
    let requests: [Entry]
    let next: String
    let missed: Int?
    var paths: [String] { requests.map(\.path) }
  }

  private func read(_ log: RequestLog, _ arguments: KeyValuePairs<String, String> = [:]) throws -> Listed {
    let query = try RequestQuery(arguments.map { ($0.key, $0.value) })
    return try JSONDecoder().decode(Listed.self, from: Data(log.answer(query).utf8))
  }

  // MARK: Reading

  @Test("the newest come last, and next goes on where the answer ended") func order() throws {
    let log = log(5)
    let newest = try read(log, ["limit": "2"])
    #expect(newest.requests == [.init(id: "e:4", path: "/4/3"), .init(id: "e:5", path: "/4/4")])
    #expect(newest.next == "e:5" && newest.missed == nil)
    let page = try read(log, ["limit": "2", "after": "e:1"])
    #expect(page.paths == ["/4/1", "/4/2"] && page.next == "e:3")
    #expect(try read(log, ["after": page.next]).paths == ["/4/3", "/4/4"])
    let none = try read(log, ["after": "e:5"])
    #expect(none.paths == [] && none.next == "e:5")
    #expect(try read(log, ["limit": "0"]).paths == [])
    #expect(try read(RequestLog(epoch: "e", log: .silent)) == Listed(requests: [], next: "e:0", missed: nil))
  }

  @Test("what was forgotten is counted, and the place of another server's log is older than everything")
  func forgotten() throws {
    let log = log(2 * Limits.requestLogEntries + 7)
    let all = try read(log, ["limit": "\(Limits.requestLogEntries)"])
    #expect(
      all.requests.count == Limits.requestLogEntries && all.next == "e:2007" && all.paths[0] == "/4/1007")
    let late = try read(log, ["after": "e:1000", "limit": "1"])
    #expect(late.missed == 7 && late.paths == ["/4/1007"])
    #expect(try read(log, ["after": "e:1007", "limit": "1"]).missed == nil)
    let other = try read(log, ["after": "x:2007", "limit": "1"])
    #expect(other.paths == ["/4/1007"] && other.missed == nil)
    // Beyond the newest: nothing, and nothing is skipped later.
    #expect(try read(log, ["after": "e:9999"]).next == "e:2007")
  }

  @Test("status, channel and app choose, and next passes over what they leave out") func filters() throws {
    let log = RequestLog(epoch: "e", log: .silent)
    for (path, status) in [("/4/a", 200), ("/4/b", 400), ("/4/c", 404), ("/4/d", 503)] {
      add(to: log, path: path, status: status) {
        $0.app = "app\(status)"
        $0.channel = path == "/4/a" ? "AAAA" : "BBBB"
        $0.alias = path == "/4/a" ? "final" : nil
      }
    }
    #expect(try read(log, ["status": "4xx"]).paths == ["/4/b", "/4/c"])
    #expect(try read(log, ["status": "200,503"]).paths == ["/4/a", "/4/d"])
    #expect(try read(log, ["status": "4xx,5xx", "limit": "2"]).paths == ["/4/c", "/4/d"])
    for name in ["AAAA", "final"] { #expect(try read(log, ["channel": name]).paths == ["/4/a"]) }
    #expect(try read(log, ["app": "app404", "channel": "BBBB"]).paths == ["/4/c"])
    let nothing = try read(log, ["app": "none", "after": "e:1"])
    #expect(nothing.paths == [] && nothing.next == "e:4")
  }

  @Test(
    "a query that can't be is refused with what was expected",
    arguments: [
      ("limit", "x", "a whole number from 0 to 1000"), ("limit", "1001", "a whole number"),
      ("limit", "", "whole"),
      ("after", "7", "\"next\""), ("status", "2x", "200 or 4xx"), ("status", "", "4xx"),
      ("status", "600", "4xx"),
      ("status", "0xx", "4xx"), ("status", "4xx,", "4xx"), ("staus", "200", "did you mean \"status\"?"),
    ])
  func badQueries(_ name: String, _ value: String, _ expected: String) {
    do throws(AnswerError) {
      _ = try RequestQuery([(name, value)])
      Issue.record("was accepted")
    } catch {
      #expect(error.status == 400 && error.reason == "BadRequestParams" && error.message.contains(expected))
    }
  }

  // MARK: What it must not hold

  @Test(
    "a path has no device token",
    arguments: [
      ("/3/device/0123456789abcdef0123456789abcdef", "/3/device/01234567…"),
      ("/3/device/0123456789/more/segments", "/3/device/01234567…"), ("/3/device/short", "/3/device/short"),
      // Found by fuzzing: a combining mark joins the slash before it.
      ("/3/device/\u{64C}0123456789", "/3/device/\u{64C}012345…"),
      ("/4/g\(String(repeating: "0", count: 64))", "/4/g00000000…"),
      ("/3/dev%69ce/0123456789abcdef", "/3/dev%69ce/01234567…"), ("/3/device", "/3/device"),
      ("/4/\(String(repeating: "aF", count: 32))/x", "/4/aFaFaFaF…/x"),
      ("/4/broadcasts/apps/com.example.scores", "/4/broadcasts/apps/com.example.scores"),
    ])
  func paths(_ raw: String, _ expected: String) { #expect(Redaction.path(raw) == expected) }

  @Test(
    "of an authorization only its kind and a key id are told",
    arguments: [
      // {"alg":"ES256","kid":"ABC1234DEF"}
      ("bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMzRERUYifQ.e30.c2ln", "bearer, key ABC1234DEF"),
      ("Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMzRERUYifQ.e30.c2ln", "bearer, key ABC1234DEF"),
      // {"kid":"too-long-for-a-key"}
      ("bearer eyJraWQiOiJ0b28tbG9uZy1mb3ItYS1rZXkifQ.e30.c2ln", "bearer"), ("bearer secret", "bearer"),
      ("Basic dXNlcjpzZWNyZXQ=", "basic"), ("secret", "unknown kind"), ("secret word", "unknown kind"),
      ("", "unknown kind"),
    ])
  func authorization(_ header: String, _ expected: String) {
    #expect(Redaction.authorization(header) == expected)
  }

  @Test("texts are cut between characters, and secrets in them are left out") func texts() {
    let jwt = "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMzRERUYifQ.eyJpc3MiOiJYIn0.c2lnbmF0dXJl"
    #expect(Redaction.text("apns-channel-id is \"\(jwt)\"; no") == "apns-channel-id is \"eyJ…\"; no")
    let id = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
    #expect(Redaction.text("id \(id)") == "id \(id)")
    #expect(Redaction.text("NM2Pkgbowhu92K7e9R4esQ==") == "NM2Pkgbowhu92K7e9R4esQ==")
    let long = Redaction.text(String(repeating: "é", count: 5_000))
    #expect(long.utf8.count <= Limits.requestLogTextBytes + 3 && long.hasSuffix("é…"))
    #expect(Redaction.text(String(repeating: "x", count: 400)).count == 400)
  }

  @Test("an entry's size is bounded, whatever a client sends") func bounded() {
    let log = RequestLog(epoch: "e", log: .silent)
    let huge = String(repeating: "\u{1}", count: 60_000)
    var facts = RequestFacts()
    facts.app = huge
    facts.channel = huge
    facts.refused(.init(status: 400, reason: "BadPath", message: huge))
    var request = HTTPRequest(
      method: huge, path: huge, headers: [("user-agent", huge), ("authorization", "bearer \(huge)")])
    request.rawPath = "/3/device/\(huge)"
    log.add(LoggedRequest(request, at: Date(), clock: 0), status: 400, facts, clock: 0)
    // A control character is six bytes in JSON.
    let bytes = log[1].map { $0.json(epoch: "e").utf8.count } ?? 0
    #expect((1_000...6 * 8 * Limits.requestLogTextBytes).contains(bytes))
  }
}
