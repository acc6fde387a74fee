import Glibc

/// Writes all of some bytes, and waits for room as long as that takes: also when somebody else who has the same open file made it
/// non-blocking.
///
/// - Returns: what could not be written, and the system's `errno`; nil when everything was.
public func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> (rest: ArraySlice<UInt8>, code: Int32)? {
  var rest = bytes[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    if count > 0 {
      rest = rest.dropFirst(count)
    } else if count == 0 {
      return (rest, EIO)
    } else if errno == EAGAIN {
      var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
      _ = poll(&room, 1, 1_000)
    } else if errno != EINTR {
      return (rest, errno)
    }
  }
  return nil
}
