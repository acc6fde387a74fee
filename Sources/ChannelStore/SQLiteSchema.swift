import CSQLite

/// The tables of a store's file, with their versions.
///
/// Version 1 had a channel's position among its definition, and neither budgets nor windows nor answers. What changes with
/// each message stands apart since version 2, so that a message doesn't write a definition of some kilobytes again.
enum SQLiteSchema {
  /// "TLCH": marks the file as this program's (PRAGMA application_id).
  static let applicationID: Int64 = 0x544C_4348
  static let version: Int64 = 2

  private static let channels = """
    CREATE TABLE channels (
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      alias TEXT UNIQUE,
      definition TEXT NOT NULL
    ) STRICT
    """

  private static let newestMessages = """
    CREATE TABLE newest_messages (
      channel TEXT PRIMARY KEY REFERENCES channels (id) ON DELETE CASCADE,
      unique_id TEXT NOT NULL,
      priority INTEGER NOT NULL,
      expiration INTEGER NOT NULL,
      epoch TEXT NOT NULL,
      sequence INTEGER NOT NULL,
      sent REAL NOT NULL,
      aps BLOB NOT NULL
    ) STRICT
    """

  /// Times are Unix seconds. A level that is NULL is a full one.
  private static let sinceVersion2 = [
    """
    CREATE TABLE channel_states (
      channel INTEGER PRIMARY KEY REFERENCES channels (number) ON DELETE CASCADE,
      epoch TEXT NOT NULL,
      sequence INTEGER NOT NULL,
      budget_tokens REAL,
      budget_as_of REAL,
      rate_tokens REAL,
      rate_as_of REAL,
      window_end REAL
    ) STRICT
    """,
    """
    CREATE TABLE waiting_messages (
      channel INTEGER NOT NULL REFERENCES channels (number) ON DELETE CASCADE,
      place INTEGER NOT NULL,
      unique_id TEXT NOT NULL,
      request_id TEXT,
      priority INTEGER NOT NULL,
      expiration INTEGER NOT NULL,
      aps BLOB NOT NULL,
      PRIMARY KEY (channel, place)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE answered_requests (
      channel INTEGER NOT NULL REFERENCES channels (number) ON DELETE CASCADE,
      number INTEGER NOT NULL,
      request_id TEXT NOT NULL,
      unique_id TEXT NOT NULL,
      outcome TEXT NOT NULL,
      answered REAL NOT NULL,
      PRIMARY KEY (channel, number)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE probes (number INTEGER PRIMARY KEY, filling BLOB NOT NULL) STRICT",
  ]

  private static let fromVersion1 = [
    "INSERT INTO channel_states (channel, epoch, sequence) SELECT number, epoch, sequence FROM channels",
    "ALTER TABLE channels DROP COLUMN epoch",
    "ALTER TABLE channels DROP COLUMN sequence",
  ]

  /// Refuses a file that this version can't keep channels in, without changing it.
  ///
  /// - Returns: the version of its tables; 0 for an empty file.
  static func check(_ database: SQLiteDatabase) throws(SQLiteDatabase.Failure) -> Int64 {
    let application = try database.number("PRAGMA application_id")
    let version = try database.number("PRAGMA user_version")
    if application == 0, version == 0, try database.number("SELECT count(*) FROM sqlite_schema") == 0 {
      return 0
    }
    guard application == applicationID, version > 0 else {
      throw SQLiteDatabase.Failure(code: SQLITE_NOTADB, message: "it is a database of another program")
    }
    guard version <= Self.version else {
      throw SQLiteDatabase.Failure(
        code: SQLITE_NOTADB,
        message:
          "it was written by a newer Touchline (schema \(version); this one knows \(Self.version))")
    }
    return version
  }

  /// Makes the tables, or brings those of an older version up to date, inside a transaction.
  static func bringUpToDate(_ database: SQLiteDatabase, from version: Int64) throws(SQLiteDatabase.Failure) {
    let statements =
      version == 0 ? [channels, newestMessages] + sinceVersion2 : sinceVersion2 + fromVersion1
    for statement in statements { try database.run(statement) }
    try database.run("PRAGMA application_id=\(applicationID)")
    try database.run("PRAGMA user_version=\(Self.version)")
  }
}
