import Foundation
import Testing

/// A TCP relay in front of a server that can lose its connections.
///
/// Two cuts: ``cut()`` when the test says so, and after a number of bytes on their way to the server, which are
/// delivered first, so that the server has carried out what its client never hears of.
final class CuttingProxy: @unchecked Sendable {
  let port: UInt16
  private let target: UInt16
  private let listener: Int32
  private let lock = NSLock()
  private var sockets: [Int32] = []
  private var isDown = false
  private var cuts: [Int]
  private var losses = 0

  init(to target: UInt16, cutAfter cuts: [Int] = []) throws {
    self.target = target
    self.cuts = cuts
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = Self.address(port: 0)
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listener = listener
    let result = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, size) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &size) == 0
      }
    }
    try #require(result, "the proxy can't listen")
    port = UInt16(bigEndian: address.sin_port)
    Thread.detachNewThread { [weak self] in
      while true {
        let client = accept(listener, nil, nil)
        guard client >= 0, let self else {
          if client >= 0 { close(client) }
          break
        }
        relay(client)
      }
      close(listener)
    }
  }

  deinit {
    shutdown(listener, Int32(SHUT_RDWR))
    for socket in sockets { shutdown(socket, Int32(SHUT_RDWR)) }
  }

  /// Where clients connect.
  var address: String { "http://127.0.0.1:\(port)" }

  /// How often connections were cut.
  var lossCount: Int { lock.withLock { losses } }

  /// Loses every connection, and takes no other until ``restore()``.
  func cut() {
    lock.withLock {
      isDown = true
      lose()
    }
  }

  func restore() { lock.withLock { isDown = false } }

  private func lose() {
    losses += 1
    for socket in sockets { shutdown(socket, Int32(SHUT_RDWR)) }
    sockets = []
  }

  /// A number is another connection's as soon as it is closed.
  private func forget(_ closed: [Int32]) { lock.withLock { sockets.removeAll(where: closed.contains) } }

  private static func address(port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return address
  }

  private func relay(_ client: Int32) {
    let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = Self.address(port: target)
    let isConnected = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    let isOpen = lock.withLock {
      guard isConnected, !isDown else { return false }
      sockets += [client, server]
      return true
    }
    guard isOpen else {
      close(client)
      close(server)
      return
    }
    let ends = Ends(client, server) { [weak self] in self?.forget([client, server]) }
    Thread.detachNewThread { [weak self] in
      Self.copy(client, server) { self?.passed($0) }
      ends.leave()
    }
    Thread.detachNewThread {
      Self.copy(server, client) { _ in }
      ends.leave()
    }
  }

  /// Bytes have reached the server: cuts where that was asked for.
  private func passed(_ count: Int) {
    lock.withLock {
      guard let next = cuts.first else { return }
      if next > count {
        cuts[0] = next - count
      } else {
        cuts.removeFirst()
        lose()
      }
    }
  }

  private static func copy(_ source: Int32, _ target: Int32, _ passed: (Int) -> Void) {
    var bytes = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = bytes.withUnsafeMutableBytes { recv(source, $0.baseAddress, $0.count, 0) }
      guard count > 0 else { break }
      var sent = 0
      while sent < count {
        let more = bytes.withUnsafeBytes {
          send(target, $0.baseAddress?.advanced(by: sent), count - sent, Int32(MSG_NOSIGNAL))
        }
        guard more > 0 else { return }
        sent += more
      }
      passed(count)
    }
    shutdown(target, Int32(SHUT_RDWR))
    shutdown(source, Int32(SHUT_RDWR))
  }

  /// Two descriptors that both copying threads use: closed by the one that leaves last.
  private final class Ends: @unchecked Sendable {
    private let lock = NSLock()
    private let descriptors: [Int32]
    private let beforeClosing: () -> Void
    private var users = 2

    init(_ a: Int32, _ b: Int32, beforeClosing: @escaping () -> Void) {
      descriptors = [a, b]
      self.beforeClosing = beforeClosing
    }

    func leave() {
      let isLast = lock.withLock {
        users -= 1
        return users == 0
      }
      guard isLast else { return }
      beforeClosing()
      for descriptor in descriptors { close(descriptor) }
    }
  }
}
