import BroadcastChannels
import Foundation

/// The last provider requests, for a developer who asks why nothing happened: the newest ``Limits/requestLogEntries``.
///
/// Whoever answers begins a ``LoggedRequest`` and adds it with the answer. Readers hold a number in the log, not a copy
/// of it: one that is slow finds older entries gone and is told how many.
final class RequestLog {
  /// Which counting the entries' numbers belong to. It changes with each start of the server.
  let epoch: String
  private let log: ServerLog
  private let metrics: ServerMetrics
  /// In their order; what stands before `oldest` is forgotten.
  private var entries: [RequestEntry] = []
  private var oldest = 0
  /// The number of the newest entry; 0 before the first.
  private(set) var newestNumber = 0
  private var streams: [ObjectIdentifier: RequestStream] = [:]

  /// - Parameter metrics: where answers are counted.
  init(epoch: String, log: ServerLog, metrics: ServerMetrics = ServerMetrics()) {
    self.epoch = epoch
    self.log = log
    self.metrics = metrics
  }

  /// A request was answered.
  ///
  /// - Parameter clock: as in ``LoggedRequest/begun``.
  func add(_ request: LoggedRequest, status: Int, _ facts: RequestFacts, clock: Double) {
    newestNumber += 1
    let entry = RequestEntry(newestNumber, request, status: status, facts, clock: clock)
    metrics.answered(request, status: status, facts, seconds: clock - request.begun)
    log(
      .debug, .request, "request \(entry.line)",
      [
        "request": entry.requestID, "status": String(status), "reason": entry.reason,
        "channel": entry.channel,
        "remote": request.remoteAddress,
      ])
    entries.append(entry)
    if entries.count - oldest > Limits.requestLogEntries {
      oldest += 1
      if oldest > Limits.requestLogEntries {
        entries.removeFirst(oldest)
        oldest = 0
      }
    }
    for stream in streams.values { stream.goOn() }
  }

  // MARK: Reading

  /// The number of the oldest entry that is kept, or of the next one when there is none.
  var oldestNumber: Int { newestNumber - (entries.count - oldest) + 1 }

  /// An entry by its number, if it is kept.
  subscript(number: Int) -> RequestEntry? {
    guard number >= oldestNumber, number <= newestNumber else { return nil }
    return entries[oldest + number - oldestNumber]
  }

  /// The number with which a reader goes on that has read up to a position.
  ///
  /// A position of another epoch is that of a server that is gone: everything is news to its reader.
  func next(after position: StreamPosition) -> Int {
    position.epoch == epoch ? min(position.sequence, newestNumber) + 1 : oldestNumber
  }

  /// The number of the oldest of the newest entries that a filter takes, as many as a limit allows.
  func first(ofNewest limit: Int, taking filter: RequestFilter) -> Int {
    var first = newestNumber + 1
    var found = 0
    for number in (oldestNumber..<newestNumber + 1).reversed() where found < limit {
      guard let entry = self[number], filter.takes(entry) else { continue }
      found += 1
      first = number
    }
    return first
  }

  /// The answer to a query: the entries, oldest first, where to go on, and how many were forgotten in between.
  func answer(_ query: RequestQuery) -> String {
    let start = query.after.map { next(after: $0) } ?? first(ofNewest: query.limit, taking: query.filter)
    var number = max(start, oldestNumber)
    var texts: [String] = []
    var bytes = 0
    while texts.count < query.limit, bytes < Limits.requestAnswerBytes, let entry = self[number] {
      if query.filter.takes(entry) {
        let text = entry.json(epoch: epoch)
        bytes += text.utf8.count
        texts.append(text)
      }
      number += 1
    }
    let missed = max(0, oldestNumber - start)
    return JSONWriter.object([
      "requests": "[\(texts.joined(separator: ","))]",
      "next": JSONWriter.quoted(StreamPosition(epoch: epoch, sequence: number - 1).description),
      "missed": missed > 0 ? String(missed) : nil,
    ])
  }

  // MARK: Streams

  func begin(_ stream: RequestStream) { streams[ObjectIdentifier(stream)] = stream }

  func end(_ stream: RequestStream) { streams[ObjectIdentifier(stream)] = nil }
}
