import BroadcastChannels
import CFaultyDisk
import Foundation
import TestSupport
import Testing

@testable import ChannelStore

/// A disk that fails when a test says so.
final class FaultyDisk {
  let disk: OpaquePointer
  let name: String

  init(seed: UInt64 = 1) {
    name = "faulty-\(UUID())"
    disk = faulty_disk_make(name, seed)
  }

  deinit { faulty_disk_free(disk) }

  func open() throws -> SQLiteChannelStore { try SQLiteChannelStore(path: "channels.sqlite", vfs: name) }

  /// What a store that is opened now holds.
  func contents() throws -> String { Ledger.text(try open().load()) }
}

/// What a store promises when the power goes, by a disk that loses what was not synced.
///
/// `TOUCHLINE_SEED=17 swift test --filter PowerLossTests` runs seed 17 alone.
@Suite struct PowerLossTests {
  private static let seedsPerBatch: UInt64 = 15
  private static let replay = ProcessInfo.processInfo.environment["TOUCHLINE_SEED"].flatMap { UInt64($0) }

  @Test(arguments: 0..<8 as Range<UInt64>)
  func whatWasPromisedIsThereAndABatchIsThereWholeOrNotAtAll(_ batch: UInt64) throws {
    let seeds =
      Self.replay.map { batch == 0 ? $0..<$0 + 1 : 0..<0 }
      ?? batch * Self.seedsPerBatch..<(batch + 1) * Self.seedsPerBatch
    for seed in seeds {
      do { try lose(seed) } catch { Issue.record("TOUCHLINE_SEED=\(seed), \(error)") }
    }
  }

  /// Some lives of one disk, each ended by a loss of power.
  private func lose(_ seed: UInt64) throws {
    let disk = FaultyDisk(seed: seed)
    var batches = Batches(seed: seed)
    var ledger = Ledger()
    for life in 0..<5 {
      // What may be there: what was promised last, and everything after it.
      var candidates = [ledger]
      faulty_disk_power_fails_at(disk.disk, Int64(1 + batches.random.below(400)))
      var store: SQLiteChannelStore? = try? disk.open()
      // The log begins anew every few batches, not after the usual thousand pages.
      store?.mostFrames = 4 + batches.random.below(40)
      while let open = store, !faulty_disk_is_dark(disk.disk) {
        let isPromised = batches.random.chance(70)
        let batch = try batches.next(ledger, isPromised: isPromised)
        if batches.random.chance(8) { faulty_disk_set(disk.disk, Self.failures[batches.random.below(4)]) }
        do {
          try open.write(batch)
          ledger.apply(batch)
          candidates = batch.isPromised ? [ledger] : candidates + [ledger]
        } catch {
          // It was refused; whether the disk has it nobody knows.
          candidates.append(ledger.after(batch))
        }
        faulty_disk_set(disk.disk, FAULTY_DISK_WORKS)
      }
      store = nil
      faulty_disk_power_returns(disk.disk)
      let found = try disk.contents()
      guard let kept = candidates.last(where: { $0.text == found }) else {
        Issue.record("TOUCHLINE_SEED=\(seed), life \(life): found\n\(found)\nand not\n\(ledger.text)")
        return
      }
      ledger = kept
    }
  }

  private static let failures = [
    FAULTY_DISK_FULL, FAULTY_DISK_REFUSES_WRITES, FAULTY_DISK_REFUSES_SYNCS, FAULTY_DISK_LOSES_SYNCS,
  ]

  /// The judge is not blind: without the sync of a promise it finds losses.
  @Test func withoutSyncsPromisesAreLost() throws {
    var losses = 0
    for seed in 0..<20 as Range<UInt64> {
      let disk = FaultyDisk(seed: seed)
      var batches = Batches(seed: seed)
      var ledger = Ledger()
      var store: SQLiteChannelStore? = try disk.open()
      for _ in 0..<10 {
        var unpromised = StoreBatch()
        for change in try batches.next(ledger, isPromised: true).changes {
          unpromised.add(change, isPromised: false)
        }
        try store?.write(unpromised)
        ledger.apply(unpromised)
      }
      faulty_disk_power_fails_at(disk.disk, 1)
      store = nil
      faulty_disk_power_returns(disk.disk)
      if try disk.contents() != ledger.text { losses += 1 }
    }
    #expect(losses > 5)
  }
}

@Suite struct FailingDiskTests {
  private let disk = FaultyDisk()

  @Test(arguments: [
    FAULTY_DISK_FULL, FAULTY_DISK_REFUSES_WRITES, FAULTY_DISK_REFUSES_SYNCS, FAULTY_DISK_LOSES_SYNCS,
  ])
  func aBatchThatFailsChangesNothingAndLaterOnesWork(_ failure: faulty_disk_failure) throws {
    var batches = Batches(seed: 3)
    var ledger = Ledger()
    let store = try disk.open()
    for _ in 0..<20 {
      let batch = try batches.next(ledger, isPromised: true)
      try store.write(batch)
      ledger.apply(batch)
      faulty_disk_set(disk.disk, failure)
      let refused = try batches.next(ledger, isPromised: true)
      #expect(throws: StoreError.self) { try store.write(refused) }
      #expect(throws: StoreError.self) { try store.probe() }
      faulty_disk_set(disk.disk, FAULTY_DISK_WORKS)
      try store.probe()
      #expect(try Ledger.text(store.load()) == ledger.text)
    }
  }

  /// Writes a further batch, which is kept.
  private func write(
    _ batches: inout Batches, _ ledger: inout Ledger, to store: SQLiteChannelStore?, isPromised: Bool
  ) throws {
    let batch = try batches.next(ledger, isPromised: isPromised)
    try store?.write(batch)
    ledger.apply(batch)
  }

  /// Some batches that nobody waits for, then a promise whose sync is lost, then one that is kept.
  @Test func aPromiseAfterALostSyncStandsOnNothingThatTheDiskLacks() throws {
    var batches = Batches(seed: 4)
    var ledger = Ledger()
    var store: SQLiteChannelStore? = try disk.open()
    try write(&batches, &ledger, to: store, isPromised: true)
    for _ in 0..<3 { try write(&batches, &ledger, to: store, isPromised: false) }
    faulty_disk_set(disk.disk, FAULTY_DISK_LOSES_SYNCS)
    let refused = try batches.next(ledger, isPromised: true)
    #expect(throws: StoreError.self) { try store?.write(refused) }
    faulty_disk_set(disk.disk, FAULTY_DISK_WORKS)
    try write(&batches, &ledger, to: store, isPromised: true)
    faulty_disk_power_fails_at(disk.disk, 1)
    store = nil
    faulty_disk_power_returns(disk.disk)
    #expect(try disk.contents() == ledger.text)
  }

  /// The sync before a long log is written into the file is nobody's promise, and yet later ones stand on what it was for.
  @Test func aSyncThatIsLostWithALongLogIsNoticed() throws {
    var batches = Batches(seed: 6)
    var ledger = Ledger()
    var store: SQLiteChannelStore? = try disk.open()
    try write(&batches, &ledger, to: store, isPromised: true)
    store?.mostFrames = 1
    faulty_disk_set(disk.disk, FAULTY_DISK_LOSES_SYNCS)
    try write(&batches, &ledger, to: store, isPromised: false)
    faulty_disk_set(disk.disk, FAULTY_DISK_WORKS)
    store?.mostFrames = 1_000
    try write(&batches, &ledger, to: store, isPromised: true)
    faulty_disk_power_fails_at(disk.disk, 1)
    store = nil
    faulty_disk_power_returns(disk.disk)
    #expect(try disk.contents() == ledger.text)
  }

  @Test func aLongLogIsWrittenIntoTheFile() throws {
    var batches = Batches(seed: 2)
    var ledger = Ledger()
    let store = try disk.open()
    store.mostFrames = 8
    for _ in 0..<60 {
      let batch = try batches.next(ledger, isPromised: true)
      try store.write(batch)
      ledger.apply(batch)
      // The last batch's pages, and what came before it.
      #expect(store.database.logFrames < 60)
    }
    #expect(try Ledger.text(store.load()) == ledger.text)
  }

  @Test func aFullDiskIsSaidToBeFull() throws {
    let store = try disk.open()
    faulty_disk_set(disk.disk, FAULTY_DISK_FULL)
    var batches = Batches(seed: 1)
    let batch = try batches.next(Ledger(), isPromised: true)
    let refused = #expect(throws: StoreError.self) { try store.write(batch) }
    #expect(
      refused?.description
        == "the store failed to write a change: database or disk is full (channels.sqlite)")
    withExtendedLifetime(store) {}
    let none = FaultyDisk()
    faulty_disk_set(none.disk, FAULTY_DISK_FULL)
    let unusable = #expect(throws: StoreError.self) { try none.open() }
    #expect(unusable?.description.contains("the disk is full; make room") == true)
  }

  @Test func aPromisedBatchCostsOneSyncWhateverItsSizeAndAnUnpromisedNone() throws {
    let store = try disk.open()
    var batches = Batches(seed: 1)
    var ledger = Ledger()
    for _ in 0..<4 {
      let batch = try batches.next(ledger, isPromised: true)
      try store.write(batch)
      ledger.apply(batch)
    }
    var many = StoreBatch()
    for _ in 0..<100 {
      for change in try batches.next(ledger, isPromised: false).changes { many.add(change, isPromised: true) }
    }
    let before = faulty_disk_syncs(disk.disk)
    try store.write(many)
    #expect(faulty_disk_syncs(disk.disk) == before + 1)
    try store.write(batches.next(ledger, isPromised: false))
    #expect(faulty_disk_syncs(disk.disk) == before + 1)
  }
}
