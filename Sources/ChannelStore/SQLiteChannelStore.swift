import BroadcastChannels
import CSQLite
import Foundation

/// Channels in one SQLite file.
///
/// Write-ahead logging with `synchronous=FULL`: what was written before a call returned survives `kill -9`, and a loss
/// of power as far as the disk keeps its word. The lock is exclusive, so a second server on the same file is refused
/// at once instead of disagreeing later.
public final class SQLiteChannelStore: ChannelStore {
  private let path: String
  private let database: SQLiteDatabase

  /// "TLCH": marks the file as this program's (PRAGMA application_id).
  private static let applicationID: Int64 = 0x544C_4348
  private static let schemaVersion: Int64 = 1

  private static let schema = [
    """
    CREATE TABLE channels (
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      alias TEXT UNIQUE,
      definition TEXT NOT NULL,
      epoch TEXT NOT NULL,
      sequence INTEGER NOT NULL
    ) STRICT
    """,
    """
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
    """,
  ]

  /// Opens a file, or makes a new one.
  ///
  /// - Throws: ``StoreError/unusable(path:problem:)`` when the file can't be opened, is in use, is no store of
  ///   Touchline, or was written by a newer version. It is not changed then.
  public init(path: String) throws(StoreError) {
    self.path = path
    do throws(SQLiteDatabase.Failure) {
      database = try SQLiteDatabase(path: path)
      try database.run("PRAGMA locking_mode=EXCLUSIVE")
      // Whose file it is comes first: changing the journal mode writes into the file's header.
      let isNew = try checkOwner()
      try database.run("PRAGMA journal_mode=WAL")
      try database.run("PRAGMA synchronous=FULL")
      try database.run("PRAGMA foreign_keys=ON")
      if isNew { try makeSchema() }
    } catch {
      throw Self.unusable(path, error)
    }
  }

  /// Refuses a file that this version can't keep channels in.
  ///
  /// - Returns: whether the file is empty, so that the schema has to be made.
  private func checkOwner() throws(SQLiteDatabase.Failure) -> Bool {
    let application = try number("PRAGMA application_id")
    let version = try number("PRAGMA user_version")
    if application == 0, version == 0, try number("SELECT count(*) FROM sqlite_schema") == 0 { return true }
    guard application == Self.applicationID else {
      throw SQLiteDatabase.Failure(code: SQLITE_NOTADB, message: "it is a database of another program")
    }
    guard version <= Self.schemaVersion else {
      throw SQLiteDatabase.Failure(
        code: SQLITE_NOTADB,
        message:
          "it was written by a newer Touchline (schema \(version); this one knows \(Self.schemaVersion))")
    }
    return false
  }

  private func makeSchema() throws(SQLiteDatabase.Failure) {
    try database.transaction { () throws(SQLiteDatabase.Failure) in
      for statement in Self.schema { try database.run(statement) }
      try database.run("PRAGMA application_id=\(Self.applicationID)")
      try database.run("PRAGMA user_version=\(Self.schemaVersion)")
    }
  }

  private func number(_ sql: String) throws(SQLiteDatabase.Failure) -> Int64 {
    if case .integer(let number) = try database.run(sql).first?.first { return number }
    return 0
  }

  private static func unusable(_ path: String, _ failure: SQLiteDatabase.Failure) -> StoreError {
    let problem: String =
      switch failure.code & 0xFF {
      case SQLITE_BUSY, SQLITE_LOCKED: "another server is using it; stop that one, or choose another file"
      case SQLITE_CANTOPEN:
        "it can't be opened or made; does the folder exist, and may this user write there?"
      case SQLITE_NOTADB: "\(failure.message); choose another file, this one was left as it is"
      case SQLITE_READONLY: "it is read-only for this user"
      default: failure.message
      }
    return .unusable(path: path, problem: problem)
  }

  // MARK: ChannelStore

  /// Everything that is stored, in the order of creation.
  public func load() throws(StoreError) -> [StoredChannel] {
    let rows = try attempt("read its channels") { () throws(SQLiteDatabase.Failure) in
      try database.run(
        """
        SELECT c.id, c.alias, c.definition, c.epoch, c.sequence,
          m.unique_id, m.priority, m.expiration, m.epoch, m.sequence, m.sent, m.aps
        FROM channels c LEFT JOIN newest_messages m ON m.channel = c.id ORDER BY c.number
        """)
    }
    var channels: [StoredChannel] = []
    for row in rows { channels.append(try channel(row)) }
    return channels
  }

  private func channel(_ row: [SQLiteDatabase.Value]) throws(StoreError) -> StoredChannel {
    guard case .text(let idText) = row[0], let id = ChannelID(idText), case .text(let json) = row[2],
      case .text(let epoch) = row[3], case .integer(let sequence) = row[4]
    else { throw .failed(operation: "read its channels", problem: "a row is damaged") }
    var alias: ChannelAlias?
    if case .text(let name) = row[1] { alias = ChannelAlias(name) }
    let definition: ChannelDefinition
    do throws(Findings) {
      definition = try ChannelDefinition(file: Array(json.utf8), alias: alias)
    } catch {
      throw .failed(operation: "read its channels", problem: "the definition of \(id) is damaged: \(error)")
    }
    return StoredChannel(
      id: id, definition: definition, position: StreamPosition(epoch: epoch, sequence: Int(sequence)),
      newest: try delivery(row, of: id))
  }

  private func delivery(_ row: [SQLiteDatabase.Value], of id: ChannelID) throws(StoreError) -> Delivery? {
    guard case .text(let uniqueID) = row[5] else { return nil }
    guard case .integer(let priorityNumber) = row[6], let priority = Priority(rawValue: Int(priorityNumber)),
      case .integer(let seconds) = row[7], let expiration = Expiration(unixSeconds: seconds),
      case .text(let epoch) = row[8], case .integer(let sequence) = row[9], case .real(let sent) = row[10],
      case .blob(let aps) = row[11]
    else { throw .failed(operation: "read its channels", problem: "the message of \(id) is damaged") }
    let payload: Payload
    do throws(PayloadError) {
      payload = try Payload(body: Array("{\"aps\":".utf8) + aps + Array("}".utf8))
    } catch {
      throw .failed(operation: "read its channels", problem: "the message of \(id) is damaged: \(error)")
    }
    let message = Message(
      uniqueID: UniqueID(text: uniqueID), requestID: nil, priority: priority, expiration: expiration,
      payload: payload)
    return Delivery(
      message: message, position: StreamPosition(epoch: epoch, sequence: Int(sequence)),
      sent: Date(timeIntervalSince1970: sent))
  }

  /// Keeps a new channel.
  public func create(_ channel: StoredChannel) throws(StoreError) {
    try attempt("create a channel") { () throws(SQLiteDatabase.Failure) in
      try database.run(
        "INSERT INTO channels (id, alias, definition, epoch, sequence) VALUES (?, ?, ?, ?, ?)",
        [
          .text(channel.id.base64), channel.definition.alias.map { .text($0.name) } ?? .null,
          .text(channel.definition.json), .text(channel.position.epoch),
          .integer(Int64(channel.position.sequence)),
        ])
    }
  }

  /// Forgets a channel and its message.
  public func delete(_ id: ChannelID) throws(StoreError) {
    try attempt("delete a channel") { () throws(SQLiteDatabase.Failure) in
      try database.run("DELETE FROM channels WHERE id = ?", [.text(id.base64)])
    }
  }

  /// Keeps where a policy-1 channel stands, and its newest message.
  public func save(_ id: ChannelID, position: StreamPosition, newest: Delivery?) throws(StoreError) {
    try attempt("store a message") { () throws(SQLiteDatabase.Failure) in
      try database.transaction { () throws(SQLiteDatabase.Failure) in
        try database.run(
          "UPDATE channels SET epoch = ?, sequence = ? WHERE id = ?",
          [.text(position.epoch), .integer(Int64(position.sequence)), .text(id.base64)])
        guard let newest, case .at(let expiration) = newest.message.expiration else { return }
        try database.run(
          """
          INSERT OR REPLACE INTO newest_messages
            (channel, unique_id, priority, expiration, epoch, sequence, sent, aps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
          """,
          [
            .text(id.base64), .text(newest.message.uniqueID.text),
            .integer(Int64(newest.message.priority.rawValue)),
            .integer(expiration), .text(newest.position.epoch), .integer(Int64(newest.position.sequence)),
            .real(newest.sent.timeIntervalSince1970), .blob(newest.message.payload.aps),
          ])
      }
    }
  }

  @discardableResult
  private func attempt<T>(_ operation: String, _ body: () throws(SQLiteDatabase.Failure) -> T)
    throws(StoreError) -> T
  {
    do throws(SQLiteDatabase.Failure) {
      return try body()
    } catch {
      throw .failed(operation: operation, problem: error.message)
    }
  }
}
