// Waits end when the thing happens, or fail after a generous time. Nothing here sleeps to decide an outcome.

import Foundation

/// What a test waited for did not happen.
package struct WaitedInVain: Error, CustomStringConvertible {
  package let description: String
  package init(for what: String, _ state: String) { description = "waited in vain for \(what): \(state)" }
}

/// Carries a value into another thread; the test sees to it that only one uses it at a time.
package struct Unchecked<T>: @unchecked Sendable {
  package let value: T
  package init(_ value: T) { self.value = value }
}

/// A value that one thread sets and another waits for.
package final class Box<T>: @unchecked Sendable {
  private let condition = NSCondition()
  private var stored: T

  package init(_ value: T) { stored = value }

  package var value: T {
    get { condition.withLock { stored } }
    set { change { $0 = newValue } }
  }

  package func change(_ body: (inout T) -> Void) {
    condition.withLock {
      body(&stored)
      condition.broadcast()
    }
  }

  @discardableResult
  package func wait(
    _ what: String = "condition", seconds: Double = 20, until isTrue: (T) -> Bool
  ) throws -> T {
    let end = Date(timeIntervalSinceNow: seconds)
    condition.lock()
    defer { condition.unlock() }
    while !isTrue(stored) {
      guard condition.wait(until: end) || isTrue(stored) else {
        throw WaitedInVain(for: what, "\(stored)")
      }
    }
    return stored
  }
}

/// Asks again and again, for what nobody announces.
package func waitUntil(_ what: String, seconds: Double = 20, _ isTrue: () throws -> Bool) throws {
  let end = Date(timeIntervalSinceNow: seconds)
  while try !isTrue() {
    guard Date() < end else { throw WaitedInVain(for: what, "\(seconds) seconds passed") }
    Thread.sleep(forTimeInterval: 0.005)
  }
}
