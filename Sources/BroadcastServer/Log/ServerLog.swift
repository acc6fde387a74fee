import Foundation
import Locks
import struct Synchronization.Atomic

/// What the server tells its operator: one line a thing to act on, on whatever the owner hands in.
///
/// Of lines that come in floods those that are equal, by their event and key, are told once; how often they came since is
/// told a minute later. Never given tokens, keys, or a URL with arguments. May be used from every thread.
public final class ServerLog: Sendable {
  /// How much a line matters.
  public enum Level: String, Sendable, CaseIterable, Comparable {
    case debug, info, warning, error

    /// From least to most important.
    public static func < (a: Level, b: Level) -> Bool { a.rank < b.rank }

    fileprivate var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
  }

  /// One line.
  public struct Entry: Sendable {
    /// When it happened.
    public let time: Date
    /// How much it matters.
    public let level: Level
    /// What kind of line it is.
    public let event: LogEvent
    /// For a person; one line.
    public let message: String
    /// For a program, such as `channel`; each value is one line.
    public let fields: [(name: String, value: String)]

    init(
      time: Date, level: Level, event: LogEvent, message: String, fields: [(name: String, value: String)]
    ) {
      self.time = time
      self.level = level
      self.event = event
      self.message = message
      self.fields = fields
    }

    /// The line that tells how many lines could not be written.
    public init(lost: Int) {
      self.init(
        time: Date(), level: .warning, event: .log,
        message: "\(lost) lines of the log were lost here: whoever reads it is too slow",
        fields: [("lost", String(lost))])
    }
  }

  private let lowest: Atomic<Int>
  private let now: @Sendable () -> Date
  private let lost: @Sendable () -> Int
  private let write: @Sendable (Entry) -> Void
  private let gate = Mutex(LogGate())
  private let counts = Mutex([Int](repeating: 0, count: Level.allCases.count))

  /// Makes a log.
  ///
  /// - Parameters:
  ///   - lowest: what is less important is left out.
  ///   - now: what time it is.
  ///   - lost: how many lines could not be written so far.
  ///   - write: takes each line, from whatever thread wrote it.
  public init(
    lowest: Level = .info, now: @escaping @Sendable () -> Date = { Date() },
    lost: @escaping @Sendable () -> Int = { 0 },
    write: @escaping @Sendable (Entry) -> Void
  ) {
    self.lowest = Atomic(lowest.rank)
    self.now = now
    self.lost = lost
    self.write = write
  }

  /// A log that keeps nothing.
  public static let silent = ServerLog(lowest: .error) { _ in }

  /// What is less important is left out from now on.
  public func setLowest(_ level: Level) { lowest.store(level.rank, ordering: .relaxed) }

  /// How many lines could not be written, because whoever reads them is too slow.
  var lostLines: Int { lost() }

  /// How many lines of each level were written.
  var written: [(level: Level, count: Int)] { Array(zip(Level.allCases, counts.withLock { $0 })) }

  /// Writes a line if it matters enough, and nothing like it was written in the last minute.
  ///
  /// - Parameters:
  ///   - fields: for programs; those without a value are left out.
  ///   - key: what tells lines of an event apart that comes in floods; the message when it is nil. At the level `debug`
  ///     nothing is held back.
  func callAsFunction(
    _ level: Level, _ event: LogEvent, _ message: @autoclosure () -> String,
    _ fields: KeyValuePairs<String, String?> = [:], key: String? = nil
  ) {
    guard level.rank >= lowest.load(ordering: .relaxed) else { return }
    let entry = Entry(
      time: now(), level: level, event: event, message: Self.oneLine(message()),
      fields: fields.compactMap { name, value in value.map { (name, Self.oneLine($0)) } })
    if level != .debug, event.comesInFloods {
      let key = key ?? entry.message
      guard gate.withLock({ $0.admits(entry, key: key) }) else { return }
    }
    put(entry)
  }

  /// Tells how often held back lines came, a minute after the first; to be called every few seconds.
  func tellCounts() {
    let now = now()
    for entry in gate.withLock({ $0.due(at: now) }) { put(entry) }
  }

  /// The same for all of them, at the end.
  func tellAllCounts() {
    let now = now()
    for entry in gate.withLock({ $0.all(at: now) }) { put(entry) }
  }

  private func put(_ entry: Entry) {
    counts.withLock { $0[entry.level.rank] += 1 }
    write(entry)
  }

  /// Clients choose some of what is logged: a line break, an escape sequence or a change of the writing direction from
  /// them must not forge a line or paint on the terminal.
  static func oneLine(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      let properties = scalar.properties
      let isBreak = [.control, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
      if isBreak || properties.isBidiControl {
        line += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        line.unicodeScalars.append(scalar)
      }
    }
    return line
  }
}
