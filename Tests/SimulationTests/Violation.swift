/// A rule that did not hold.
struct Violation: Error, CustomStringConvertible {
  let description: String

  /// Throws unless a rule holds.
  static func unless(_ holds: Bool, _ rule: @autoclosure () -> String) throws(Violation) {
    if !holds { throw Violation(description: rule()) }
  }
}
