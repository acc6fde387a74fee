import Glibc

/// Texts that many connections receive one after the other, so that each is read once: a broadcast is the same bytes for
/// every subscriber.
///
/// Looking one up costs a comparison of lengths for each remembered text, and one `memcmp` for the one that it is.
public struct RecentTexts<Value> {
  private var entries: [(text: [UInt8], value: Value)] = []
  private var next = 0
  private let capacity: Int

  /// Makes an empty memory for so many texts.
  public init(capacity: Int = 32) { self.capacity = capacity }

  /// What was made of a text, now or before.
  public mutating func value(of text: ArraySlice<UInt8>, _ make: ([UInt8]) -> Value) -> Value {
    // The newest first: it is the one that comes ten thousand times.
    for step in 1...max(1, entries.count) where !entries.isEmpty {
      let index = (next - step + entries.count) % entries.count
      if entries[index].text.count == text.count, Self.isEqual(entries[index].text, text) {
        return entries[index].value
      }
    }
    let bytes = Array(text)
    let value = make(bytes)
    if entries.count < capacity {
      entries.append((bytes, value))
      next = entries.count
    } else {
      next %= capacity
      entries[next] = (bytes, value)
      next += 1
    }
    return value
  }

  private static func isEqual(_ left: [UInt8], _ right: ArraySlice<UInt8>) -> Bool {
    left.withUnsafeBytes { left in
      right.withUnsafeBytes { right in
        guard let first = left.baseAddress, let second = right.baseAddress else { return true }
        return memcmp(first, second, left.count) == 0
      }
    }
  }
}
