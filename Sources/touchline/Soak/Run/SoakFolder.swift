import Foundation

/// Where a soak keeps the files of its own server. Who is killed removes nothing, so the next soak does that.
///
/// The folder has the name of its process, and a file that this process holds a lock on for as long as it lives (flock(2)).
/// A folder is left behind when no process has that number, and nobody holds that lock: the number alone may be that of
/// another container's process, and the lock alone isn't there yet while a folder is being made.
final class SoakFolder {
  let url: URL
  private let lock: Int32

  private static let prefix = "touchline-soak-"
  private static let lockName = "lock"

  /// Removes what killed soaks have left, and makes one for this process.
  init() throws(CommandFailure) {
    let temporary = FileManager.default.temporaryDirectory
    Self.removeAbandoned(in: temporary)
    url = temporary.appendingPathComponent(
      Self.prefix + "\(ProcessInfo.processInfo.processIdentifier)")
    do {
      try FileManager.default.createDirectory(
        at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw CommandFailure("\(url.path) can't be made: \(error.localizedDescription)")
    }
    lock = open(url.appendingPathComponent(Self.lockName).path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard lock >= 0, flock(lock, LOCK_EX | LOCK_NB) == 0 else {
      let problem = String(cString: strerror(errno))
      if lock >= 0 { close(lock) }
      throw CommandFailure("\(url.path) can't be locked: \(problem)")
    }
  }

  /// Removes it, with everything in it.
  func remove() { try? FileManager.default.removeItem(at: url) }

  deinit { close(lock) }

  private static func removeAbandoned(in temporary: URL) {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: temporary.path)) ?? []
    for name in names where name.hasPrefix(prefix) {
      let digits = name.dropFirst(prefix.count)
      guard let process = Int32(digits), process > 0, "\(process)" == digits,
        kill(process, 0) != 0, errno == ESRCH
      else { continue }
      let folder = temporary.appendingPathComponent(name)
      if isOurs(folder.path), isUnlocked(folder) { try? FileManager.default.removeItem(at: folder) }
    }
  }

  /// Whether it is a folder of this user, and no link to one.
  private static func isOurs(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == getuid()
  }

  private static func isUnlocked(_ folder: URL) -> Bool {
    let file = open(folder.appendingPathComponent(lockName).path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
    // One that was left before it was locked, by a process that is gone.
    guard file >= 0 else { return errno == ENOENT }
    defer { close(file) }
    return flock(file, LOCK_EX | LOCK_NB) == 0
  }
}
