import BroadcastServer
import CLinux
import EventLoop
import Foundation

/// This very program, started again as a child that doesn't outlive it.
final class ChildProgram {
  private let loop: EventLoop
  private let process = Process()
  private let output = Pipe()
  private let input = Pipe()
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
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = arguments + ParentProcess.arguments
    // The plan says how it is set up, and not what its person's own servers have in the environment.
    process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix(Setting.prefix) }
    process.standardInput = input
    process.standardOutput = output
    process.standardError = errors
    do {
      try process.run()
      let descriptor = output.fileHandleForReading.fileDescriptor
      watch = try loop.watchReadable(descriptor) { [weak self] in self?.read(descriptor) }
    } catch {
      throw CommandFailure("\(arguments.first ?? "a child") can't be started: \(error.localizedDescription)")
    }
  }

  var pid: Int32 { process.processIdentifier }

  var isRunning: Bool { process.isRunning }

  /// How it ended, in words that follow "it"; nil while it runs.
  var ending: String? {
    guard !process.isRunning else { return nil }
    let status = process.terminationStatus
    guard process.terminationReason == .uncaughtSignal else { return "exited with \(status)" }
    return "was ended by signal \(status) (\(String(cString: strsignal(status))))"
  }

  /// Writes to its standard input, waiting until that has taken it.
  func send(_ bytes: [UInt8]) { try? input.fileHandleForWriting.write(contentsOf: Data(bytes)) }

  func closeInput() {
    guard hasInput else { return }
    hasInput = false
    try? input.fileHandleForWriting.close()
  }

  func signal(_ number: Int32) {
    guard process.isRunning else { return }
    kill(process.processIdentifier, number)
  }

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
