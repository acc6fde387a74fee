// Why: a unit of `Type=notify` is started when the service says so, not when its process exists, so that what is
// ordered after it finds open ports. The service says it in datagrams to the socket that NOTIFY_SOCKET names (sd_notify(3)).
//
// libsystemd sends them: it knows abstract sockets and what systemd adds to the protocol. It does nothing without
// NOTIFY_SOCKET, so a server started by hand, or in a container, needs no other path.

import CSystemd
import Glibc

/// The service manager that started this process, if one did and wants to be told.
///
/// A word that can't be delivered is no reason to stop serving, so nothing here fails.
public struct ServiceManager: Sendable {
  /// Seconds between two signs of life that the manager waits for; nil when it waits for none.
  ///
  /// Half of what it allows (sd_watchdog_enabled(3)): one late sign costs nothing.
  public let watchdogSeconds: Double?

  /// Reads who started the process from its environment.
  public init() {
    var microseconds: UInt64 = 0
    watchdogSeconds =
      sd_watchdog_enabled(0, &microseconds) > 0 && microseconds > 0 ? Double(microseconds) / 2e6 : nil
  }

  /// Tells that the service can be used.
  ///
  /// - Parameter status: one line for `systemctl status`.
  public func ready(_ status: String) { tell("READY=1", Self.statusLine(status)) }

  /// Tells that the service reads its files again, runs `body`, and tells that the service can be used again.
  public func reloading(_ body: () -> Void) {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    // The manager compares it with when it asked (sd_notify(3), RELOADING=1).
    tell("RELOADING=1", "MONOTONIC_USEC=\(Int(time.tv_sec) * 1_000_000 + Int(time.tv_nsec) / 1_000)")
    body()
    tell("READY=1")
  }

  /// Tells that the service ends, and why for `systemctl status`.
  public func stopping(_ status: String) { tell("STOPPING=1", Self.statusLine(status)) }

  /// A sign of life.
  public func watchdog() { tell("WATCHDOG=1") }

  private func tell(_ lines: String...) { sd_notify(0, lines.joined(separator: "\n")) }

  /// A line break would begin the next assignment.
  private static func statusLine(_ text: String) -> String {
    "STATUS=\(String(text.map { $0.isNewline ? " " : $0 }))"
  }
}
