#include "base/elf.h"
#include "support/suites.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE = EM_X86_64, BODY = 40, SECTIONS = 3 };

/* Header, one segment, a body that the segment and the second section hold, then the section table. */
typedef struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    unsigned char body[BODY];
    Elf64_Shdr sections[SECTIONS]; /* none, the body, one without bytes in the file */
} image;

static image sample(void)
{
    image out = { .header = { .e_type = ET_DYN,
                              .e_machine = MACHINE,
                              .e_phoff = offsetof(image, segment),
                              .e_phentsize = sizeof(Elf64_Phdr),
                              .e_phnum = 1,
                              .e_shoff = offsetof(image, sections),
                              .e_shentsize = sizeof(Elf64_Shdr),
                              .e_shnum = SECTIONS },
                  .segment = { .p_type = PT_LOAD, .p_offset = offsetof(image, body), .p_filesz = BODY },
                  .sections = { { .sh_type = SHT_NULL, .sh_offset = UINT64_MAX, .sh_size = UINT64_MAX },
                                { .sh_type = SHT_PROGBITS, .sh_offset = offsetof(image, body), .sh_size = BODY },
                                { .sh_type = SHT_NOBITS, .sh_offset = offsetof(image, body), .sh_size = 1 << 30 } } };
    memcpy(out.header.e_ident, ELFMAG, SELFMAG);
    out.header.e_ident[EI_CLASS] = ELFCLASS64;
    out.header.e_ident[EI_DATA] = ELFDATA2LSB;
    return out;
}

/* From a copy at an odd address and of the exact length, so that a sanitizer sees any byte read beyond. */
static bool check(const image *of, size_t length, char reason[KILN__ELF_REASON_SIZE])
{
    unsigned char *copy = malloc(length + 1);
    memcpy(copy + 1, of, length);
    bool good = kiln__elf_check(copy + 1, length, MACHINE, reason);
    ck_assert_int_eq(good, reason[0] == '\0');
    if (good) {
        Elf64_Ehdr header = kiln__elf_header(copy + 1);
        for (unsigned i = 0; i < header.e_shnum; i++)
            kiln__elf_section(copy + 1, i);
    }
    free(copy);
    return good;
}

static void check_refused(const image *of, const char *text)
{
    char reason[KILN__ELF_REASON_SIZE];
    ck_assert_msg(!check(of, sizeof(*of), reason), "taken, expected: %s", text);
    ck_assert_msg(strstr(reason, text) != NULL, "'%s' is not in: %s", text, reason);
}

START_TEST(test_elf__whole_file_is_taken)
{
    char reason[KILN__ELF_REASON_SIZE];
    image whole = sample();
    ck_assert_msg(check(&whole, sizeof(whole), reason), "%s", reason);
    ck_assert_uint_eq(kiln__elf_section(&whole, 1).sh_size, BODY);
    whole.header.e_shnum = whole.header.e_shentsize = 0;
    ck_assert_msg(check(&whole, sizeof(whole), reason), "%s", reason);
    whole.header.e_phnum = whole.header.e_phentsize = 0;
    ck_assert_msg(check(&whole, sizeof(whole), reason), "%s", reason);
}
END_TEST

START_TEST(test_elf__truncated_file_is_refused_at_any_length)
{
    char reason[KILN__ELF_REASON_SIZE];
    image whole = sample();
    for (size_t length = 0; length < sizeof(whole); length++) {
        ck_assert_msg(!check(&whole, length, reason), "length %zu", length);
        const char *text = length < sizeof(Elf64_Ehdr) ? "too short" : "truncated";
        ck_assert_msg(strstr(reason, text) != NULL, "length %zu: %s", length, reason);
    }
}
END_TEST

START_TEST(test_elf__another_kind_of_file_is_named)
{
    image other = sample();
    other.header.e_ident[3] = 'G';
    check_refused(&other, "not an ELF file");
    other = sample();
    other.header.e_ident[EI_CLASS] = ELFCLASS32;
    check_refused(&other, "64-bit");
    other = sample();
    other.header.e_ident[EI_DATA] = ELFDATA2MSB;
    check_refused(&other, "little-endian");
    other = sample();
    other.header.e_machine = 190;
    check_refused(&other, "it is ELF for machine 190, expected 62");
}
END_TEST

START_TEST(test_elf__tables_of_another_shape_are_refused)
{
    image other = sample();
    other.header.e_shentsize--;
    check_refused(&other, "section table is malformed");
    other = sample();
    other.header.e_phentsize++;
    check_refused(&other, "segment table is malformed");
}
END_TEST

/* The last two make sums that wrap around to a place within the file. */
static const uint64_t far[] = { sizeof(image) + 1, UINT64_MAX, UINT64_MAX - 8 };

START_TEST(test_elf__what_ends_beyond_the_file_is_refused)
{
    image other = sample();
    other.sections[1].sh_offset = far[_i];
    check_refused(&other, "a section ends beyond its");
    other = sample();
    other.sections[1].sh_size = far[_i];
    check_refused(&other, "a section ends beyond its");
    other = sample();
    other.segment.p_offset = far[_i];
    check_refused(&other, "a segment ends beyond its");
    other = sample();
    other.segment.p_filesz = far[_i];
    check_refused(&other, "a segment ends beyond its");
    other = sample();
    other.header.e_shoff = far[_i];
    check_refused(&other, "the section table ends beyond its");
    other = sample();
    other.header.e_phoff = far[_i];
    check_refused(&other, "the segment table ends beyond its");
    other = sample();
    other.header.e_shnum = UINT16_MAX;
    check_refused(&other, "the section table ends beyond its");
    other = sample();
    other.header.e_phnum = UINT16_MAX;
    check_refused(&other, "the segment table ends beyond its");
}
END_TEST

START_TEST(test_elf__any_header_is_read_within_its_bytes)
{
    char reason[KILN__ELF_REASON_SIZE];
    unsigned random = 12345;
    for (int round = 0; round < 50000; round++) {
        image damaged = sample();
        for (int i = 0; i < 3; i++) {
            random = random * 1664525u + 1013904223u;
            ((unsigned char *)&damaged)[(random >> 8) % sizeof(damaged)] = (unsigned char)(random >> 3);
        }
        check(&damaged, sizeof(damaged), reason);
    }
}
END_TEST

START_TEST(test_elf__within)
{
    ck_assert(kiln__elf_within(0, 0, 0));
    ck_assert(kiln__elf_within(3, 4, 7));
    ck_assert(!kiln__elf_within(3, 5, 7));
    ck_assert(!kiln__elf_within(8, 0, 7));
    ck_assert(!kiln__elf_within(2, UINT64_MAX, 7));
    ck_assert(!kiln__elf_within(UINT64_MAX, 2, 7));
}
END_TEST

Suite *kiln_test_base_elf_suite(void)
{
    Suite *suite = suite_create("elf");
    TCase *tcase = tcase_create("elf");
    tcase_add_test(tcase, test_elf__whole_file_is_taken);
    tcase_add_test(tcase, test_elf__truncated_file_is_refused_at_any_length);
    tcase_add_test(tcase, test_elf__another_kind_of_file_is_named);
    tcase_add_test(tcase, test_elf__tables_of_another_shape_are_refused);
    tcase_add_loop_test(tcase, test_elf__what_ends_beyond_the_file_is_refused, 0, 3);
    tcase_add_test(tcase, test_elf__any_header_is_read_within_its_bytes);
    tcase_add_test(tcase, test_elf__within);
    suite_add_tcase(suite, tcase);
    return suite;
}
