/// A set of sequence numbers, kept as runs: what a stalled reader misses is one number after the other, and a number each would be
/// most of what it costs.
struct SequenceRuns: Sendable, Hashable {
  /// In their order, without overlap.
  private var runs: [ClosedRange<Int>] = []
  /// How many numbers there are.
  private(set) var count = 0

  /// Constant time for a number behind the others, which is the rule.
  mutating func insert(_ number: Int) {
    guard let last = runs.last, number <= last.upperBound else {
      if let last = runs.last, number == last.upperBound + 1 {
        runs[runs.count - 1] = last.lowerBound...number
      } else {
        runs.append(number...number)
      }
      count += 1
      return
    }
    let place = firstRun(endingAtOrAfter: number)
    guard !runs[place].contains(number) else { return }
    runs.insert(number...number, at: place)
    count += 1
  }

  func contains(_ number: Int) -> Bool {
    let place = firstRun(endingAtOrAfter: number)
    return place < runs.count && runs[place].contains(number)
  }

  /// How many numbers lie in a span.
  func count(in span: ClosedRange<Int>) -> Int {
    var total = 0
    for run in runs[firstRun(endingAtOrAfter: span.lowerBound)...] {
      guard run.lowerBound <= span.upperBound else { break }
      total += run.clamped(to: span).count
    }
    return total
  }

  /// Takes out all numbers up to one, that one included.
  mutating func remove(through number: Int) {
    let place = firstRun(endingAtOrAfter: number)
    for run in runs[..<place] { count -= run.count }
    runs.removeFirst(place)
    guard let first = runs.first, first.lowerBound <= number else { return }
    count -= number - first.lowerBound + 1
    if number < first.upperBound { runs[0] = (number + 1)...first.upperBound } else { runs.removeFirst() }
  }

  /// Takes out the oldest numbers until so many are left.
  ///
  /// - Returns: the newest of those that went; nil when none did.
  mutating func removeOldest(keeping most: Int) -> Int? {
    var left = count - most
    guard left > 0 else { return nil }
    for run in runs {
      if run.count >= left {
        let last = run.lowerBound + left - 1
        remove(through: last)
        return last
      }
      left -= run.count
    }
    return nil
  }

  /// The same numbers, one by one.
  init(_ numbers: some Sequence<Int> = []) {
    for number in numbers { insert(number) }
  }

  private func firstRun(endingAtOrAfter number: Int) -> Int {
    var (low, high) = (0, runs.count)
    while low < high {
      let middle = (low + high) / 2
      if runs[middle].upperBound < number { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension SequenceRuns: ExpressibleByArrayLiteral {
  init(arrayLiteral numbers: Int...) { self.init(numbers) }
}
