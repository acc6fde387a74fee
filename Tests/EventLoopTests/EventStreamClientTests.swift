import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite("Reading server-sent events") struct EventStreamReaderTests {
  private func read(_ text: String, piece: Int = 1_000) throws -> [ServerSentEvent] {
    var reader = EventStreamReader(lastID: nil, limit: 100)
    var events: [ServerSentEvent] = []
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      events += try reader.read(rest.prefix(piece))
      rest = rest.dropFirst(piece)
    }
    return events
  }

  private func event(_ name: String, _ id: String?, _ data: String) -> ServerSentEvent {
    ServerSentEvent(name: name, id: id, data: Array(data.utf8))
  }

  @Test("lines end in LF, CR or both, wherever the pieces are cut", arguments: ["\n", "\r", "\r\n"])
  func lines(_ end: String) throws {
    let text = ["retry: 1", "", "id: a:1", "event: e", "data: x", "data:y", "", ": comment", "data", "", ""]
      .joined(separator: end)
    for piece in 1...12 {
      #expect(try read(text, piece: piece) == [event("e", "a:1", "x\ny"), event("message", "a:1", "")])
    }
  }

  @Test("an event without data, or without its end, is none") func incomplete() throws {
    #expect(try read("event: e\n\nid: 1\n\ndata: x\n") == [])
    #expect(try read("event: e\n\ndata: x\n\n") == [event("message", nil, "x")])
    #expect(try read("data:  x: y\n\n") == [event("message", nil, " x: y")])
  }

  @Test("an endless line or event ends the reading") func tooLong() {
    for text in [String(repeating: "x", count: 101), String(repeating: "data: xx\n", count: 40)] {
      #expect(throws: EventStreamReader.TooLong.self) { try read(text) }
    }
  }
}
