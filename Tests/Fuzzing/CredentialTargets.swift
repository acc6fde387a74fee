import BroadcastChannels
import Foundation

@testable import Credentials

/// Tokens, keys and the files that say whose they are.
enum CredentialTargets {
  static let all = [
    FuzzTarget(name: "token", check: token), FuzzTarget(name: "signed-token", check: signedToken),
    FuzzTarget(name: "teams", check: teams), FuzzTarget(name: "pem", check: pem),
  ]

  private static let keyID = "ABC123DEFG"
  private static let teamID = "TEAM123456"

  /// A key that exists as long as this process, and the ring that trusts it.
  private struct Signer {
    let key: SigningKey
    let ring: KeyRing

    init?() {
      guard let key = try? SigningKey.generate(), let verifying = try? key.verifyingKey(),
        let id = KeyID(keyID),
        let ring = try? KeyRing(
          teams: Array(#"{"\#(teamID)":{"keys":["\#(keyID)"],"apps":["com.example.*"]}}"#.utf8),
          keys: [id: verifying])
      else { return nil }
      self.key = key
      self.ring = ring
    }
  }

  /// Safe: made once, and read by the one thread of libFuzzer.
  nonisolated(unsafe) private static let signer = Signer()

  // MARK: Tokens

  /// Nobody but the process has the key: whatever comes is refused, and the reason gives nothing away.
  private static func token(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    guard let ring = signer?.ring else { return require(false, "no key") }
    for strict in [false, true] {
      if let parts = try? CompactJWS(text, strict: strict) {
        require(parts.signed.count < bytes.count, "more was signed than was sent")
        if strict {
          let again = [parts.header.bytes, parts.payload, parts.signature].map { Base64URL.encode($0) }
          require(again.joined(separator: ".") == text, "one token is written in two ways")
        }
      }
      let verifier = TokenVerifier(keys: ring, strict: strict)
      for header in [text, "bearer \(text)", "Bearer  \(text) "] {
        do throws(Refusal) {
          _ = try verifier.provider(authorization: header, now: fuzzedNow)
          require(false, "a provider's token without our signature is accepted")
        } catch {
          requireDiscreet(error.detail, text)
        }
      }
      do throws(SubscriberToken.Refusal) {
        _ = try verifier.subscriber(text, now: fuzzedNow)
        require(false, "a subscriber's token without our signature is accepted")
      } catch {
        requireDiscreet(error.detail, text)
      }
    }
    let found = try? SubscriberToken.extract(
      authorization: [text], subprotocols: [text, "touchline.v1"], queryTokens: [text])
    if let found { require(text.contains(found.text), "a token from nowhere") }
  }

  /// A message has a bound, no line break, and not the secret part of what was sent.
  private static func requireDiscreet(_ detail: String, _ text: String) {
    require(!detail.isEmpty && detail.utf8.count < 1_000, "a detail of \(detail.utf8.count) bytes")
    require(!detail.unicodeScalars.contains { $0.value < 0x20 }, "a control character in a detail")
    let signature = text.split(separator: ".", omittingEmptySubsequences: false).last ?? ""
    if signature.utf8.count > 60 { require(!detail.contains(signature), "the signature is told: \(detail)") }
  }

  /// Header and claims by chance, with a zero byte between them, under a good signature.
  private static func signedToken(_ bytes: [UInt8]) {
    guard let signer else { return require(false, "no key") }
    let parts = bytes.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let header = String(validating: parts[0], as: UTF8.self),
      let claims = String(validating: parts[1], as: UTF8.self),
      let text = try? CompactJWS.text(header: header, claims: claims, key: signer.key)
    else { return }
    let verifier = TokenVerifier(keys: signer.ring)
    let provider = try? verifier.provider(authorization: "bearer \(text)", now: fuzzedNow)
    let subscriber = try? verifier.subscriber(text, now: fuzzedNow)
    require(provider == nil || subscriber == nil, "one token is a provider's and a subscriber's")
    if let provider {
      require(provider.keyID.text == keyID && provider.team.id.text == teamID, "a token of another team")
      let age = fuzzedNow.timeIntervalSince(provider.issuedAt)
      require(age <= 3_600 && age >= -3_600, "a token of \(age) seconds is accepted")
    }
    if let subscriber {
      require(subscriber.team.id.text == teamID && subscriber.expires > fuzzedNow, "an expired token")
    }
  }

  // MARK: Files

  private static func teams(_ bytes: [UInt8]) {
    do throws(Findings) {
      let file = try TeamsFile(bytes)
      for team in file.teams {
        for key in team.keys { require(file.team(of: key)?.id == team.id, "a key of two teams") }
        for app in team.apps { _ = app.description }
      }
      guard let key = KeyID("ZZZZZZZZZ9"), let team = TeamID(teamID) else { return }
      guard file.team(of: key) == nil, let edited = file.adding(key: key, team: team, apps: []) else {
        return
      }
      let again = try TeamsFile(edited)
      require(again.team(of: key)?.id == team, "an added key is not there")
      for other in file.teams.flatMap(\.keys) {
        require(again.team(of: other)?.id == file.team(of: other)?.id, "adding a key moves another")
      }
      _ = try? KeyRing(teams: bytes, keys: [:])
    } catch {
      require(!error.all.isEmpty, "refused without a finding")
      requireInside(error.all, bytes)
    }
  }

  private static func pem(_ bytes: [UInt8]) {
    do throws(KeyError) {
      let key = try VerifyingKey(pem: bytes, source: "file")
      let again = try VerifyingKey(pem: try key.pem(), source: "again")
      require(key.isSame(as: again), "written again, it is another key")
    } catch {
      require(!"\(error)".isEmpty, "refused without a reason")
    }
    do throws(KeyError) {
      let key = try SigningKey(pem: bytes, source: "file")
      let signature = try key.signature(of: [1, 2, 3])
      require(
        try key.verifyingKey().isValid(signature: signature, of: [1, 2, 3]), "it doesn't verify itself")
    } catch {
      // A key's bytes are a secret wherever they end up.
      require("\(error)".utf8.count < 400, "an error of \("\(error)".utf8.count) bytes")
    }
  }

  // MARK: Seeds

  /// Seeds by the name of a target; nil for a target of another file. A key that is written here is nobody's.
  static func seeds(_ name: String) -> [[UInt8]]? {
    let now = Int(fuzzedNow.timeIntervalSince1970)
    switch name {
    case "token":
      guard let key = signer?.key, let id = KeyID(keyID), let team = TeamID(teamID) else { return [] }
      // Their signatures are those of a key that is gone by the time that they are read.
      let minted = [
        try? ProviderToken.mint(key: key, keyID: id, team: team, at: fuzzedNow),
        try? SubscriberToken.mint(
          key: key, keyID: id, team: team, channels: ["final"], issuedAt: fuzzedNow, expires: fuzzedNow + 600),
      ]
      return minted.compactMap { $0.map { Array($0.utf8) } }
        + ["", "bearer x", "a.b.c"].map { Array($0.utf8) }
    case "signed-token":
      let provider = #"{"alg":"ES256","kid":"\#(keyID)"}"# + "\0" + #"{"iss":"\#(teamID)","iat":\#(now)}"#
      let subscriber =
        #"{"alg":"ES256","kid":"\#(keyID)","typ":"\#(TokenKind.subscriberType)"}"# + "\0"
        + #"{"iss":"\#(teamID)","iat":\#(now),"exp":\#(now + 600),"channels":["final","*"]}"#
      return [provider, subscriber].map { Array($0.utf8) }
    case "teams":
      let text =
        #"{"\#(teamID)": {"keys": ["\#(keyID)"], "apps": ["com.example.*", "org.x"], "subscribe": {"org.x": "token"}},"#
        + #" /* two */ "TEAM222222": {"keys": ["BBB123DEFG"], "apps": ["net.y"], "subscribe": "open"}}"#
      return [Array(text.utf8), Array("{}".utf8)]
    case "pem":
      guard let key = signer?.key else { return [] }
      return [try? key.pem(), try? key.verifyingKey().pem()].compactMap(\.self)
    default: return nil
    }
  }
}
