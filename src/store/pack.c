/* The pack: its index, gets from it, and how one is written. */
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

typedef struct pack_store {
    kiln__store base;
    int fd;
    size_t count;
    uint64_t rows_at;   /* offset of the index */
    uint64_t *prefixes; /* the first 8 bytes of each row's digest, as a big-endian number: they sort as digests do */
} pack_store;

typedef struct pack_row {
    kiln__key key;
    uint64_t offset, length;
    uint8_t checksum[KILN__CHECKSUM_SIZE]; /* the entry's own, its last bytes */
} pack_row;

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

/* False unless write_entry could have written the row. The caller checks its offset. */
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

/* The size of header and rows in memory. The checksum follows them there; in the file it follows the rows. */
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

/* NULL, or the reason why the pack cannot be used, with the error that stands for it. */
static const char *read_index(pack_store *store, uint64_t size, int *fault)
{
    uint8_t header[HEADER_SIZE];
    *fault = -EBADMSG;
    if (size < HEADER_SIZE + KILN__CHECKSUM_SIZE)
        return "it is too short to be a pack";
    int error = kiln__file_read_at(store->fd, header, sizeof header, 0);
    if (error != 0)
        return kiln__store_error_text(*fault = error);
    if (memcmp(header, magic, sizeof magic) != 0)
        return "it is not a pack";
    uint64_t count = kiln__read_u64(header + AT_COUNT);
    if (kiln__read_u64(header + AT_TOTAL) != size || count > (size - HEADER_SIZE - KILN__CHECKSUM_SIZE) / ROW_SIZE)
        return "its length is not the one it states";
    store->count = (size_t)count;
    store->rows_at = size - KILN__CHECKSUM_SIZE - ROW_SIZE * store->count;
    store->prefixes = kiln__alloc((store->count + 1) * sizeof *store->prefixes);
    uint8_t *index = kiln__alloc(index_size(store->count) + KILN__CHECKSUM_SIZE);
    if (!index || !store->prefixes) {
        error = -ENOMEM;
    } else {
        memcpy(index, header, sizeof header);
        error = kiln__file_read_at(store->fd, index + HEADER_SIZE, (size_t)(size - store->rows_at), store->rows_at);
    }
    const char *reason = error != 0 ? kiln__store_error_text(*fault = error) : check_index(store, index, size);
    kiln__free(index);
    return reason;
}

static const char *open_pack(pack_store *store, int *fault, char *buffer, size_t size)
{
    struct stat status;
    const char *path = store->base.path, *reason = NULL;
    unsigned rule = KILN__TRUST_SHARED | store->base.counters->trust;
    *fault = -EPERM;
    if (kiln__trust_is_elevated())
        return "not used by a process with more rights than the user who started it";
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
    store->fd = kiln__file_open(AT_FDCWD, path, flags | O_NOFOLLOW, 0);
    if (store->fd == -ELOOP && kiln__sys_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        (reason = kiln__trust_refuse_link(&status, rule, buffer, size)) == NULL)
        store->fd = kiln__file_open(AT_FDCWD, path, flags, 0);
    if (reason != NULL)
        return reason;
    if (store->fd == -ENXIO)
        return "is a special file, expected a regular file";
    if (store->fd < 0)
        return kiln__store_error_text(*fault = store->fd);
    if (kiln__sys_fstat(store->fd, &status) != 0)
        return kiln__store_error_text(*fault = -errno);
    reason = kiln__trust_refuse_file(&status, rule, buffer, size);
    return reason ? reason : read_index(store, (uint64_t)status.st_size, fault);
}

static int note_damage(pack_store *store, const char *text, kiln__miss *why)
{
    kiln__store_note(&store->base, KILN__TROUBLE_DAMAGED, "", text, why);
    return -EBADMSG;
}

/* Notes a failed read of bytes up to `end`, which the file had when it was opened. Returns the error. */
static int note_read_error(pack_store *store, int error, uint64_t end, kiln__miss *why)
{
    struct stat status;
    if (kiln__sys_fstat(store->fd, &status) == 0 && (uint64_t)status.st_size < end)
        note_damage(store, "it was made shorter while in use", why);
    else
        kiln__store_note(&store->base, KILN__TROUBLE_READ, "", kiln__store_error_text(error), why);
    return error;
}

/* The row as it is in the file now: the index was intact when the pack was opened, but may have been overwritten since.
 * 0 or -errno. */
static int load_row(pack_store *store, size_t index, pack_row *out, kiln__miss *why)
{
    uint8_t bytes[ROW_SIZE];
    uint64_t at = store->rows_at + ROW_SIZE * index;
    int error = kiln__file_read_at(store->fd, bytes, sizeof bytes, at);
    if (error != 0)
        return note_read_error(store, error, at + ROW_SIZE, why);
    if (read_row(out, bytes) && out->offset <= store->rows_at && out->length <= store->rows_at - out->offset)
        return 0;
    return note_damage(store, "its index was overwritten while in use", why);
}

/* 0 with a blob, -EBADMSG for a damaged entry, or another -errno. */
static int load_entry(pack_store *store, const pack_row *row, kiln__blob **out, kiln__miss *why)
{
    kiln__entry_fault fault = KILN__ENTRY_CHECKSUM;
    size_t length = (size_t)row->length;
    uint8_t *bytes = kiln__alloc(length);
    int error = bytes ? kiln__file_read_at(store->fd, bytes, length, row->offset) : -ENOMEM;
    bool same = error == 0 && memcmp(bytes + length - sizeof row->checksum, row->checksum, sizeof row->checksum) == 0;
    if (same)
        *out = kiln__blob_take(bytes, length, &row->key, &fault);
    else
        kiln__free(bytes);
    if (*out)
        return 0;
    if (error != 0 || fault == KILN__ENTRY_GOOD)
        return note_read_error(store, error != 0 ? error : -ENOMEM, row->offset + length, why);
    return note_damage(store, kiln__entry_fault_text(fault), why);
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

/* Whether a row has the wanted digest, and the wanted toolchain or an older one ("" is newer than all). */
static bool is_wanted(const kiln__key *row, const kiln__key *key, bool older)
{
    if (!older)
        return kiln__key_equal(row, key);
    return memcmp(row->digest, key->digest, sizeof key->digest) == 0 &&
           kiln__toolchain_is_next(row->toolchain, key->toolchain, "");
}

static kiln__blob *pack_get(kiln__store *base, const kiln__key *key, bool older, kiln__miss *why)
{
    pack_store *store = (pack_store *)base;
    uint64_t prefix = prefix_of(key->digest);
    size_t first = find_prefix(store, prefix), end = first;
    older = older || key->toolchain[0] == '\0';
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

static void pack_close(kiln__store *base)
{
    pack_store *store = (pack_store *)base;
    if (store->fd >= 0)
        kiln__sys_close(store->fd);
    kiln__free(store->prefixes);
    kiln__store_free(base);
}

static const kiln__store_vtable pack_vtable = {
    .name = "pack",
    .get = pack_get,
    .put = kiln__store_no_put,
    .drop = kiln__store_no_drop,
    .close = pack_close,
    .on_disk = true,
    .kind = "pack",
    .advice = {
        [KILN__TROUBLE_DAMAGED] = "what it lacks is compiled; write it again with kiln cache export",
        [KILN__TROUBLE_UNTRUSTED] =
            "it is not used; it must be a regular file of yours or root's that no other user can write",
        [KILN__TROUBLE_READ] = "what it holds is compiled; check its path and its permissions",
    },
};

int kiln__pack_store_open(kiln__store **out, const char *path, const kiln__log *log, kiln__store_counters *counters,
                          char *problem, size_t size)
{
    int fault;
    char buffer[160];
    pack_store *store = kiln__store_make(sizeof *store, &pack_vtable, kiln__strdup(path), log, counters, problem, size);
    *out = NULL;
    if (!store)
        return -ENOMEM;
    store->fd = -1;
    const char *reason = open_pack(store, &fault, buffer, sizeof buffer);
    kiln__text_copy(problem, size, reason ? reason : "");
    if (!reason) {
        *out = &store->base;
        return 0;
    }
    kiln__trouble trouble = fault == -EBADMSG ? KILN__TROUBLE_DAMAGED
                            : fault == -EPERM ? KILN__TROUBLE_UNTRUSTED
                                              : KILN__TROUBLE_READ;
    kiln__store_note(&store->base, trouble, "", reason, NULL);
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

/* A pack that is being written. */
typedef struct pack_writer {
    int fd;
    uint8_t *index; /* header, rows, checksum */
    size_t count;
    uint64_t offset;
} pack_writer;

static int write_entry(pack_writer *writer, const kiln__key *key, const kiln__blob *blob)
{
    uint8_t *row = writer->index + index_size(writer->count);
    if (!kiln__key_equal(&blob->entry.key, key))
        return -EINVAL;
    memset(row, 0, ROW_SIZE);
    memcpy(row, key->digest, sizeof key->digest);
    memcpy(row + ROW_TOOLCHAIN, key->toolchain, strnlen(key->toolchain, sizeof key->toolchain - 1));
    kiln__write_u64(row + ROW_OFFSET, writer->offset);
    kiln__write_u64(row + ROW_LENGTH, blob->length);
    memcpy(row + ROW_CHECKSUM, (const uint8_t *)blob->bytes + blob->length - KILN__CHECKSUM_SIZE, KILN__CHECKSUM_SIZE);
    writer->count++;
    writer->offset += blob->length;
    return kiln__file_write(writer->fd, blob->bytes, blob->length);
}

/* The header comes last, so that a partial pack never looks whole, not even under the temporary name. */
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
    /* Users keep and copy a pack, unlike an entry: it has to be on the disk when the command reports success. */
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

/* Removes the temporaries of killed writers. The directory is the user's, so only names of Kiln's form go. */
static int sweep_temporary(void *data, const char *name)
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
        kiln__file_list(directory, sweep_temporary, &directory);
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
