/// The span of a run in which a process used most of a core. The mean of a run says nothing of it: hours of little to do hide
/// the minute in which a process was too slow.
public struct BusiestSpan: Sendable {
  /// Seconds of a span: long enough that one moment's work is none.
  public static let seconds = 10.0

  /// The largest share of a core over a span; 1 is all of it. 0 before a span has passed.
  public private(set) var share: Double = 0
  /// What was noted within the last span, and one note before it.
  private var notes: [(at: Double, cpu: Double)] = []

  /// Makes one that has noted nothing.
  public init() {}

  /// Notes the seconds of CPU that a process has used until a moment. Moments and seconds only go up.
  public mutating func note(cpu: Double, at now: Double) {
    notes.append((now, cpu))
    while notes.count > 1, notes[1].at <= now - Self.seconds { notes.removeFirst() }
    let first = notes[0]
    guard now - first.at >= Self.seconds else { return }
    share = max(share, (cpu - first.cpu) / (now - first.at))
  }
}
