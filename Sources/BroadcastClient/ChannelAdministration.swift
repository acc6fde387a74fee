import BroadcastChannels
import EventLoop
import Foundation

/// What a client can know about a channel.
public struct ChannelInformation: Sendable {
  /// The id.
  public let id: String
  /// The alias, if it has one.
  public let alias: String?
  /// The rules and what the app shows.
  public let definition: ChannelDefinition
  /// The server's whole answer, as it came.
  public let json: String

  init?(body: [UInt8]) {
    guard let document = try? JSONDocument(body), let id = document.root["id"]?.string,
      let value = document.root["definition"]
    else { return nil }
    let alias = document.root["alias"]?.string
    guard
      let definition = try? ChannelDefinition(value, alias: alias.flatMap { ChannelAlias($0) }, in: document)
    else { return nil }
    self.id = id
    self.alias = alias
    self.definition = definition
    json = JSONText(compacting: body).string
  }
}

/// Creates, reads and deletes channels on a server.
public struct ChannelAdministration {
  private let client: HTTPClient
  private let server: ServerAccess

  /// Makes a client for a server.
  public init(loop: EventLoop, server: ServerAccess) {
    client = server.client(loop)
    self.server = server
  }

  /// Makes a channel by its definition.
  public func create(
    _ definition: ChannelDefinition,
    _ completion: @escaping (Result<ChannelInformation, RequestFailure>) -> Void
  ) {
    let body = JSONWriter.object([
      "alias": definition.alias.map { JSONWriter.quoted($0.name) }, "definition": definition.json,
    ])
    request("POST", "/v1/channels", body: Array(body.utf8)) { completion($0.flatMap(Self.information)) }
  }

  /// Reads one channel by its id or alias.
  public func show(
    _ name: String, _ completion: @escaping (Result<ChannelInformation, RequestFailure>) -> Void
  ) {
    request("GET", Self.path(name)) { completion($0.flatMap(Self.information)) }
  }

  /// Reads the list of all channels, as the server's JSON.
  public func list(_ completion: @escaping (Result<JSONDocument, RequestFailure>) -> Void) {
    request("GET", "/v1/channels") { result in
      completion(
        result.flatMap { body in
          guard let document = try? JSONDocument(body) else { return .failure(.unreadable) }
          return .success(document)
        })
    }
  }

  /// Deletes a channel by its id or alias.
  public func delete(_ name: String, _ completion: @escaping (Result<Void, RequestFailure>) -> Void) {
    request("DELETE", Self.path(name)) { completion($0.map { _ in }) }
  }

  private static func path(_ name: String) -> String { "/v1/channels/\(ChannelID.pathSegment(name))" }

  private static func information(_ body: [UInt8]) -> Result<ChannelInformation, RequestFailure> {
    ChannelInformation(body: body).map { .success($0) } ?? .failure(.unreadable)
  }

  private func request(
    _ method: String, _ path: String, body: [UInt8] = [],
    _ completion: @escaping (Result<[UInt8], RequestFailure>) -> Void
  ) {
    let server = server
    var headers = body.isEmpty ? [] : [("content-type", "application/json")]
    do throws(RequestFailure) {
      headers += try server.headers()
    } catch {
      return completion(.failure(error))
    }
    client.send(method: method, url: server.http(path), headers: headers, body: body) { result in
      switch result {
      case .failure(let error): completion(.failure(RequestFailure(error, server)))
      case .success(let response) where (200..<300).contains(response.status):
        completion(.success(response.body))
      case .success(let response):
        completion(.failure(RequestFailure(refused: response.status, response.body, server)))
      }
    }
  }
}
