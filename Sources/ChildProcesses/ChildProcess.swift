// Why: Foundation's Process crashes now and then on Linux: it copies 256 bytes of a shorter directory entry
// (findMaximumOpenFromProcSelfFD, swift-corelibs-foundation pull request 5472), which can lie at the end of what is mapped.
// What is needed of it is posix_spawn(3) and waitpid(2).

import CLinux
import Glibc
import Locks

/// A program that runs as a child of this process. It may be used from any thread.
public final class ChildProcess: Sendable {
  /// How a child ended.
  public enum Ending: Sendable, Equatable {
    /// It exited with a code.
    case exited(Int32)
    /// A signal ended it.
    case signalled(Int32)
  }

  /// Why a program can't be started, in the system's words.
  public struct SpawnFailure: Error, CustomStringConvertible {
    /// The reason.
    public let description: String

    init(errno code: Int32) { description = String(cString: strerror(code)) }
  }

  /// The child's process id.
  public let identifier: pid_t
  /// Nobody else can have the id as long as the child was not waited for, and that happens with the lock alone.
  private let state = Mutex<Ending?>(nil)

  /// Starts a program in a process group of its own, with no signals blocked or ignored, and with no other descriptors than these.
  /// From then on this process doesn't ignore SIGCHLD: whoever does never hears how its children ended.
  ///
  /// - Parameters:
  ///   - executable: its path.
  ///   - arguments: without the program's own name.
  ///   - environment: all of its variables.
  ///   - input: its standard input; as the other two a descriptor above 2, which stays open here.
  ///   - output: its standard output.
  ///   - errors: its standard error.
  /// - Throws: ``SpawnFailure`` when the system refuses, or there is no such program.
  public init(
    _ executable: String, _ arguments: [String], environment: [String: String], input: Int32, output: Int32,
    errors: Int32
  ) throws(SpawnFailure) {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (number, descriptor) in [input, output, errors].enumerated() {
      posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(number))
    }
    _ = shim_close_from(&actions, 3)

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // Threads of Swift's executors block signals, and a child would inherit that. A Ctrl-C is for whoever has the terminal.
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setpgroup(&attributes, 0)
    // A loop's process ignores SIGPIPE, and whoever started this one may have had SIGCHLD ignored.
    var ordinary = sigset_t()
    sigemptyset(&ordinary)
    for signal in [SIGPIPE, SIGCHLD] { sigaddset(&ordinary, signal) }
    posix_spawnattr_setsigdefault(&attributes, &ordinary)
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF))
    Glibc.signal(SIGCHLD, SIG_DFL)

    var pid: pid_t = 0
    let failure = Self.withStrings([executable] + arguments) { arguments in
      Self.withStrings(environment.map { "\($0)=\($1)" }) { environment in
        posix_spawn(&pid, executable, &actions, &attributes, arguments, environment)
      }
    }
    guard failure == 0 else { throw SpawnFailure(errno: failure) }
    identifier = pid
  }

  private static func withStrings<Result>(
    _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
  ) -> Result {
    let strings = texts.map { strdup($0) }
    defer { for string in strings { free(string) } }
    return body(strings + [nil])
  }

  /// How it ended; nil while it runs.
  public var ending: Ending? { state.withLock { Self.look(identifier, &$0, WNOHANG) } }

  /// Whether it has not ended.
  public var isRunning: Bool { ending == nil }

  /// Waits until it has ended, however long that takes.
  @discardableResult
  public func waitForEnd() -> Ending {
    // Without the lock meanwhile, so that others may end it.
    var information = siginfo_t()
    while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
    return state.withLock { Self.look(identifier, &$0, 0) } ?? .exited(0)
  }

  /// Sends it a signal, unless it has ended.
  public func signal(_ number: Int32) {
    state.withLock { if Self.look(identifier, &$0, WNOHANG) == nil { kill(identifier, number) } }
  }

  private static func look(_ identifier: pid_t, _ ending: inout Ending?, _ options: Int32) -> Ending? {
    if let ending { return ending }
    var status: Int32 = 0
    guard waitpid(identifier, &status, options) == identifier else { return nil }
    // WIFSIGNALED and its like are macros, which don't import (wait(2)).
    let signal = status & 0x7f
    ending = signal == 0 ? .exited((status >> 8) & 0xff) : .signalled(signal)
    return ending
  }

  /// Two ends of a pipe, above the standard descriptors, which no child inherits.
  ///
  /// - Throws: ``SpawnFailure`` when there are no descriptors left.
  public static func pipe() throws(SpawnFailure) -> (read: Int32, write: Int32) {
    var ends: [Int32] = [-1, -1]
    guard Glibc.pipe(&ends) == 0 else { throw SpawnFailure(errno: errno) }
    defer { for end in ends { close(end) } }
    let moved = ends.map { fcntl($0, F_DUPFD_CLOEXEC, 3) }
    guard moved.allSatisfy({ $0 >= 0 }) else {
      let code = errno
      for end in moved where end >= 0 { close(end) }
      throw SpawnFailure(errno: code)
    }
    return (moved[0], moved[1])
  }
}
