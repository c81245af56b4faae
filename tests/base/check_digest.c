#include "base/digest.h"
#include "support/suites.h"

#include <string.h>

static void hex_of(char out[KILN__DIGEST_HEX], const void *bytes, size_t length)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__digest(digest, bytes, length);
    kiln__digest_hex(out, digest);
}

/* Known answers computed with Python's hashlib.blake2b(..., digest_size=32). */
START_TEST(test_digest__is_blake2b_256)
{
    char hex[KILN__DIGEST_HEX];
    hex_of(hex, NULL, 0);
    ck_assert_str_eq(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    hex_of(hex, "abc", 3);
    ck_assert_str_eq(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}
END_TEST

START_TEST(test_digest__hexadecimal_is_lower_case_and_ordered)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    for (int i = 0; i < KILN__DIGEST_SIZE; i++)
        digest[i] = (uint8_t)(i * 8 + 5);
    kiln__digest_hex(hex, digest);
    ck_assert_uint_eq(strlen(hex), 64);
    ck_assert_mem_eq(hex, "050d151d252d353d", 16);
    ck_assert_str_eq(hex + 56, "e5edf5fd");
}
END_TEST

/* Known answers of `xxhsum -H2`, which prints the canonical form. */
START_TEST(test_digest__checksum_is_canonical_xxh3_128)
{
    static const uint8_t empty[] = { 0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                     0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f };
    static const uint8_t abc[] = { 0x06, 0xb0, 0x5a, 0xb6, 0x73, 0x3a, 0x61, 0x85,
                                   0x78, 0xaf, 0x5f, 0x94, 0x89, 0x2f, 0x39, 0x50 };
    uint8_t checksum[KILN__CHECKSUM_SIZE];
    kiln__checksum(checksum, NULL, 0);
    ck_assert_mem_eq(checksum, empty, sizeof empty);
    kiln__checksum(checksum, "abc", 3);
    ck_assert_mem_eq(checksum, abc, sizeof abc);
}
END_TEST

START_TEST(test_digest__every_bit_and_the_length_count)
{
    uint8_t bytes[300], digest[KILN__DIGEST_SIZE], checksum[KILN__CHECKSUM_SIZE], other[KILN__DIGEST_SIZE];
    memset(bytes, 0x5a, sizeof bytes);
    kiln__digest(digest, bytes, sizeof bytes);
    kiln__checksum(checksum, bytes, sizeof bytes);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        kiln__digest(other, bytes, sizeof bytes);
        ck_assert_mem_ne(other, digest, KILN__DIGEST_SIZE);
        kiln__checksum(other, bytes, sizeof bytes);
        ck_assert_mem_ne(other, checksum, KILN__CHECKSUM_SIZE);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    kiln__digest(other, bytes, sizeof bytes - 1);
    ck_assert_mem_ne(other, digest, KILN__DIGEST_SIZE);
    kiln__checksum(other, bytes, sizeof bytes - 1);
    ck_assert_mem_ne(other, checksum, KILN__CHECKSUM_SIZE);
}
END_TEST

Suite *kiln_test_base_digest_suite(void)
{
    Suite *suite = suite_create("digest");
    TCase *tcase = tcase_create("digest");
    tcase_add_test(tcase, test_digest__is_blake2b_256);
    tcase_add_test(tcase, test_digest__hexadecimal_is_lower_case_and_ordered);
    tcase_add_test(tcase, test_digest__checksum_is_canonical_xxh3_128);
    tcase_add_test(tcase, test_digest__every_bit_and_the_length_count);
    suite_add_tcase(suite, tcase);
    return suite;
}
