import EventLoop
import Foundation

/// Where a server is, and how to get in: whom to trust there, and what to show.
public struct ServerAccess {
  /// Where it is.
  public let address: ServerAddress
  /// How its certificate is checked, and the client's own.
  public var tls: ClientTLS
  /// What is shown; nil for nothing.
  public var credential: ClientCredential?

  /// Makes an access.
  public init(_ address: ServerAddress, tls: ClientTLS = ClientTLS(), credential: ClientCredential? = nil) {
    self.address = address
    self.tls = tls
    self.credential = credential
  }

  /// An HTTP URL; the path must be encoded.
  func http(_ path: String) -> String { address.http(path) }

  /// Starts to connect a WebSocket of `touchline.v1`.
  ///
  /// - Throws: when there is no token to show.
  func connect(_ loop: EventLoop, handler: any WebSocketClientHandler) throws(RequestFailure)
    -> WebSocketClient
  {
    WebSocketClient(
      loop: loop, url: address.webSocket("/v1/events"), subprotocols: ["touchline.v1"],
      headers: try headers(), tls: tls, handler: handler)
  }

  /// A client for requests.
  func client(_ loop: EventLoop) -> HTTPClient { HTTPClient(loop: loop, tls: tls) }

  /// What a request shows of the credential.
  ///
  /// - Throws: when there is no token to show.
  public func headers() throws(RequestFailure) -> [(String, String)] {
    guard let credential else { return [] }
    return [("authorization", "bearer \(try credential.token(at: Date()))")]
  }
}

extension ServerAccess: CustomStringConvertible {
  /// The HTTP URL of the server.
  public var description: String { address.description }
}
