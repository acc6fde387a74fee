// Why: ThreadSanitizer doesn't see the Swift library's Mutex, whose code is not instrumented and waits by futex(2), and would take
// every use of one for a race. It knows pthreads. So what has a lock takes it from here, and "deploy/sanitize thread" builds it
// with a lock that can be seen.

#if SANITIZE_THREAD
  import Glibc

  /// A value that one thread at a time has, as Synchronization's.
  ///
  /// `@unchecked` is safe: the value is touched with the lock alone.
  public struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    private final class Storage {
      let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
      var value: Value

      init(_ value: consuming Value) {
        self.value = value
        pthread_mutex_init(lock, nil)
      }

      deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
      }
    }

    private let storage: Storage

    /// Makes a lock around a value.
    public init(_ value: consuming sending Value) { storage = Storage(value) }

    /// Calls `body` with the value, and with nobody else meanwhile.
    public borrowing func withLock<Result: ~Copyable, Failure: Error>(
      _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
      pthread_mutex_lock(storage.lock)
      defer { pthread_mutex_unlock(storage.lock) }
      return try body(&storage.value)
    }
  }
#else
  import Synchronization

  /// A value that one thread at a time has.
  public typealias Mutex<Value: ~Copyable> = Synchronization.Mutex<Value>
#endif
