/// A long-lived connection as the server's rules see it, on whatever loop it is.
protocol RegisteredStream: AnyObject {
  /// Where the registry has it.
  var registryPlace: Int32? { get set }
  /// The keys changed: whoever lost what the stream lives on is closed.
  func recheckAccess()
  /// A channel was deleted: nothing more will come of it.
  func deleted(_ room: ChannelRoom)
  func close(code: UInt16, reason: String)
  /// The server ends: tells when to come back, and closes with 1012 once everything that waits was sent.
  func sayGoodbye(retryIn: Double)
}

/// All sessions of a server.
final class SessionRegistry {
  private var sessions: [any RegisteredStream] = []

  var count: Int { sessions.count }

  func add(_ session: any RegisteredStream) {
    session.registryPlace = Int32(sessions.count)
    sessions.append(session)
  }

  func remove(_ session: any RegisteredStream) {
    guard let place = session.registryPlace else { return }
    session.registryPlace = nil
    let last = sessions.removeLast()
    guard last !== session else { return }
    sessions[Int(place)] = last
    last.registryPlace = place
  }

  func recheckAccess() {
    for session in sessions { session.recheckAccess() }
  }

  func deleted(_ room: ChannelRoom) {
    for session in sessions { session.deleted(room) }
  }

  /// Those that there are now.
  var all: [any RegisteredStream] { sessions }
}
