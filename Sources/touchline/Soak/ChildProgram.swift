import BroadcastServer
import CLinux
import ChildProcesses
import EventLoop
import Foundation

/// This very program, started again as a child that doesn't outlive it.
final class ChildProgram {
  private let loop: EventLoop
  private let process: ChildProcess
  private let output: Int32
  private let input: Int32
  private var watch: DescriptorWatch?
  private var hasInput = true
  private let onOutput: ([UInt8]) -> Void
  private let onEnd: () -> Void

  /// Bytes that are taken from its output at a time.
  private static let chunk = 262_144

  /// Starts it.
  ///
  /// - Parameters:
  ///   - errors: where its standard error goes.
  ///   - onOutput: hears what it writes on standard output.
  ///   - onEnd: hears that it writes nothing more.
  init(
    loop: EventLoop, _ arguments: [String], errors: FileHandle, onOutput: @escaping ([UInt8]) -> Void,
    onEnd: @escaping () -> Void = {}
  ) throws(CommandFailure) {
    self.loop = loop
    self.onOutput = onOutput
    self.onEnd = onEnd
    // The plan says how it is set up, and not what its person's own servers have in the environment.
    let environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix(Setting.prefix) }
    do {
      let (given, input) = try ChildProcess.pipe()
      defer { close(given) }
      let (output, taken) = try ChildProcess.pipe()
      defer { close(taken) }
      (self.input, self.output) = (input, output)
      process = try ChildProcess(
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().path,
        arguments + ParentProcess.arguments, environment: environment, input: given, output: taken,
        errors: errors.fileDescriptor)
      watch = try loop.watchReadable(output) { [weak self] in self?.read(output) }
    } catch {
      throw CommandFailure("\(arguments.first ?? "a child") can't be started: \(error)")
    }
  }

  deinit {
    watch?.cancel()
    closeInput()
    close(output)
  }

  var pid: Int32 { process.identifier }

  var isRunning: Bool { process.isRunning }

  /// Whether it ended, and with exit code 0.
  var endedWell: Bool { process.ending == .exited(0) }

  /// How it ended, in words that follow "it"; nil while it runs.
  var ending: String? {
    switch process.ending {
    case nil: nil
    case .exited(let code): "exited with \(code)"
    case .signalled(let signal): "was ended by signal \(signal) (\(String(cString: strsignal(signal))))"
    }
  }

  /// Writes to its standard input, waiting until that has taken it.
  func send(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while hasInput, !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(input, $0.baseAddress, $0.count) }
      // A child that reads nothing more has ended, which is told elsewhere.
      if count < 0, errno != EINTR { return }
      rest = rest.dropFirst(max(count, 0))
    }
  }

  func closeInput() {
    guard hasInput else { return }
    hasInput = false
    close(input)
  }

  func signal(_ number: Int32) { process.signal(number) }

  /// Hears no more of it.
  func ignore() {
    watch?.cancel()
    watch = nil
  }

  /// Waits until it is gone, for some seconds at most.
  func awaitEnd(seconds: Double) {
    let deadline = Date().addingTimeInterval(seconds)
    while isRunning, Date() < deadline { usleep(10_000) }
  }

  /// Waits until it is gone, and sees to that after some seconds.
  func waitForEnd(seconds: Double) {
    awaitEnd(seconds: seconds)
    signal(SIGKILL)
  }

  private func read(_ descriptor: Int32) {
    var chunk = [UInt8](repeating: 0, count: Self.chunk)
    let count = chunk.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    guard count > 0 else {
      ignore()
      return onEnd()
    }
    chunk.removeLast(chunk.count - count)
    onOutput(chunk)
  }
}

/// The process that started this one, as far as this one ends with it.
enum ParentProcess {
  static let option = Option(
    "--end-with", "PID", "end when the process that started this one, PID, does, however that ends")

  /// What a child is given.
  static var arguments: [String] { ["--end-with", "\(ProcessInfo.processInfo.processIdentifier)"] }

  /// Sees to it that this process ends with its parent.
  ///
  /// The kernel tells only from the moment on at which it was asked (prctl(2), PR_SET_PDEATHSIG). A parent that ended between
  /// starting this process and now is found out by its number: an orphan has another parent.
  static func follow(_ arguments: Arguments) throws {
    guard let pid = try arguments.value("--end-with", "a process id", { Int32($0) }) else { return }
    _ = shim_set_parent_death_signal(SIGKILL)
    guard getppid() == pid else {
      throw CommandFailure("the process \(pid), which --end-with names, is not the one that started this one")
    }
  }
}
