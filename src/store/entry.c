/* The entry format: how bytes are written, checked and read. */
#include "store/entry.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/keyline.h"
#include <string.h>

enum {
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_TOTAL = 16,
    AT_SECTION_COUNT = 24,
    AT_KEY_LENGTH = 28,
    AT_DIGEST = 32,
    AT_TOOLCHAIN = 64,
    HEADER_SIZE = 128,
    ROW_OFFSET = 16,
    ROW_LENGTH = 24,
    ROW_SIZE = 32,
    MIN_SIZE = HEADER_SIZE + 8 + KILN__CHECKSUM_SIZE
};

static const uint8_t magic[8] = { 'K', 'I', 'L', 'N', 'E', 'N', 'T', '\n' };

/* Room for bytes, the NUL after them and zeros up to a multiple of 8. */
static uint64_t padded(uint64_t length)
{
    return (length + 8) & ~(uint64_t)7;
}

/* Length of the name in a field of `size` bytes; 0 if it is empty, not terminated or has wrong characters. */
static size_t name_length(const char *field, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = field[i];
        if (c == '\0')
            return i;
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '-' || c == '_';
        if (!fits)
            return 0;
    }
    return 0;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static bool is_kind(uint32_t kind)
{
    return kind >= KILN__ENTRY_KERNEL && kind <= KILN__ENTRY_READS;
}

static bool is_key_text(const kiln__entry *entry)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    if (memchr(entry->key_text, '\0', entry->key_text_length))
        return false;
    kiln__digest(digest, entry->key_text, entry->key_text_length);
    return memcmp(digest, entry->key.digest, sizeof digest) == 0;
}

bool kiln__entry_add(kiln__entry *entry, const char *name, const void *data, size_t length)
{
    size_t size = strnlen(name, KILN__ENTRY_NAME_SIZE) + 1;
    if (entry->section_count >= KILN__ENTRY_MAX_SECTIONS || size > KILN__ENTRY_NAME_SIZE ||
        name_length(name, size) == 0 || kiln__entry_find(entry, name))
        return false;
    kiln__section *section = &entry->sections[entry->section_count++];
    memset(section->name, 0, sizeof section->name);
    memcpy(section->name, name, size);
    section->data = data;
    section->length = length;
    return true;
}

const kiln__section *kiln__entry_find(const kiln__entry *entry, const char *name)
{
    for (size_t i = 0; i < entry->section_count; i++)
        if (strncmp(entry->sections[i].name, name, KILN__ENTRY_NAME_SIZE) == 0)
            return &entry->sections[i];
    return NULL;
}

const char *kiln__entry_fault_text(kiln__entry_fault fault)
{
    switch (fault) {
    case KILN__ENTRY_GOOD:
        return "";
    case KILN__ENTRY_SHORT:
        return "its length is not the one it states";
    case KILN__ENTRY_CHECKSUM:
        return "its checksum does not match";
    case KILN__ENTRY_FORMAT:
        return "it is not in the form that this version of Kiln writes";
    case KILN__ENTRY_OTHER_KEY:
        return "it belongs to another key";
    }
    return "unknown fault";
}

/* The length of the encoded entry, 0 if decode would refuse it. */
static uint64_t encoded_length(const kiln__entry *entry)
{
    if (!is_kind((uint32_t)entry->kind) || !entry->key_text || entry->key_text_length > KILN__ENTRY_MAX_BYTES ||
        entry->section_count > KILN__ENTRY_MAX_SECTIONS || !is_key_text(entry) ||
        name_length(entry->key.toolchain, sizeof entry->key.toolchain) == 0)
        return 0;
    uint64_t total = HEADER_SIZE + ROW_SIZE * entry->section_count + padded(entry->key_text_length);
    for (size_t i = 0; i < entry->section_count; i++) {
        const kiln__section *section = &entry->sections[i];
        if (name_length(section->name, sizeof section->name) == 0 ||
            kiln__entry_find(entry, section->name) != section || section->length > KILN__ENTRY_MAX_BYTES ||
            (section->length > 0 && !section->data))
            return 0;
        total += padded(section->length);
    }
    total += KILN__CHECKSUM_SIZE;
    return total <= KILN__ENTRY_MAX_BYTES ? total : 0;
}

static void write_header(uint8_t *to, const kiln__entry *entry, uint64_t total)
{
    memcpy(to, magic, sizeof magic);
    kiln__write_u32(to + AT_VERSION, KILN__ENTRY_VERSION);
    kiln__write_u32(to + AT_KIND, (uint32_t)entry->kind);
    kiln__write_u64(to + AT_TOTAL, total);
    kiln__write_u32(to + AT_SECTION_COUNT, (uint32_t)entry->section_count);
    kiln__write_u32(to + AT_KEY_LENGTH, (uint32_t)entry->key_text_length);
    memcpy(to + AT_DIGEST, entry->key.digest, KILN__DIGEST_SIZE);
    memcpy(to + AT_TOOLCHAIN, entry->key.toolchain, strlen(entry->key.toolchain));
}

static uint64_t write_padded(uint8_t *to, uint64_t offset, const void *data, size_t length)
{
    if (length > 0)
        memcpy(to + offset, data, length);
    return offset + padded(length);
}

bool kiln__entry_travels(const kiln__entry *entry)
{
    return entry->kind != KILN__ENTRY_TOOLCHAIN && kiln__entry_find(entry, "object") == NULL;
}

kiln_status kiln__entry_encode(void **out, size_t *length, const kiln__entry *entry)
{
    *out = NULL;
    *length = 0;
    uint64_t total = encoded_length(entry);
    if (total == 0)
        return KILN_EINVAL;
    uint8_t *bytes = kiln__calloc(1, (size_t)total);
    if (!bytes)
        return KILN_ENOMEM;
    write_header(bytes, entry, total);
    uint64_t offset = HEADER_SIZE + ROW_SIZE * entry->section_count;
    offset = write_padded(bytes, offset, entry->key_text, entry->key_text_length);
    for (size_t i = 0; i < entry->section_count; i++) {
        const kiln__section *section = &entry->sections[i];
        uint8_t *row = bytes + HEADER_SIZE + ROW_SIZE * i;
        memcpy(row, section->name, strlen(section->name));
        kiln__write_u64(row + ROW_OFFSET, offset);
        kiln__write_u64(row + ROW_LENGTH, section->length);
        offset = write_padded(bytes, offset, section->data, section->length);
    }
    kiln__checksum(bytes + offset, bytes, (size_t)offset);
    *out = bytes;
    *length = (size_t)total;
    return KILN_OK;
}

/* Reads a zero-padded name field. */
static bool read_name(char *out, const uint8_t *field, size_t size)
{
    memcpy(out, field, size);
    size_t length = name_length(out, size);
    return length > 0 && is_zero(field + length, size - length);
}

/* Checks that `length` bytes at `offset` end, with the NUL and the padding after them, at or before `end`, and that the
 * padding is zero. Returns the offset after it, or 0. */
static uint64_t skip_padded(const uint8_t *bytes, uint64_t offset, uint64_t length, uint64_t end)
{
    if (offset > end || length > end - offset || padded(length) > end - offset)
        return 0;
    return is_zero(bytes + offset + length, (size_t)(padded(length) - length)) ? offset + padded(length) : 0;
}

/* Each field must have the value that the encoder writes, so that an entry has exactly one form. */
static bool read_fields(kiln__entry *entry, const uint8_t *bytes, uint64_t end)
{
    if (memcmp(bytes, magic, sizeof magic) != 0 || kiln__read_u32(bytes + AT_VERSION) != KILN__ENTRY_VERSION ||
        !is_kind(kiln__read_u32(bytes + AT_KIND)) ||
        kiln__read_u32(bytes + AT_SECTION_COUNT) > KILN__ENTRY_MAX_SECTIONS ||
        !read_name(entry->key.toolchain, bytes + AT_TOOLCHAIN, KILN__ENTRY_TOOLCHAIN_SIZE))
        return false;
    size_t count = kiln__read_u32(bytes + AT_SECTION_COUNT);
    uint64_t offset = HEADER_SIZE + ROW_SIZE * count;
    entry->kind = (kiln__entry_kind)kiln__read_u32(bytes + AT_KIND);
    memcpy(entry->key.digest, bytes + AT_DIGEST, KILN__DIGEST_SIZE);
    entry->key_text = (const char *)bytes + offset;
    entry->key_text_length = kiln__read_u32(bytes + AT_KEY_LENGTH);
    offset = skip_padded(bytes, offset, entry->key_text_length, end);
    for (size_t i = 0; i < count && offset != 0; i++) {
        const uint8_t *row = bytes + HEADER_SIZE + ROW_SIZE * i;
        uint64_t length = kiln__read_u64(row + ROW_LENGTH), next = skip_padded(bytes, offset, length, end);
        char name[KILN__ENTRY_NAME_SIZE];
        if (next == 0 || kiln__read_u64(row + ROW_OFFSET) != offset || !read_name(name, row, sizeof name) ||
            !kiln__entry_add(entry, name, bytes + offset, (size_t)length))
            return false;
        offset = next;
    }
    return offset == end && is_key_text(entry);
}

static bool is_wanted(const kiln__entry *entry, const kiln__key *key)
{
    return !key || (memcmp(entry->key.digest, key->digest, KILN__DIGEST_SIZE) == 0 &&
                    (key->toolchain[0] == '\0' ||
                     strncmp(entry->key.toolchain, key->toolchain, KILN__ENTRY_TOOLCHAIN_SIZE) == 0));
}

kiln__entry_fault kiln__entry_decode(kiln__entry *out, const void *bytes, size_t length, const kiln__key *key)
{
    const uint8_t *from = bytes;
    uint8_t checksum[KILN__CHECKSUM_SIZE];
    kiln__entry entry = { 0 };
    *out = entry;
    if (length < MIN_SIZE || length > KILN__ENTRY_MAX_BYTES || kiln__read_u64(from + AT_TOTAL) != length)
        return KILN__ENTRY_SHORT;
    size_t end = length - KILN__CHECKSUM_SIZE;
    kiln__checksum(checksum, from, end);
    if (memcmp(checksum, from + end, sizeof checksum) != 0)
        return KILN__ENTRY_CHECKSUM;
    if (!read_fields(&entry, from, end))
        return KILN__ENTRY_FORMAT;
    if (!is_wanted(&entry, key))
        return KILN__ENTRY_OTHER_KEY;
    *out = entry;
    return KILN__ENTRY_GOOD;
}

/* Whether a key text, or the beginning of one, has a form of Kiln's in another version. */
static bool has_other_version(const char *text, size_t length)
{
    static const char *const lines[] = { KILN__KEYLINE_KERNEL, KILN__KEYLINE_SOURCE, KILN__KEYLINE_READS,
                                         KILN__KEYLINE_TOOLCHAIN };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t form = strcspn(lines[i], " ") + 1, whole = strlen(lines[i]);
        if (length >= whole && memcmp(text, lines[i], form) == 0)
            return memcmp(text, lines[i], whole) != 0;
    }
    return false;
}

bool kiln__entry_is_outdated(const void *head, size_t length)
{
    const uint8_t *from = head;
    if (length < MIN_SIZE || memcmp(from, magic, sizeof magic) != 0)
        return false; /* damaged: a look-up will report that */
    if (kiln__read_u32(from + AT_VERSION) != KILN__ENTRY_VERSION)
        return true;
    uint32_t sections = kiln__read_u32(from + AT_SECTION_COUNT);
    size_t offset = HEADER_SIZE + ROW_SIZE * (size_t)sections;
    if (sections > KILN__ENTRY_MAX_SECTIONS || offset > length)
        return false;
    return has_other_version((const char *)from + offset, length - offset);
}
