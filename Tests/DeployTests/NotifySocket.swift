import Foundation
import TestSupport

/// The service manager's end of sd_notify(3): a datagram socket that is read without waiting.
final class NotifySocket {
  /// What NOTIFY_SOCKET says.
  let name: String
  private let descriptor: Int32
  private var received: [[String]] = []

  /// Binds one.
  ///
  /// - Parameter name: a path, or `@` and a name in the abstract namespace.
  init(_ name: String) throws {
    self.name = name
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // An abstract name begins with a zero byte, and its length is told by the address alone.
    let bytes = name.hasPrefix("@") ? [0] + Array(name.utf8.dropFirst()) : Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
    }
    guard bound == 0 else { throw POSIXError(.EADDRINUSE) }
  }

  deinit { close(descriptor) }

  /// The datagrams so far, each as its lines.
  var datagrams: [[String]] {
    var bytes = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
      guard count > 0 else { return received }
      received.append(String(decoding: bytes[..<count], as: UTF8.self).components(separatedBy: "\n"))
    }
  }

  /// Waits for datagrams that hold a line, and gives the last of them.
  func datagram(_ line: String, count: Int = 1) async throws -> [String] {
    try await eventually("\(line) on \(name), \(count) times; came: \(received)") {
      let found = datagrams.filter { $0.contains(line) }
      return found.count < count ? nil : found.last
    }
  }
}
