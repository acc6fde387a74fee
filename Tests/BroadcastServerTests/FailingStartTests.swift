import BroadcastChannels
import ChannelStore
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

@Suite("A server that can't start") struct FailingStartTests {
  @Test("leaves the store as it is when a port is taken, and gives back what it took") func portInUse() throws
  {
    try withServer { server in
      let loop = try EventLoop()
      let store = NotedStore()
      var configuration = ServerConfiguration()
      configuration.listen.port = server.port
      configuration.providerListen = nil
      #expect(throws: EventLoopError.portInUse(address: "127.0.0.1:\(server.port)")) {
        try BroadcastServer(
          loop: loop, configuration: configuration, store: store, definitions: [definition("final")],
          log: .silent)
      }
      #expect(store.batches.isEmpty)
    }
  }

  @Test("gives its ports back when a definition can't be taken over") func conflict() throws {
    let port = try withFreePort()
    let loop = try EventLoop()
    var configuration = ServerConfiguration()
    configuration.listen.port = port
    configuration.providerListen = nil
    configuration.loops = 3
    let wantsTokens = try definition("final", #"{"app":"com.example.scores","subscribe":"token"}"#)
    #expect(throws: DefinitionConflict.self) {
      try BroadcastServer(
        loop: loop, configuration: configuration, store: NotedStore(), definitions: [wantsTokens],
        log: .silent)
    }
    try withServer {
      $0.port = port
    } _: { server throws in
      #expect(try server.send(.get("/healthz")).status == 200)
    }
  }

  /// A port that was free a moment ago.
  private func withFreePort() throws -> UInt16 {
    var port: UInt16 = 0
    try withServer { port = $0.port }
    return port
  }
}
