import BroadcastChannels
import EventLoop
import Foundation

/// Which entries of a server's request log are asked for. What is nil or empty excludes nothing.
public struct RequestSelection: Sendable, Hashable {
  /// A channel's id or alias.
  public var channel: String?
  /// A bundle id.
  public var app: String?
  /// Whether only refused requests are asked for.
  public var refusedOnly = false

  /// Selects every request.
  public init() {}

  func path(limit: Int, after id: String?) -> String {
    var path = "/v1/requests?limit=\(limit)"
    let arguments = [
      ("after", id), ("channel", channel), ("app", app), ("status", refusedOnly ? "4xx,5xx" : nil),
    ]
    for (name, value) in arguments {
      if let value { path += "&\(name)=\(ChannelID.pathSegment(value))" }
    }
    return path
  }
}

/// Reads a server's request log: the last entries, or every entry as it comes.
///
/// Following, it reconnects by itself with exponential back-off and goes on where it was; entries that the server forgot
/// meanwhile are counted.
public final class RequestLogReader {
  /// What a reader is told.
  public enum Event: Sendable {
    /// An entry, as the server's JSON.
    case entry(JSONDocument)
    /// Entries that the server had forgotten before they could be read.
    case missed(Int)
    /// Everything that was asked for has been told.
    case finished
    /// The connection is gone and will be made again.
    case disconnected(problem: String, retryIn: Double)
    /// The log can't be read.
    case failed(RequestFailure)
  }

  private let loop: EventLoop
  private let server: ServerAccess
  private let selection: RequestSelection
  private let handler: (Event) -> Void
  private var limit: Int
  private var lastID: String?
  private var stream: EventStreamClient?
  private var watchdog: LoopTimer?
  private var backoff = Backoff()
  private var random = SystemRandomNumberGenerator()
  private var hasConnected = false
  private var isClosed = false

  /// Makes a reader and begins.
  ///
  /// - Parameters:
  ///   - limit: how many of the entries that are there come first.
  ///   - follows: whether it goes on with those that are still to come.
  public init(
    loop: EventLoop, server: ServerAccess, selection: RequestSelection, limit: Int, follows: Bool,
    handler: @escaping (Event) -> Void
  ) {
    self.loop = loop
    self.server = server
    self.selection = selection
    self.limit = limit
    self.handler = handler
    if follows {
      connect()
      watchdog = loop.schedule(after: Limits.pingSeconds, every: Limits.pingSeconds) { [weak self] in
        self?.watch()
      }
    } else {
      readOn()
    }
  }

  /// Ends it; nothing more is told.
  public func close() {
    isClosed = true
    watchdog?.cancel()
    stream?.close()
    stream = nil
  }

  private func tell(_ event: Event) { if !isClosed { handler(event) } }

  private func fail(_ failure: RequestFailure) {
    tell(.failed(failure))
    close()
  }

  // MARK: Once

  /// Asks for what is left of the limit; an answer may hold less, and says where to go on.
  private func readOn() {
    let path = selection.path(limit: limit, after: lastID)
    guard let headers = headers() else { return }
    server.client(loop).send(url: server.http(path), headers: headers) { [self] result in
      switch result {
      case .failure(let error): fail(RequestFailure(error, server))
      case .success(let response) where response.status == 200: take(response.body)
      case .success(let response):
        fail(RequestFailure(refused: response.status, response.body, server))
      }
    }
  }

  private func take(_ body: [UInt8]) {
    guard let document = try? JSONDocument(body), let entries = document.root["requests"]?.elements,
      let next = document.root["next"]?.string
    else { return fail(.unreadable) }
    for entry in entries {
      if let entry = try? JSONDocument(document.bytes(of: entry)) { tell(.entry(entry)) }
    }
    lastID = next
    limit -= entries.count
    if entries.isEmpty || limit <= 0 { tell(.finished) } else { readOn() }
  }

  // MARK: Following

  private func connect() {
    guard !isClosed else { return }
    let path = selection.path(limit: limit, after: nil)
    guard let headers = headers() else { return }
    stream = EventStreamClient(
      loop: loop, url: server.http(path), headers: headers, lastEventID: lastID, tls: server.tls
    ) { [weak self] in self?.take($0) }
  }

  /// What is shown of the credential; nil when there is no token to show, which ends the reader.
  private func headers() -> [(String, String)]? {
    do throws(RequestFailure) {
      return try server.headers()
    } catch {
      loop.schedule(after: 0) { [weak self] in self?.fail(error) }
      return nil
    }
  }

  private func take(_ event: EventStreamClient.Event) {
    switch event {
    case .opened:
      hasConnected = true
      backoff.reset()
    case .event(let event):
      lastID = event.id ?? lastID
      guard let document = try? JSONDocument(event.data) else { return fail(.unreadable) }
      if event.name == "request" { tell(.entry(document)) }
      if event.name == "missed", let count = document.root["missed"]?.number?.int {
        tell(.missed(Int(clamping: count)))
      }
    case .refused(let status, let body): fail(RequestFailure(refused: status, body, server))
    case .ended(let error):
      if case .untrusted = error { fail(RequestFailure(error, server)) } else { reconnect("\(error)") }
    }
  }

  private func reconnect(_ problem: String) {
    guard !isClosed else { return }
    let asked = stream?.askedToRetry
    stream = nil
    guard hasConnected else { return fail(RequestFailure(unreachable: problem, server)) }
    let wait = backoff.next(asked: asked, using: &random)
    tell(.disconnected(problem: problem, retryIn: wait))
    loop.schedule(after: wait) { [weak self] in self?.connect() }
  }

  private func watch() {
    guard let stream, loop.now - stream.lastHeard > Limits.silenceSeconds else { return }
    stream.close()
    reconnect("nothing was heard from \(server)")
  }
}
