/// A bounded memory that forgets what was not asked for longest. Each operation takes constant time and, once the memory
/// is full, allocates nothing.
struct RecentlyUsed<Key: Hashable, Value> {
  private struct Entry {
    var key: Key
    var value: Value
    /// Places of the entries used just after and just before this one; -1 at the ends.
    var newer: Int
    var older: Int
  }

  private let capacity: Int
  private var entries: [Entry] = []
  private var places: [Key: Int] = [:]
  private var newest = -1
  private var oldest = -1

  /// - Parameter capacity: at least 1.
  init(capacity: Int) { self.capacity = max(1, capacity) }

  var count: Int { entries.count }

  /// Whether there is a value; that doesn't count as a use.
  func contains(_ key: Key) -> Bool { places[key] != nil }

  /// Gives a value, which then counts as just used.
  mutating func value(for key: Key) -> Value? {
    guard let place = places[key] else { return nil }
    if place != newest {
      unlink(place)
      linkAsNewest(place)
    }
    return entries[place].value
  }

  /// Remembers a value under a key that isn't there yet.
  mutating func insert(_ value: Value, for key: Key) {
    guard places[key] == nil else { return }
    let place: Int
    if entries.count < capacity {
      place = entries.count
      entries.append(Entry(key: key, value: value, newer: -1, older: -1))
    } else {
      place = oldest
      unlink(place)
      places[entries[place].key] = nil
      entries[place].key = key
      entries[place].value = value
    }
    places[key] = place
    linkAsNewest(place)
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (entries[place].newer, entries[place].older)
    if newer >= 0 { entries[newer].older = older } else { newest = older }
    if older >= 0 { entries[older].newer = newer } else { oldest = newer }
  }

  private mutating func linkAsNewest(_ place: Int) {
    entries[place].newer = -1
    entries[place].older = newest
    if newest >= 0 { entries[newest].newer = place } else { oldest = place }
    newest = place
  }
}
