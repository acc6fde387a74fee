// Why: parts tell each delivery, tens of thousands a second. A delivery is 18 bytes here: the message itself, which is the
// same for all who receive it, is told once, under a number that the deliveries name. Only processes of one program and one
// machine read this, so there is no version and no byte order to agree on.

import BroadcastChannels
import Foundation

/// What stands in front of each report.
enum PartReportKind: UInt8 {
  case arrival = 1
  case delivered, reached, status, failed
  case arrived, subscribed, disconnected, stalled, readAgain, wentStale, clockJumped, leaving, dismissed
  case acknowledged, confirmed, lagged
  case wants, away, missing
  case attemptFailed, garbled, closed, unsubscribed
}

/// Writes reports as bytes.
public struct PartReportWriter {
  /// What was written and not taken yet.
  public private(set) var bytes: [UInt8] = []
  private var references: [Key: UInt32] = [:]
  /// In the order in which they were told: the reader remembers as many.
  private var ring: [SoakArrival?]
  private var next: UInt32 = 0

  /// What finds a message fast: hashing all of it would cost more than the report.
  private struct Key: Hashable {
    let digest: UInt64
    let sequence: Int

    init(_ arrival: SoakArrival) {
      digest = arrival.digest
      sequence = arrival.position.sequence
    }
  }

  /// Messages that both sides remember: more than come in a second. One that comes again later is told again.
  static let remembered = 4_096

  /// Makes a writer.
  public init() { ring = [SoakArrival?](repeating: nil, count: Self.remembered) }

  /// Takes what was written.
  public mutating func take() -> [UInt8] {
    defer { bytes.removeAll(keepingCapacity: true) }
    return bytes
  }

  /// Writes a report.
  public mutating func write(_ report: PartReport) {
    switch report {
    case .observed(let observation, let at): write(observation, at: at)
    case .delivered(let delivery, let at):
      let reference = reference(to: delivery.arrival)
      begin(.delivered, at)
      put(UInt32(delivery.subscriber))
      put(reference)
      bytes.append(Self.code(delivery.shown) | (delivery.countsLatency ? 0x80 : 0))
    case .reached(let at): begin(.reached, at)
    case .status(let status):
      begin(.status, 0)
      put((try? JSONEncoder().encode(status)).map { Array($0) } ?? [])
    case .failed(let message):
      begin(.failed, 0)
      put(Array(message.utf8))
    }
  }

  private mutating func reference(to arrival: SoakArrival) -> UInt32 {
    let key = Key(arrival)
    if let known = references[key], ring[Int(known) % Self.remembered] == arrival { return known }
    let reference = next
    let slot = Int(next) % Self.remembered
    next &+= 1
    if let old = ring[slot].map({ Key($0) }), references[old].map({ Int($0) % Self.remembered }) == slot {
      references[old] = nil
    }
    ring[slot] = arrival
    references[key] = reference
    begin(.arrival, arrival.sent)
    put(reference)
    put(arrival.position)
    // What a stranger sent may have any number; the largest stands for none.
    put(UInt32(clamping: arrival.number ?? Int(UInt32.max)))
    put(arrival.digest)
    put(Array(arrival.uniqueID.utf8))
    bytes.append(UInt8(clamping: arrival.priority.rawValue))
    put(UInt64(bitPattern: arrival.timestamp))
    bytes.append(
      (arrival.isIrreplaceable ? 1 : 0) | (arrival.isEnd ? 2 : 0) | (arrival.staleDate == nil ? 0 : 4))
    if let staleDate = arrival.staleDate { put(staleDate.bitPattern) }
    return reference
  }

  private mutating func write(_ observation: Observation, at: Double) {
    switch observation {
    case .arrived(let subscriber): begin(.arrived, at, subscriber)
    case .disconnected(let subscriber): begin(.disconnected, at, subscriber)
    case .stalled(let subscriber): begin(.stalled, at, subscriber)
    case .readAgain(let subscriber): begin(.readAgain, at, subscriber)
    case .wants(let subscriber): begin(.wants, at, subscriber)
    case .away(let subscriber): begin(.away, at, subscriber)
    case .missing(let subscriber): begin(.missing, at, subscriber)
    case .unsubscribed(let subscriber): begin(.unsubscribed, at, subscriber)
    case .failed(let subscriber, let problem):
      begin(.attemptFailed, at, subscriber)
      put(Array(problem.utf8))
    case .garbled(let subscriber, let problem):
      begin(.garbled, at, subscriber)
      put(Array(problem.utf8))
    case .closed(let subscriber, let code, let problem):
      begin(.closed, at, subscriber)
      // No code is 0 (RFC 6455, section 7.4).
      put(UInt32(clamping: code ?? 0))
      put(Array((problem ?? "").utf8))
    case .leaving(let subscriber): begin(.leaving, at, subscriber)
    case .dismissed(let subscriber): begin(.dismissed, at, subscriber)
    case .subscribed(let subscriber, let position, let resumed):
      begin(.subscribed, at, subscriber)
      put(position)
      bytes.append(resumed == nil ? 0 : 1)
      if let resumed { put(resumed) }
    case .wentStale(let subscriber, let staleDate, let clock):
      begin(.wentStale, at, subscriber)
      put(staleDate.bitPattern)
      put(clock.bitPattern)
    case .clockJumped(let subscriber, let clock):
      begin(.clockJumped, at, subscriber)
      put(clock.bitPattern)
    case .acknowledged(let subscriber, let numbers, let displayed):
      begin(.acknowledged, at, subscriber)
      put(numbers)
      put(displayed)
    case .confirmed(let subscriber, let numbers, let displayed):
      begin(.confirmed, at, subscriber)
      put(numbers)
      put(displayed)
    case .lagged(let seconds):
      begin(.lagged, at)
      put(seconds.bitPattern)
    case .received(let subscriber, let arrival, let shown):
      write(
        .delivered(
          PartDelivery(subscriber: subscriber, arrival: arrival, shown: shown, countsLatency: false), at: at))
    // What publishers and servers do is seen where the verdict is made.
    case .sent, .accepted, .refused, .publisherWants, .publisherConnected, .publisherClosed, .record,
      .unrecorded, .serverStopped, .serverStarted:
      break
    }
  }

  private mutating func begin(_ kind: PartReportKind, _ at: Double, _ subscriber: Int? = nil) {
    bytes.append(kind.rawValue)
    put(at.bitPattern)
    if let subscriber { put(UInt32(subscriber)) }
  }

  private mutating func put(_ value: some FixedWidthInteger) {
    withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) }
  }

  private mutating func put(_ text: [UInt8]) {
    put(UInt32(text.count))
    bytes += text
  }

  private mutating func put(_ position: StreamPosition) {
    put(UInt32(clamping: position.sequence))
    put(Array(position.epoch.utf8))
  }

  private mutating func put(_ numbers: [Int]) {
    put(UInt32(numbers.count))
    for number in numbers { put(UInt32(clamping: number)) }
  }

  private static func code(_ shown: Shown) -> UInt8 {
    switch shown {
    case .displayed: 0
    case .ignoredOlder: 1
    case .ignoredAfterEnd: 2
    case .nothing: 3
    }
  }
}
