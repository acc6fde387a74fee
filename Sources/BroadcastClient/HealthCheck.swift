import BroadcastChannels
import EventLoop

/// Asks a server how it is. It takes no token: whoever watches a server needs none.
public struct HealthCheck {
  /// What is asked.
  public enum Question: String, Sendable {
    /// Whether the server works: `GET /healthz`. One that shuts down doesn't any more.
    case healthy = "/healthz"
    /// Whether it should be sent work: `GET /readyz`. Not while it starts, drains, or is without its store.
    case ready = "/readyz"
  }

  private let client: HTTPClient
  private let server: ServerAccess

  /// Makes a check of a server.
  public init(loop: EventLoop, server: ServerAccess) {
    client = server.client(loop)
    self.server = server
  }

  /// Asks.
  ///
  /// - Parameters:
  ///   - timeout: seconds until the answer must be there.
  ///   - completion: called once with the server's JSON, or with why the answer is no.
  public func ask(
    _ question: Question, timeout: Double,
    _ completion: @escaping (Result<String, RequestFailure>) -> Void
  ) {
    let server = server
    client.send(url: server.http(question.rawValue), timeout: timeout) { result in
      switch result {
      case .failure(let error): completion(.failure(RequestFailure(error, server)))
      case .success(let response): completion(Self.verdict(response.status, response.body, server))
      }
    }
  }

  private static func verdict(
    _ status: Int, _ body: [UInt8], _ server: ServerAccess
  ) -> Result<String, RequestFailure> {
    guard let root = (try? JSONDocument(body))?.root, let word = root["status"]?.string else {
      return .failure(status == 200 ? .unreadable : RequestFailure(refused: status, body, server))
    }
    guard status == 200 else {
      let reasons = (root["reasons"]?.elements ?? []).compactMap { reason in
        reason["message"]?.string ?? reason["reason"]?.string
      }
      let why = reasons.isEmpty ? "" : ": \(reasons.joined(separator: "; "))"
      return .failure(RequestFailure("\(server) says \"\(word)\"\(why)"))
    }
    return .success(JSONText(compacting: body).string)
  }
}
