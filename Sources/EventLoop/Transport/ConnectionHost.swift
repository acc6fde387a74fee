// Why: the list of the connections that are served on a loop, whether a port of this loop brought them in or another loop gave
// them up. Deadlines are checked by one sweep over the connections that still are HTTP or are closing, not by a timer each.
// Open WebSockets have no deadline and stand apart, compactly.

import CLibuv
import Glibc

/// The connections of one ``EventLoop``, or of one port on it. The loop keeps it alive.
public class ConnectionHost: LoopResource {
  /// Connections that are open in any form: HTTP, event streams and WebSockets.
  public final var connectionCount: Int { connections.count + webSockets.count }

  final let loop: EventLoop
  final let options: ServerOptions
  /// Where every read of this loop goes first.
  final var scratch = [UInt8](repeating: 0, count: 65_536)
  private final var batch: [UInt8] = []
  private final var sweep: LoopTimer?
  private(set) final var connections: [ObjectIdentifier: any ServedConnection] = [:]
  /// Those in which no close has begun. Each knows its place.
  private(set) final var webSockets: [ServerSocket] = []

  /// What has to ``begin()`` yet.
  init(on loop: EventLoop, _ options: ServerOptions) {
    self.loop = loop
    self.options = options
  }

  /// A host that listens nowhere: its WebSockets are those of other loops, see ``adopt(_:handler:)``.
  /// - Parameter options: what holds for WebSockets in them.
  public convenience init(loop: EventLoop, options: ServerOptions) {
    self.init(on: loop, options)
    begin()
  }

  func begin() {
    loop.keep(self)
    let period = max(0.02, min(0.5, min(options.handshakeTimeout, options.idleTimeout) / 4))
    sweep = loop.schedule(after: period, every: period) { [weak self] in self?.checkAll() }
  }

  func loopEnds() {
    sweep?.cancel()
    for connection in connections.values { connection.abort() }
    for socket in webSockets { socket.abort() }
    connections = [:]
    webSockets = []
  }

  func checkAll() {
    let now = loop.now
    for connection in connections.values { connection.check(now) }
  }

  // MARK: - For connections

  final func add(_ connection: any ServedConnection) {
    connections[ObjectIdentifier(connection)] = connection
  }

  final func forget(_ connection: any ServedConnection) { connections[ObjectIdentifier(connection)] = nil }

  /// A connection goes on in another form.
  final func replace(_ old: any ServedConnection, with new: any ServedConnection) {
    forget(old)
    add(new)
  }

  /// An open WebSocket.
  final func add(_ socket: ServerSocket) {
    socket.place = Int32(webSockets.count)
    webSockets.append(socket)
  }

  /// Takes a WebSocket out of those that are open. Idempotent.
  final func remove(_ socket: ServerSocket) {
    guard let place = socket.place else { return }
    socket.place = nil
    let last = webSockets.removeLast()
    if last !== socket {
      webSockets[Int(place)] = last
      last.place = place
    }
  }

  /// A WebSocket's close has begun: from now on it has a deadline. Idempotent.
  final func closeBegan(_ socket: ServerSocket) {
    guard socket.place != nil else { return }
    remove(socket)
    add(socket as any ServedConnection)
  }

  /// An empty buffer for frames that are written at once; ``giveBack(_:)`` lets the next one use its memory.
  final func takeBatch() -> [UInt8] {
    var taken: [UInt8] = []
    swap(&taken, &batch)
    return taken
  }

  final func giveBack(_ used: [UInt8]) {
    batch = used
    batch.removeAll(keepingCapacity: true)
  }
}
