import BroadcastServer
import Foundation
import Locks

/// The server's log on standard error.
final class LogSink: Sendable {
  let log: ServerLog
  private let writer: LogWriter
  private let form: Form

  /// Shared with what writes the lines, which begins before there is a sink.
  private final class Form: Sendable {
    let format: Mutex<LogFormat>
    let surroundings = LogFormat.Surroundings(isJournal: LogSink.isJournal, hasColour: Console.errorHasColour)

    init(_ format: LogFormat) { self.format = Mutex(format) }

    func line(_ entry: ServerLog.Entry) -> String { format.withLock { $0 }.line(entry, in: surroundings) }
  }

  init(_ configuration: ServerConfiguration) {
    let form = Form(configuration.logFormat)
    let writer = LogWriter(descriptor: STDERR_FILENO) { lost in
      form.line(ServerLog.Entry(lost: lost))
    }
    self.form = form
    self.writer = writer
    log = ServerLog(lowest: configuration.logLevel, lost: { writer.lostLines }) { entry in
      writer.write(form.line(entry))
    }
  }

  /// How a line looks.
  var format: LogFormat {
    get { form.format.withLock { $0 } }
    set { form.format.withLock { $0 = newValue } }
  }

  /// Waits a moment for what still has to be written.
  func close() { writer.close() }

  /// Whether standard error is the journal's stream: systemd names it by its device and inode (systemd.exec(5),
  /// JOURNAL_STREAM), because a program may be started by a service with another standard error.
  private static var isJournal: Bool {
    var status = stat()
    guard let stream = ProcessInfo.processInfo.environment["JOURNAL_STREAM"],
      fstat(STDERR_FILENO, &status) == 0
    else { return false }
    return stream == "\(status.st_dev):\(status.st_ino)"
  }
}
