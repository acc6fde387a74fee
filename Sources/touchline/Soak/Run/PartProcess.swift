import BroadcastClient
import EventLoop
import Foundation
import Soak

/// A process that has a share of the devices, as the judging process sees it.
final class PartProcess {
  private var child: ChildProgram?
  private var reader = PartReportReader()
  private let onReport: (PartReport) -> Void
  private let onLost: (String) -> Void
  private let part: Int
  private var isEnding = false
  /// Until when everything was heard, in Unix seconds.
  private(set) var heard: Double
  /// How it stood when it last told.
  private(set) var status = PartStatus()
  /// Whether it says nothing more.
  private(set) var hasEnded = false

  /// Starts it with its plan.
  ///
  /// - Parameter onLost: hears, in words, that it ended by itself.
  init(
    _ plan: PartPlan, _ access: ServerAccess, credential: [String], loop: EventLoop,
    onReport: @escaping (PartReport) -> Void, onLost: @escaping (String) -> Void
  ) throws(CommandFailure) {
    self.onReport = onReport
    self.onLost = onLost
    part = plan.part
    heard = plan.start
    var arguments = ["soak", "--part", "--server", "\(access.address)"] + credential
    if case .file(let path) = access.tls.authority { arguments += ["--ca", path] }
    child = try ChildProgram(
      loop: loop, arguments, errors: .standardError, onOutput: { [weak self] in self?.read($0) },
      onEnd: { [weak self] in self?.ended() })
    let text = (try? JSONEncoder().encode(plan)).map { [UInt8]($0) } ?? []
    child?.send(text + [0x0A])
  }

  var watch: ProcessWatch? { child.map { ProcessWatch(pid: $0.pid) } }

  /// Tells it to end; it says so when it has told everything.
  func end() {
    isEnding = true
    child?.closeInput()
  }

  /// Ends it at once.
  func remove() {
    child?.ignore()
    child?.closeInput()
    child?.waitForEnd(seconds: 2)
  }

  private func read(_ bytes: [UInt8]) {
    reader.append(bytes)
    do {
      while let report = try reader.next() {
        switch report {
        case .reached(let moment): heard = max(heard, moment)
        case .status(let status): self.status = status
        default: onReport(report)
        }
      }
    } catch {
      onReport(.failed("a process of the soak wrote what can't be read"))
    }
  }

  private func ended() {
    guard !hasEnded else { return }
    hasEnded = true
    heard = .infinity
    guard !isEnding, let child else { return }
    // Its output ends a moment before it does.
    child.awaitEnd(seconds: 1)
    onLost(
      "part \(part), process \(child.pid), \(child.ending.map { "ended by itself: it \($0)" } ?? "fell silent")"
    )
  }
}
