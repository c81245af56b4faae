/* Faults of the store never reach the caller: whatever is in the way, kiln_get gives a right kernel, the fault is
 * counted and one warning is logged. */
#include "base/alloc.h"
#include "store/entry.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPEC "op=hardsigmoid dtype=f32 target=cpu"

static kiln_test_log log_seen;
static char path[4096];

/* A store with one kernel in it; `path` names the entry. */
static kiln_options filled_store(void)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    snprintf(path, sizeof(path), "%s", kiln_test_entry_path(service));
    kiln_close(service);
    log_seen = (kiln_test_log){ 0 };
    options.log = kiln_test_log_line;
    options.log_data = &log_seen;
    return options;
}

static void *slurp(size_t *length)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    char *bytes = malloc(1 << 20);
    ck_assert_ptr_nonnull(bytes);
    *length = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void overwrite(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

/* Opens a service on the store as it stands and checks that the caller sees nothing but a right kernel. */
static kiln_stats get_right_kernel(const kiln_options *options, kiln_origin source)
{
    kiln_service *service = kiln_test_open(options);
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_kernel_get_info(kernel, &info);
    kiln_test_check_hardsigmoid(kernel);
    ck_assert_int_eq(info.origin, source);
    kiln_kernel_release(kernel);
    kiln_stats stats = kiln_test_stats(service);
    kiln_close(service);
    return stats;
}

static void expect_damage_and_healing(const kiln_options *options)
{
    kiln_stats stats = get_right_kernel(options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_eq(stats.store_damaged, 1);
    ck_assert_int_eq(log_seen.warnings, 1);
    stats = get_right_kernel(options, KILN_ORIGIN_DISK);
    ck_assert_uint_eq(stats.store_damaged, 0);
    ck_assert_int_eq(log_seen.warnings, 1);
}

START_TEST(test_faults__flipped_bit_is_a_miss_and_heals)
{
    kiln_options options = filled_store();
    size_t length;
    char *bytes = slurp(&length);
    bytes[length / 2] ^= 1;
    overwrite(bytes, length);
    free(bytes);
    expect_damage_and_healing(&options);
}
END_TEST

START_TEST(test_faults__truncated_entry_is_a_miss_and_heals)
{
    kiln_options options = filled_store();
    size_t length;
    char *bytes = slurp(&length);
    overwrite(bytes, length - 1);
    free(bytes);
    expect_damage_and_healing(&options);
}
END_TEST

START_TEST(test_faults__empty_entry_is_a_miss_and_heals)
{
    kiln_options options = filled_store();
    overwrite("", 0);
    expect_damage_and_healing(&options);
}
END_TEST

/* Intact, of the right key, and yet nothing that the loader takes: dropped and compiled once more. */
START_TEST(test_faults__entry_that_does_not_load_is_compiled_again)
{
    kiln_options options = filled_store();
    size_t length, changed_length;
    char *bytes = slurp(&length);
    kiln__entry entry, changed = { 0 };
    void *encoded;
    ck_assert_int_eq(kiln__entry_decode(&entry, bytes, length, NULL), KILN__ENTRY_GOOD);
    changed.kind = entry.kind;
    changed.key = entry.key;
    changed.key_text = entry.key_text;
    changed.key_text_length = entry.key_text_length;
    for (size_t i = 0; i < entry.section_count; i++) {
        const kiln__section *section = &entry.sections[i];
        int object = strcmp(section->name, "object") == 0;
        ck_assert(kiln__entry_add(&changed, section->name, object ? "no program" : section->data,
                                  object ? 10 : section->length));
    }
    ck_assert_int_eq(kiln__entry_encode(&encoded, &changed_length, &changed), KILN_OK);
    overwrite(encoded, changed_length);
    kiln__free(encoded);
    free(bytes);
    get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(log_seen.warnings, 1);
    get_right_kernel(&options, KILN_ORIGIN_DISK);
}
END_TEST

START_TEST(test_faults__link_in_place_of_an_entry_is_not_followed)
{
    kiln_options options = filled_store();
    char elsewhere[4200];
    snprintf(elsewhere, sizeof(elsewhere), "%s", kiln_test_temp_path("elsewhere"));
    ck_assert_int_eq(rename(path, elsewhere), 0);
    ck_assert_int_eq(symlink(elsewhere, path), 0);
    kiln_stats stats = get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_ge(stats.store_untrusted, 1);
    ck_assert_int_eq(log_seen.warnings, 1);
}
END_TEST

START_TEST(test_faults__fifo_in_place_of_an_entry_does_not_block)
{
    kiln_options options = filled_store();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    kiln_stats stats = get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_ge(stats.store_untrusted, 1);
}
END_TEST

START_TEST(test_faults__entry_that_others_may_write_is_refused)
{
    kiln_options options = filled_store();
    ck_assert_int_eq(chmod(path, 0666), 0);
    kiln_stats stats = get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_ge(stats.store_untrusted, 1);
    ck_assert_int_eq(log_seen.warnings, 1);
}
END_TEST

START_TEST(test_faults__store_that_others_may_write_is_not_used)
{
    kiln_options options = filled_store();
    ck_assert_int_eq(chmod(options.cache_dir, 0777), 0);
    kiln_stats stats = get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_ge(stats.store_untrusted, 1);
    ck_assert_int_eq(log_seen.warnings, 1);
}
END_TEST

START_TEST(test_faults__store_of_another_user_is_not_used)
{
    kiln_options options = filled_store();
    if (geteuid() != 0)
        return; /* only root can give a directory away */
    ck_assert_int_eq(chown(options.cache_dir, 12345, 12345), 0);
    kiln_stats stats = get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_uint_ge(stats.store_untrusted, 1);
    ck_assert_int_eq(log_seen.warnings, 1);
}
END_TEST

START_TEST(test_faults__store_path_that_is_a_file_is_not_used)
{
    kiln_options options = kiln_test_options();
    kiln_test_temp_write("store", "in the way", 10);
    log_seen = (kiln_test_log){ 0 };
    options.log = kiln_test_log_line;
    options.log_data = &log_seen;
    get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(log_seen.warnings, 1);
}
END_TEST

/* Works for root too, whom modes do not stop: /proc takes no new directories. */
START_TEST(test_faults__store_that_cannot_be_made_is_not_used)
{
    kiln_options options = kiln_test_options();
    options.cache_dir = "/proc/kiln-test";
    log_seen = (kiln_test_log){ 0 };
    options.log = kiln_test_log_line;
    options.log_data = &log_seen;
    get_right_kernel(&options, KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(log_seen.warnings, 2); /* of the lock, and of the kernel */
}
END_TEST

Suite *kiln_test_service_faults_suite(void)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = tcase_create("store");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_faults__flipped_bit_is_a_miss_and_heals);
    tcase_add_test(tcase, test_faults__truncated_entry_is_a_miss_and_heals);
    tcase_add_test(tcase, test_faults__empty_entry_is_a_miss_and_heals);
    tcase_add_test(tcase, test_faults__entry_that_does_not_load_is_compiled_again);
    tcase_add_test(tcase, test_faults__link_in_place_of_an_entry_is_not_followed);
    tcase_add_test(tcase, test_faults__fifo_in_place_of_an_entry_does_not_block);
    tcase_add_test(tcase, test_faults__entry_that_others_may_write_is_refused);
    tcase_add_test(tcase, test_faults__store_that_others_may_write_is_not_used);
    tcase_add_test(tcase, test_faults__store_of_another_user_is_not_used);
    tcase_add_test(tcase, test_faults__store_path_that_is_a_file_is_not_used);
    tcase_add_test(tcase, test_faults__store_that_cannot_be_made_is_not_used);
    suite_add_tcase(suite, tcase);
    return suite;
}
