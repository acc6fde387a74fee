import Testing

@testable import Credentials

@Suite("A bounded memory")
struct RecentlyUsedTests {
  @Test("what was not asked for longest is forgotten first")
  func order() {
    var memory = RecentlyUsed<String, Int>(capacity: 3)
    for (number, key) in ["a", "b", "c"].enumerated() { memory.insert(number, for: key) }
    #expect(memory.value(for: "a") == 0)
    memory.insert(3, for: "d")
    #expect(memory.value(for: "b") == nil)
    #expect(memory.value(for: "a") == 0 && memory.value(for: "c") == 2 && memory.value(for: "d") == 3)
    memory.insert(4, for: "e")
    #expect(memory.value(for: "a") == nil)
    #expect(memory.count == 3)
  }

  @Test("a memory of one holds the last")
  func one() {
    var memory = RecentlyUsed<Int, Int>(capacity: 1)
    for number in 0..<5 {
      memory.insert(number, for: number)
      #expect(memory.value(for: number) == number && memory.value(for: number - 1) == nil)
    }
  }

  @Test("it agrees with a plain list over ten thousand random steps")
  func model() {
    var memory = RecentlyUsed<Int, Int>(capacity: 7)
    var list: [Int] = []
    var generator = SeededGenerator(state: 17)
    for _ in 0..<10_000 {
      let key = Int.random(in: 0..<15, using: &generator)
      let isThere = list.contains(key)
      #expect((memory.value(for: key) == key) == isThere)
      if isThere {
        list.removeAll { $0 == key }
      } else {
        memory.insert(key, for: key)
        if list.count == 7 { list.removeFirst() }
      }
      list.append(key)
    }
  }
}

/// splitmix64.
private struct SeededGenerator: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }
}
