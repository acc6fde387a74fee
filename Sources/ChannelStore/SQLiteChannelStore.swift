import BroadcastChannels
import CSQLite
import Foundation
import Glibc

/// Channels in one SQLite file.
///
/// Write-ahead logging: a batch is one transaction, and one sync when something in it was promised (`synchronous=FULL`),
/// none otherwise (`NORMAL`: the operating system has it, so that it survives the process). The lock is exclusive, so a
/// second server on the same file is refused at once instead of disagreeing later.
///
/// `@unchecked` is safe: whoever holds the store uses it from one thread at a time, see ``ChannelStore``, and SQLite allows
/// that ("multi-thread" mode).
public final class SQLiteChannelStore: ChannelStore, @unchecked Sendable {
  let path: String
  let database: SQLiteDatabase
  /// The rows of the channels that were asked for.
  var numbers: [ChannelID: Int64] = [:]
  /// Whether the next transaction is synced; nil before the first.
  var isSynced: Bool?
  /// Pages in the log from which on they are written into the file: SQLite's own default.
  var mostFrames = 1_000
  /// Something could not be written, so that the disk may lack what the log has, see ``mend()``.
  var isDoubtful = false

  /// Opens a file, or makes a new one.
  ///
  /// - Throws: ``StoreError/unusable(path:problem:)`` when the file can't be opened, is in use, is damaged, is no store of
  ///   Touchline, or was written by a newer version. It is not changed then.
  public convenience init(path: String) throws(StoreError) { try self.init(path: path, vfs: nil) }

  /// Bytes of a database's header (sqlite.org/fileformat2.html, section 1.3).
  private static let headerBytes = 100

  /// Bytes of a file; 0 when it isn't there.
  private static func size(of path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }

  /// - Parameter vfs: the name of SQLite's way to the disk; nil for the system's.
  init(path: String, vfs: String?) throws(StoreError) {
    self.path = path
    // SQLite keeps nothing of the one, and takes options out of the other.
    guard !path.hasPrefix(":"), !path.hasPrefix("file:") else {
      throw .unusable(
        path: path,
        problem: "a name with \":\" or \"file:\" in front is no file to SQLite; "
          + "write \"memory\" to keep nothing, or \"./\(path)\" for a file of that name")
    }
    // SQLite has the log beside the file itself, and not beside a symlink to it.
    let real = realpath(path, nil)
    defer { free(real) }
    let file = real.map { String(cString: $0) } ?? path
    let hasLog = Self.size(of: "\(file)-wal") > 0
    // SQLite would make a new store, and throw away what the log has.
    guard !hasLog || Self.size(of: file) >= Self.headerBytes else {
      throw .unusable(
        path: path,
        problem: "its log \(file)-wal is there, and what it belongs to is not; put that back, or a backup "
          + "with deploy/backup, which takes the log away; for a new store move the log away yourself")
    }
    let version: Int64
    do throws(SQLiteDatabase.Failure) {
      database = try SQLiteDatabase(path: path, vfs: vfs)
      do throws(SQLiteDatabase.Failure) {
        version = try Self.prepare(database)
      } catch {
        // Otherwise closing it would write its log into a file that is refused.
        if hasLog { database.leaveLogAlone() }
        // Before it is closed: nobody else has it open.
        if ![SQLITE_BUSY, SQLITE_LOCKED].contains(error.code & 0xFF) { database.removeIfEmpty() }
        throw error
      }
    } catch {
      throw Self.unusable(path, error)
    }
    try bringUpToDate(from: version)
  }

  /// - Returns: the version of the file's tables; 0 for an empty one.
  static func prepare(_ database: SQLiteDatabase) throws(SQLiteDatabase.Failure) -> Int64 {
    // The lock that comes next couldn't be had on such a file, and SQLite's words for that are "disk I/O error".
    guard !database.isReadOnly else {
      throw SQLiteDatabase.Failure(code: SQLITE_READONLY, message: "")
    }
    try database.run("PRAGMA locking_mode=EXCLUSIVE")
    // Whose file it is, and whether it is whole, comes first: changing the journal mode writes into the file's header.
    let version = try SQLiteSchema.check(database)
    if case .text(let answer) = try database.run("PRAGMA quick_check(1)").first?.first, answer != "ok" {
      throw SQLiteDatabase.Failure(code: SQLITE_CORRUPT, message: answer)
    }
    guard case .text("wal") = try database.run("PRAGMA journal_mode=WAL").first?.first else {
      throw SQLiteDatabase.Failure(
        code: SQLITE_ERROR, message: "it can't have a write-ahead log; choose a file on another disk")
    }
    try database.run("PRAGMA synchronous=FULL")
    try database.run("PRAGMA foreign_keys=ON")
    // A log that grew while the disk was slow gives its room back.
    try database.run("PRAGMA journal_size_limit=16777216")
    return version
  }

  /// Makes the tables, or brings those of an older version up to date: all of it, when every row can be read then, or nothing.
  private func bringUpToDate(from version: Int64) throws(StoreError) {
    guard version < SQLiteSchema.version else { return }
    var refusal: StoreError?
    do throws(SQLiteDatabase.Failure) {
      try database.transaction { () throws(SQLiteDatabase.Failure) in
        try SQLiteSchema.bringUpToDate(database, from: version)
        do throws(StoreError) { _ = try load() } catch {
          refusal = error
          throw SQLiteDatabase.Failure(code: SQLITE_CORRUPT, message: "\(error)")
        }
      }
    } catch {
      throw refusal ?? Self.unusable(path, error)
    }
  }

  private static func unusable(_ path: String, _ failure: SQLiteDatabase.Failure) -> StoreError {
    let problem: String =
      switch failure.code & 0xFF {
      case SQLITE_BUSY, SQLITE_LOCKED:
        "another server is using it; stop that one, or choose another file, or memory"
      case SQLITE_CANTOPEN:
        "it can't be opened or made; does the folder exist, and may this user write there?"
      case SQLITE_NOTADB: "\(failure.message); choose another file, this one was left as it is"
      case SQLITE_CORRUPT:
        "it is damaged (\(failure.message)); put a backup in its place with deploy/backup, which takes its log away too, or choose another file; this one was left as it is"
      case SQLITE_READONLY: "it is read-only for this user; change that, or choose another file"
      case SQLITE_FULL: "the disk is full; make room, or choose a file elsewhere"
      default: failure.message
      }
    return .unusable(path: path, problem: problem)
  }

  // MARK: ChannelStore

  /// What was written outlives the process.
  public var isDurable: Bool { true }

  /// The file.
  public var place: String { path }

  @discardableResult
  func attempt<T>(_ operation: String, _ body: () throws(SQLiteDatabase.Failure) -> T)
    throws(StoreError) -> T
  {
    do throws(SQLiteDatabase.Failure) {
      return try body()
    } catch {
      throw .failed(operation: operation, problem: "\(error.message) (\(path))")
    }
  }

  /// Reading a table of which something is wrong: the file is refused, and stays as it is.
  func damaged(_ problem: String) -> StoreError {
    database.leaveLogAlone()
    return Self.unusable(path, SQLiteDatabase.Failure(code: SQLITE_CORRUPT, message: problem))
  }
}
