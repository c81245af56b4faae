#include "base/alloc.h"
#include "store/entry.h"
#include "store/store.h"
#include "support/suites.h"
#include <stdlib.h>
#include <string.h>

enum { OFFSET_VERSION = 8, OFFSET_KIND = 12, OFFSET_TOTAL = 16, OFFSET_COUNT = 24, OFFSET_KEY_LENGTH = 28 };
enum { OFFSET_DIGEST = 32, OFFSET_TOOLCHAIN = 64, OFFSET_TABLE = 128, ROW = 32 };

static const char key_text[] = "kiln key 1\ntarget=sm_90\nop=hardsigmoid dtype=f32\n";
static uint8_t cubin[700];

static kiln__entry sample_entry(void)
{
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL, .key_text = key_text, .key_text_length = strlen(key_text) };
    kiln__digest(entry.key.digest, key_text, strlen(key_text));
    strcpy(entry.key.toolchain, "nvrtc-13.0.88-36424714");
    for (size_t i = 0; i < sizeof cubin; i++)
        cubin[i] = (uint8_t)(i * 7 + 3);
    ck_assert(kiln__entry_add(&entry, "cubin", cubin, sizeof cubin));
    ck_assert(kiln__entry_add(&entry, "names", "kernel scalar", 13));
    ck_assert(kiln__entry_add(&entry, "log", "", 0));
    return entry;
}

static uint8_t *encode(const kiln__entry *entry, size_t *length)
{
    void *bytes;
    ck_assert_int_eq(kiln__entry_encode(&bytes, length, entry), KILN_OK);
    ck_assert_ptr_nonnull(bytes);
    return bytes;
}

static uint8_t *encode_sample(size_t *length)
{
    kiln__entry entry = sample_entry();
    return encode(&entry, length);
}

/* Makes the checksum right again after a test has changed a field. */
static void seal(uint8_t *bytes, size_t length)
{
    kiln__checksum(bytes + length - KILN__CHECKSUM_SIZE, bytes, length - KILN__CHECKSUM_SIZE);
}

static kiln__entry_fault decode(const void *bytes, size_t length)
{
    kiln__entry entry;
    kiln__entry_fault fault = kiln__entry_decode(&entry, bytes, length, NULL);
    if (fault != KILN__ENTRY_GOOD) {
        ck_assert_uint_eq(entry.section_count, 0);
        ck_assert_ptr_null(entry.key_text);
    }
    return fault;
}

START_TEST(test_entry__round_trip_keeps_everything)
{
    size_t length, again_length;
    kiln__entry entry = sample_entry(), read;
    uint8_t *bytes = encode(&entry, &length);
    ck_assert_int_eq(kiln__entry_decode(&read, bytes, length, &entry.key), KILN__ENTRY_GOOD);
    ck_assert_int_eq(read.kind, KILN__ENTRY_KERNEL);
    ck_assert(kiln__key_equal(&read.key, &entry.key));
    ck_assert_uint_eq(read.key_text_length, strlen(key_text));
    ck_assert_str_eq(read.key_text, key_text);
    ck_assert_uint_eq(read.section_count, 3);
    const kiln__section *section = kiln__entry_find(&read, "cubin");
    ck_assert_ptr_nonnull(section);
    ck_assert_uint_eq(section->length, sizeof cubin);
    ck_assert_mem_eq(section->data, cubin, sizeof cubin);
    section = kiln__entry_find(&read, "names");
    ck_assert_uint_eq(section->length, 13);
    ck_assert_str_eq(section->data, "kernel scalar");
    section = kiln__entry_find(&read, "log");
    ck_assert_uint_eq(section->length, 0);
    ck_assert_str_eq(section->data, "");
    ck_assert_ptr_null(kiln__entry_find(&read, "ptx"));
    uint8_t *again = encode(&read, &again_length);
    ck_assert_uint_eq(again_length, length);
    ck_assert_mem_eq(again, bytes, length);
    kiln__free(again);
    kiln__free(bytes);
}
END_TEST

/* The layout of docs/cache-format.md, byte by byte: what is written once is read for ever. */
START_TEST(test_entry__layout_is_the_documented_one)
{
    kiln__entry entry = { .kind = KILN__ENTRY_TOOLCHAIN, .key_text = "key", .key_text_length = 3 };
    static const uint8_t expected_head[] = { 'K',  'I', 'L', 'N', 'E', 'N', 'T', '\n', 1, 0, 0, 0, 2, 0, 0, 0,
                                             0xc0, 0,   0,   0,   0,   0,   0,   0,    1, 0, 0, 0, 3, 0, 0, 0 };
    static const uint8_t expected_row[] = { 'i', 'd', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                            168, 0,   0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 };
    size_t length;
    uint8_t digest[KILN__DIGEST_SIZE], checksum[KILN__CHECKSUM_SIZE], toolchain[64] = "cc-1";
    kiln__digest(digest, "key", 3);
    memcpy(entry.key.digest, digest, sizeof digest);
    strcpy(entry.key.toolchain, "cc-1");
    ck_assert(kiln__entry_add(&entry, "id", "42", 2));
    uint8_t *bytes = encode(&entry, &length);
    ck_assert_uint_eq(length, 0xc0);
    ck_assert_mem_eq(bytes, expected_head, 32);
    ck_assert_mem_eq(bytes + OFFSET_DIGEST, digest, sizeof digest);
    ck_assert_mem_eq(bytes + OFFSET_TOOLCHAIN, toolchain, 64);
    ck_assert_mem_eq(bytes + OFFSET_TABLE, expected_row, sizeof expected_row);
    ck_assert_mem_eq(bytes + 160,
                     "key\0\0\0\0\0"
                     "42\0\0\0\0\0\0",
                     16);
    kiln__checksum(checksum, bytes, 176);
    ck_assert_mem_eq(bytes + 176, checksum, sizeof checksum);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__every_bit_flip_is_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    ck_assert_uint_ge(length, 1000);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_msg(decode(bytes, length) != KILN__ENTRY_GOOD, "bit %zu of byte %zu", bit % 8, bit / 8);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_GOOD);
    kiln__free(bytes);
}
END_TEST

/* Even when the checksum is made to fit, no changed bit before it gives the same contents: one form for each entry.
 * Bits of contents (kind, toolchain, names, section bytes) may give another entry, which must then be canonical. */
START_TEST(test_entry__every_sealed_bit_flip_is_refused_or_another_entry)
{
    size_t length, again_length, accepted = 0;
    uint8_t *bytes = encode_sample(&length);
    for (size_t bit = 0; bit < 8 * (length - KILN__CHECKSUM_SIZE); bit++) {
        kiln__entry entry;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        seal(bytes, length);
        if (kiln__entry_decode(&entry, bytes, length, NULL) == KILN__ENTRY_GOOD) {
            uint8_t *again = encode(&entry, &again_length);
            ck_assert_uint_eq(again_length, length);
            ck_assert_mem_eq(again, bytes, length);
            kiln__free(again);
            accepted++;
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* All bits of the sections' bytes and some of the names: not all bits are fixed by the format. */
    ck_assert_uint_ge(accepted, 8 * (sizeof cubin + 13));
    ck_assert_uint_le(accepted, 8 * (sizeof cubin + 13 + 22 + 13 + 4));
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__every_truncation_is_short)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    for (size_t shorter = 0; shorter < length; shorter++) {
        /* In a block of its own, so that a sanitizer sees any read behind the end. */
        uint8_t *copy = malloc(shorter ? shorter : 1);
        memcpy(copy, bytes, shorter);
        ck_assert_int_eq(decode(copy, shorter), KILN__ENTRY_SHORT);
        free(copy);
    }
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__truncation_that_states_its_length_fails_the_checksum)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    for (size_t shorter = 152; shorter < length; shorter++) {
        uint8_t *copy = malloc(shorter);
        memcpy(copy, bytes, shorter);
        for (int i = 0; i < 8; i++)
            copy[OFFSET_TOTAL + i] = (uint8_t)((uint64_t)shorter >> (8 * i));
        ck_assert_int_eq(decode(copy, shorter), KILN__ENTRY_CHECKSUM);
        seal(copy, shorter);
        ck_assert_int_eq(decode(copy, shorter), KILN__ENTRY_FORMAT);
        free(copy);
    }
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__trailing_byte_is_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length), *longer = calloc(1, length + 8);
    memcpy(longer, bytes, length);
    ck_assert_int_eq(decode(longer, length + 1), KILN__ENTRY_SHORT);
    /* Eight bytes more that the length field and the checksum know of, but no section does. */
    longer[OFFSET_TOTAL] = (uint8_t)(longer[OFFSET_TOTAL] + 8);
    memset(longer + length - KILN__CHECKSUM_SIZE, 0, 8);
    seal(longer, length + 8);
    ck_assert_int_eq(decode(longer, length + 8), KILN__ENTRY_FORMAT);
    free(longer);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__other_key_is_refused)
{
    size_t length;
    kiln__entry entry = sample_entry(), read;
    uint8_t *bytes = encode(&entry, &length);
    kiln__key key = entry.key;
    key.digest[31] ^= 1;
    ck_assert_int_eq(kiln__entry_decode(&read, bytes, length, &key), KILN__ENTRY_OTHER_KEY);
    key = entry.key;
    strcpy(key.toolchain, "nvrtc-13.0.88-36424715");
    ck_assert_int_eq(kiln__entry_decode(&read, bytes, length, &key), KILN__ENTRY_OTHER_KEY);
    ck_assert_ptr_null(read.key_text);
    key.toolchain[0] = '\0';
    ck_assert_int_eq(kiln__entry_decode(&read, bytes, length, &key), KILN__ENTRY_GOOD);
    key.digest[0] ^= 1;
    ck_assert_int_eq(kiln__entry_decode(&read, bytes, length, &key), KILN__ENTRY_OTHER_KEY);
    kiln__free(bytes);
}
END_TEST

static const struct {
    size_t offset;
    uint8_t value;
} wrong_fields[] = {
    { 0, 'k' },            /* magic */
    { OFFSET_VERSION, 0 }, /* format versions before and after */
    { OFFSET_VERSION, 2 },
    { OFFSET_KIND, 0 }, /* kinds that do not exist */
    { OFFSET_KIND, 4 },
    { OFFSET_KIND + 3, 1 },
    { OFFSET_COUNT, 2 }, /* fewer, more and far too many sections */
    { OFFSET_COUNT, 4 },
    { OFFSET_COUNT, 17 },
    { OFFSET_COUNT + 3, 0xff },
    { OFFSET_KEY_LENGTH, 0 }, /* another key text, none, one behind the end */
    { OFFSET_KEY_LENGTH, 48 },
    { OFFSET_KEY_LENGTH + 3, 0xff },
    { OFFSET_DIGEST, 0 },          /* not the digest of the key text */
    { OFFSET_TOOLCHAIN, 0 },       /* no toolchain */
    { OFFSET_TOOLCHAIN + 5, '/' }, /* characters, padding */
    { OFFSET_TOOLCHAIN + 5, ' ' },
    { OFFSET_TOOLCHAIN + 30, 'x' },
    { OFFSET_TABLE, 0 }, /* a section's name: empty, characters, padding, taken */
    { OFFSET_TABLE, '/' },
    { OFFSET_TABLE + 15, 'x' },
    { OFFSET_TABLE + 16, 0 }, /* its offset */
    { OFFSET_TABLE + 23, 0x80 },
    { OFFSET_TABLE + 24, 0 }, /* its length */
    { OFFSET_TABLE + 31, 0xff },
};

START_TEST(test_entry__wrong_field_is_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    ck_assert_uint_ne(bytes[wrong_fields[_i].offset], wrong_fields[_i].value);
    bytes[wrong_fields[_i].offset] = wrong_fields[_i].value;
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_CHECKSUM);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__empty_and_unterminated_names_are_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    memset(bytes + OFFSET_TOOLCHAIN, 0, 64);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
    bytes = encode_sample(&length);
    memset(bytes + OFFSET_TABLE, 0, 16);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
    bytes = encode_sample(&length);
    memset(bytes + OFFSET_TOOLCHAIN, 'a', 64);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
    bytes = encode_sample(&length);
    memset(bytes + OFFSET_TABLE, 'a', 16);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__same_name_twice_is_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    memcpy(bytes + OFFSET_TABLE + ROW, bytes + OFFSET_TABLE, 16);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__swapped_rows_are_refused)
{
    size_t length;
    uint8_t row[ROW], *bytes = encode_sample(&length);
    memcpy(row, bytes + OFFSET_TABLE, ROW);
    memcpy(bytes + OFFSET_TABLE, bytes + OFFSET_TABLE + ROW, ROW);
    memcpy(bytes + OFFSET_TABLE + ROW, row, ROW);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__lengths_near_overflow_are_refused)
{
    static const uint8_t ends[] = { 0xff, 0xfe, 0xf8, 0xf7, 0xf0, 0x80 };
    size_t length;
    for (size_t i = 0; i < sizeof ends; i++) {
        uint8_t *bytes = encode_sample(&length);
        memset(bytes + OFFSET_TABLE + 24, 0xff, 8);
        bytes[OFFSET_TABLE + 24] = ends[i];
        seal(bytes, length);
        ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
        memset(bytes + OFFSET_TOTAL, 0xff, 8);
        seal(bytes, length);
        ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_SHORT);
        kiln__free(bytes);
    }
}
END_TEST

/* 2^64 - 1 bytes and their NUL round up to no bytes at all, if nobody looks. */
START_TEST(test_entry__length_that_wraps_to_nothing_is_refused)
{
    size_t length;
    uint8_t *bytes = encode_sample(&length);
    length -= 8;
    memset(bytes + OFFSET_TABLE + 2 * ROW + 24, 0xff, 8);
    bytes[OFFSET_TOTAL] = (uint8_t)length;
    bytes[OFFSET_TOTAL + 1] = (uint8_t)(length >> 8);
    seal(bytes, length);
    ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_entry__random_bytes_are_refused)
{
    uint8_t bytes[400];
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        size_t length = 152 + (size_t)round % (sizeof bytes - 152);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
        memcpy(bytes, "KILNENT\n\1\0\0\0\1\0\0\0", 16);
        memset(bytes + OFFSET_TOTAL, 0, 8);
        bytes[OFFSET_TOTAL] = (uint8_t)length;
        bytes[OFFSET_TOTAL + 1] = (uint8_t)(length >> 8);
        seal(bytes, length);
        ck_assert_int_eq(decode(bytes, length), KILN__ENTRY_FORMAT);
    }
}
END_TEST

START_TEST(test_entry__encode_refuses_what_decode_would)
{
    void *bytes = &bytes;
    size_t length;
    kiln__entry entry = sample_entry();
    entry.kind = (kiln__entry_kind)7;
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    ck_assert_ptr_null(bytes);
    entry = sample_entry();
    entry.key.digest[3] ^= 0x10;
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    entry.key.toolchain[0] = '\0';
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    memset(entry.key.toolchain, 'a', sizeof entry.key.toolchain);
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    strcpy(entry.key.toolchain, "../cc");
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    strcpy(entry.sections[2].name, "cubin");
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    entry.sections[1].length = KILN__ENTRY_MAX_BYTES - 100;
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
    entry = sample_entry();
    entry.key_text = "key\0text";
    entry.key_text_length = 8;
    kiln__digest(entry.key.digest, entry.key_text, 8);
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_EINVAL);
}
END_TEST

START_TEST(test_entry__encode_ignores_what_follows_a_name)
{
    size_t length, dirty_length;
    kiln__entry entry = sample_entry();
    uint8_t *clean = encode(&entry, &length);
    memset(entry.key.toolchain + 40, 'x', 24);
    memset(entry.sections[0].name + 10, 'x', 6);
    uint8_t *dirty = encode(&entry, &dirty_length);
    ck_assert_uint_eq(length, dirty_length);
    ck_assert_mem_eq(clean, dirty, length);
    kiln__free(clean);
    kiln__free(dirty);
}
END_TEST

START_TEST(test_entry__add_refuses_bad_names_and_too_many)
{
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    ck_assert(!kiln__entry_add(&entry, "", "", 0));
    ck_assert(!kiln__entry_add(&entry, "a b", "", 0));
    ck_assert(!kiln__entry_add(&entry, "abcdefghijklmnop", "", 0));
    ck_assert(kiln__entry_add(&entry, "abcdefghijklmno", "", 0));
    ck_assert(!kiln__entry_add(&entry, "abcdefghijklmno", "", 0));
    for (char name[] = "s_a"; entry.section_count < KILN__ENTRY_MAX_SECTIONS; name[2]++)
        ck_assert(kiln__entry_add(&entry, name, "", 0));
    ck_assert(!kiln__entry_add(&entry, "one_more", "", 0));
    ck_assert_uint_eq(entry.section_count, KILN__ENTRY_MAX_SECTIONS);
}
END_TEST

START_TEST(test_entry__faults_have_texts)
{
    ck_assert_str_eq(kiln__entry_fault_text(KILN__ENTRY_GOOD), "");
    for (int fault = KILN__ENTRY_SHORT; fault <= KILN__ENTRY_OTHER_KEY; fault++)
        ck_assert_uint_gt(strlen(kiln__entry_fault_text((kiln__entry_fault)fault)), 5);
}
END_TEST

START_TEST(test_blob__take_checks_counts_and_frees)
{
    size_t length;
    kiln__entry entry = sample_entry();
    kiln__entry_fault fault = KILN__ENTRY_SHORT;
    uint8_t *bytes = encode(&entry, &length);
    kiln__blob *blob = kiln__blob_take(bytes, length, &entry.key, &fault);
    ck_assert_ptr_nonnull(blob);
    ck_assert_int_eq(fault, KILN__ENTRY_GOOD);
    ck_assert_ptr_eq(blob->bytes, bytes);
    ck_assert_ptr_eq(kiln__blob_retain(blob), blob);
    kiln__blob_release(blob);
    ck_assert_str_eq(blob->entry.key_text, key_text);
    kiln__blob_release(blob);
    kiln__blob_release(NULL);
    bytes = encode(&entry, &length);
    bytes[200] ^= 1;
    ck_assert_ptr_null(kiln__blob_take(bytes, length, NULL, &fault));
    ck_assert_int_eq(fault, KILN__ENTRY_CHECKSUM);
}
END_TEST

static int refuse_allocation(void)
{
    return 1;
}

START_TEST(test_blob__take_without_memory_frees_the_bytes)
{
    size_t length;
    kiln__entry_fault fault = KILN__ENTRY_SHORT;
    uint8_t *bytes = encode_sample(&length);
    kiln__alloc_set_hook(refuse_allocation);
    kiln__blob *blob = kiln__blob_take(bytes, length, NULL, &fault);
    kiln__alloc_set_hook(NULL);
    ck_assert_ptr_null(blob);
    ck_assert_int_eq(fault, KILN__ENTRY_GOOD);
}
END_TEST

static const struct {
    const char *older, *newer;
} toolchains[] = {
    { "", "a" },
    { "nvrtc-12.9.41-35813241", "nvrtc-13.0.88-36424714" },
    { "nvrtc-9.0", "nvrtc-13.0" },
    { "nvrtc-13.0.9", "nvrtc-13.0.10" },
    { "nvrtc-13.0.88-99", "nvrtc-13.0.88-100" },
    { "nvrtc-13.0.88", "nvrtc-13.0.88-1" },
    { "cc-12", "nvrtc-1" },
    { "a1", "a01" },
    { "a-1", "a1" },
    { "a99999999999999999999999999", "a100000000000000000000000000" },
    { "a1b2", "a1b3" },
};

START_TEST(test_toolchain__newer_compares_greater)
{
    const char *older = toolchains[_i].older, *newer = toolchains[_i].newer;
    /* Leading zeros make no number larger, but must not make two ids equal. */
    int order = kiln__toolchain_compare(older, newer), back = kiln__toolchain_compare(newer, older);
    ck_assert_int_eq(kiln__toolchain_compare(older, older), 0);
    ck_assert_int_eq(kiln__toolchain_compare(newer, newer), 0);
    if (strcmp(older, "a1") == 0) {
        ck_assert_int_ne(order, 0);
        ck_assert((order < 0) != (back < 0));
        return;
    }
    ck_assert_int_lt(order, 0);
    ck_assert_int_gt(back, 0);
}
END_TEST

START_TEST(test_key__equal_needs_digest_and_toolchain)
{
    kiln__key a = sample_entry().key, b = a;
    memset(b.toolchain + 40, 'x', 10);
    ck_assert(kiln__key_equal(&a, &b));
    b.toolchain[3] = 'x';
    ck_assert(!kiln__key_equal(&a, &b));
    b = a;
    b.digest[31] ^= 0x80;
    ck_assert(!kiln__key_equal(&a, &b));
}
END_TEST

Suite *kiln_test_store_entry_suite(void)
{
    Suite *suite = suite_create("entry");
    TCase *tests = tcase_create("entry");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_entry__round_trip_keeps_everything);
    tcase_add_test(tests, test_entry__layout_is_the_documented_one);
    tcase_add_test(tests, test_entry__every_bit_flip_is_refused);
    tcase_add_test(tests, test_entry__every_sealed_bit_flip_is_refused_or_another_entry);
    tcase_add_test(tests, test_entry__every_truncation_is_short);
    tcase_add_test(tests, test_entry__truncation_that_states_its_length_fails_the_checksum);
    tcase_add_test(tests, test_entry__trailing_byte_is_refused);
    tcase_add_test(tests, test_entry__other_key_is_refused);
    tcase_add_loop_test(tests, test_entry__wrong_field_is_refused, 0,
                        (int)(sizeof wrong_fields / sizeof wrong_fields[0]));
    tcase_add_test(tests, test_entry__empty_and_unterminated_names_are_refused);
    tcase_add_test(tests, test_entry__same_name_twice_is_refused);
    tcase_add_test(tests, test_entry__swapped_rows_are_refused);
    tcase_add_test(tests, test_entry__lengths_near_overflow_are_refused);
    tcase_add_test(tests, test_entry__length_that_wraps_to_nothing_is_refused);
    tcase_add_test(tests, test_entry__random_bytes_are_refused);
    tcase_add_test(tests, test_entry__encode_refuses_what_decode_would);
    tcase_add_test(tests, test_entry__encode_ignores_what_follows_a_name);
    tcase_add_test(tests, test_entry__add_refuses_bad_names_and_too_many);
    tcase_add_test(tests, test_entry__faults_have_texts);
    tcase_add_test(tests, test_blob__take_checks_counts_and_frees);
    tcase_add_test(tests, test_blob__take_without_memory_frees_the_bytes);
    tcase_add_loop_test(tests, test_toolchain__newer_compares_greater, 0,
                        (int)(sizeof toolchains / sizeof toolchains[0]));
    tcase_add_test(tests, test_key__equal_needs_digest_and_toolchain);
    suite_add_tcase(suite, tests);
    return suite;
}
