import BroadcastChannels
import Foundation

extension SQLiteChannelStore {
  private typealias Row = [SQLiteDatabase.Value]

  /// Everything that is stored, in the order of creation.
  ///
  /// - Throws: ``StoreError/unusable(path:problem:)`` when a row can't be read.
  public func load() throws(StoreError) -> [StoredChannel] {
    let rows = try read(
      """
      SELECT c.id, c.alias, c.definition, c.number,
        s.epoch, s.sequence, s.budget_tokens, s.budget_as_of, s.rate_tokens, s.rate_as_of, s.window_end,
        m.unique_id, m.priority, m.expiration, m.aps, m.epoch, m.sequence, m.sent
      FROM channels c JOIN channel_states s ON s.channel = c.number
        LEFT JOIN newest_messages m ON m.channel = c.id ORDER BY c.number
      """)
    var waiting = try grouped(
      """
      SELECT channel, unique_id, priority, expiration, aps, request_id FROM waiting_messages
      ORDER BY channel, place
      """)
    var answers = try grouped(
      """
      SELECT channel, number, request_id, unique_id, outcome, answered FROM answered_requests
      ORDER BY channel, number
      """)
    numbers = [:]
    var channels: [StoredChannel] = []
    for row in rows {
      guard case .text(let text) = row[0], let id = ChannelID(text), let number = row[3].integer else {
        throw damaged("a channel's row can't be read")
      }
      numbers[id] = number
      var state = try state(row[4...], of: id)
      for row in waiting.removeValue(forKey: number) ?? [] {
        state.waiting.append(try message(row[1...], of: id))
      }
      for row in answers.removeValue(forKey: number) ?? [] { state.answers.append(try answer(row, of: id)) }
      state.newest = try delivery(row[11...], of: id)
      channels.append(StoredChannel(id: id, definition: try definition(row, of: id), state: state))
    }
    return channels
  }

  private func read(_ sql: String) throws(StoreError) -> [Row] {
    do throws(SQLiteDatabase.Failure) { return try database.run(sql) } catch {
      throw damaged(error.message)
    }
  }

  /// Rows by their first column, a channel's number.
  private func grouped(_ sql: String) throws(StoreError) -> [Int64: [Row]] {
    Dictionary(grouping: try read(sql)) { $0[0].integer ?? 0 }
  }

  private func definition(_ row: Row, of id: ChannelID) throws(StoreError) -> ChannelDefinition {
    var alias: ChannelAlias?
    if case .text(let name) = row[1] { alias = ChannelAlias(name) }
    guard case .text(let json) = row[2] else { throw damaged("the definition of \(id) can't be read") }
    do throws(Findings) {
      return try ChannelDefinition(file: Array(json.utf8), alias: alias)
    } catch {
      throw damaged("the definition of \(id) can't be read: \(error)")
    }
  }

  private func state(_ row: ArraySlice<SQLiteDatabase.Value>, of id: ChannelID) throws(StoreError)
    -> ChannelState
  {
    let row = Array(row)
    guard case .text(let epoch) = row[0], let sequence = row[1].integer else {
      throw damaged("the state of \(id) can't be read")
    }
    var state = ChannelState(position: StreamPosition(epoch: epoch, sequence: Int(sequence)))
    state.budget = level(row[2], row[3])
    state.rate = level(row[4], row[5])
    state.deadline = row[6].real.map { Date(timeIntervalSince1970: $0) }
    return state
  }

  private func level(_ tokens: SQLiteDatabase.Value, _ asOf: SQLiteDatabase.Value) -> TokenBucket.Level? {
    guard let tokens = tokens.real, let asOf = asOf.real else { return nil }
    return TokenBucket.Level(tokens: tokens, asOf: Date(timeIntervalSince1970: asOf))
  }

  /// - Parameter row: unique id, priority, expiration, `aps`, and the request id, if that is kept.
  private func message(_ row: ArraySlice<SQLiteDatabase.Value>, of id: ChannelID) throws(StoreError)
    -> Message
  {
    let row = Array(row)
    guard case .text(let uniqueID) = row[0], let number = row[1].integer,
      let priority = Priority(rawValue: Int(number)), let seconds = row[2].integer,
      let expiration = Expiration(unixSeconds: seconds), case .blob(let aps) = row[3]
    else { throw damaged("a message of \(id) can't be read") }
    var requestID: RequestID?
    if row.count > 4, case .text(let text) = row[4] { requestID = RequestID(text) }
    let payload: Payload
    do throws(PayloadError) {
      payload = try Payload(body: Array("{\"aps\":".utf8) + aps + Array("}".utf8))
    } catch {
      throw damaged("a message of \(id) can't be read: \(error)")
    }
    return Message(
      uniqueID: UniqueID(text: uniqueID), requestID: requestID, priority: priority, expiration: expiration,
      payload: payload)
  }

  private func delivery(_ row: ArraySlice<SQLiteDatabase.Value>, of id: ChannelID) throws(StoreError)
    -> Delivery?
  {
    if case .null = row[row.startIndex] { return nil }
    let place = Array(row.suffix(3))
    guard case .text(let epoch) = place[0], let sequence = place[1].integer, let sent = place[2].real else {
      throw damaged("the newest message of \(id) can't be read")
    }
    return Delivery(
      message: try message(row.prefix(4), of: id),
      position: StreamPosition(epoch: epoch, sequence: Int(sequence)), sent: Date(timeIntervalSince1970: sent)
    )
  }

  private func answer(_ row: Row, of id: ChannelID) throws(StoreError) -> AnsweredRequest {
    guard let number = row[1].integer, case .text(let requestText) = row[2],
      let requestID = RequestID(requestText), case .text(let uniqueID) = row[3],
      case .text(let outcomeText) = row[4], let outcome = Outcome(rawValue: outcomeText), let at = row[5].real
    else { throw damaged("an answered request of \(id) can't be read") }
    return AnsweredRequest(
      number: Int(number), requestID: requestID, uniqueID: UniqueID(text: uniqueID), outcome: outcome,
      at: Date(timeIntervalSince1970: at))
  }
}
