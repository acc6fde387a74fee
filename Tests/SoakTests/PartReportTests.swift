import BroadcastChannels
import Soak
import Testing

@Suite("What a part of a soak tells")
struct PartReportTests {
  private static let first = SoakArrival(
    position: StreamPosition(epoch: "kfdjc3tgzwjn", sequence: 7), number: 12, digest: 0xFEED_FACE_CAFE_BEEF,
    uniqueID: "4DD1BA61-3C4B-4B3A-8E8B-8B1F1E2A9E1D", priority: .considerate, sent: 1_796_043_600.25,
    timestamp: -3, isIrreplaceable: true, isEnd: true, staleDate: 1_796_043_660)
  private static let second = SoakArrival(
    position: StreamPosition(epoch: "", sequence: 0), number: nil, digest: 0, uniqueID: "",
    priority: .passive,
    sent: 0, timestamp: .max, isIrreplaceable: false, isEnd: false)

  private static var reports: [PartReport] {
    var status = PartStatus()
    status.totals.deliveries = 3
    status.totals.faults = ["went offline": 2]
    status.fresh = 5
    status.lagP99 = 0.25
    let observations: [Observation] = [
      .arrived(subscriber: 0), .disconnected(subscriber: 199_999), .stalled(subscriber: 3),
      .readAgain(subscriber: 3), .leaving(subscriber: 4), .dismissed(subscriber: 4),
      .subscribed(subscriber: 5, position: StreamPosition(epoch: "e", sequence: 9), resumed: nil),
      .subscribed(
        subscriber: 5, position: StreamPosition(epoch: "e", sequence: 9),
        resumed: StreamPosition(epoch: "d", sequence: 4)),
      .wentStale(subscriber: 6, staleDate: 1.5, clock: 1.75), .clockJumped(subscriber: 6, to: -2),
      .acknowledged(subscriber: 7, numbers: [1, 2, 900], displayed: []),
      .confirmed(subscriber: 7, numbers: [], displayed: [900]), .lagged(0.125),
      .wants(subscriber: 12), .away(subscriber: 13), .missing(subscriber: 14),
      .unsubscribed(subscriber: 15), .failed(subscriber: 16, problem: "answered 503"),
      .garbled(subscriber: 17, problem: "broken frame: –"),
      .closed(subscriber: 18, code: 1_013, problem: nil),
      .closed(subscriber: 19, code: nil, problem: "connection reset"),
    ]
    let deliveries = [
      PartDelivery(subscriber: 8, arrival: first, shown: .displayed, countsLatency: true),
      PartDelivery(subscriber: 9, arrival: second, shown: .ignoredOlder, countsLatency: false),
      PartDelivery(subscriber: 10, arrival: first, shown: .ignoredAfterEnd, countsLatency: true),
      PartDelivery(subscriber: 11, arrival: first, shown: .nothing, countsLatency: false),
    ]
    return observations.enumerated().map { .observed($1, at: Double($0)) }
      + deliveries.map { .delivered($0, at: 1_796_043_600.5) }
      + [.reached(3.5), .status(status), .failed("no token – 401")]
  }

  private static func bytes() -> [UInt8] {
    var writer = PartReportWriter()
    for report in reports { writer.write(report) }
    return writer.take()
  }

  private static func read(_ chunks: [[UInt8]]) throws -> [String] {
    var reader = PartReportReader()
    var found: [String] = []
    for chunk in chunks {
      reader.append(chunk)
      while let report = try reader.next() { found.append("\(report)") }
    }
    return found
  }

  @Test("every report comes out as it went in, whole or byte by byte")
  func roundTrip() throws {
    let expected = Self.reports.map { "\($0)" }
    let bytes = Self.bytes()
    #expect(try Self.read([bytes]) == expected)
    #expect(try Self.read(bytes.map { [$0] }) == expected)
  }

  @Test("a delivery of a message that was told before is 18 bytes")
  func size() {
    var writer = PartReportWriter()
    let delivery = PartDelivery(subscriber: 1, arrival: Self.first, shown: .displayed, countsLatency: true)
    writer.write(.delivered(delivery, at: 1))
    _ = writer.take()
    writer.write(.delivered(delivery, at: 2))
    #expect(writer.take().count == 18)
  }

  @Test("a message that comes again long after others is told again")
  func forgotten() throws {
    var writer = PartReportWriter()
    var expected: [SoakArrival] = []
    for sequence in Array(0..<5_000) + [0, 4_999] {
      var arrival = Self.first
      arrival.position = StreamPosition(epoch: "e", sequence: sequence)
      expected.append(arrival)
      writer.write(
        .delivered(
          PartDelivery(subscriber: 1, arrival: arrival, shown: .displayed, countsLatency: true), at: 1))
    }
    var reader = PartReportReader()
    reader.append(writer.take())
    var found: [SoakArrival] = []
    while case .delivered(let delivery, _) = try reader.next() { found.append(delivery.arrival) }
    #expect(found == expected)
  }

  @Test(
    "what is no report is refused",
    arguments: [[0], [99], [2] + [UInt8](repeating: 0, count: 17)] as [[UInt8]])
  func broken(_ bytes: [UInt8]) {
    var reader = PartReportReader()
    reader.append(bytes)
    #expect(throws: PartReportReader.Broken.self) { try reader.next() }
  }

  @Test("a stranger's numbers that are too large for a report come out as no number, and stop nothing")
  func strangers() throws {
    var writer = PartReportWriter()
    var arrival = Self.first
    arrival.number = 999_999_999_999_999
    arrival.position = StreamPosition(epoch: "e", sequence: 1 << 40)
    writer.write(
      .delivered(
        PartDelivery(subscriber: 1, arrival: arrival, shown: .displayed, countsLatency: true), at: 1))
    writer.write(
      .observed(.acknowledged(subscriber: 1, numbers: [1 << 40], displayed: []), at: 2))
    var reader = PartReportReader()
    reader.append(writer.take())
    guard case .delivered(let delivery, _) = try reader.next() else {
      Issue.record("a delivery was expected")
      return
    }
    #expect(delivery.arrival.number == nil && delivery.arrival.position.sequence == 4_294_967_295)
  }

  @Test("parts share the places, and each has its own")
  func places() {
    var settings = SoakSettings()
    settings.subscribers = 10
    let places = (0..<3).map {
      PartPlan(settings: settings, part: $0, parts: 3, start: 0, last: 1, channels: []).places
    }
    #expect(places == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]])
  }
}
