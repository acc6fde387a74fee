// A disk for SQLite that fails when it is told to, and loses what was not synced when its power goes.
//
// It is a VFS (https://www.sqlite.org/vfs.html) that keeps its files in memory. Each file has what a disk has for certain, and
// the writes and truncations since the last sync, which a disk may carry out in any order, in part, or not at all.

#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct faulty_disk faulty_disk;

/// How a disk fails.
enum faulty_disk_failure {
  FAULTY_DISK_WORKS,
  /// Writes fail with SQLITE_FULL.
  FAULTY_DISK_FULL,
  /// Writes fail with SQLITE_IOERR_WRITE.
  FAULTY_DISK_REFUSES_WRITES,
  /// Writes go through, and a sync fails with SQLITE_IOERR_FSYNC: what it was for is lost with the power.
  FAULTY_DISK_REFUSES_SYNCS,
  /// The same, and what it was for never reaches the disk, although it can be read: Linux takes pages that could not be written
  /// for written, so that the next sync succeeds without them.
  FAULTY_DISK_LOSES_SYNCS,
};

/// Makes an empty disk and registers it with SQLite under a name, not as the default.
faulty_disk *faulty_disk_make(const char *name, uint64_t seed);

/// Lets go of the disk. Nothing may be open on it.
void faulty_disk_free(faulty_disk *disk);

/// How it behaves from now on.
void faulty_disk_set(faulty_disk *disk, enum faulty_disk_failure failure);

/// The power goes at the n-th write, truncation or sync from now, 1 for the next one: that one and all after it fail.
void faulty_disk_power_fails_at(faulty_disk *disk, int64_t operation);

/// Whether the power is gone.
bool faulty_disk_is_dark(faulty_disk *disk);

/// The power comes back: of what was not synced, some sectors are there and some are not. Nothing may be open on the disk.
void faulty_disk_power_returns(faulty_disk *disk);

/// Syncs that succeeded so far.
int64_t faulty_disk_syncs(faulty_disk *disk);

/// Writes, truncations and syncs so far.
int64_t faulty_disk_operations(faulty_disk *disk);

/// Bytes in all files.
int64_t faulty_disk_bytes(faulty_disk *disk);

#endif
