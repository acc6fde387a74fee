import BroadcastChannels
import Foundation

/// Reads reports from bytes as they come.
public struct PartReportReader {
  /// Bytes that are no reports: another program wrote them, or some were lost.
  public struct Broken: Error {}

  /// There is not enough yet.
  private struct Incomplete: Error {}

  private var bytes: [UInt8] = []
  private var place = 0
  private var arrivals: [SoakArrival?]

  /// Makes a reader for one writer.
  public init() { arrivals = [SoakArrival?](repeating: nil, count: PartReportWriter.remembered) }

  /// Adds what came.
  public mutating func append(_ more: some Sequence<UInt8>) {
    if place > 0 {
      bytes.removeFirst(place)
      place = 0
    }
    bytes += more
  }

  /// The next report; nil when it isn't whole yet.
  ///
  /// - Throws: ``Broken`` for what no ``PartReportWriter`` wrote.
  public mutating func next() throws -> PartReport? {
    while place < bytes.count {
      let start = place
      do {
        if let report = try read() { return report }
      } catch is Incomplete {
        place = start
        return nil
      }
    }
    return nil
  }

  /// - Returns: nil for what is no report by itself: the message that the next ones name.
  private mutating func read() throws -> PartReport? {
    guard let kind = PartReportKind(rawValue: try byte()) else { throw Broken() }
    let at = try double()
    switch kind {
    case .arrival:
      try readArrival(sent: at)
      return nil
    case .delivered: return .delivered(try delivery(), at: at)
    case .reached: return .reached(at)
    case .status:
      let text = try text()
      guard let status = try? JSONDecoder().decode(PartStatus.self, from: Data(text)) else { throw Broken() }
      return .status(status)
    case .failed: return .failed(String(decoding: try text(), as: UTF8.self))
    default: return .observed(try observation(kind), at: at)
    }
  }

  private mutating func observation(_ kind: PartReportKind) throws -> Observation {
    if kind == .lagged { return .lagged(try double()) }
    let subscriber = try number()
    switch kind {
    case .arrived: return .arrived(subscriber: subscriber)
    case .disconnected: return .disconnected(subscriber: subscriber)
    case .stalled: return .stalled(subscriber: subscriber)
    case .readAgain: return .readAgain(subscriber: subscriber)
    case .wants: return .wants(subscriber: subscriber)
    case .away: return .away(subscriber: subscriber)
    case .missing: return .missing(subscriber: subscriber)
    case .unsubscribed: return .unsubscribed(subscriber: subscriber)
    case .attemptFailed: return .failed(subscriber: subscriber, problem: try words())
    case .garbled: return .garbled(subscriber: subscriber, problem: try words())
    case .closed:
      let code = try number()
      let problem = try words()
      return .closed(
        subscriber: subscriber, code: code == 0 ? nil : code, problem: problem.isEmpty ? nil : problem)
    case .leaving: return .leaving(subscriber: subscriber)
    case .dismissed: return .dismissed(subscriber: subscriber)
    case .subscribed:
      let position = try position()
      return .subscribed(
        subscriber: subscriber, position: position, resumed: try byte() == 0 ? nil : try self.position())
    case .wentStale:
      return .wentStale(subscriber: subscriber, staleDate: try double(), clock: try double())
    case .clockJumped: return .clockJumped(subscriber: subscriber, to: try double())
    case .acknowledged:
      return .acknowledged(subscriber: subscriber, numbers: try numbers(), displayed: try numbers())
    case .confirmed:
      return .confirmed(subscriber: subscriber, numbers: try numbers(), displayed: try numbers())
    default: throw Broken()
    }
  }

  private mutating func readArrival(sent: Double) throws {
    let reference = try number()
    let position = try position()
    let number = try number()
    let digest = try integer(UInt64.self)
    let uniqueID = String(decoding: try text(), as: UTF8.self)
    guard let priority = Priority(rawValue: Int(try byte())) else { throw Broken() }
    let timestamp = Int64(bitPattern: try integer(UInt64.self))
    let flags = try byte()
    arrivals[reference % arrivals.count] = SoakArrival(
      position: position, number: number == Int(UInt32.max) ? nil : number, digest: digest,
      uniqueID: uniqueID, priority: priority, sent: sent, timestamp: timestamp,
      isIrreplaceable: flags & 1 != 0, isEnd: flags & 2 != 0,
      staleDate: flags & 4 != 0 ? try double() : nil)
  }

  private mutating func delivery() throws -> PartDelivery {
    let subscriber = try number()
    let reference = try number()
    let flags = try byte()
    let kinds: [Shown] = [.displayed, .ignoredOlder, .ignoredAfterEnd, .nothing]
    guard let arrival = arrivals[reference % arrivals.count], Int(flags & 0x7F) < kinds.count else {
      throw Broken()
    }
    return PartDelivery(
      subscriber: subscriber, arrival: arrival, shown: kinds[Int(flags & 0x7F)],
      countsLatency: flags & 0x80 != 0)
  }

  // MARK: Values

  private mutating func byte() throws -> UInt8 {
    guard place < bytes.count else { throw Incomplete() }
    defer { place += 1 }
    return bytes[place]
  }

  private mutating func integer<Value: FixedWidthInteger>(_: Value.Type) throws -> Value {
    let size = MemoryLayout<Value>.size
    guard bytes.count - place >= size else { throw Incomplete() }
    defer { place += size }
    return bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: Value.self) }
  }

  private mutating func number() throws -> Int { Int(try integer(UInt32.self)) }

  private mutating func double() throws -> Double { Double(bitPattern: try integer(UInt64.self)) }

  private mutating func text() throws -> [UInt8] {
    let count = try number()
    guard bytes.count - place >= count else { throw Incomplete() }
    defer { place += count }
    return Array(bytes[place..<place + count])
  }

  private mutating func words() throws -> String { String(decoding: try text(), as: UTF8.self) }

  private mutating func position() throws -> StreamPosition {
    let sequence = try number()
    return StreamPosition(epoch: String(decoding: try text(), as: UTF8.self), sequence: sequence)
  }

  private mutating func numbers() throws -> [Int] {
    let count = try number()
    guard bytes.count - place >= count * 4 else { throw Incomplete() }
    return try (0..<count).map { _ in try number() }
  }
}
