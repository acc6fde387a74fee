import BroadcastChannels
import EventLoop

/// Why a request to a server didn't do what it was for.
public struct RequestFailure: Error, Sendable, CustomStringConvertible {
  /// The reason as the API names it, when the server answered.
  public let reason: String?
  /// What was wrong and what to do.
  public let description: String

  /// Makes a failure.
  public init(reason: String? = nil, _ description: String) {
    self.reason = reason
    self.description = description
  }

  /// The server refused.
  init(refused status: Int, _ body: [UInt8], _ server: ServerAccess) {
    let root = try? JSONDocument(body).root
    guard let reason = root?["reason"]?.string else {
      self.init("\(server) answered with status \(status); is it a Touchline server?")
      return
    }
    guard reason != "TLSRequired" else {
      self.init(reason: reason, "\(reason): the server speaks TLS there; say https:// instead of http://")
      return
    }
    self.init(reason: reason, "\(reason): \(root?["message"]?.string ?? "status \(status)")")
  }

  static let unreadable = RequestFailure("the server's answer can't be read; is it a Touchline server?")

  /// No server answers.
  init(unreachable problem: String, _ server: ServerAccess) {
    self.init("\(problem); is a server running at \(server)? Start one with: touchline serve")
  }

  /// A request got no answer.
  init(_ error: HTTPClientError, _ server: ServerAccess) {
    if case .untrusted = error {
      self.init(untrusted: "\(error)")
    } else {
      self.init(unreachable: "\(error)", server)
    }
  }

  private init(untrusted problem: String) {
    self.init("\(problem) (with touchline: --ca FILE; 'touchline trust' tells the development authority's)")
  }

  /// A session that the server doesn't let in, or whose certificate doesn't do: trying again changes nothing. Nil for
  /// everything that may pass.
  init?(final error: WebSocketClientError, _ server: ServerAccess) {
    switch error {
    case .untrusted: self.init(untrusted: "\(error)")
    case .refused(_, let status, let body) where status == 401 || status == 403:
      self.init(refused: status, body, server)
    default: return nil
    }
  }
}
