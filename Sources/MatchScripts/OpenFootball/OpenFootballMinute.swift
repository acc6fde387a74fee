/// When a goal fell, as football counts: the running minute, and minutes of stoppage time after it.
///
/// The 23rd minute is the one that ends when the clock shows 23:00; 45+2 is the second minute after 45:00.
public struct OpenFootballMinute: Sendable, Hashable, Comparable {
  /// The minute, from 1; it stands still at 45, 90, 105 and 120 while stoppage time is played.
  public let minute: Int
  /// Minutes of stoppage time; 0 in running time.
  public let stoppage: Int

  /// The minutes that a file may name: 120 of play, and room for stoppage time that is counted on.
  static let minutes = 0...150
  /// Stoppage time that a file may name.
  static let stoppages = 0...60

  /// Makes a minute.
  ///
  /// - Returns: nil when no match is that long.
  init?(_ minute: Int, stoppage: Int = 0) {
    guard Self.minutes.contains(minute), Self.stoppages.contains(stoppage) else { return nil }
    self.minute = minute
    self.stoppage = stoppage
  }

  /// Reads `23`, `45+2`, `90'+3` or `45+2'`, with or without spaces.
  init?(_ text: String) {
    let bare = text.filter { !$0.isWhitespace && !"'’′".contains($0) }
    let parts = bare.split(separator: "+", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count),
      parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { $0.isASCII && $0.isNumber } }),
      let minute = Int(parts[0]), let stoppage = parts.count == 2 ? Int(parts[1]) : 0
    else { return nil }
    self.init(minute, stoppage: stoppage)
  }

  /// In the order of play: 45+3 comes before 46.
  public static func < (a: Self, b: Self) -> Bool { (a.minute, a.stoppage) < (b.minute, b.stoppage) }
}

extension OpenFootballMinute: CustomStringConvertible {
  /// As a card shows it: "23'", "45+2'".
  public var description: String { stoppage == 0 ? "\(minute)'" : "\(minute)+\(stoppage)'" }
}

/// A stretch of play between two whistles.
enum MatchPeriod: CaseIterable {
  case firstHalf, secondHalf, extraFirst, extraSecond

  /// The minute at which it starts.
  var start: Int {
    switch self {
    case .firstHalf: 0
    case .secondHalf: 45
    case .extraFirst: 90
    case .extraSecond: 105
    }
  }

  /// Minutes without stoppage time.
  var length: Int { self == .firstHalf || self == .secondHalf ? 45 : 15 }

  /// The minute at which stoppage time starts.
  var end: Int { start + length }

  /// The name on the card.
  var name: String {
    switch self {
    case .firstHalf: "First half"
    case .secondHalf: "Second half"
    case .extraFirst: "Extra time, first half"
    case .extraSecond: "Extra time, second half"
    }
  }

  /// The periods of a match.
  static func all(extraTime: Bool) -> [MatchPeriod] { extraTime ? allCases : [.firstHalf, .secondHalf] }

  /// The period in which a goal fell. 45+3 is the first half and 46 the second. Without extra time everything
  /// after 45 is the second half: some files count on (93) where others write 90+3.
  init(of minute: OpenFootballMinute, extraTime: Bool) {
    self =
      Self.all(extraTime: extraTime).first { minute.minute <= $0.end }
      ?? (extraTime ? .extraSecond : .secondHalf)
  }

  /// The number of a minute in the period, from 1: 45+2 is 47 in the first half, 46 is 1 in the second.
  func number(of minute: OpenFootballMinute) -> Int {
    let running = minute.minute - start
    // Stoppage time only exists after the period's end; "67+2" is read as the 67th minute.
    return max(1, running >= length ? running + minute.stoppage : running)
  }

  /// The clock in a minute of the period: "23'", "45+2'".
  func clock(_ number: Int) -> String {
    number <= length ? "\(start + number)'" : "\(end)+\(number - length)'"
  }
}
