import BroadcastChannels
import Foundation
import TestSupport
import Testing

@testable import ChannelStore

/// What of a channel comes back, and what an older file becomes.
@Suite struct StateTests {
  private let folder: TestFolder

  init() throws { folder = try TestFolder() }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func everythingComesBackAsTheChangesSaid(_ seed: UInt64) throws {
    var batches = Batches(seed: seed)
    var ledger = Ledger()
    for _ in 0..<3 {
      let store = try SQLiteChannelStore(path: folder.file)
      #expect(try Ledger.text(store.load()) == ledger.text)
      for _ in 0..<15 {
        let batch = try batches.next(ledger, isPromised: batches.random.chance(60))
        try store.write(batch)
        ledger.apply(batch)
      }
    }
    #expect(ledger.channels.count > 1)
  }

  @Test func aDefinitionIsReplacedAndWhatWasSpentStays() throws {
    var batches = Batches(seed: 1)
    var ledger = Ledger()
    let store = try SQLiteChannelStore(path: folder.file)
    for _ in 0..<5 {
      let batch = try batches.next(ledger, isPromised: true)
      try store.write(batch)
      ledger.apply(batch)
    }
    let id = try #require(ledger.channels.first?.id)
    let json = #"{"app":"com.example.scores","message-storage-policy":1,"windows":{"5":2,"1":9}}"#
    var batch = StoreBatch()
    batch.add(
      .define(id, try ChannelDefinition(file: Array(json.utf8), alias: ChannelAlias("renamed")), nil),
      isPromised: false)
    try store.write(batch)
    ledger.apply(batch)
    #expect(try Ledger.text(store.load()) == ledger.text)
    #expect(try store.load().first?.definition.alias?.name == "renamed")
  }

  /// A definition is kept even when the channel's new state can't be; what was spent has to fit it then.
  @Test func whatWasSpentGoesWithADefinitionUnlessTheChannelIsSavedToo() throws {
    let id = try #require(ChannelID("YQ=="))
    let position = StreamPosition(epoch: "e", sequence: 1)
    let asOf = Date(timeIntervalSince1970: 1_700_000_000)
    func level(_ tokens: Double) -> TokenBucket.Level { TokenBucket.Level(tokens: tokens, asOf: asOf) }
    func definition(_ capacity: Int) throws -> ChannelDefinition {
      let json =
        #"{"app":"com.example.scores","message-storage-policy":1,"budget":{"capacity":\#(capacity)}}"#
      return try ChannelDefinition(file: Array(json.utf8), alias: nil)
    }
    let store = try SQLiteChannelStore(path: folder.file)
    var state = ChannelState(position: position)
    state.budget = level(10)
    try store.write(.create(StoredChannel(id: id, definition: definition(60), state: state)))

    var batch = StoreBatch()
    let levels = ChannelLevels(budget: level(-46), rate: nil)
    batch.add(.define(id, try definition(4), levels), isPromised: false)
    batch.add(.save(id, ChannelChange(position: position, budget: level(-47))), isPromised: true)
    var retried = StoreBatch()
    retried.takeUnpromised(of: batch)
    try store.write(retried)
    var stored = try #require(try store.load().first)
    #expect(stored.definition.settings.budget.capacity == 4 && stored.state.budget == level(-46))

    try store.write(batch)
    stored = try #require(try store.load().first)
    #expect(stored.state.budget == level(-47))
  }

  @Test func aSaveOfADeletedChannelKeepsNothing() throws {
    var batches = Batches(seed: 1)
    let store = try SQLiteChannelStore(path: folder.file)
    try store.write(batches.next(Ledger(), isPromised: true))
    let id = try #require(try store.load().first?.id)
    try store.write(.delete(id))
    try store.write(
      .save(id, ChannelChange(position: StreamPosition(epoch: "e", sequence: 1), waiting: [], answers: [])))
    #expect(try store.load().isEmpty)
    let database = store.database
    for table in ["channel_states", "newest_messages", "waiting_messages", "answered_requests"] {
      #expect(try database.number("SELECT count(*) FROM \(table)") == 0)
    }
  }

  // MARK: Versions

  /// A file as the first version wrote it.
  private static let version1 = [
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
    "PRAGMA application_id=1414284104",
    "PRAGMA user_version=1",
    """
    INSERT INTO channels VALUES
      (3, 'YQ==', 'final', '{"app":"com.example.scores","message-storage-policy":1}', 'e1', 7),
      (5, 'Yg==', NULL, '{"app":"com.example.scores"}', 'e2', 0)
    """,
    """
    INSERT INTO newest_messages VALUES ('YQ==', 'u6', 5, 1700000600, 'e1', 6, 1700000001.25,
      CAST('{"timestamp":1700000000,"event":"update","content-state":{"n":1.50}}' AS BLOB))
    """,
  ]

  private func makeVersion1() throws {
    let database = try SQLiteDatabase(path: folder.file)
    for statement in Self.version1 { try database.run(statement) }
  }

  @Test func aFileOfTheFirstVersionGoesOn() throws {
    try makeVersion1()
    for _ in 0..<2 {
      let channels = try SQLiteChannelStore(path: folder.file).load()
      #expect(channels.map(\.id.base64) == ["YQ==", "Yg=="])
      #expect(channels.map(\.state.position.description) == ["e1:7", "e2:0"])
      let newest = try #require(channels.first?.state.newest)
      #expect(newest.position.sequence == 6 && newest.message.expiration == .at(1_700_000_600))
      #expect(String(decoding: newest.message.payload.aps, as: UTF8.self).hasSuffix(#"{"n":1.50}}"#))
      #expect(
        channels.allSatisfy { $0.state.budget == nil && $0.state.waiting.isEmpty && $0.state.answers.isEmpty }
      )
    }
    // It goes on as any other, and numbers are not used again.
    let store = try SQLiteChannelStore(path: folder.file)
    try store.delete(#require(ChannelID("Yg==")))
    var batches = Batches(seed: 1)
    try store.write(batches.next(Ledger(), isPromised: true))
    #expect(try store.database.number("SELECT max(number) FROM channels") == 6)
    #expect(try store.database.number("PRAGMA user_version") == 2)
  }

  @Test func aFileThatCannotBeBroughtUpToDateStaysAsItWas() throws {
    try makeVersion1()
    do {
      let database = try SQLiteDatabase(path: folder.file)
      // In the way of a table of the new version.
      try database.run("CREATE VIEW waiting_messages AS SELECT 1")
    }
    #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file) }
    let database = try SQLiteDatabase(path: folder.file)
    #expect(try database.number("PRAGMA user_version") == 1)
    #expect(try database.number("SELECT sequence FROM channels WHERE id = 'YQ=='") == 7)
  }

  @Test func aFileOfTheFirstVersionWithARowThatCannotBeReadStaysAsItWas() throws {
    try makeVersion1()
    do {
      let database = try SQLiteDatabase(path: folder.file)
      try database.run("PRAGMA journal_mode=WAL")
      try database.run("UPDATE channels SET definition = '{' WHERE id = 'Yg=='")
    }
    let bytes = try folder.bytes()
    let refused = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file) }
    let text = refused?.description ?? ""
    #expect(text.contains("it is damaged (the definition of Yg== can't be read"), "\(text)")
    #expect(text.hasSuffix("this one was left as it is"), "\(text)")
    #expect(try folder.bytes() == bytes)
    #expect(try SQLiteDatabase(path: folder.file).number("PRAGMA user_version") == 1)
  }

  @Test func aPlaceWithoutAWriteAheadLogIsRefused() throws {
    let database = try SQLiteDatabase(path: ":memory:", vfs: "unix")
    let refused = #expect(throws: SQLiteDatabase.Failure.self) { try SQLiteChannelStore.prepare(database) }
    #expect(refused?.message == "it can't have a write-ahead log; choose a file on another disk")
  }

  // MARK: Damage

  /// A quarter of the file's pages is overwritten, but for the header in the first.
  @Test(arguments: [0, 1, 2, 3])
  func aDamagedFileIsRefusedWithWhatToDoAndLeftAsItIs(_ quarter: Int) throws {
    var batches = Batches(seed: 5)
    do {
      var ledger = Ledger()
      let store = try SQLiteChannelStore(path: folder.file)
      for _ in 0..<20 {
        let batch = try batches.next(ledger, isPromised: true)
        try store.write(batch)
        ledger.apply(batch)
      }
    }
    var bytes = [UInt8](try folder.bytes())
    let pages = bytes.count / 4_096
    #expect(pages > 8)
    for page in pages * quarter / 4..<pages * (quarter + 1) / 4 {
      let first = max(100, page * 4_096)
      for index in first..<first + 600 { bytes[index] = UInt8(truncatingIfNeeded: index &* 7 &+ 129) }
    }
    try Data(bytes).write(to: URL(fileURLWithPath: folder.file))
    let refused = #expect(throws: StoreError.self) {
      let store = try SQLiteChannelStore(path: folder.file)
      _ = try store.load()
    }
    let text = try #require(refused).description
    #expect(text.hasPrefix("the store \(folder.file) can't be used: it is damaged ("), "\(text)")
    #expect(
      text.hasSuffix(
        "put a backup in its place with deploy/backup, which takes its log away too, or choose another file; this one was left as it is"
      ))
    #expect(try [UInt8](folder.bytes()) == bytes)
  }

  @Test func aRowThatMakesNoSenseIsDamage() throws {
    var batches = Batches(seed: 1)
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      try store.write(batches.next(Ledger(), isPromised: true))
      try store.database.run("UPDATE channels SET definition = '{'")
    }
    let refused = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file).load() }
    #expect(refused?.description.contains("it is damaged (the definition of ") == true)
  }
}
