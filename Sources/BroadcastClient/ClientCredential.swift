import BroadcastChannels
import Credentials
import Foundation

/// What a client shows a server that checks tokens.
public final class ClientCredential {
  private enum Source {
    case key(SigningKey, KeyID, TeamID)
    case file(path: String, read: () throws -> [UInt8])
    case text(String)
  }

  /// Seconds after which a new provider token is made: before the hour that one is good for is over, and not sooner than
  /// Apple allows.
  private static let renewal = (Limits.providerTokenPaceSeconds + Limits.providerTokenSeconds) / 2

  private let source: Source
  private var minted: (token: String, at: Date)?

  /// A provider's key: its tokens are made when they are needed.
  public init(key: SigningKey, keyID: KeyID, team: TeamID) { source = .key(key, keyID, team) }

  /// A file with a token, which is read again with each connection, so that whoever renews it needs no restart.
  public init(file path: String, read: @escaping () throws -> [UInt8]) {
    source = .file(path: path, read: read)
  }

  /// A token at hand.
  public init(token: String) { source = .text(token) }

  /// A token that is good now, as far as that is ours to say.
  func token(at now: Date) throws(RequestFailure) -> String {
    switch source {
    case .text(let token): return token
    case .file(let path, let read):
      guard let bytes = try? read() else { throw RequestFailure("the token file \(path) can't be read") }
      let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      guard !text.isEmpty, !text.contains(where: { $0.isWhitespace || $0.isNewline }) else {
        throw RequestFailure("the token file \(path) doesn't hold a token and nothing else")
      }
      return text
    case .key(let key, let keyID, let team):
      if let minted, (0..<Self.renewal).contains(now.timeIntervalSince(minted.at)) { return minted.token }
      do throws(KeyError) {
        let token = try ProviderToken.mint(key: key, keyID: keyID, team: team, at: now)
        minted = (token, now)
        return token
      } catch {
        throw RequestFailure("no token could be made: \(error)")
      }
    }
  }
}
