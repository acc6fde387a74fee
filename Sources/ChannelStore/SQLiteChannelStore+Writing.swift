import BroadcastChannels
import Foundation

extension SQLiteChannelStore {
  /// Writes a batch as one transaction.
  public func write(_ batch: StoreBatch) throws(StoreError) {
    let changes = batch.changes
    try attempt("write \(changes.count == 1 ? "a change" : "\(changes.count) changes")") {
      () throws(SQLiteDatabase.Failure) in
      do throws(SQLiteDatabase.Failure) {
        try mend()
        try sync(batch.isPromised)
        try database.transaction { () throws(SQLiteDatabase.Failure) in
          for change in changes { try write(change) }
        }
      } catch {
        // Rows that were made are gone again.
        numbers = [:]
        isDoubtful = true
        throw error
      }
    }
    checkpoint()
  }

  /// Writes some kilobytes, as a message needs them, and takes them back.
  public func probe() throws(StoreError) {
    try attempt("write a probe") { () throws(SQLiteDatabase.Failure) in
      do throws(SQLiteDatabase.Failure) {
        try mend()
        try sync(true)
        for statement in ["INSERT OR REPLACE INTO probes VALUES (1, zeroblob(65536))", "DELETE FROM probes"] {
          try database.run(statement)
        }
      } catch {
        isDoubtful = true
        throw error
      }
    }
    checkpoint()
  }

  /// Makes sure of what was written before something failed.
  ///
  /// A kernel that couldn't write a page takes it for written all the same, and the next sync says that all is well (fsync(2):
  /// "subsequent fsync() … may return success"). So the disk may lack frames of earlier batches that nobody synced, and a log
  /// ends where one is missing: whatever were added behind them would be lost with the power. Here everything goes into the
  /// file, and the log begins anew.
  private func mend() throws(SQLiteDatabase.Failure) {
    guard isDoubtful else { return }
    try database.checkpoint(empties: true)
    isDoubtful = false
  }

  /// Writes a long log into the file. What was to be kept is in the log already: when it fails, the next write is what mends it.
  private func checkpoint() {
    guard database.logFrames >= mostFrames else { return }
    do throws(SQLiteDatabase.Failure) { try database.checkpoint() } catch { isDoubtful = true }
  }

  private func sync(_ isSynced: Bool) throws(SQLiteDatabase.Failure) {
    guard isSynced != self.isSynced else { return }
    try database.run(isSynced ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL")
    self.isSynced = isSynced
  }

  private func write(_ change: StoreChange) throws(SQLiteDatabase.Failure) {
    switch change {
    case .create(let channel): try create(channel)
    case .define(let id, let definition, let levels):
      try database.run(
        "UPDATE channels SET alias = ?, definition = ? WHERE id = ?",
        [alias(definition), .text(definition.json), .text(id.base64)])
      if let levels, let number = try number(of: id) { try save(levels, number) }
    case .delete(let id):
      numbers[id] = nil
      try database.run("DELETE FROM channels WHERE id = ?", [.text(id.base64)])
    case .save(let id, let change):
      guard let number = try number(of: id) else { return }
      try save(change, of: id, number)
    }
  }

  private func alias(_ definition: ChannelDefinition) -> SQLiteDatabase.Value {
    definition.alias.map { .text($0.name) } ?? .null
  }

  private func number(of id: ChannelID) throws(SQLiteDatabase.Failure) -> Int64? {
    if let number = numbers[id] { return number }
    let rows = try database.run("SELECT number FROM channels WHERE id = ?", [.text(id.base64)])
    guard let number = rows.first?.first?.integer else { return nil }
    numbers[id] = number
    return number
  }

  private func create(_ channel: StoredChannel) throws(SQLiteDatabase.Failure) {
    try database.run(
      "INSERT INTO channels (id, alias, definition) VALUES (?, ?, ?)",
      [.text(channel.id.base64), alias(channel.definition), .text(channel.definition.json)])
    guard let number = try number(of: channel.id) else { return }
    let state = channel.state
    try save(position: state.position, state.budget, state.rate, state.deadline, number)
    if let newest = state.newest { try save(newest: newest, of: channel.id) }
    try save(waiting: state.waiting, number)
    for answer in state.answers { try save(answer, number) }
  }

  private func save(
    _ change: ChannelChange, of id: ChannelID, _ number: Int64
  ) throws(SQLiteDatabase.Failure) {
    try save(position: change.position, change.budget, change.rate, change.deadline, number)
    if let newest = change.newest { try save(newest: newest, of: id) }
    if let waiting = change.waiting {
      try database.run("DELETE FROM waiting_messages WHERE channel = ?", [.integer(number)])
      try save(waiting: waiting, number)
    }
    if change.forgetsAnswers {
      try database.run(
        "DELETE FROM answered_requests WHERE channel = ? AND number < ?",
        [.integer(number), .integer(Int64(change.firstAnswer))])
    }
    for answer in change.answers { try save(answer, number) }
  }

  private func save(
    position: StreamPosition, _ budget: TokenBucket.Level?, _ rate: TokenBucket.Level?, _ deadline: Date?,
    _ number: Int64
  ) throws(SQLiteDatabase.Failure) {
    try database.run(
      "INSERT OR REPLACE INTO channel_states VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      [
        .integer(number), .text(position.epoch), .integer(Int64(position.sequence)),
        .init(budget?.tokens), .init(budget?.asOf), .init(rate?.tokens), .init(rate?.asOf), .init(deadline),
      ])
  }

  private func save(_ levels: ChannelLevels, _ number: Int64) throws(SQLiteDatabase.Failure) {
    try database.run(
      """
      UPDATE channel_states SET budget_tokens = ?, budget_as_of = ?, rate_tokens = ?, rate_as_of = ?
      WHERE channel = ?
      """,
      [
        .init(levels.budget?.tokens), .init(levels.budget?.asOf), .init(levels.rate?.tokens),
        .init(levels.rate?.asOf), .integer(number),
      ])
  }

  private func save(newest: Delivery, of id: ChannelID) throws(SQLiteDatabase.Failure) {
    let message = newest.message
    try database.run(
      """
      INSERT OR REPLACE INTO newest_messages
        (channel, unique_id, priority, expiration, epoch, sequence, sent, aps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
      """,
      [
        .text(id.base64), .text(message.uniqueID.text), .integer(Int64(message.priority.rawValue)),
        .integer(message.expiration.unixSeconds), .text(newest.position.epoch),
        .integer(Int64(newest.position.sequence)), .init(newest.sent), .blob(message.payload.aps),
      ])
  }

  private func save(waiting: [Message], _ number: Int64) throws(SQLiteDatabase.Failure) {
    for (place, message) in waiting.enumerated() {
      try database.run(
        "INSERT INTO waiting_messages VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
          .integer(number), .integer(Int64(place)), .text(message.uniqueID.text),
          message.requestID.map { .text($0.text) } ?? .null, .integer(Int64(message.priority.rawValue)),
          .integer(message.expiration.unixSeconds), .blob(message.payload.aps),
        ])
    }
  }

  private func save(_ answer: AnsweredRequest, _ number: Int64) throws(SQLiteDatabase.Failure) {
    try database.run(
      "INSERT OR REPLACE INTO answered_requests VALUES (?, ?, ?, ?, ?, ?)",
      [
        .integer(number), .integer(Int64(answer.number)), .text(answer.requestID.text),
        .text(answer.uniqueID.text), .text(answer.outcome.rawValue), .init(answer.at),
      ])
  }
}

extension Expiration {
  /// The header's number.
  fileprivate var unixSeconds: Int64 {
    switch self {
    case .once: 0
    case .at(let seconds): seconds
    }
  }
}
