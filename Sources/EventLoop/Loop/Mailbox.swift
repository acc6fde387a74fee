// Why: two loops share nothing. What one has to tell another is put into the other's mailbox, values only, in batches: one lock
// and one wake-up for all that a turn brings, and what was posted first is read first.

import Dispatch
import Locks

/// Carries values to the thread of an ``EventLoop``, in the order of posting.
public final class Mailbox<Letter: Sendable>: Sendable {
  private struct State {
    var letters: [Letter] = []
    /// Who reads; nil before ``EventLoop/open(_:_:)`` and after the loop's end.
    var reader: LoopRemote?
    var isClosed = false
    /// The sender waits until the letters are taken.
    var isAwaited = false
  }

  private let state = Mutex(State())
  private let taken = DispatchSemaphore(value: 0)
  private let limit: Int

  /// - Parameter limit: letters that may lie there before ``post(_:)`` waits until the reader has taken them. A reader that
  ///   posts to its own sender must not be waited for by both: give one of the two no limit.
  public init(limit: Int = .max) { self.limit = limit }

  /// Posts letters behind those that lie there. They are dropped when the reading loop has ended.
  public func post(_ letters: [Letter]) {
    guard !letters.isEmpty else { return }
    let mustWait = state.withLock { state in
      guard !state.isClosed else { return false }
      let isFirst = state.letters.isEmpty
      if isFirst { state.letters = letters } else { state.letters += letters }
      // Whoever was woken for the first letter takes all of them.
      if isFirst { state.reader?.wake() }
      state.isAwaited = state.letters.count > limit
      return state.isAwaited
    }
    if mustWait { taken.wait() }
  }

  func connect(_ reader: LoopRemote) {
    state.withLock { state in
      state.reader = reader
      if !state.letters.isEmpty { reader.wake() }
    }
  }

  func take() -> [Letter] {
    let (letters, wasAwaited) = state.withLock { state in
      defer {
        state.letters = []
        state.isAwaited = false
      }
      return (state.letters, state.isAwaited)
    }
    if wasAwaited { taken.signal() }
    return letters
  }

  /// Nobody reads any more; who waits goes on.
  func close() {
    state.withLock { state in
      state.isClosed = true
      state.reader = nil
    }
    _ = take()
  }
}

/// A mailbox as its loop sees it.
struct Inbox {
  let read: () -> Void
  let close: () -> Void
}

extension EventLoop {
  /// Reads a mailbox from now on, in the thread of this loop: `body` gets what lies there in the order of posting, some turns'
  /// letters together. A mailbox has one reader.
  public func open<Letter>(_ mailbox: Mailbox<Letter>, _ body: @escaping ([Letter]) -> Void) {
    guard acceptsResources else { return mailbox.close() }
    keep(
      Inbox(
        read: {
          let letters = mailbox.take()
          if !letters.isEmpty { body(letters) }
        },
        close: mailbox.close))
    mailbox.connect(remote)
  }
}
