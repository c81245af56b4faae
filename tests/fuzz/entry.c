/* Cache entries. The first byte says what the others are: bytes of an entry, bytes to which a good length, digest and
 * checksum are given so that what lies behind these checks is reached, or contents to encode. */
#include "store/entry.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"

enum { AT_TOTAL = 16, AT_COUNT = 24, AT_KEY_LENGTH = 28, AT_DIGEST = 32, HEADER = 128, ROW = 32 };

static void require_same_form(const kiln__entry *entry, const uint8_t *bytes, size_t length)
{
    void *again;
    size_t again_length;
    FUZZ_REQUIRE(kiln__entry_encode(&again, &again_length, entry) == KILN_OK, "what decodes can be encoded");
    FUZZ_REQUIRE(again_length == length && memcmp(again, bytes, length) == 0, "an entry has one form");
    kiln__free(again);
}

static void require_sound(const kiln__entry *entry)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__digest(digest, entry->key_text, entry->key_text_length);
    FUZZ_REQUIRE(memcmp(digest, entry->key.digest, sizeof(digest)) == 0, "the key is that of the key text");
    FUZZ_REQUIRE(entry->key_text[entry->key_text_length] == '\0', "the key text is terminated");
    for (size_t i = 0; i < entry->section_count; i++) {
        const kiln__section *section = &entry->sections[i];
        FUZZ_REQUIRE(((const char *)section->data)[section->length] == '\0', "a section is terminated");
        FUZZ_REQUIRE(kiln__entry_find(entry, section->name) == section, "a section is found by its name");
    }
}

static void decode(const uint8_t *bytes, size_t length)
{
    kiln__entry entry, found;
    kiln__entry_fault fault = kiln__entry_decode(&entry, bytes, length, NULL);
    bool outdated = kiln__entry_is_outdated(bytes, length < KILN__ENTRY_HEAD ? length : KILN__ENTRY_HEAD);
    FUZZ_REQUIRE(!outdated || fault != KILN__ENTRY_GOOD || strncmp(entry.key_text, "kiln-", 5) == 0,
                 "an entry of another version is none, or its key says so");
    FUZZ_REQUIRE((fault == KILN__ENTRY_GOOD) == (kiln__entry_fault_text(fault)[0] == '\0'), "a fault has a text");
    if (fault != KILN__ENTRY_GOOD) {
        FUZZ_REQUIRE(entry.section_count == 0 && entry.key_text == NULL, "a refused entry is empty");
        return;
    }
    require_same_form(&entry, bytes, length);
    require_sound(&entry);
    kiln__key key = entry.key;
    FUZZ_REQUIRE(kiln__entry_decode(&found, bytes, length, &key) == KILN__ENTRY_GOOD, "its own key finds it");
    key.digest[length % sizeof(key.digest)] ^= 1;
    FUZZ_REQUIRE(kiln__entry_decode(&found, bytes, length, &key) == KILN__ENTRY_OTHER_KEY, "another does not");
}

static void put(uint8_t *to, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void decode_sealed(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + KILN__CHECKSUM_SIZE);
    size_t length = size + KILN__CHECKSUM_SIZE;
    FUZZ_REQUIRE(bytes != NULL, "out of memory");
    memcpy(bytes, data, size);
    if (size >= HEADER) {
        uint64_t start = HEADER + (uint64_t)ROW * bytes[AT_COUNT], key = bytes[AT_KEY_LENGTH];
        put(bytes + AT_TOTAL, length, 8);
        bool sealed = data[AT_TOTAL] % 2 == 0; /* which is written anew, so it is free to choose */
        if (sealed && start + key <= size)
            kiln__digest(bytes + AT_DIGEST, bytes + start, (size_t)key);
    }
    kiln__checksum(bytes + size, bytes, size);
    decode(bytes, length);
    kiln__entry entry;
    if (kiln__entry_decode(&entry, bytes, length, NULL) == KILN__ENTRY_GOOD) {
        bytes[data[size - 1] * (size_t)7919 % length] ^= (uint8_t)(1 << (size % 8));
        FUZZ_REQUIRE(kiln__entry_decode(&entry, bytes, length, NULL) != KILN__ENTRY_GOOD, "a flipped bit is seen");
    }
    free(bytes);
}

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

static void name_from(char *out, size_t room, const uint8_t *piece, size_t length)
{
    memset(out, 0, room);
    memcpy(out, piece, length < room ? length : room);
    out[room - 1] = '\0';
}

static void require_equal(const kiln__entry *a, const kiln__entry *b)
{
    FUZZ_REQUIRE(a->kind == b->kind && kiln__key_equal(&a->key, &b->key), "kind and key come back");
    FUZZ_REQUIRE(a->key_text_length == b->key_text_length &&
                     memcmp(a->key_text, b->key_text, a->key_text_length) == 0 && a->section_count == b->section_count,
                 "the key text comes back");
    for (size_t i = 0; i < a->section_count; i++)
        FUZZ_REQUIRE(strcmp(a->sections[i].name, b->sections[i].name) == 0 &&
                         a->sections[i].length == b->sections[i].length &&
                         memcmp(a->sections[i].data, b->sections[i].data, a->sections[i].length) == 0,
                     "section %zu comes back", i);
}

static void encode(const uint8_t *data, size_t size)
{
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL }, found;
    size_t length;
    const uint8_t *piece = cut(&data, &size, &length);
    name_from(entry.key.toolchain, sizeof(entry.key.toolchain), piece, length);
    entry.key_text = (const char *)cut(&data, &size, &entry.key_text_length);
    kiln__digest(entry.key.digest, entry.key_text, entry.key_text_length);
    while (size > 0) {
        char name[KILN__ENTRY_NAME_SIZE + 4];
        piece = cut(&data, &size, &length);
        name_from(name, sizeof(name), piece, length);
        piece = cut(&data, &size, &length);
        kiln__entry_add(&entry, name, piece, length);
    }
    void *bytes;
    kiln_status status = kiln__entry_encode(&bytes, &length, &entry);
    if (status != KILN_OK) {
        FUZZ_REQUIRE(bytes == NULL && status == KILN_EINVAL, "a refused entry gives nothing");
        return;
    }
    FUZZ_REQUIRE(kiln__entry_decode(&found, bytes, length, &entry.key) == KILN__ENTRY_GOOD, "what encodes decodes");
    require_equal(&entry, &found);
    kiln__free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return -1;
    switch (data[0] % 3) {
    case 0:
        decode(data + 1, size - 1);
        break;
    case 1:
        decode_sealed(data + 1, size - 1);
        break;
    default:
        encode(data + 1, size - 1);
    }
    return 0;
}
