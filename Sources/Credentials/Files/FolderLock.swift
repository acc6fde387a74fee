import Foundation

/// Holds a folder for one program at a time; the kernel lets go of it however the program ends.
final class FolderLock {
  private let descriptor: Int32

  init(_ folder: String) throws(FileAccess.Failure) {
    descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else {
      // It is followed by deinit.
      let reason = String(cString: strerror(errno))
      throw FileAccess.Failure(path: folder, message: "the folder can't be opened: \(reason)")
    }
  }

  deinit {
    if descriptor >= 0 { close(descriptor) }
  }
}
