import BroadcastChannels
import Foundation
import Testing

@testable import ChannelStore

/// A folder of its own for one test.
final class TestFolder {
  let path = FileManager.default.temporaryDirectory.appendingPathComponent("channel-store-\(UUID())").path

  init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  var file: String { "\(path)/channels.sqlite" }

  var names: [String] { get throws { try FileManager.default.contentsOfDirectory(atPath: path).sorted() } }

  func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: file)) }
}

@Suite struct SQLiteChannelStoreTests {
  private let folder: TestFolder

  init() throws { folder = try TestFolder() }

  /// Spacing, key order, 1.50, escapes and a number beyond floating point: nothing that a store may tidy up.
  private static let oddBytes =
    #"{ "timestamp":1700000000, "event":"update","content-state":{"z":1.50,"a":"\u00e9\/é", "n":9007199254740993,"#
    + "\n\t\"e\":1E2}}"

  private func channel(_ base64: String, alias: String? = nil, policy: Int = 1) throws -> StoredChannel {
    let json = #"{"app":"com.example.scores","message-storage-policy":\#(policy)}"#
    let name = try alias.map { try #require(ChannelAlias($0)) }
    return StoredChannel(
      id: try #require(ChannelID(base64)),
      definition: try ChannelDefinition(file: Array(json.utf8), alias: name),
      state: ChannelState(position: StreamPosition(epoch: "e1", sequence: 0)))
  }

  private func delivery(
    sequence: Int, expiration: Int64 = 1_700_000_600, aps: String = oddBytes
  ) throws -> Delivery {
    Delivery(
      message: Message(
        uniqueID: UniqueID(text: "unique-\(sequence)"), requestID: nil, priority: .considerate,
        expiration: try #require(Expiration(unixSeconds: expiration)),
        payload: try Payload(body: Array("{\"aps\":\(aps)}".utf8))),
      position: StreamPosition(epoch: "e1", sequence: sequence),
      sent: Date(timeIntervalSince1970: 1_700_000_001.25))
  }

  // MARK: Keeping

  @Test("a new file and its log are for this user alone; one that is there keeps its mode")
  func modes() throws {
    func mode(_ path: String) throws -> Int? {
      try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      try store.create(channel("YQ=="))
      for name in try folder.names { #expect(try mode("\(folder.path)/\(name)") == 0o600, "\(name)") }
      #expect(try folder.names.count >= 2)
    }
    try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: folder.file)
    let store = try SQLiteChannelStore(path: folder.file)
    #expect(try store.load().count == 1)
    #expect(try mode(folder.file) == 0o640)
  }

  @Test(
    "names that are no files to SQLite are refused",
    arguments: [":memory:", "file::memory:", "file:x?mode=memory", ":x"])
  func namesOfNoFile(_ name: String) throws {
    let error = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: name) }
    let text = error.map { "\($0)" } ?? ""
    #expect(text.contains("write \"memory\"") && text.contains("\"./\(name)\""), "\(text)")
  }

  @Test("a log without its file, or with an empty one, is refused, and stays", arguments: [nil, 0, 1])
  func loneLog(_ bytes: Int?) throws {
    let log = "\(folder.file)-wal"
    let manager = FileManager.default
    #expect(manager.createFile(atPath: log, contents: Data(repeating: 7, count: 4_152)))
    if let bytes { #expect(manager.createFile(atPath: folder.file, contents: Data(count: bytes))) }
    let error = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file) }
    #expect(try #require(error).description.contains("its log"))
    #expect(manager.contents(atPath: log) == Data(repeating: 7, count: 4_152))
    #expect(manager.contents(atPath: folder.file)?.count == bytes)
  }

  @Test func aNewFileHoldsNothing() throws {
    #expect(try SQLiteChannelStore(path: folder.file).load().isEmpty)
  }

  @Test func channelsComeBackInTheOrderOfTheirCreation() throws {
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      for (id, alias) in [("Yg==", "b"), ("YQ==", nil), ("Yw==", "a")] {
        try store.create(channel(id, alias: alias))
      }
    }
    let loaded = try SQLiteChannelStore(path: folder.file).load()
    #expect(loaded.map(\.id.base64) == ["Yg==", "YQ==", "Yw=="])
    #expect(loaded.map(\.definition.alias?.name) == ["b", nil, "a"])
    #expect(
      loaded.allSatisfy {
        $0.state.position == StreamPosition(epoch: "e1", sequence: 0) && $0.state.newest == nil
      })
  }

  @Test func aDefinitionComesBackWhole() throws {
    let text = """
      {"app": "com.example.scores", "message-storage-policy": 1, "frequent-updates": true,
       "budget": {"capacity": null, "refill-per-hour": 240, "over-budget": "reject"},
       "windows": {"5": 0.25, "1": 60}, "publish-rate": {"per-second": 0.5, "burst": 3},
       "attributes-type": "Match", "attributes": {"home": "É \\"x\\" \\n", "n": 1.50},
       "content-state": {"home": "Int", "scorers": "[String]", "clock": {"at": "Date?"}},
       "presentations": {"minimal": "{home}–{away}", "lock-screen": "a\\nb"}}
      """
    let definition = try ChannelDefinition(file: Array(text.utf8), alias: ChannelAlias("final"))
    let id = try #require(ChannelID("YQ=="))
    let position = StreamPosition(epoch: "e", sequence: 3)
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      try store.create(StoredChannel(id: id, definition: definition, state: ChannelState(position: position)))
    }
    #expect(try SQLiteChannelStore(path: folder.file).load().map(\.definition) == [definition])
  }

  @Test func theNewestMessageComesBackByteForByte() throws {
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      try store.create(channel("YQ=="))
      let newest = try delivery(sequence: 7)
      try store.save(#require(ChannelID("YQ==")), position: newest.position, newest: newest)
    }
    let loaded = try #require(try SQLiteChannelStore(path: folder.file).load().first)
    let newest = try #require(loaded.state.newest)
    #expect(loaded.state.position == StreamPosition(epoch: "e1", sequence: 7))
    #expect(String(decoding: newest.message.payload.aps, as: UTF8.self) == Self.oddBytes)
    #expect(newest.message.uniqueID.text == "unique-7" && newest.message.priority == .considerate)
    #expect(newest.message.expiration == .at(1_700_000_600))
    #expect(newest.position == StreamPosition(epoch: "e1", sequence: 7))
    #expect(newest.sent == Date(timeIntervalSince1970: 1_700_000_001.25))
  }

  @Test func aNewerMessageReplacesTheOlderAndAPositionAloneReplacesNothing() throws {
    let id = try #require(ChannelID("YQ=="))
    do {
      let store = try SQLiteChannelStore(path: folder.file)
      try store.create(channel("YQ=="))
      for sequence in [1, 2] {
        let newest = try delivery(sequence: sequence)
        try store.save(id, position: newest.position, newest: newest)
      }
      try store.save(id, position: StreamPosition(epoch: "e1", sequence: 9), newest: nil)
    }
    let loaded = try #require(try SQLiteChannelStore(path: folder.file).load().first)
    #expect(loaded.state.position.sequence == 9)
    #expect(loaded.state.newest?.message.uniqueID.text == "unique-2")
    #expect(loaded.state.newest?.position.sequence == 2)
  }

  @Test func aDeletedChannelTakesItsMessageAlong() throws {
    let id = try #require(ChannelID("YQ=="))
    let store = try SQLiteChannelStore(path: folder.file)
    try store.create(channel("YQ==", alias: "final"))
    try store.save(id, position: StreamPosition(epoch: "e1", sequence: 1), newest: delivery(sequence: 1))
    try store.delete(id)
    #expect(try store.load().isEmpty)
    // The alias is free again, and no old message shows up under a new channel.
    try store.create(channel("YQ==", alias: "final"))
    #expect(try store.load().map { $0.state.newest == nil } == [true])
  }

  @Test func whatACallReturnedFromSurvivesTheProcess() throws {
    let store = try SQLiteChannelStore(path: folder.file)
    try store.create(channel("YQ=="))
    let newest = try delivery(sequence: 4)
    try store.save(#require(ChannelID("YQ==")), position: newest.position, newest: newest)
    // The files as kill -9 would leave them: nobody closed the store.
    let crashed = try TestFolder()
    for name in try folder.names {
      try FileManager.default.copyItem(atPath: "\(folder.path)/\(name)", toPath: "\(crashed.path)/\(name)")
    }
    let loaded = try SQLiteChannelStore(path: crashed.file).load()
    #expect(loaded.map(\.state.newest?.position.sequence) == [4])
    withExtendedLifetime(store) {}
  }

  // MARK: Failing

  @Test func aSecondChannelOfTheSameIdOrAliasThrows() throws {
    let store = try SQLiteChannelStore(path: folder.file)
    try store.create(channel("YQ==", alias: "a"))
    #expect(throws: StoreError.self) { try store.create(channel("YQ==", alias: "b")) }
    #expect(throws: StoreError.self) { try store.create(channel("Yg==", alias: "a")) }
    #expect(try store.load().count == 1)
  }

  @Test func aFailedSaveThrowsAndChangesNothing() throws {
    let store = try SQLiteChannelStore(path: folder.file)
    try store.create(channel("YQ=="))
    var batch = StoreBatch()
    try batch.add(
      .save(
        #require(ChannelID("YQ==")),
        ChannelChange(position: StreamPosition(epoch: "e1", sequence: 1), newest: delivery(sequence: 1))),
      isPromised: true)
    try batch.add(.create(channel("YQ==")), isPromised: true)
    let failure = #expect(throws: StoreError.self) { try store.write(batch) }
    #expect(failure?.description.hasPrefix("the store failed to write 2 changes: ") == true)
    #expect(try store.load().map(\.state.position.sequence) == [0])
    // The failed transaction is over: the next one works.
    let newest = try delivery(sequence: 2)
    try store.save(#require(ChannelID("YQ==")), position: newest.position, newest: newest)
    #expect(try store.load().map(\.state.newest?.position.sequence) == [2])
  }

  // MARK: Refusing

  @Test func aSecondServerOnTheFileIsToldWhoHoldsIt() throws {
    let store = try SQLiteChannelStore(path: folder.file)
    let refused = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file) }
    #expect(
      refused?.description
        == "the store \(folder.file) can't be used: another server is using it; stop that one, or choose another file, or memory"
    )
    try store.create(channel("YQ=="))
    #expect(try store.load().count == 1)
  }

  @Test func aClosedFileIsFreeAgain() throws {
    for _ in 0..<3 { _ = try SQLiteChannelStore(path: folder.file).load() }
    #expect(try folder.names == ["channels.sqlite"])
  }

  /// What may stand where a store was expected, and what the refusal says.
  enum Stranger: CaseIterable {
    case anotherProgram, anotherProgramWithWriteAheadLog, newerSchema, garbage, cutOff

    var words: String {
      switch self {
      case .anotherProgram, .anotherProgramWithWriteAheadLog: "another program"
      case .newerSchema: "newer Touchline"
      case .garbage, .cutOff: "left as it is"
      }
    }

    func make(at path: String) throws {
      switch self {
      case .anotherProgram, .anotherProgramWithWriteAheadLog:
        let database = try SQLiteDatabase(path: path)
        if self == .anotherProgramWithWriteAheadLog { try database.run("PRAGMA journal_mode=WAL") }
        try database.run("CREATE TABLE channels (id TEXT)")
        try database.run("INSERT INTO channels VALUES ('theirs')")
      case .newerSchema:
        _ = try SQLiteChannelStore(path: path)
        try SQLiteDatabase(path: path).run("PRAGMA user_version=3")
      case .garbage:
        let text = String(repeating: "no database, but somebody's notes\n", count: 200)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
      case .cutOff:
        try Data("SQLite format 3\0".utf8).write(to: URL(fileURLWithPath: path))
      }
    }
  }

  @Test(arguments: Stranger.allCases)
  func aFileThatIsNoStoreIsRefusedAndLeftAsItWas(_ stranger: Stranger) throws {
    try stranger.make(at: folder.file)
    let before = try folder.bytes()
    let refused = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: folder.file) }
    let text = try #require(refused).description
    #expect(text.hasPrefix("the store \(folder.file) can't be used: ") && text.contains(stranger.words))
    #expect(try folder.bytes() == before)
    #expect(try folder.names == ["channels.sqlite"])
  }

  @Test(arguments: [false, true])
  func aRefusedFileKeepsItsLogAlsoBehindASymlink(_ isLinked: Bool) throws {
    let database = try SQLiteDatabase(path: folder.file)
    try database.run("PRAGMA journal_mode=WAL")
    try database.run("CREATE TABLE channels (id TEXT)")
    // As kill -9 of the other program would leave them.
    let left = try TestFolder()
    let names = ["channels.sqlite", "channels.sqlite-wal"]
    for name in names {
      try FileManager.default.copyItem(atPath: "\(folder.path)/\(name)", toPath: "\(left.path)/\(name)")
    }
    withExtendedLifetime(database) {}
    let link = "\(folder.path)/link.sqlite"
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: left.file)
    let contents = { try names.map { try Data(contentsOf: URL(fileURLWithPath: "\(left.path)/\($0)")) } }
    let before = try contents()
    #expect(throws: StoreError.self) { try SQLiteChannelStore(path: isLinked ? link : left.file) }
    #expect(try left.names == names && contents() == before)
  }

  @Test(arguments: ["/proc/channels.sqlite", "missing/channels.sqlite", "."])
  func aPlaceThatCannotBeWrittenIsRefused(_ place: String) throws {
    let path = place.hasPrefix("/") ? place : "\(folder.path)/\(place)"
    let refused = #expect(throws: StoreError.self) { try SQLiteChannelStore(path: path) }
    #expect(
      refused?.description
        == "the store \(path) can't be used: it can't be opened or made; does the folder exist, and may this user write there?"
    )
    #expect(try folder.names.isEmpty)
  }
}

@Suite struct MemoryChannelStoreTests {
  @Test func nothingOutlivesTheProcess() throws {
    let store = MemoryChannelStore()
    let id = try #require(ChannelID("YQ=="))
    let definition = ChannelDefinition(settings: ChannelSettings(app: .scores))
    let position = StreamPosition(epoch: "e", sequence: 1)
    try store.create(StoredChannel(id: id, definition: definition, state: ChannelState(position: position)))
    try store.save(id, position: position, newest: nil)
    try store.delete(id)
    #expect(try store.load().isEmpty)
  }
}

extension ChannelStore {
  /// Writes one change, as a promise.
  func write(_ change: StoreChange) throws {
    var batch = StoreBatch()
    batch.add(change, isPromised: true)
    try write(batch)
  }

  func create(_ channel: StoredChannel) throws { try write(.create(channel)) }

  func delete(_ id: ChannelID) throws { try write(.delete(id)) }

  func save(_ id: ChannelID, position: StreamPosition, newest: Delivery?) throws {
    try write(.save(id, ChannelChange(position: position, newest: newest)))
  }
}
