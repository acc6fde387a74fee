extension SoakVerdict {
  /// The violations to print when there are many, in their order: the first of each rule, so that one rule that is broken all
  /// the time hides no other, and then the first of all.
  ///
  /// - Parameter most: how many, if that is enough for ``leastOfEachRule`` of each.
  public func shown(atMost most: Int) -> [Violation] {
    var ofRule: [SoakRule: Int] = [:]
    var chosen: Set<Int> = []
    for (index, violation) in violations.enumerated() {
      ofRule[violation.rule, default: 0] += 1
      if ofRule[violation.rule] ?? 0 <= Self.leastOfEachRule { chosen.insert(index) }
    }
    for index in violations.indices where chosen.count < most { chosen.insert(index) }
    return violations.indices.filter { chosen.contains($0) }.map { violations[$0] }
  }

  /// Violations of each rule that are printed in any case.
  public static let leastOfEachRule = 3
}
