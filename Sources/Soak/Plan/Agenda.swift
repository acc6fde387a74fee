/// What is to be done, by its time: a binary heap, so that a hundred thousand entries cost what a handful do.
public struct Agenda<Item> {
  private var heap: [(at: Double, order: Int, item: Item)] = []
  private var order = 0

  /// Makes an empty one.
  public init() {}

  /// How much there is.
  public var count: Int { heap.count }

  /// When the next thing is due; nil with nothing to do.
  public var nextTime: Double? { heap.first?.at }

  /// Adds something. What is due at the same time is done in the order in which it was added.
  public mutating func add(_ item: Item, at time: Double) {
    order += 1
    heap.append((time, order, item))
    var place = heap.count - 1
    while place > 0, precedes(place, (place - 1) / 2) {
      heap.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  /// Takes out the next thing that is due by a time.
  public mutating func next(by time: Double) -> (at: Double, item: Item)? {
    guard let first = heap.first, first.at <= time else { return nil }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2] where child < heap.count && precedes(child, least) {
        least = child
      }
      guard least != place else { break }
      heap.swapAt(place, least)
      place = least
    }
    return (first.at, first.item)
  }

  private func precedes(_ left: Int, _ right: Int) -> Bool {
    (heap[left].at, heap[left].order) < (heap[right].at, heap[right].order)
  }
}
