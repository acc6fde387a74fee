/// A dictionary of the newest entries: one more than its limit forgets the oldest.
struct Newest<Key: Hashable, Value> {
  private let limit: Int
  private var values: [Key: Value] = [:]
  /// In the order of their coming; what stands before `oldest` is forgotten.
  private var order: [Key] = []
  private var oldest = 0

  init(limit: Int) { self.limit = limit }

  subscript(key: Key) -> Value? { values[key] }

  mutating func add(_ key: Key, _ value: Value) {
    guard values.updateValue(value, forKey: key) == nil else { return }
    order.append(key)
    guard order.count - oldest > limit else { return }
    values[order[oldest]] = nil
    oldest += 1
    if oldest > limit {
      order.removeFirst(oldest)
      oldest = 0
    }
  }
}
