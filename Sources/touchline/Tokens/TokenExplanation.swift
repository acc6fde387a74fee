import BroadcastChannels
import Credentials
import Foundation
import MatchScripts

/// `touchline token show`: what a token says, and whether a server would take it.
struct TokenExplanation {
  private let jws: CompactJWS
  private let claims: JSONDocument
  private let kind: TokenKind
  private let now: Date
  /// Why it would be refused; nil when it would be taken, or wasn't judged.
  private let refusal: (reason: String, detail: String)?
  private let isJudged: Bool

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.positional(1...2, "TOKEN")
    let now = try arguments.value("--at", TimeText.rule) { TimeText.date($0) } ?? Date()
    let isJSON = try ClientOptions.isJSON(arguments)
    if arguments.has("--strict"), !arguments.has("--keys") {
      throw arguments.error("--strict goes with --keys DIR")
    }
    let keys = try arguments["--keys"].map { try KeyRing(folder: $0) }
    let text = try words.count == 2 && words[1] != "-" ? words[1] : readInput()
    let explanation: Self
    do throws(TokenFault) {
      explanation = try Self(bare(text), keys: keys, strict: arguments.has("--strict"), now: now)
    } catch {
      throw CommandFailure("this is no token: \(error.detail)")
    }
    for note in keys?.notes ?? [] { Console.note("note: \(note)") }
    Console.print(isJSON ? explanation.json : explanation.plain)
    return explanation.refusal == nil ? 0 : 1
  }

  private static func readInput() throws -> String {
    if isatty(STDIN_FILENO) == 1 { Console.note("paste the token, then press Enter and Ctrl-D") }
    return String(decoding: try Files.read("-"), as: UTF8.self)
  }

  /// The token alone, when a whole header was pasted.
  private static func bare(_ text: String) -> String {
    let words = text.split(whereSeparator: \.isWhitespace)
    let isHeader = words.dropLast().allSatisfy { ["authorization:", "bearer"].contains($0.lowercased()) }
    return isHeader ? words.last.map(String.init) ?? "" : text
  }

  private init(_ text: String, keys: KeyRing?, strict: Bool, now: Date) throws(TokenFault) {
    jws = try CompactJWS(text)
    claims = try jws.claims()
    kind = TokenKind(header: jws.header)
    self.now = now
    isJudged = keys != nil
    guard let keys else {
      refusal = nil
      return
    }
    let verifier = TokenVerifier(keys: keys, strict: strict)
    switch kind {
    case .provider:
      do throws(Refusal) {
        _ = try verifier.provider(authorization: "bearer \(text)", now: now)
        refusal = nil
      } catch {
        refusal = (error.reason.rawValue, error.detail)
      }
    case .subscriber:
      do throws(SubscriberToken.Refusal) {
        _ = try verifier.subscriber(text, now: now)
        refusal = nil
      } catch {
        refusal = (error.reason, error.detail)
      }
    }
  }

  // MARK: Dates

  private func seconds(_ name: String) -> Double? {
    let value = claims.root[name]
    let seconds = value?.number?.double ?? value?.string.flatMap { Double($0) }
    return seconds.flatMap { (0...Double(Limits.latestUnixSeconds)).contains($0) ? $0 : nil }
  }

  /// When it ends: an hour after its issue for a provider token, or at its `exp`.
  private var end: Double? {
    let own = seconds("exp")
    guard kind == .provider else { return own }
    let hour = seconds("iat").map { $0 + Limits.providerTokenSeconds }
    return [own, hour].compactMap { $0 }.min()
  }

  private func described(_ seconds: Double?) -> String {
    guard let seconds else { return "not told" }
    let date = Date(timeIntervalSince1970: seconds)
    let distance = date.timeIntervalSince(now)
    let span = DurationText.described(abs(distance))
    return "\(date.formatted(.iso8601)), \(distance > 0 ? "in \(span)" : "\(span) ago")"
  }

  // MARK: Printing

  private var verdict: String {
    if let refusal { return Console.styled("refused: \(refusal.reason): \(refusal.detail)", .red) }
    if isJudged { return Console.styled("good", .green) }
    return "not checked: say where the keys are with --keys DIR"
  }

  private var plain: String {
    let lines: [(String, String)] = [
      ("kind", "\(kind.rawValue) token"),
      ("header", JSONText(compacting: jws.header.bytes).string),
      ("claims", JSONText(compacting: claims.bytes).string),
      ("issued", described(seconds("iat"))), ("ends", described(end)), ("verdict", verdict),
    ]
    return lines.map { name, text in
      // The verdict may have colours of ours; everything else is the token's own text.
      name.padded(to: 12) + (name == "verdict" ? text : text.printable)
    }.joined(separator: "\n")
  }

  private var json: String {
    JSONWriter.object([
      "kind": JSONWriter.quoted(kind.rawValue), "header": JSONText(compacting: jws.header.bytes).string,
      "claims": JSONText(compacting: claims.bytes).string,
      "issued": seconds("iat").map { JSONWriter.seconds($0) },
      "ends": end.map { JSONWriter.seconds($0) },
      "seconds-left": end.map { JSONWriter.seconds($0 - now.timeIntervalSince1970) },
      "good": isJudged ? String(refusal == nil) : nil,
      "reason": refusal.map { JSONWriter.quoted($0.reason) },
      "detail": refusal.map { JSONWriter.quoted($0.detail) },
    ])
  }
}
