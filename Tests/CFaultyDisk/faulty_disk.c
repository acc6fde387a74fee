#include "faulty_disk.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

// What a disk writes as one.
#define SECTOR 512
#define FILES 16

// A write, or a truncation where there are no bytes.
typedef struct change {
  struct change *next;
  sqlite3_int64 offset;
  int count;
  bool is_truncation;
  unsigned char bytes[];
} change;

typedef struct image {
  unsigned char *bytes;
  sqlite3_int64 count, room;
} image;

typedef struct file {
  char *name;
  bool exists;
  // What is read, and what the disk has for certain.
  image current, certain;
  change *first, **last;
} file;

struct faulty_disk {
  sqlite3_vfs vfs;
  char *name;
  pthread_mutex_t lock;
  file files[FILES];
  enum faulty_disk_failure failure;
  uint64_t random;
  int64_t operations, syncs, dark_at;
  bool is_dark;
};

typedef struct handle {
  sqlite3_file base;
  faulty_disk *disk;
  file *file;
} handle;

// SplitMix64.
static uint64_t next_random(faulty_disk *disk) {
  uint64_t z = (disk->random += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static void grow(image *image, sqlite3_int64 count) {
  if (count > image->room) {
    sqlite3_int64 room = count * 2;
    image->bytes = realloc(image->bytes, (size_t)room);
    memset(image->bytes + image->room, 0, (size_t)(room - image->room));
    image->room = room;
  }
  if (count > image->count) image->count = count;
}

static void put(image *image, sqlite3_int64 offset, const unsigned char *bytes, int count) {
  grow(image, offset + count);
  memcpy(image->bytes + offset, bytes, (size_t)count);
}

static void cut(image *image, sqlite3_int64 count) {
  if (count >= image->count) return;
  memset(image->bytes + count, 0, (size_t)(image->count - count));
  image->count = count;
}

static void copy(image *to, const image *from) {
  cut(to, 0);
  if (from->count > 0) put(to, 0, from->bytes, (int)from->count);
}

static void forget_changes(file *file) {
  while (file->first) {
    change *gone = file->first;
    file->first = gone->next;
    free(gone);
  }
  file->last = &file->first;
}

static void add_change(file *file, sqlite3_int64 offset, const void *bytes, int count, bool is_truncation) {
  change *added = malloc(sizeof(change) + (size_t)count);
  added->next = NULL;
  added->offset = offset;
  added->count = count;
  added->is_truncation = is_truncation;
  if (count > 0) memcpy(added->bytes, bytes, (size_t)count);
  *file->last = added;
  file->last = &added->next;
}

// The disk has what was written since the last sync.
static void carry_out(file *file) {
  for (change *change = file->first; change; change = change->next) {
    if (change->is_truncation) {
      cut(&file->certain, change->offset);
    } else {
      put(&file->certain, change->offset, change->bytes, change->count);
    }
  }
}

// Whether the power is still there for another operation.
static bool has_power(faulty_disk *disk) {
  disk->operations += 1;
  if (disk->dark_at && disk->operations >= disk->dark_at) disk->is_dark = true;
  return !disk->is_dark;
}

// Files.

static int disk_close(sqlite3_file *base) { return SQLITE_OK; }

static int disk_read(sqlite3_file *base, void *bytes, int count, sqlite3_int64 offset) {
  handle *handle = (struct handle *)base;
  pthread_mutex_lock(&handle->disk->lock);
  image *image = &handle->file->current;
  sqlite3_int64 there = image->count - offset;
  if (there < 0) there = 0;
  if (there > count) there = count;
  if (there > 0) memcpy(bytes, image->bytes + offset, (size_t)there);
  memset((char *)bytes + there, 0, (size_t)(count - there));
  bool is_dark = handle->disk->is_dark;
  pthread_mutex_unlock(&handle->disk->lock);
  if (is_dark) return SQLITE_IOERR_READ;
  return there < count ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int disk_write(sqlite3_file *base, const void *bytes, int count, sqlite3_int64 offset) {
  handle *handle = (struct handle *)base;
  faulty_disk *disk = handle->disk;
  int result = SQLITE_OK;
  pthread_mutex_lock(&disk->lock);
  if (disk->failure == FAULTY_DISK_FULL) result = SQLITE_FULL;
  if (disk->failure == FAULTY_DISK_REFUSES_WRITES) result = SQLITE_IOERR_WRITE;
  if (result == SQLITE_OK) {
    bool was_dark = disk->is_dark;
    if (!has_power(disk)) result = SQLITE_IOERR_WRITE;
    // The write during which the power went may have reached the disk in part.
    if (!was_dark) {
      add_change(handle->file, offset, bytes, count, false);
      put(&handle->file->current, offset, bytes, count);
    }
  }
  pthread_mutex_unlock(&disk->lock);
  return result;
}

static int disk_truncate(sqlite3_file *base, sqlite3_int64 count) {
  handle *handle = (struct handle *)base;
  faulty_disk *disk = handle->disk;
  pthread_mutex_lock(&disk->lock);
  bool works = has_power(disk);
  if (works) {
    add_change(handle->file, count, NULL, 0, true);
    cut(&handle->file->current, count);
  }
  pthread_mutex_unlock(&disk->lock);
  return works ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
}

static int disk_sync(sqlite3_file *base, int flags) {
  handle *handle = (struct handle *)base;
  faulty_disk *disk = handle->disk;
  pthread_mutex_lock(&disk->lock);
  bool is_powered = has_power(disk);
  bool works = is_powered && disk->failure != FAULTY_DISK_REFUSES_SYNCS && disk->failure != FAULTY_DISK_LOSES_SYNCS;
  if (works) {
    disk->syncs += 1;
    carry_out(handle->file);
  }
  if (works || (is_powered && disk->failure == FAULTY_DISK_LOSES_SYNCS)) forget_changes(handle->file);
  pthread_mutex_unlock(&disk->lock);
  return works ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int disk_size(sqlite3_file *base, sqlite3_int64 *count) {
  handle *handle = (struct handle *)base;
  pthread_mutex_lock(&handle->disk->lock);
  *count = handle->file->current.count;
  pthread_mutex_unlock(&handle->disk->lock);
  return SQLITE_OK;
}

// One process, one connection: locks mean nothing here.
static int disk_lock(sqlite3_file *base, int kind) { return SQLITE_OK; }

static int disk_reserved(sqlite3_file *base, int *result) {
  *result = 0;
  return SQLITE_OK;
}

static int disk_control(sqlite3_file *base, int operation, void *argument) { return SQLITE_NOTFOUND; }

static int disk_sector_size(sqlite3_file *base) { return 4096; }

// As the unix VFS says: a write that is cut off damages nothing beside it.
static int disk_characteristics(sqlite3_file *base) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = disk_close,
    .xRead = disk_read,
    .xWrite = disk_write,
    .xTruncate = disk_truncate,
    .xSync = disk_sync,
    .xFileSize = disk_size,
    .xLock = disk_lock,
    .xUnlock = disk_lock,
    .xCheckReservedLock = disk_reserved,
    .xFileControl = disk_control,
    .xSectorSize = disk_sector_size,
    .xDeviceCharacteristics = disk_characteristics,
};

// The disk.

static file *find(faulty_disk *disk, const char *name, bool makes) {
  file *unused = NULL;
  for (int i = 0; i < FILES; i++) {
    if (disk->files[i].name && !strcmp(disk->files[i].name, name)) return &disk->files[i];
    if (!disk->files[i].name && !unused) unused = &disk->files[i];
  }
  if (!makes || !unused) return NULL;
  unused->name = strdup(name);
  unused->last = &unused->first;
  return unused;
}

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out) {
  faulty_disk *disk = vfs->pAppData;
  handle *handle = (struct handle *)base;
  base->pMethods = NULL;
  pthread_mutex_lock(&disk->lock);
  file *file = disk->is_dark ? NULL : find(disk, name ? name : "temporary", (flags & SQLITE_OPEN_CREATE) != 0);
  if (file && !file->exists && !(flags & SQLITE_OPEN_CREATE)) file = NULL;
  if (file) {
    file->exists = true;
    base->pMethods = &methods;
    handle->disk = disk;
    handle->file = file;
    if (out) *out = flags;
  }
  pthread_mutex_unlock(&disk->lock);
  return file ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int sync_folder) {
  faulty_disk *disk = vfs->pAppData;
  pthread_mutex_lock(&disk->lock);
  file *file = disk->is_dark ? NULL : find(disk, name, false);
  bool works = file && file->exists && has_power(disk);
  if (works) {
    forget_changes(file);
    cut(&file->current, 0);
    cut(&file->certain, 0);
    file->exists = false;
  }
  pthread_mutex_unlock(&disk->lock);
  return works ? SQLITE_OK : SQLITE_IOERR_DELETE;
}

static int disk_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
  faulty_disk *disk = vfs->pAppData;
  pthread_mutex_lock(&disk->lock);
  file *file = find(disk, name, false);
  *result = file && file->exists && (flags != SQLITE_ACCESS_EXISTS || file->current.count > 0);
  pthread_mutex_unlock(&disk->lock);
  return SQLITE_OK;
}

static int disk_full_name(sqlite3_vfs *vfs, const char *name, int count, char *out) {
  sqlite3_snprintf(count, out, "%s", name);
  return SQLITE_OK;
}

static sqlite3_vfs *system_vfs(void) { return sqlite3_vfs_find("unix"); }

static int disk_random(sqlite3_vfs *vfs, int count, char *out) {
  return system_vfs()->xRandomness(system_vfs(), count, out);
}

static int disk_sleep(sqlite3_vfs *vfs, int microseconds) { return microseconds; }

static int disk_time(sqlite3_vfs *vfs, double *now) { return system_vfs()->xCurrentTime(system_vfs(), now); }

faulty_disk *faulty_disk_make(const char *name, uint64_t seed) {
  faulty_disk *disk = calloc(1, sizeof(faulty_disk));
  disk->name = strdup(name);
  disk->random = seed;
  pthread_mutex_init(&disk->lock, NULL);
  sqlite3_vfs vfs = {
      .iVersion = 1,
      .szOsFile = sizeof(handle),
      .mxPathname = 512,
      .zName = disk->name,
      .pAppData = disk,
      .xOpen = disk_open,
      .xDelete = disk_delete,
      .xAccess = disk_access,
      .xFullPathname = disk_full_name,
      .xRandomness = disk_random,
      .xSleep = disk_sleep,
      .xCurrentTime = disk_time,
  };
  disk->vfs = vfs;
  sqlite3_vfs_register(&disk->vfs, 0);
  return disk;
}

void faulty_disk_free(faulty_disk *disk) {
  sqlite3_vfs_unregister(&disk->vfs);
  for (int i = 0; i < FILES; i++) {
    if (!disk->files[i].name) continue;
    forget_changes(&disk->files[i]);
    free(disk->files[i].current.bytes);
    free(disk->files[i].certain.bytes);
    free(disk->files[i].name);
  }
  pthread_mutex_destroy(&disk->lock);
  free(disk->name);
  free(disk);
}

void faulty_disk_set(faulty_disk *disk, enum faulty_disk_failure failure) {
  pthread_mutex_lock(&disk->lock);
  disk->failure = failure;
  pthread_mutex_unlock(&disk->lock);
}

void faulty_disk_power_fails_at(faulty_disk *disk, int64_t operation) {
  pthread_mutex_lock(&disk->lock);
  disk->dark_at = disk->operations + operation;
  pthread_mutex_unlock(&disk->lock);
}

bool faulty_disk_is_dark(faulty_disk *disk) {
  pthread_mutex_lock(&disk->lock);
  bool is_dark = disk->is_dark;
  pthread_mutex_unlock(&disk->lock);
  return is_dark;
}

// A sector of a write is there or not, whatever became of the others. All, none, or half of them: each is a kind of disk.
static void carry_out_some(faulty_disk *disk, file *file) {
  uint64_t likely = next_random(disk) % 3;
  for (change *change = file->first; change; change = change->next) {
    if (change->is_truncation) {
      if (next_random(disk) % 2 < likely) cut(&file->certain, change->offset);
      continue;
    }
    for (int from = 0; from < change->count;) {
      int upto = from + SECTOR - (int)((change->offset + from) % SECTOR);
      if (upto > change->count) upto = change->count;
      if (next_random(disk) % 2 < likely) {
        put(&file->certain, change->offset + from, change->bytes + from, upto - from);
      }
      from = upto;
    }
  }
}

void faulty_disk_power_returns(faulty_disk *disk) {
  pthread_mutex_lock(&disk->lock);
  for (int i = 0; i < FILES; i++) {
    file *file = &disk->files[i];
    if (!file->name) continue;
    carry_out_some(disk, file);
    forget_changes(file);
    copy(&file->current, &file->certain);
  }
  disk->is_dark = false;
  disk->dark_at = 0;
  pthread_mutex_unlock(&disk->lock);
}

int64_t faulty_disk_syncs(faulty_disk *disk) {
  pthread_mutex_lock(&disk->lock);
  int64_t count = disk->syncs;
  pthread_mutex_unlock(&disk->lock);
  return count;
}

int64_t faulty_disk_operations(faulty_disk *disk) {
  pthread_mutex_lock(&disk->lock);
  int64_t count = disk->operations;
  pthread_mutex_unlock(&disk->lock);
  return count;
}

int64_t faulty_disk_bytes(faulty_disk *disk) {
  int64_t count = 0;
  pthread_mutex_lock(&disk->lock);
  for (int i = 0; i < FILES; i++) count += disk->files[i].current.count;
  pthread_mutex_unlock(&disk->lock);
  return count;
}
