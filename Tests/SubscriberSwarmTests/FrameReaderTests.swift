import Testing

@testable import SubscriberSwarm

@Suite("A lean client's WebSocket frames")
struct FrameReaderTests {
  private func read(_ bytes: [UInt8]) throws -> ServerMessage? {
    try FrameReader.read(bytes, from: 0, to: bytes.count)?.message
  }

  @Test("a text, its length in one, two or eight bytes (RFC 6455, section 5.2)")
  func lengths() throws {
    #expect(try read([0x81, 0x02, 0x68, 0x69]) == .text(2..<4))
    #expect(try read([0x81, 0x7E, 0x01, 0x00] + [UInt8](repeating: 0x61, count: 256)) == .text(4..<260))
    #expect(
      try read([0x81, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0] + [UInt8](repeating: 0x61, count: 65_536))
        == .text(10..<65_546))
  }

  @Test("the RFC's own examples: an unmasked Hello, a ping")
  func examples() throws {
    #expect(try read([0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]) == .text(2..<7))
    #expect(try read([0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]) == .ping(2..<7))
  }

  @Test("a close with its code, or without one")
  func close() throws {
    #expect(try read([0x88, 0x02, 0x03, 0xF5]) == .close(1013))
    #expect(try read([0x88, 0x00]) == .close(nil))
  }

  @Test("a frame that isn't whole is waited for, at every byte of it", arguments: 0..<259)
  func partial(_ count: Int) throws {
    let whole: [UInt8] = [0x81, 0x7E, 0x01, 0x00] + [UInt8](repeating: 0x61, count: 255)
    #expect(try read(Array(whole.prefix(count))) == nil)
  }

  @Test(
    "what no Touchline server sends is refused",
    arguments: [
      [0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69], [0xC1, 0x00], [0x01, 0x01, 0x61], [0x82, 0x00], [0x80, 0x00],
      [0x81, 0x7F, 0, 0, 0, 1, 0, 0, 0, 0], [0x81, 0x7F, 0, 0, 0, 0, 0, 1, 0, 1],
    ] as [[UInt8]])
  func refused(_ bytes: [UInt8]) { #expect(throws: BrokenFrame.self) { try read(bytes) } }

  @Test(
    "what is no frame, or no TLS, is told apart from a connection that just ended",
    arguments: [
      ("broken frame: a message is fragmented", true), ("TLS: bad record mac", true),
      ("connection closed", false),
      ("Connection reset by peer", false),
    ])
  func garbled(_ problem: String, _ isGarbled: Bool) { #expect(Swarm.isGarbled(problem) == isGarbled) }

  @Test("a client's frame is masked; the RFC's example")
  func masked() {
    #expect(
      FrameReader.frame(opcode: 1, Array("Hello".utf8), mask: 0x37FA_213D)
        == [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
    #expect(
      FrameReader.frame(opcode: 1, [UInt8](repeating: 0, count: 300), mask: 0).prefix(4) == [
        0x81, 0xFE, 1, 44,
      ])
  }

  @Test("only the right answer opens a connection")
  func handshake() throws {
    let head =
      "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    let answer = try #require(Handshake.read(Array((head + "more").utf8)))
    #expect(answer.isOpen && answer.end == head.utf8.count)
    #expect(Handshake.read(Array(head.utf8.dropLast())) == nil)
    let refused = try #require(Handshake.read(Array("HTTP/1.1 404 Not Found\r\nx: y\r\n\r\n".utf8)))
    #expect(!refused.isOpen && refused.status == 404)
    let wrong = head.replacing("s3pP", with: "x3pP")
    #expect(Handshake.read(Array(wrong.utf8))?.isOpen == false)
  }

  @Test("a text that comes again is read once")
  func recent() {
    var recent = RecentTexts<Int>(capacity: 2)
    var made = 0
    func value(_ text: String) -> Int {
      recent.value(of: Array(("x" + text).utf8)[1...]) { _ in
        made += 1
        return made
      }
    }
    #expect(value("one") == 1 && value("two") == 2)
    #expect(value("one") == 1 && value("two") == 2)
    #expect(value("three") == 3 && value("two") == 2)
    #expect(value("one") == 4)
  }
}
