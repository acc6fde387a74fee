import BroadcastChannels
import Foundation

extension MatchScript.Step {
  /// What would go wrong with the message on a device.
  ///
  /// - Returns: findings with the line of the script; the columns are those of the payload that the line becomes, so
  ///   they are left at 1.
  public func findings(definition: ChannelDefinition?, sentAt now: Date) -> [Finding] {
    let body = Array("{\"aps\":".utf8) + aps(sentAt: now) + Array("}".utf8)
    let place = SourcePosition(line: line, column: 1)
    // A shift of the timestamp and a stale date in the past are written on purpose in a script.
    return PayloadDiagnosis.findings(body: body, definition: definition, now: now)
      .filter { !$0.kind.hasPrefix("timestamp-") && !($0.kind == "stale-past" && (staleIn ?? 0) < 0) }
      .map { Finding($0.severity, $0.kind, key: $0.key, $0.message, position: place) }
  }
}
