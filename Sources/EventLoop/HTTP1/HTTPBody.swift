// Why: a body arrives in pieces of any size, by length or in chunks (RFC 9112 section 7.1). This machine
// eats them without a socket, keeps what the service may see, and counts what has to be thrown away.

struct HTTPBodyReader {
  private enum State: Equatable {
    case bytes(Int)
    case chunkSize(digits: Int, size: Int)
    case chunkExtension(size: Int)
    case chunkSizeLF(size: Int)
    case chunkBytes(Int)
    case chunkEnd(sawCR: Bool)
    /// The trailer section; `length` counts its current line, all of it is thrown away.
    case trailer(length: Int, sawCR: Bool, total: Int)
    case done
  }

  enum Progress: Equatable {
    case more
    case done
    case malformed
  }

  private(set) var kept: [UInt8] = []
  private(set) var isTruncated = false
  private let limit: Int
  private var state: State

  init(_ body: HTTPHead.Body, limit: Int) {
    self.limit = limit
    switch body {
    case .none: state = .done
    case .length(let count): state = .bytes(count)
    case .chunked: state = .chunkSize(digits: 0, size: 0)
    }
  }

  /// Eats from the front of `input` what belongs to the body.
  mutating func consume(_ input: inout ArraySlice<UInt8>) -> Progress {
    while state != .done {
      if case .bytes(let left) = state {
        guard !input.isEmpty else { return .more }
        let taken = keep(&input, upTo: left)
        state = left == taken ? .done : .bytes(left - taken)
      } else if case .chunkBytes(let left) = state {
        guard !input.isEmpty else { return .more }
        let taken = keep(&input, upTo: left)
        state = left == taken ? .chunkEnd(sawCR: false) : .chunkBytes(left - taken)
      } else {
        guard let byte = input.popFirst() else { return .more }
        guard step(byte) else { return .malformed }
      }
      // Reading a longer body on only to refuse it would let the peer choose how much is read.
      if isTruncated { return .done }
    }
    return .done
  }

  private mutating func keep(_ input: inout ArraySlice<UInt8>, upTo left: Int) -> Int {
    let piece = input.prefix(left)
    input = input.dropFirst(piece.count)
    let room = limit - kept.count
    kept.append(contentsOf: piece.prefix(room))
    if piece.count > room || (piece.count == room && left > piece.count) { isTruncated = true }
    return piece.count
  }

  /// One byte of the chunked framing; `false` when it is not allowed there.
  private mutating func step(_ byte: UInt8) -> Bool {
    switch (state, byte) {
    case (.chunkSize(let digits, let size), _):
      if let value = hexValue(byte) {
        guard digits < 12 else { return false }
        state = .chunkSize(digits: digits + 1, size: size << 4 | Int(value))
        return true
      }
      guard digits > 0 else { return false }
      switch byte {
      case 0x0d: state = .chunkSizeLF(size: size)
      case 0x3b, 0x20, 0x09: state = .chunkExtension(size: size)
      default: return false
      }
    case (.chunkExtension(let size), 0x0d): state = .chunkSizeLF(size: size)
    case (.chunkExtension, 0x0a): return false
    case (.chunkExtension, _): break
    case (.chunkSizeLF(let size), 0x0a):
      state = size > 0 ? .chunkBytes(size) : .trailer(length: 0, sawCR: false, total: 0)
    case (.chunkEnd(sawCR: false), 0x0d): state = .chunkEnd(sawCR: true)
    case (.chunkEnd(sawCR: true), 0x0a): state = .chunkSize(digits: 0, size: 0)
    case (.trailer(let length, false, let total), 0x0d):
      state = .trailer(length: length, sawCR: true, total: total)
    case (.trailer(let length, true, let total), 0x0a):
      state = length == 0 ? .done : .trailer(length: 0, sawCR: false, total: total)
    case (.trailer(let length, false, let total), _):
      guard byte != 0x0a, total < 4_096 else { return false }
      state = .trailer(length: length + 1, sawCR: false, total: total + 1)
    default: return false
    }
    return true
  }
}
