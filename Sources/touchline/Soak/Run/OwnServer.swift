import BroadcastClient
import EventLoop
import Foundation

/// A server that a soak starts for itself: this very program, as a child, on a free port of 127.0.0.1.
final class OwnServer {
  private let loop: EventLoop
  private let folder: SoakFolder
  private let isDurable: Bool
  private let usesTLS: Bool
  private var child: ChildProgram?
  private var heard: [UInt8] = []
  private var onListening: ((ServerAccess) -> Void)?
  private var port: UInt16 = 0
  private(set) var isListening = false

  /// - Parameters:
  ///   - isDurable: whether channels are kept in a file, so that they survive a restart.
  ///   - usesTLS: whether it speaks TLS, with certificates of an authority of its own.
  init(loop: EventLoop, isDurable: Bool, usesTLS: Bool) throws(CommandFailure) {
    self.loop = loop
    self.isDurable = isDurable
    self.usesTLS = usesTLS
    folder = try SoakFolder()
  }

  var pid: Int32? { child?.pid }

  var isRunning: Bool { child?.isRunning ?? false }

  /// What is wrong with how it ended after it was told to, in words; nil when that was as it should be.
  var badEnding: String? {
    guard let child, !child.endedWell else { return nil }
    return told(child.isRunning ? "still runs long after it was told to end" : "was told to end")
  }

  /// What happened to it, with how it ended and its last words.
  func told(_ what: String) -> String {
    let ending = child?.ending.map { ": it \($0)" } ?? ""
    let words = lastWords
    return
      "the soak's server, process \(pid ?? 0), \(what)\(ending)\(words.isEmpty ? "" : "; its last words:\n\(words)")"
  }

  private func path(_ name: String) -> String { folder.url.appendingPathComponent(name).path }

  /// Starts it, and tells how to reach it once it listens.
  func start(_ onListening: @escaping (ServerAccess) -> Void) throws(CommandFailure) {
    var arguments = [
      "serve", "--listen", "127.0.0.1:\(port)", "--provider-listen", "off", "--store",
      isDurable ? path("channels.sqlite") : "memory", "--log-level", "error",
    ]
    if usesTLS { arguments += ["--tls", "--tls-dir", path("tls")] }
    self.onListening = onListening
    heard = []
    child = try ChildProgram(
      loop: loop, arguments, errors: try log(), onOutput: { [weak self] in self?.read($0) })
  }

  private func log() throws(CommandFailure) -> FileHandle {
    if !FileManager.default.fileExists(atPath: path("server.log")) {
      _ = FileManager.default.createFile(atPath: path("server.log"), contents: nil)
    }
    guard let handle = FileHandle(forWritingAtPath: path("server.log")) else {
      throw CommandFailure("\(path("server.log")) can't be written")
    }
    handle.seekToEndOfFile()
    return handle
  }

  private func read(_ bytes: [UInt8]) {
    heard += bytes
    let text = String(decoding: heard, as: UTF8.self)
    guard let onListening, let end = text.firstIndex(of: "\n"),
      let port = text[..<end].split(separator: ":").last.flatMap({ UInt16($0) }),
      let address = ServerAddress("\(usesTLS ? "https" : "http")://127.0.0.1:\(port)")
    else { return }
    self.port = port
    isListening = true
    self.onListening = nil
    onListening(
      ServerAccess(address, tls: ClientTLS(authority: usesTLS ? .file(path("tls/ca.pem")) : nil)))
  }

  /// Ends the process with a signal. It is gone when ``isRunning`` says so.
  func end(_ signal: Int32) {
    isListening = false
    child?.ignore()
    child?.signal(signal)
  }

  /// Ends the process at once, if it still runs, and removes what it left.
  func remove() {
    end(SIGTERM)
    child?.waitForEnd(seconds: 5)
    folder.remove()
  }

  private var logged: Data { FileManager.default.contents(atPath: path("server.log")) ?? Data() }

  /// Lines that it wrote to its log, which has errors alone.
  var logLines: Int { logged.count { $0 == 0x0A } }

  /// The end of what it wrote to its log.
  var lastWords: String {
    String(decoding: logged.suffix(600), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
  }
}
