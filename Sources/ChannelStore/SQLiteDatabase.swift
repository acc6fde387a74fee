import CSQLite
import Foundation
import Glibc

/// SQLite as far as the store needs it: statements with bound values, errors with SQLite's own words.
///
/// The pointers of the C library stay in this file. A database is used from one thread at a time.
final class SQLiteDatabase {
  enum Value {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    init(_ number: Double?) { self = number.map { .real($0) } ?? .null }

    /// Unix seconds.
    init(_ date: Date?) { self.init(date?.timeIntervalSince1970) }

    var integer: Int64? { if case .integer(let number) = self { number } else { nil } }

    var real: Double? { if case .real(let number) = self { number } else { nil } }
  }

  struct Failure: Error {
    let code: Int32
    let message: String
  }

  private let path: String
  private var handle: OpaquePointer?
  private var statements: [String: OpaquePointer] = [:]
  /// Whether the file wasn't there before.
  let isNew: Bool
  /// Pages in the write-ahead log after the last transaction that wrote any.
  private(set) var logFrames = 0

  /// - Parameter vfs: the name of SQLite's way to the disk; nil for the system's.
  init(path: String, vfs: String? = nil) throws(Failure) {
    self.path = path
    // A way to the disk of another kind has its own files.
    isNew = vfs == nil && Self.makePrivate(path)
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let code = sqlite3_open_v2(path, &handle, flags, vfs)
    // "Whether or not an error occurs when it is opened, resources … should be released by passing it to
    // sqlite3_close()" (sqlite3_open's manual). What throws from here on is followed by deinit, which does.
    guard code == SQLITE_OK else { throw failure(code) }
    countFrames()
  }

  /// Makes a file that isn't there yet, for this user alone: SQLite would let everybody read it. Its log and its index get the
  /// same mode from SQLite. What goes wrong here goes wrong when SQLite opens it, which says why.
  ///
  /// - Returns: whether it was made.
  private static func makePrivate(_ path: String) -> Bool {
    let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
  }

  deinit {
    for statement in statements.values { sqlite3_finalize(statement) }
    sqlite3_close_v2(handle)
  }

  /// Takes the place of SQLite's own checkpoints, whose failures nobody hears of (sqlite3_wal_autocheckpoint's manual: it is a
  /// wrapper around this).
  private func countFrames() {
    let database = Unmanaged.passUnretained(self).toOpaque()
    sqlite3_wal_hook(
      handle,
      { database, _, _, frames in
        // Called by a statement of this database alone, so that it is there.
        guard let database else { return SQLITE_OK }
        Unmanaged<SQLiteDatabase>.fromOpaque(database).takeUnretainedValue().logFrames = Int(frames)
        return SQLITE_OK
      }, database)
  }

  /// Whether the system lets nobody write: SQLite then opens the file for reading and says nothing.
  var isReadOnly: Bool { sqlite3_db_readonly(handle, "main") == 1 }

  /// Removes a file that this made, while it is empty: nothing could be kept in it, and nobody else's is in it.
  func removeIfEmpty() {
    var file = stat()
    if isNew, stat(path, &file) == 0, file.st_size == 0 { unlink(path) }
  }

  /// Writes what the log has into the file, and has both on the disk.
  ///
  /// - Parameter empties: whether the log begins anew, even in its file.
  func checkpoint(empties: Bool = false) throws(Failure) {
    let answer = try run("PRAGMA wal_checkpoint(\(empties ? "TRUNCATE" : "PASSIVE"))")
    guard answer.first?.first?.integer == 0 else {
      throw Failure(code: SQLITE_BUSY, message: "the write-ahead log can't be written into the file")
    }
    if empties { logFrames = 0 }
  }

  /// Closing the database doesn't write its log into its file, as it would otherwise.
  func leaveLogAlone() { _ = csqlite_no_checkpoint_on_close(handle) }

  /// The number that a statement answers; 0 when it answers something else.
  func number(_ sql: String) throws(Failure) -> Int64 { try run(sql).first?.first?.integer ?? 0 }

  /// Runs a statement and returns its rows. The statement is prepared once and kept.
  @discardableResult
  func run(_ sql: String, _ values: [Value] = []) throws(Failure) -> [[Value]] {
    let statement = try prepared(sql)
    defer {
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    for (index, value) in values.enumerated() { try bind(value, at: Int32(index + 1), to: statement) }
    var rows: [[Value]] = []
    while true {
      let code = sqlite3_step(statement)
      switch code {
      case SQLITE_ROW: rows.append((0..<sqlite3_column_count(statement)).map { column(statement, $0) })
      case SQLITE_DONE: return rows
      default: throw failure(code)
      }
    }
  }

  /// Runs statements as one: all of them or none.
  func transaction(_ body: () throws(Failure) -> Void) throws(Failure) {
    try run("BEGIN IMMEDIATE")
    do throws(Failure) {
      try body()
      try run("COMMIT")
    } catch {
      // A full disk may have rolled back already; then this fails too, and the first error is the one to tell.
      _ = try? run("ROLLBACK")
      throw error
    }
  }

  private func prepared(_ sql: String) throws(Failure) -> OpaquePointer {
    if let statement = statements[sql] { return statement }
    var statement: OpaquePointer?
    let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
    guard code == SQLITE_OK, let statement else { throw failure(code) }
    statements[sql] = statement
    return statement
  }

  private func bind(_ value: Value, at index: Int32, to statement: OpaquePointer) throws(Failure) {
    // SQLITE_TRANSIENT, a macro that doesn't import: SQLite copies the bytes before the call returns.
    let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    let code: Int32 =
      switch value {
      case .null: sqlite3_bind_null(statement, index)
      case .integer(let integer): sqlite3_bind_int64(statement, index, integer)
      case .real(let real): sqlite3_bind_double(statement, index, real)
      case .text(let text): sqlite3_bind_text(statement, index, text, -1, transient)
      case .blob(let bytes): sqlite3_bind_blob(statement, index, bytes, Int32(bytes.count), transient)
      }
    guard code == SQLITE_OK else { throw failure(code) }
  }

  private func column(_ statement: OpaquePointer, _ index: Int32) -> Value {
    switch sqlite3_column_type(statement, index) {
    case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, index))
    case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, index))
    case SQLITE_TEXT:
      guard let text = sqlite3_column_text(statement, index) else { return .null }
      return .text(String(cString: text))
    case SQLITE_BLOB:
      let count = Int(sqlite3_column_bytes(statement, index))
      guard let bytes = sqlite3_column_blob(statement, index) else { return .blob([]) }
      return .blob(Array(UnsafeRawBufferPointer(start: bytes, count: count)))
    default: return .null
    }
  }

  private func failure(_ code: Int32) -> Failure {
    let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
    return Failure(code: code, message: message)
  }
}
