import BroadcastChannels
import Foundation

/// Files that a person names on the command line.
enum Files {
  /// Reads a file, or standard input for `-`.
  static func read(_ path: String) throws(CommandFailure) -> [UInt8] {
    if path == "-" { return try readAll(FileHandle.standardInput, "standard input") }
    var isFolder: ObjCBool = false
    guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
      throw CommandFailure("\(path): there is no such file")
    }
    guard !isFolder.boolValue else { throw CommandFailure("\(path) is a folder; a file was expected") }
    guard let handle = FileHandle(forReadingAtPath: path) else {
      throw CommandFailure("\(path) can't be read; does this user have the right to?")
    }
    return try readAll(handle, path)
  }

  private static func readAll(_ handle: FileHandle, _ name: String) throws(CommandFailure) -> [UInt8] {
    let data: Data
    do {
      data = try handle.read(upToCount: Limits.fileBytes + 1) ?? Data()
    } catch {
      throw CommandFailure("\(name) can't be read; is it closed, or not allowed for this user?")
    }
    guard data.count <= Limits.fileBytes else {
      throw CommandFailure("\(name) has more than \(Limits.fileBytes) bytes; that can't be meant")
    }
    return Array(data)
  }
}
