import Foundation

/// Files that hold secrets: who can read them, and writing them whole or not at all.
public enum FileAccess {
  /// A file that can't be written.
  public struct Failure: Error, CustomStringConvertible {
    /// The file.
    public let path: String
    /// Why, in the system's words or ours.
    public let message: String
    /// File and reason.
    public var description: String { "\(path): \(message)" }
  }

  /// Whether a path leads to a file that can be read to its end, and not to a folder, a pipe or a device.
  static func isRegular(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  /// Whether the group or everybody may read a file.
  public static func isOpenToOthers(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & 0o077 != 0
  }

  /// A file's permissions; nil when it isn't there.
  static func mode(of path: String) -> mode_t? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
  }

  /// Writes a file so that a reader finds the old one, the new one, or (without `replacing`) none, but never half of it.
  ///
  /// - Parameters:
  ///   - mode: the file's permissions from its first byte on, whatever the umask is.
  ///   - replacing: whether a file that is there is replaced; otherwise it is an error, and stays.
  public static func write(
    _ bytes: [UInt8], to path: String, mode: mode_t, replacing: Bool
  ) throws(Failure) {
    func failed(_ what: String) -> Failure {
      Failure(path: path, message: "\(what): \(String(cString: strerror(errno)))")
    }
    let draft = "\(path).\(UUID().uuidString.prefix(8)).draft"
    let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
    guard descriptor >= 0 else { throw failed("can't be made") }
    defer { unlink(draft) }
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes {
        Foundation.write(descriptor, $0.baseAddress?.advanced(by: written), bytes.count - written)
      }
      guard count > 0 || errno == EINTR else { break }
      written += max(0, count)
    }
    let isWhole = written == bytes.count && fchmod(descriptor, mode) == 0 && fsync(descriptor) == 0
    let problem = isWhole ? nil : failed("can't be written")
    close(descriptor)
    if let problem { throw problem }
    // link(2) fails when the name is taken, rename(2) replaces what is there; both at one instant.
    guard (replacing ? rename(draft, path) : link(draft, path)) == 0 else {
      throw errno == EEXIST
        ? Failure(path: path, message: "is there already, and is not overwritten") : failed("can't be made")
    }
  }

  /// Makes a folder that only its owner can enter, and the folders above it.
  public static func makePrivateFolder(_ path: String) throws(Failure) {
    var isFolder: ObjCBool = false
    if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) {
      guard isFolder.boolValue else { throw Failure(path: path, message: "is a file; a folder was expected") }
      return
    }
    do {
      let above = URL(fileURLWithPath: path).deletingLastPathComponent()
      try FileManager.default.createDirectory(at: above, withIntermediateDirectories: true)
    } catch {
      throw Failure(path: path, message: "the folder above it can't be made: \(error.localizedDescription)")
    }
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
      throw Failure(path: path, message: "can't be made: \(String(cString: strerror(errno)))")
    }
  }
}
