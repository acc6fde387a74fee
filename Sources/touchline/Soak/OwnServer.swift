import BroadcastServer
import EventLoop
import Foundation

/// A server that a soak starts for itself: this very program, as a child, on a free port of 127.0.0.1.
final class OwnServer {
  private let loop: EventLoop
  private let folder: URL
  private let isDurable: Bool
  private var process: Process?
  private var output: Pipe?
  private var watch: DescriptorWatch?
  private var heard: [UInt8] = []
  private var onListening: ((UInt16) -> Void)?
  private(set) var port: UInt16 = 0
  private(set) var isListening = false

  /// - Parameter isDurable: whether channels are kept in a file, so that they survive a restart.
  init(loop: EventLoop, isDurable: Bool) throws(CommandFailure) {
    self.loop = loop
    self.isDurable = isDurable
    folder = FileManager.default.temporaryDirectory.appendingPathComponent(
      "touchline-soak-\(ProcessInfo.processInfo.processIdentifier)")
    do {
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    } catch {
      throw CommandFailure("\(folder.path) can't be made: \(error.localizedDescription)")
    }
  }

  var pid: Int32? { process.map(\.processIdentifier) }

  var isRunning: Bool { process?.isRunning ?? false }

  /// Starts it, and tells its port once it listens.
  func start(_ onListening: @escaping (UInt16) -> Void) throws(CommandFailure) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    let store = isDurable ? folder.appendingPathComponent("channels.sqlite").path : "memory"
    process.arguments = [
      "serve", "--listen", "127.0.0.1:\(port)", "--provider-listen", "off", "--store", store, "--log-level",
      "error",
    ]
    // The plan says how it is set up, and not what its person's own servers have in the environment.
    process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix(Setting.prefix) }
    let output = Pipe()
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = output
    process.standardError = try log()
    do {
      try process.run()
    } catch {
      throw CommandFailure("the server can't be started: \(error.localizedDescription)")
    }
    self.process = process
    self.output = output
    self.onListening = onListening
    heard = []
    let descriptor = output.fileHandleForReading.fileDescriptor
    do {
      watch = try loop.watchReadable(descriptor) { [weak self] in self?.read(descriptor) }
    } catch {
      throw CommandFailure("\(error)")
    }
  }

  private func log() throws(CommandFailure) -> FileHandle {
    let path = folder.appendingPathComponent("server.log").path
    if !FileManager.default.fileExists(atPath: path) {
      _ = FileManager.default.createFile(atPath: path, contents: nil)
    }
    guard let handle = FileHandle(forWritingAtPath: path) else {
      throw CommandFailure("\(path) can't be written")
    }
    handle.seekToEndOfFile()
    return handle
  }

  private func read(_ descriptor: Int32) {
    var chunk = [UInt8](repeating: 0, count: 1_024)
    let count = chunk.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
    guard count > 0 else {
      watch?.cancel()
      watch = nil
      return
    }
    heard += chunk[..<count]
    let text = String(decoding: heard, as: UTF8.self)
    guard let onListening, let end = text.firstIndex(of: "\n"),
      let port = text[..<end].split(separator: ":").last.flatMap({ UInt16($0) })
    else { return }
    self.port = port
    isListening = true
    self.onListening = nil
    onListening(port)
  }

  /// Ends the process with a signal. It is gone when ``isRunning`` says so.
  func end(_ signal: Int32) {
    isListening = false
    watch?.cancel()
    watch = nil
    guard let process, process.isRunning else { return }
    kill(process.processIdentifier, signal)
  }

  /// Ends the process at once, if it still runs, and removes what it left.
  func remove() {
    end(SIGTERM)
    let deadline = Date().addingTimeInterval(5)
    while isRunning, Date() < deadline { usleep(10_000) }
    if isRunning { end(SIGKILL) }
    try? FileManager.default.removeItem(at: folder)
  }

  /// The end of what it wrote to its log.
  var lastWords: String {
    let data =
      FileManager.default.contents(atPath: folder.appendingPathComponent("server.log").path) ?? Data()
    return String(decoding: data.suffix(600), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
