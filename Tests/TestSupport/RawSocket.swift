import Foundation

/// A blocking TCP connection.
///
/// `@unchecked` is safe: its only property is a descriptor that never changes, and the kernel orders what threads do with
/// it.
package final class RawSocket: @unchecked Sendable {
  package let descriptor: Int32

  /// - Parameter host: the address of this machine that it comes from.
  package init(port: UInt16, receiveBuffer: Int32? = nil, from host: String? = nil) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    if var size = receiveBuffer {
      setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4)
    }
    if let host {
      var own = sockaddr_in()
      own.sin_family = sa_family_t(AF_INET)
      own.sin_addr.s_addr = inet_addr(host)
      withUnsafePointer(to: &own) { pointer in
        _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
    }
    var seconds = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &seconds, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let connected = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard connected == 0 else { throw POSIXError(.ECONNREFUSED) }
  }

  deinit { close(descriptor) }

  package func write(_ text: String) { write(Array(text.utf8)) }

  package func write(_ bytes: [UInt8]) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return }
      sent += count
    }
  }

  package func endWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Closes with RST.
  package func reset() {
    var off = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &off, socklen_t(MemoryLayout<linger>.size))
    dup2(open("/dev/null", O_RDONLY), descriptor)
  }

  /// Reads up to `count` bytes; fewer only at the end or after the timeout.
  package func read(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var have = 0
    while have < count {
      let got = bytes.withUnsafeMutableBytes {
        recv(descriptor, $0.baseAddress?.advanced(by: have), count - have, 0)
      }
      if got <= 0 { break }
      have += got
    }
    return Array(bytes.prefix(have))
  }

  package func readAll() -> String { String(decoding: read(8 << 20), as: UTF8.self) }

  /// Reads up to and with `marker`, and no byte more.
  package func read(until marker: String) -> String {
    var text: [UInt8] = []
    let wanted = Array(marker.utf8)
    var peeked = [UInt8](repeating: 0, count: 4_096)
    while true {
      let count = peeked.withUnsafeMutableBytes {
        recv(descriptor, $0.baseAddress, $0.count, Int32(MSG_PEEK))
      }
      guard count > 0 else { break }
      var taken = 0
      for byte in peeked.prefix(count) {
        text.append(byte)
        taken += 1
        if text.suffix(wanted.count).elementsEqual(wanted) {
          _ = read(taken)
          return String(decoding: text, as: UTF8.self)
        }
      }
      _ = read(taken)
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Does the WebSocket handshake and gives the answer's head.
  @discardableResult
  package func upgrade(path: String = "/ws", headers: String = "") -> String {
    write(
      "GET \(path) HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\(headers)\r\n")
    return read(until: "\r\n\r\n")
  }

  /// Reads one unmasked server frame: opcode and payload.
  package func readFrame() -> (opcode: UInt8, payload: [UInt8])? {
    let head = read(2)
    guard head.count == 2 else { return nil }
    let length =
      switch head[1] {
      case 126: read(2).reduce(0) { $0 << 8 | Int($1) }
      case 127: read(8).reduce(0) { $0 << 8 | Int($1) }
      default: Int(head[1])
      }
    return (head[0] & 0x0f, read(length))
  }
}

/// A client's frame, masked with zeros.
package func clientFrame(_ opcode: UInt8, _ payload: [UInt8], final: Bool = true) -> [UInt8] {
  var frame: [UInt8] = [final ? 0x80 | opcode : opcode]
  if payload.count < 126 {
    frame.append(0x80 | UInt8(payload.count))
  } else if payload.count < 65_536 {
    frame += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
  } else {
    frame.append(0x80 | 127)
    frame += stride(from: 56, through: 0, by: -8).map { UInt8(payload.count >> $0 & 0xff) }
  }
  return frame + [0, 0, 0, 0] + payload
}
