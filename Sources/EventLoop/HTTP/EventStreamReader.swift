// Why: a stream of server-sent events arrives in pieces of any size (WHATWG HTML, section 9.2.6). This machine eats them
// without a socket.

/// One event of a `text/event-stream`.
public struct ServerSentEvent: Sendable, Equatable {
  /// Its name; `message` when the server gave none.
  public var name: String
  /// The id of this event, or of the last one that had one.
  public var id: String?
  /// The data, several lines joined by line feeds.
  public var data: [UInt8]
}

struct EventStreamReader {
  /// An event is longer than the reader's limit.
  struct TooLong: Error {}

  private let limit: Int
  private var line: [UInt8] = []
  private var endedInCR = false
  private var name = ""
  private var data: [UInt8]?
  private(set) var lastID: String?
  /// Seconds after which the server wants to be asked again, when it has changed its mind since the stream began: it ends.
  private(set) var askedToRetry: Double?
  private var usualRetry: Double?

  /// - Parameters:
  ///   - lastID: what the stream was resumed with.
  ///   - limit: bytes of a line, and of an event's data.
  init(lastID: String?, limit: Int) {
    self.lastID = lastID
    self.limit = limit
  }

  /// Takes a piece of the stream, and gives the events that it completes.
  mutating func read(_ bytes: some Sequence<UInt8>) throws(TooLong) -> [ServerSentEvent] {
    var events: [ServerSentEvent] = []
    for byte in bytes {
      // A line ends in CR, LF, or both.
      if byte == 0x0a, endedInCR {
        endedInCR = false
        continue
      }
      endedInCR = byte == 0x0d
      if byte == 0x0a || byte == 0x0d {
        if let event = endLine() { events.append(event) }
        line.removeAll(keepingCapacity: true)
      } else {
        line.append(byte)
      }
      guard line.count + (data?.count ?? 0) <= limit else { throw TooLong() }
    }
    return events
  }

  private mutating func endLine() -> ServerSentEvent? {
    guard !line.isEmpty else { return dispatch() }
    let field = line.prefix { $0 != 0x3a }
    var value = line.dropFirst(field.count + 1)
    if value.first == 0x20 { value = value.dropFirst() }
    switch String(decoding: field, as: UTF8.self) {
    case "event": name = String(decoding: value, as: UTF8.self)
    case "data": data = data.map { $0 + [0x0a] + value } ?? Array(value)
    case "id": if !value.contains(0) { lastID = String(decoding: value, as: UTF8.self) }
    case "retry":
      if !value.isEmpty, value.allSatisfy({ (0x30...0x39).contains($0) }) {
        let seconds = Double(String(decoding: value, as: UTF8.self)).map { $0 / 1_000 }
        if usualRetry == nil { usualRetry = seconds } else { askedToRetry = seconds }
      }
    default: break
    }
    return nil
  }

  private mutating func dispatch() -> ServerSentEvent? {
    defer {
      name = ""
      data = nil
    }
    return data.map { ServerSentEvent(name: name.isEmpty ? "message" : name, id: lastID, data: $0) }
  }
}
