import BroadcastChannels
import Foundation

/// One provider request with its answer, and what became of its message since.
///
/// Everything that a client wrote is cut and redacted when the entry is made, so an entry's size is bounded
/// (``Limits/requestLogTextBytes``, ``Limits/requestLogFindings``). Numbers come from the ``MessageRecord`` when they
/// are asked for.
struct RequestEntry {
  /// Its place in the log, from 1.
  let number: Int
  let request: LoggedRequest
  let status: Int
  let app: String?
  /// Whose request it was, by ``Provider/name``. Not told: it decides who may read the entry.
  let provider: String?
  let channel: String?
  let alias: String?
  let requestID: String?
  let reason: String?
  /// What was wrong and what to do.
  let detail: String?
  let defaults: [(name: String, value: String)]
  let publication: Publication?
  let push: AcceptedPush?
  let findings: [Finding]
  /// Findings that there was no room for.
  let furtherFindings: Int
  /// Milliseconds from the whole request to its answer.
  let milliseconds: Double

  init(_ number: Int, _ request: LoggedRequest, status: Int, _ facts: RequestFacts, clock: Double) {
    self.number = number
    self.request = request
    self.status = status
    app = facts.app.map(Redaction.text)
    provider = facts.provider
    channel = facts.channel.map(Redaction.text)
    alias = facts.alias
    requestID = facts.requestID.map(Redaction.text)
    reason = facts.refusal?.reason
    detail = (facts.refusal?.detail).map(Redaction.text)
    defaults = facts.defaults
    let found = facts.publication?.findings ?? facts.push?.findings ?? []
    findings = found.prefix(Limits.requestLogFindings).map { finding in
      Finding(
        finding.severity, finding.kind, key: Redaction.text(finding.key), Redaction.text(finding.message),
        position: finding.position)
    }
    furtherFindings = found.count - findings.count
    publication = facts.publication?.withoutFindings
    push = facts.push?.withoutFindings
    milliseconds = max(0, clock - request.begun) * 1_000
  }

  /// The accepted message, as far as it is known by now.
  var message: LoggedMessage? { publication.map { LoggedMessage($0) } ?? push.map { LoggedMessage($0) } }

  /// What was done with the message: `repeated`, or its outcome as it is by now.
  var outcome: String? { message?.outcome }

  /// Whether an answer of devices may still change what the entry tells, shortly after the message went out.
  var awaitsDevices: Bool {
    guard let message, let counts = message.counts, message.outcome != "repeated" else { return false }
    return counts.displayed < counts.subscribers
  }

  /// The entry as `GET /v1/requests` answers it.
  func json(epoch: String) -> String {
    let message = message
    let counts = message?.counts
    let defaults = defaults.map { "\(JSONWriter.quoted($0.name)):\(JSONWriter.quoted($0.value))" }
    return JSONWriter.object([
      "id": JSONWriter.quoted(StreamPosition(epoch: epoch, sequence: number).description),
      "time": JSONWriter.seconds(request.receivedAt.timeIntervalSince1970),
      "protocol": JSONWriter.quoted(request.transport), "remote": JSONWriter.quoted(request.remoteAddress),
      "user-agent": request.userAgent.map(JSONWriter.quoted),
      "authorization": request.authorization.map(JSONWriter.quoted),
      "method": JSONWriter.quoted(request.method), "path": JSONWriter.quoted(request.path),
      "body-bytes": String(request.bodyBytes), "duration-ms": JSONWriter.seconds(milliseconds),
      "app": app.map(JSONWriter.quoted), "channel": channel.map(JSONWriter.quoted),
      "alias": alias.map(JSONWriter.quoted), "apns-request-id": requestID.map(JSONWriter.quoted),
      "status": String(status), "reason": reason.map(JSONWriter.quoted),
      "detail": detail.map(JSONWriter.quoted),
      "apns-unique-id": message.map { JSONWriter.quoted($0.uniqueID.text) },
      "priority": message?.priority.map { String($0.rawValue) },
      "outcome": message.map { JSONWriter.quoted($0.outcome) },
      "subscribers": counts.map { String($0.subscribers) }, "written": counts.map { String($0.written) },
      "acknowledged": counts.map { String($0.acknowledged) },
      "displayed": counts.map { String($0.displayed) },
      "defaults": defaults.isEmpty ? nil : "{\(defaults.joined(separator: ","))}",
      "findings": findings.isEmpty ? nil : "[\(findings.map(Self.json).joined(separator: ","))]",
      "verdict": verdict.map(JSONWriter.quoted),
    ])
  }

  private static func json(_ finding: Finding) -> String {
    JSONWriter.object([
      "severity": JSONWriter.quoted(finding.severity.rawValue), "kind": JSONWriter.quoted(finding.kind),
      "key": JSONWriter.quoted(finding.key), "message": JSONWriter.quoted(finding.message),
    ])
  }

  /// The entry in one line of the server's own log.
  var line: String {
    let target = alias ?? channel
    return [
      "\(request.method) \(request.path) \(status)", reason ?? outcome, target.map { "channel \($0)" },
      "\(JSONWriter.seconds(milliseconds)) ms", request.remoteAddress, detail ?? verdict,
    ].compactMap { $0 }.joined(separator: ", ")
  }
}
