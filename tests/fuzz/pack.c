/* Packs. The first byte says what the others are: bytes of a pack; a count of rows, entries and rows, to which a good
 * header, good places and a good checksum are given so that what lies behind these checks is reached; or entries to
 * write. Through a file, for a pack is read from one. */
#include "store/pack.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    HEADER = 32,
    ROW = 128,
    AT_TOOLCHAIN = 32,
    AT_OFFSET = 96,
    AT_LENGTH = 104,
    AT_CHECKSUM = 112,
    CHECKSUM = KILN__CHECKSUM_SIZE,
    ROWS_MOST = 5,
    ENTRIES_MOST = 8
};

static char directory[64], path[80];
static int file;

static void clean_up(void)
{
    kiln__file_remove_directory(directory);
}

/* In memory where there is such a file system. */
static void need_file(void)
{
    if (directory[0] != '\0')
        return;
    strcpy(directory, "/dev/shm/kiln-fuzz-XXXXXX");
    if (!mkdtemp(directory))
        FUZZ_REQUIRE(kiln__file_make_temporary(directory, sizeof(directory)) == 0, "a temporary directory");
    atexit(clean_up);
    snprintf(path, sizeof(path), "%s/pack", directory);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    FUZZ_REQUIRE(file >= 0, "a file");
}

static bool is_same(const kiln__blob *a, const kiln__blob *b)
{
    return a != NULL && b != NULL && a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void require_whole(const kiln__blob *blob)
{
    kiln__entry entry;
    FUZZ_REQUIRE(kiln__entry_decode(&entry, blob->bytes, blob->length, &blob->entry.key) == KILN__ENTRY_GOOD,
                 "what is found is whole and under its key");
}

/* What stands at a place is found under its own key, also if any toolchain will do, and under no other. */
static void require_found(kiln__store *pack, size_t index)
{
    kiln__blob *blob, *found;
    int error = kiln__pack_store_at(pack, index, &blob);
    FUZZ_REQUIRE((error == 0) == (blob != NULL), "a blob or an error");
    if (blob == NULL)
        return;
    require_whole(blob);
    kiln__key key = blob->entry.key;
    found = pack->vtable->get(pack, &key, false, NULL);
    FUZZ_REQUIRE(is_same(blob, found), "an entry is found under its key");
    kiln__blob_release(found);
    key.toolchain[0] = '\0';
    found = pack->vtable->get(pack, &key, false, NULL);
    FUZZ_REQUIRE(found != NULL && memcmp(found->entry.key.digest, key.digest, sizeof(key.digest)) == 0 &&
                     kiln__toolchain_compare(found->entry.key.toolchain, blob->entry.key.toolchain) >= 0,
                 "any toolchain finds the newest");
    kiln__blob_release(found);
    key.digest[index % sizeof(key.digest)] ^= 1;
    found = pack->vtable->get(pack, &key, false, NULL);
    FUZZ_REQUIRE(found == NULL || memcmp(found->entry.key.digest, key.digest, sizeof(key.digest)) == 0,
                 "nothing is found under another key");
    kiln__blob_release(found);
    kiln__blob_release(blob);
}

static kiln__store *open_pack(const char *name)
{
    static kiln__store_counters counters;
    char problem[256];
    kiln__store *pack;
    int error = kiln__pack_store_open(&pack, name, NULL, &counters, problem, sizeof(problem));
    FUZZ_REQUIRE((error == 0) == (pack != NULL) && (error == 0) == (problem[0] == '\0'), "a pack or a reason");
    FUZZ_REQUIRE(error == 0 || error == -EBADMSG, "a whole file that is refused is damaged: %s", problem);
    return pack;
}

static void read_pack(const uint8_t *bytes, size_t length)
{
    FUZZ_REQUIRE(ftruncate(file, 0) == 0 && pwrite(file, bytes, length, 0) == (ssize_t)length, "a file of the bytes");
    kiln__store *pack = open_pack(path);
    if (pack == NULL)
        return;
    FUZZ_REQUIRE(length >= HEADER + ROW * kiln__pack_store_count(pack) + CHECKSUM, "no more entries than fit");
    for (size_t i = 0; i < kiln__pack_store_count(pack); i++)
        require_found(pack, i);
    pack->vtable->close(pack);
}

static void put(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* Rows that follow one another, share out the entries as their lengths' first byte says, and know their checksums. */
static void place_rows(uint8_t *bytes, uint8_t *rows, size_t count)
{
    size_t offset = HEADER, end = (size_t)(rows - bytes);
    for (size_t i = 0; i < count; i++) {
        uint8_t *row = rows + ROW * i;
        size_t left = end - offset, length = i + 1 == count ? left : (size_t)row[AT_LENGTH] * 8;
        length = length < left ? length : left;
        put(row + AT_OFFSET, offset);
        put(row + AT_LENGTH, length);
        if (length >= CHECKSUM)
            memcpy(row + AT_CHECKSUM, bytes + offset + length - CHECKSUM, CHECKSUM);
        offset += length;
    }
}

static void read_sealed(const uint8_t *data, size_t size)
{
    size_t count = data[0] % ROWS_MOST;
    bool placed = data[0] >= ROWS_MOST;
    size_t total = HEADER + --size + CHECKSUM;
    if (size < ROW * count)
        return;
    uint8_t *bytes = calloc(1, total), *index = malloc(HEADER + ROW * count);
    FUZZ_REQUIRE(bytes != NULL && index != NULL, "out of memory");
    uint8_t *rows = bytes + total - CHECKSUM - ROW * count;
    memcpy(bytes, "KILNPCK\n\1", 9);
    put(bytes + 16, total);
    put(bytes + 24, count);
    memcpy(bytes + HEADER, data + 1, size);
    if (placed)
        place_rows(bytes, rows, count);
    memcpy(index, bytes, HEADER);
    memcpy(index + HEADER, rows, ROW * count);
    kiln__checksum(bytes + total - CHECKSUM, index, HEADER + ROW * count);
    read_pack(bytes, total);
    free(index);
    free(bytes);
}

/* ---- What is written reads back */

typedef struct contents {
    kiln__blob *blobs[ENTRIES_MOST];
    size_t count;
} contents;

/* Cuts a piece off the input, its length in its first byte. */
static const uint8_t *cut(const uint8_t **data, size_t *size, size_t *length)
{
    const uint8_t *piece = *data;
    *length = 0;
    if (*size == 0)
        return piece;
    *length = piece[0] < *size ? piece[0] : *size - 1;
    *data += *length + 1;
    *size -= *length + 1;
    return piece + 1;
}

static kiln__blob *take_blob(const uint8_t **data, size_t *size)
{
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    size_t length;
    void *bytes;
    const uint8_t *piece = cut(data, size, &length);
    memcpy(entry.key.toolchain, piece, length < sizeof(entry.key.toolchain) ? length : sizeof(entry.key.toolchain) - 1);
    entry.key_text = (const char *)cut(data, size, &entry.key_text_length);
    kiln__digest(entry.key.digest, entry.key_text, entry.key_text_length);
    piece = cut(data, size, &length);
    kiln__entry_add(&entry, "cubin", piece, length);
    if (kiln__entry_encode(&bytes, &length, &entry) != KILN_OK)
        return NULL;
    kiln__blob *blob = kiln__blob_take(bytes, length, &entry.key, NULL);
    FUZZ_REQUIRE(blob != NULL, "what encodes decodes");
    return blob;
}

static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    const contents *all = data;
    for (size_t i = 0; i < all->count && *out == NULL; i++)
        if (kiln__key_equal(&all->blobs[i]->entry.key, key))
            *out = kiln__blob_retain(all->blobs[i]);
    return 0;
}

/* The contents' keys from number `first` on, and around. */
static size_t write_contents(contents *all, const char *name, size_t first)
{
    kiln__key keys[ENTRIES_MOST];
    kiln__pack_totals totals;
    for (size_t i = 0; i < all->count; i++)
        keys[i] = all->blobs[(first + i) % all->count]->entry.key;
    FUZZ_REQUIRE(kiln__pack_write(&totals, name, keys, all->count, fetch, all) == 0, "a pack can be written");
    FUZZ_REQUIRE(totals.entries <= all->count && totals.missing == 0, "all that was given");
    return (size_t)totals.entries;
}

static void require_same_files(const char *a, const char *b)
{
    void *bytes[2];
    size_t length[2];
    struct stat status;
    FUZZ_REQUIRE(kiln__file_read(&bytes[0], &length[0], AT_FDCWD, a, 0, 1 << 24, &status) == 0 &&
                     kiln__file_read(&bytes[1], &length[1], AT_FDCWD, b, 0, 1 << 24, &status) == 0,
                 "both packs");
    FUZZ_REQUIRE(length[0] == length[1] && memcmp(bytes[0], bytes[1], length[0]) == 0, "equal entries, equal bytes");
    kiln__free(bytes[0]);
    kiln__free(bytes[1]);
}

static void write_and_read(const uint8_t *data, size_t size)
{
    contents all = { .count = 0 };
    char one[96], other[96];
    while (size > 0 && all.count < ENTRIES_MOST) {
        kiln__blob *blob = take_blob(&data, &size);
        if (blob != NULL)
            all.blobs[all.count++] = blob;
    }
    snprintf(one, sizeof(one), "%s/one", directory);
    snprintf(other, sizeof(other), "%s/other", directory);
    size_t entries = write_contents(&all, one, 0);
    kiln__store *pack = open_pack(one);
    FUZZ_REQUIRE(pack != NULL && kiln__pack_store_count(pack) == entries, "a pack that was written opens");
    for (size_t i = 0; i < entries; i++)
        require_found(pack, i);
    for (size_t i = 0; i < all.count; i++) {
        kiln__blob *given = NULL, *found = pack->vtable->get(pack, &all.blobs[i]->entry.key, false, NULL);
        fetch(&all, &all.blobs[i]->entry.key, &given);
        FUZZ_REQUIRE(is_same(given, found), "entry %zu comes back", i);
        kiln__blob_release(given);
        kiln__blob_release(found);
    }
    pack->vtable->close(pack);
    write_contents(&all, other, all.count / 2);
    require_same_files(one, other);
    for (size_t i = 0; i < all.count; i++)
        kiln__blob_release(all.blobs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return -1;
    need_file();
    switch (data[0] % 3) {
    case 0:
        read_pack(data + 1, size - 1);
        break;
    case 1:
        read_sealed(data + 1, size - 1);
        break;
    default:
        write_and_read(data + 1, size - 1);
    }
    return 0;
}
