import BroadcastChannels
import Foundation

/// One parser under test: what is fed to it, and what must hold of whatever it makes of the bytes.
struct FuzzTarget: Sendable {
  let name: String
  /// Takes any bytes; ends the program when a property doesn't hold.
  let check: @Sendable ([UInt8]) -> Void

  /// The target that libFuzzer runs. Safe: it is set before the only thread that reads it calls libFuzzer.
  nonisolated(unsafe) static var running: FuzzTarget?

  static let all =
    JSONTargets.all + FrameTargets.all + FileTargets.all + HTTPTargets.all + TextTargets.all
    + CredentialTargets.all

  static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// Ends the program, which libFuzzer reports with the bytes, when a property doesn't hold.
func require(_ holds: Bool, _ property: @autoclosure () -> String) {
  guard !holds else { return }
  FileHandle.standardError.write(Data("property broken: \(property())\n".utf8))
  abort()
}

/// A moment that every run shares, so that a find reproduces.
let fuzzedNow = Date(timeIntervalSince1970: 1_796_043_600)

/// A place has to be one of the text.
func requireInside(_ position: SourcePosition, _ bytes: [UInt8]) {
  let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
  require((1...max(1, lines.count)).contains(position.line), "line \(position.line) of \(lines.count)")
  let length = lines.isEmpty ? 0 : lines[position.line - 1].count
  require((1...length + 1).contains(position.column), "column \(position.column) of a line of \(length)")
}

/// Findings name a key and a message, and stand in the text.
func requireInside(_ findings: [Finding], _ bytes: [UInt8]) {
  for finding in findings {
    requireInside(finding.position, bytes)
    require(!finding.message.isEmpty && !finding.kind.isEmpty, "a finding without a message")
  }
}
