#include "store/pack.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/text.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/evict.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPORARY "tmp.kilnpack."

enum {
    PACK_VERSION = 1,
    AT_VERSION = 8,
    AT_TOTAL = 16,
    AT_COUNT = 24,
    HEADER_SIZE = 32,
    ROW_TOOLCHAIN = KILN__DIGEST_SIZE,
    ROW_OFFSET = ROW_TOOLCHAIN + KILN__ENTRY_TOOLCHAIN_SIZE,
    ROW_LENGTH = ROW_OFFSET + 8,
    ROW_CHECKSUM = ROW_LENGTH + 8,
    ROW_SIZE = ROW_CHECKSUM + KILN__CHECKSUM_SIZE
};

static const uint8_t magic[8] = { 'K', 'I', 'L', 'N', 'P', 'C', 'K', '\n' };

typedef enum pack_cause { CAUSE_DAMAGED, CAUSE_UNTRUSTED, CAUSE_ERROR } pack_cause;

typedef struct pack_store {
    kiln__store base;
    const kiln__log *log;
    kiln__store_counters *counters;
    char *path;
    int fd;
    size_t count;
    uint64_t rows_at;   /* offset of the index */
    uint64_t *prefixes; /* the first 8 bytes of each row's digest, as a big-endian number: they sort as digests do */
    atomic_uint warned; /* one bit per cause */
} pack_store;

typedef struct pack_row {
    kiln__key key;
    uint64_t offset, length;
    uint8_t checksum[KILN__CHECKSUM_SIZE]; /* the entry's own, its last bytes */
} pack_row;

static const char *const advice[] = {
    [CAUSE_DAMAGED] = "what it lacks is compiled; write it again with kiln cache export",
    [CAUSE_UNTRUSTED] = "it is not used; it must be a regular file of yours or root's that nobody else can write",
    [CAUSE_ERROR] = "what it holds is compiled; check its path and its permissions",
};

static const kiln__miss misses[] = {
    [CAUSE_DAMAGED] = KILN__MISS_DAMAGED,
    [CAUSE_UNTRUSTED] = KILN__MISS_UNTRUSTED,
    [CAUSE_ERROR] = KILN__MISS_ERROR,
};

static void note(pack_store *store, pack_cause cause, const char *text, kiln__miss *why)
{
    kiln__miss_raise(why, misses[cause]);
    atomic_uint_least64_t *counter = cause == CAUSE_DAMAGED     ? &store->counters->damaged
                                     : cause == CAUSE_UNTRUSTED ? &store->counters->untrusted
                                                                : &store->counters->errors;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    unsigned bit = 1u << cause;
    if ((atomic_fetch_or_explicit(&store->warned, bit, memory_order_relaxed) & bit) == 0)
        kiln__log_line(store->log, KILN_LOG_WARN, "pack %s: %s; %s", store->path, text, advice[cause]);
}

static const char *error_text(int error)
{
    const char *text = strerrordesc_np(-error);
    return text ? text : "unknown error";
}

static uint64_t prefix_of(const uint8_t *digest)
{
    uint64_t prefix = 0;
    for (int i = 0; i < 8; i++)
        prefix = prefix << 8 | digest[i];
    return prefix;
}

static int compare_keys(const void *a, const void *b)
{
    const kiln__key *x = a, *y = b;
    int order = memcmp(x->digest, y->digest, sizeof x->digest);
    return order != 0 ? order : kiln__toolchain_compare(x->toolchain, y->toolchain);
}

/* False unless the row could have been written by write_row; where it points is checked by the caller. */
static bool read_row(pack_row *out, const uint8_t *from)
{
    const char *toolchain = (const char *)from + ROW_TOOLCHAIN;
    size_t length = strnlen(toolchain, KILN__ENTRY_TOOLCHAIN_SIZE);
    memcpy(out->key.digest, from, sizeof out->key.digest);
    memcpy(out->key.toolchain, toolchain, sizeof out->key.toolchain);
    out->offset = kiln__read_u64(from + ROW_OFFSET);
    out->length = kiln__read_u64(from + ROW_LENGTH);
    memcpy(out->checksum, from + ROW_CHECKSUM, sizeof out->checksum);
    for (size_t i = length; i < KILN__ENTRY_TOOLCHAIN_SIZE; i++)
        if (toolchain[i] != '\0')
            return false;
    return length > 0 && length < KILN__ENTRY_TOOLCHAIN_SIZE && out->length >= KILN__CHECKSUM_SIZE &&
           out->length % 8 == 0 && out->length <= KILN__ENTRY_MAX_BYTES;
}

static void write_row(uint8_t *to, const pack_row *row)
{
    memcpy(to, row->key.digest, sizeof row->key.digest);
    memcpy(to + ROW_TOOLCHAIN, row->key.toolchain, sizeof row->key.toolchain);
    kiln__write_u64(to + ROW_OFFSET, row->offset);
    kiln__write_u64(to + ROW_LENGTH, row->length);
    memcpy(to + ROW_CHECKSUM, row->checksum, sizeof row->checksum);
}

/* Header and rows as they stand in memory; the checksum follows both here and, after the rows, in the file. */
static size_t index_size(size_t count)
{
    return HEADER_SIZE + ROW_SIZE * count;
}

static void write_header(uint8_t *to, uint64_t total, size_t count)
{
    memset(to, 0, HEADER_SIZE);
    memcpy(to, magic, sizeof magic);
    kiln__write_u32(to + AT_VERSION, PACK_VERSION);
    kiln__write_u64(to + AT_TOTAL, total);
    kiln__write_u64(to + AT_COUNT, count);
}

/* Entries follow one another in the order of their keys and fill the file up to the index. */
static const char *check_rows(pack_store *store, const uint8_t *rows)
{
    uint64_t offset = HEADER_SIZE;
    pack_row row, last;
    for (size_t i = 0; i < store->count; i++, last = row) {
        if (!read_row(&row, rows + ROW_SIZE * i) || row.offset != offset || row.length > store->rows_at - offset)
            return "its index contradicts itself";
        if (i > 0 && compare_keys(&last.key, &row.key) >= 0)
            return "its index is not sorted";
        offset += row.length;
        store->prefixes[i] = prefix_of(row.key.digest);
    }
    return offset == store->rows_at ? NULL : "its index contradicts itself";
}

static const char *check_index(pack_store *store, const uint8_t *index, uint64_t total)
{
    uint8_t checksum[KILN__CHECKSUM_SIZE], expected[HEADER_SIZE];
    size_t length = index_size(store->count);
    kiln__checksum(checksum, index, length);
    if (memcmp(checksum, index + length, sizeof checksum) != 0)
        return "the checksum of its index does not match";
    write_header(expected, total, store->count);
    if (memcmp(index, expected, HEADER_SIZE) != 0)
        return "it is not in the form that this version of Kiln writes";
    return check_rows(store, index + HEADER_SIZE);
}

/* NULL, or why the pack cannot be used, with the error that stands for it. */
static const char *read_index(pack_store *store, uint64_t size, int *fault)
{
    uint8_t header[HEADER_SIZE] = { 0 };
    *fault = -EBADMSG;
    if (size < HEADER_SIZE + KILN__CHECKSUM_SIZE)
        return "it is too short to be a pack";
    int error = kiln__file_read_at(store->fd, header, sizeof header, 0);
    uint64_t count = kiln__read_u64(header + AT_COUNT);
    if (error == 0 && memcmp(header, magic, sizeof magic) != 0)
        return "it is not a pack";
    if (error == 0 &&
        (kiln__read_u64(header + AT_TOTAL) != size || count > (size - HEADER_SIZE - KILN__CHECKSUM_SIZE) / ROW_SIZE))
        return "its length is not the one it states";
    store->count = error == 0 ? (size_t)count : 0;
    store->rows_at = size - KILN__CHECKSUM_SIZE - ROW_SIZE * store->count;
    uint8_t *index = kiln__alloc(index_size(store->count) + KILN__CHECKSUM_SIZE);
    store->prefixes = kiln__alloc((store->count + 1) * sizeof *store->prefixes);
    if (error == 0 && (!index || !store->prefixes))
        error = -ENOMEM;
    if (error == 0) {
        memcpy(index, header, sizeof header);
        error = kiln__file_read_at(store->fd, index + HEADER_SIZE, (size_t)(size - store->rows_at), store->rows_at);
    }
    if (error != 0)
        *fault = error;
    const char *reason = error != 0 ? error_text(error) : check_index(store, index, size);
    kiln__free(index);
    return reason;
}

static const char *open_pack(pack_store *store, int *fault, char *buffer, size_t size)
{
    struct stat status;
    *fault = -EPERM;
    if (kiln__trust_is_elevated())
        return "not used by a process with more rights than the user who started it";
    store->fd = kiln__file_open(AT_FDCWD, store->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (store->fd == -ELOOP)
        return "is a link, expected a regular file";
    if (store->fd == -ENXIO)
        return "is a special file, expected a regular file";
    if (store->fd < 0 || kiln__sys_fstat(store->fd, &status) != 0) {
        *fault = store->fd < 0 ? store->fd : -errno;
        return error_text(*fault);
    }
    const char *reason = kiln__trust_refuse_shared_file(&status, buffer, size);
    return reason ? reason : read_index(store, (uint64_t)status.st_size, fault);
}

/* Says whether the file ends before `end` now, which it did not when it was opened. */
static bool was_cut(const pack_store *store, uint64_t end)
{
    struct stat status;
    return kiln__sys_fstat(store->fd, &status) == 0 && (uint64_t)status.st_size < end;
}

static void note_read_error(pack_store *store, int error, uint64_t end, kiln__miss *why)
{
    bool cut = was_cut(store, end);
    note(store, cut ? CAUSE_DAMAGED : CAUSE_ERROR, cut ? "it was made shorter while in use" : error_text(error), why);
}

/* The row as it is in the file now: the index was intact when the pack was opened, but may have been overwritten since.
 * 0, or what went wrong. */
static int load_row(pack_store *store, size_t index, pack_row *out, kiln__miss *why)
{
    uint8_t bytes[ROW_SIZE];
    uint64_t at = store->rows_at + ROW_SIZE * index;
    int error = kiln__file_read_at(store->fd, bytes, sizeof bytes, at);
    if (error != 0) {
        note_read_error(store, error, at + ROW_SIZE, why);
        return error;
    }
    if (read_row(out, bytes) && out->offset <= store->rows_at && out->length <= store->rows_at - out->offset)
        return 0;
    note(store, CAUSE_DAMAGED, "its index was overwritten while in use", why);
    return -EBADMSG;
}

/* 0 with a blob, -EBADMSG for a damaged entry, or what else went wrong. */
static int load_entry(pack_store *store, const pack_row *row, kiln__blob **out, kiln__miss *why)
{
    kiln__entry_fault fault = KILN__ENTRY_CHECKSUM;
    size_t length = (size_t)row->length;
    uint8_t *bytes = kiln__alloc(length);
    int error = bytes ? kiln__file_read_at(store->fd, bytes, length, row->offset) : -ENOMEM;
    if (error != 0) {
        kiln__free(bytes);
        note_read_error(store, error, row->offset + length, why);
        return error;
    }
    if (memcmp(bytes + length - KILN__CHECKSUM_SIZE, row->checksum, KILN__CHECKSUM_SIZE) == 0)
        *out = kiln__blob_take(bytes, length, &row->key, &fault);
    else
        kiln__free(bytes);
    if (*out)
        return 0;
    bool no_memory = fault == KILN__ENTRY_GOOD;
    note(store, no_memory ? CAUSE_ERROR : CAUSE_DAMAGED,
         no_memory ? error_text(-ENOMEM) : kiln__entry_fault_text(fault), why);
    return no_memory ? -ENOMEM : -EBADMSG;
}

/* The first row whose prefix is not below `prefix`. */
static size_t find_prefix(const pack_store *store, uint64_t prefix)
{
    size_t low = 0, high = store->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->prefixes[middle] < prefix)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether a row is what is looked for: of the same digest, and made by this very toolchain or by one older than it, ""
 * being newer than all. */
static bool is_wanted(const kiln__key *row, const kiln__key *key, bool older)
{
    if (!older)
        return kiln__key_equal(row, key);
    return memcmp(row->digest, key->digest, sizeof key->digest) == 0 &&
           kiln__toolchain_is_next(row->toolchain, key->toolchain, "");
}

static kiln__blob *find(pack_store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    uint64_t prefix = prefix_of(key->digest);
    size_t first = find_prefix(store, prefix), end = first;
    while (end < store->count && store->prefixes[end] == prefix)
        end++;
    /* From the newest toolchain to the oldest. */
    while (end-- > first) {
        pack_row row;
        if (load_row(store, end, &row, why) != 0)
            return NULL;
        kiln__blob *blob = NULL;
        if (is_wanted(&row.key, key, older) && (load_entry(store, &row, &blob, why) == 0 || !older))
            return blob;
    }
    return NULL;
}

static kiln__blob *pack_get(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    return find((pack_store *)base, key, key->toolchain[0] == '\0', why);
}

static kiln__blob *pack_older(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    return find((pack_store *)base, key, true, why);
}

static void pack_close(kiln__store *base)
{
    pack_store *store = (pack_store *)base;
    if (store->fd >= 0)
        kiln__sys_close(store->fd);
    kiln__free(store->prefixes);
    kiln__free(store->path);
    kiln__free(store);
}

static const kiln__store_vtable pack_vtable = {
    "pack", pack_get, pack_older, kiln__store_no_put, kiln__store_no_put, kiln__store_no_drop, pack_close, true
};

int kiln__pack_store_open(kiln__store **out, const char *path, const kiln__log *log, kiln__store_counters *counters,
                          char *problem, size_t size)
{
    int fault;
    char buffer[160];
    pack_store *store = kiln__calloc(1, sizeof *store);
    char *copy = store ? kiln__strdup(path) : NULL;
    *out = NULL;
    if (!copy) {
        kiln__free(store);
        kiln__text_copy(problem, size, "out of memory");
        return -ENOMEM;
    }
    store->base.vtable = &pack_vtable;
    store->log = log;
    store->counters = counters;
    store->path = copy;
    store->fd = -1;
    atomic_init(&store->warned, 0);
    const char *reason = open_pack(store, &fault, buffer, sizeof buffer);
    kiln__text_copy(problem, size, reason ? reason : "");
    if (!reason) {
        *out = &store->base;
        return 0;
    }
    note(store, fault == -EBADMSG ? CAUSE_DAMAGED : fault == -EPERM ? CAUSE_UNTRUSTED : CAUSE_ERROR, reason, NULL);
    pack_close(&store->base);
    return fault;
}

size_t kiln__pack_store_count(const kiln__store *base)
{
    return ((const pack_store *)base)->count;
}

int kiln__pack_store_at(kiln__store *base, size_t index, kiln__blob **out)
{
    pack_store *store = (pack_store *)base;
    pack_row row;
    *out = NULL;
    int error = index < store->count ? load_row(store, index, &row, NULL) : -ENOENT;
    return error != 0 ? error : load_entry(store, &row, out, NULL);
}

/* A pack on its way into a file. */
typedef struct pack_writer {
    int fd;
    uint8_t *index; /* header, rows, checksum */
    size_t count;
    uint64_t offset;
} pack_writer;

static int write_entry(pack_writer *writer, const kiln__key *key, const kiln__blob *blob)
{
    pack_row row = { .key = *key, .offset = writer->offset, .length = blob->length };
    if (!kiln__key_equal(&blob->entry.key, key))
        return -EINVAL;
    memset(row.key.toolchain, 0, sizeof row.key.toolchain);
    memcpy(row.key.toolchain, key->toolchain, strnlen(key->toolchain, sizeof key->toolchain - 1));
    memcpy(row.checksum, (const uint8_t *)blob->bytes + blob->length - sizeof row.checksum, sizeof row.checksum);
    write_row(writer->index + index_size(writer->count), &row);
    writer->count++;
    writer->offset += blob->length;
    return kiln__file_write(writer->fd, blob->bytes, blob->length);
}

/* The header comes last, so that even under the temporary name there is never half a pack that looks whole. */
static int write_index(pack_writer *writer)
{
    size_t length = index_size(writer->count);
    uint64_t total = writer->offset + ROW_SIZE * writer->count + KILN__CHECKSUM_SIZE;
    write_header(writer->index, total, writer->count);
    kiln__checksum(writer->index + length, writer->index, length);
    int error = kiln__file_write(writer->fd, writer->index + HEADER_SIZE, length - HEADER_SIZE + KILN__CHECKSUM_SIZE);
    if (error == 0 && kiln__sys_lseek(writer->fd, 0, SEEK_SET) != 0)
        error = -errno;
    return error != 0 ? error : kiln__file_write(writer->fd, writer->index, HEADER_SIZE);
}

static int write_pack(pack_writer *writer, kiln__pack_totals *totals, const kiln__key *keys, size_t count,
                      kiln__pack_fetch fetch, void *data)
{
    int error = kiln__sys_lseek(writer->fd, HEADER_SIZE, SEEK_SET) == HEADER_SIZE ? 0 : -errno;
    writer->offset = HEADER_SIZE;
    for (size_t i = 0; i < count && error == 0; i++) {
        if (i > 0 && compare_keys(&keys[i - 1], &keys[i]) == 0)
            continue;
        kiln__blob *blob = NULL;
        error = fetch(data, &keys[i], &blob);
        totals->missing += error == 0 && !blob;
        if (blob)
            error = write_entry(writer, &keys[i], blob);
        kiln__blob_release(blob);
    }
    if (error == 0)
        error = write_index(writer);
    /* Unlike an entry a pack is kept and copied on its own: it has to be on the disk when the command says so. */
    if (error == 0 && kiln__sys_fdatasync(writer->fd) != 0 && errno != EINVAL)
        error = -errno;
    totals->entries = writer->count;
    totals->bytes = writer->offset + ROW_SIZE * writer->count + KILN__CHECKSUM_SIZE;
    return error;
}

/* Opens the directory that the file is in. */
static int open_parent(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    kiln__text parent = { 0 };
    *name = slash ? slash + 1 : path;
    kiln__text_append_bytes(&parent, path, slash ? (size_t)(slash - path) + 1 : 0);
    if (!slash)
        kiln__text_append(&parent, ".");
    int fd = parent.failed ? -ENOMEM : kiln__file_open(AT_FDCWD, kiln__text_string(&parent), O_RDONLY | O_DIRECTORY, 0);
    kiln__text_fini(&parent);
    return fd;
}

/* What killed writers of packs have left. The directory is the user's: only names that nobody else makes are
 * touched. */
static int sweep(void *data, const char *name)
{
    kiln__evict_temporary(*(const int *)data, TEMPORARY, name);
    return 0;
}

static bool is_replaceable(int directory, const char *name)
{
    struct stat status;
    return kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(status.st_mode);
}

int kiln__pack_write(kiln__pack_totals *out, const char *path, kiln__key *keys, size_t count, kiln__pack_fetch fetch,
                     void *data)
{
    const char *name;
    char temporary[KILN__FILE_UNIQUE];
    pack_writer writer = { .fd = -1 };
    memset(out, 0, sizeof *out);
    int directory = open_parent(path, &name);
    if (directory < 0)
        return directory;
    int error = name[0] != '\0' && is_replaceable(directory, name) ? 0 : -EINVAL;
    if (error == 0)
        kiln__file_list(directory, sweep, &directory);
    if (error == 0 && !(writer.index = kiln__alloc(index_size(count) + KILN__CHECKSUM_SIZE)))
        error = -ENOMEM;
    if (error == 0 && (writer.fd = kiln__file_create_unique(directory, TEMPORARY, temporary)) < 0)
        error = writer.fd;
    if (error == 0) {
        if (count > 0)
            qsort(keys, count, sizeof *keys, compare_keys);
        error = write_pack(&writer, out, keys, count, fetch, data);
        if (kiln__sys_close(writer.fd) != 0 && error == 0 && errno != EINTR)
            error = -errno;
        if (error == 0 && kiln__sys_renameat(directory, temporary, directory, name) != 0)
            error = -errno;
        if (error != 0)
            kiln__sys_unlinkat(directory, temporary, 0);
    }
    kiln__free(writer.index);
    kiln__sys_close(directory);
    return error;
}
