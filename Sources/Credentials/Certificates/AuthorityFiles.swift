import Foundation

/// The files of a ``DevelopmentAuthority``'s folder. What is broken is told, and never overwritten.
struct AuthorityFiles {
  let folder: String

  func path(_ name: String) -> String { folder.hasSuffix("/") ? folder + name : "\(folder)/\(name)" }

  /// A file's bytes; nil when it isn't there.
  func read(_ name: String) throws(DevelopmentAuthority.Failure) -> [UInt8]? {
    let path = path(name)
    if let data = FileManager.default.contents(atPath: path) { return Array(data) }
    // A dangling link counts as there: what it should lead to is somebody's wish.
    var status = stat()
    guard lstat(path, &status) != 0, errno == ENOENT else {
      throw DevelopmentAuthority.Failure(
        description: "\(path) can't be read; does this user have the right to?")
    }
    return nil
  }

  /// A private key; nil when the file isn't there.
  func key(_ name: String) throws(DevelopmentAuthority.Failure) -> KeyHandle? {
    guard let pem = try read(name) else { return nil }
    do throws(KeyError) {
      return try SigningKey(pem: pem, source: path(name)).handle
    } catch {
      throw DevelopmentAuthority.Failure(
        description: "\(error); put the right file back, or move the folder \(folder) away to start over")
    }
  }

  /// A private key, made when the file isn't there.
  func keyOrNew(_ name: String) throws(DevelopmentAuthority.Failure) -> KeyHandle {
    guard let key = try key(name) else { return try makeKey(name) }
    return key
  }

  private func makeKey(_ name: String) throws(DevelopmentAuthority.Failure) -> KeyHandle {
    let key: SigningKey
    let pem: [UInt8]
    do throws(KeyError) {
      key = try SigningKey.generate()
      pem = try key.pem()
    } catch {
      throw DevelopmentAuthority.Failure(description: "\(error)")
    }
    try write(pem, name, mode: 0o600)
    return key.handle
  }

  func write(_ bytes: [UInt8], _ name: String, mode: mode_t) throws(DevelopmentAuthority.Failure) {
    do throws(FileAccess.Failure) {
      try FileAccess.write(bytes, to: path(name), mode: mode, replacing: true)
    } catch {
      throw DevelopmentAuthority.Failure(description: "\(error)")
    }
  }
}
