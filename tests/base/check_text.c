/* Text, and what is written with it: reports and log lines. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "support/suites.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int allocations_left;

static int fail_after_some(void)
{
    return allocations_left-- <= 0;
}

static void allow_allocations(int count)
{
    allocations_left = count;
    kiln__alloc_set_hook(fail_after_some);
}

START_TEST(test_text__new_text_is_an_empty_string)
{
    kiln__text text = { 0 };
    ck_assert_str_eq(kiln__text_string(&text), "");
    kiln__text_append(&text, "");
    kiln__text_append_bytes(&text, NULL, 0);
    kiln__text_printf(&text, "%s", "");
    ck_assert_ptr_null(text.data);
    char *taken = kiln__text_take(&text);
    ck_assert_str_eq(taken, "");
    kiln__free(taken);
}
END_TEST

START_TEST(test_text__appends_grow_and_stay_terminated)
{
    kiln__text text = { 0 };
    for (int i = 0; i < 1000; i++) {
        kiln__text_append(&text, "ab");
        kiln__text_append_bytes(&text, "cde", 1);
        kiln__text_printf(&text, "%d;", i % 10);
        ck_assert_uint_eq(text.length, (size_t)(i + 1) * 5);
        ck_assert_uint_eq(strlen(text.data), text.length);
        ck_assert_uint_lt(text.length, text.capacity);
    }
    ck_assert_int_eq(memcmp(text.data, "abc0;abc1;abc2;", 15), 0);
    ck_assert_str_eq(text.data + 4990, "abc8;abc9;");
    char *taken = kiln__text_take(&text);
    ck_assert_uint_eq(strlen(taken), 5000);
    ck_assert_ptr_null(text.data);
    ck_assert_uint_eq(text.length, 0);
    kiln__free(taken);
}
END_TEST

START_TEST(test_text__bytes_may_hold_a_nul)
{
    kiln__text text = { 0 };
    kiln__text_append_bytes(&text, "a\0b", 3);
    kiln__text_append(&text, "c");
    ck_assert_uint_eq(text.length, 4);
    ck_assert_mem_eq(text.data, "a\0bc", 5);
    kiln__text_fini(&text);
    ck_assert_ptr_null(text.data);
}
END_TEST

START_TEST(test_text__printf_of_a_long_result_is_whole)
{
    kiln__text text = { 0 };
    kiln__text_append(&text, "<");
    kiln__text_printf(&text, "%5000d", 7);
    ck_assert_uint_eq(text.length, 5001);
    ck_assert_str_eq(text.data + 4999, " 7");
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_text__failed_growth_sticks_and_take_gives_null)
{
    kiln__text text = { 0 };
    kiln__text_append(&text, "kept");
    allow_allocations(0);
    kiln__text_printf(&text, "%200d", 1);
    kiln__alloc_set_hook(NULL);
    ck_assert(text.failed);
    kiln__text_append(&text, "x");
    ck_assert_str_eq(kiln__text_string(&text), "kept");
    ck_assert_ptr_null(kiln__text_take(&text));
    ck_assert(!text.failed);
    ck_assert_ptr_null(text.data);
}
END_TEST

START_TEST(test_text__take_of_an_empty_text_without_memory_is_null)
{
    kiln__text text = { 0 };
    allow_allocations(0);
    char *taken = kiln__text_take(&text);
    kiln__alloc_set_hook(NULL);
    ck_assert_ptr_null(taken);
}
END_TEST

START_TEST(test_text__absurd_length_fails_without_touching_memory)
{
    kiln__text text = { 0 };
    kiln__text_append_bytes(&text, "x", SIZE_MAX - 1);
    ck_assert(text.failed);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_text__copy_behaves_as_snprintf)
{
    char buffer[4] = "zzz";
    ck_assert_uint_eq(kiln__text_copy(buffer, 0, "abc"), 3);
    ck_assert_str_eq(buffer, "zzz");
    ck_assert_uint_eq(kiln__text_copy(buffer, 4, "abc"), 3);
    ck_assert_str_eq(buffer, "abc");
    ck_assert_uint_eq(kiln__text_copy(buffer, 4, "hello"), 5);
    ck_assert_str_eq(buffer, "hel");
    ck_assert_uint_eq(kiln__text_copy(buffer, 1, "hello"), 5);
    ck_assert_str_eq(buffer, "");
    ck_assert_uint_eq(kiln__text_copy(NULL, 0, "hello"), 5);
}
END_TEST

static const struct {
    const char *a, *b;
    size_t distance;
} distances[] = {
    { "", "", 0 },
    { "", "abc", 3 },
    { "abc", "abc", 0 },
    { "relu6", "relu", 1 },
    { "hardtahn", "hardtanh", 1 }, /* one swap */
    { "ca", "abc", 2 },            /* swap, then insert between */
    { "kitten", "sitting", 3 },
    { "block", "blokc", 1 },
    { "abcd", "badc", 2 },
    { "a", "b", 1 },
    { "f16", "bf16", 1 },
    { "\xc3\xa9", "\xc3\xa8", 1 },
};

START_TEST(test_text__distance_counts_the_edits)
{
    ck_assert_uint_eq(kiln__text_distance(distances[_i].a, distances[_i].b), distances[_i].distance);
    ck_assert_uint_eq(kiln__text_distance(distances[_i].b, distances[_i].a), distances[_i].distance);
}
END_TEST

/* The plain definition for comparison: fewest edits by trying every first step of a short script. */
static size_t slow_distance(const char *a, const char *b)
{
    size_t best = strlen(a) + strlen(b);
    if (!*a || !*b)
        return best;
    size_t steps[] = { slow_distance(a + 1, b + 1) + (*a != *b), slow_distance(a + 1, b) + 1,
                       slow_distance(a, b + 1) + 1 };
    for (size_t i = 0; i < 3; i++)
        best = steps[i] < best ? steps[i] : best;
    for (size_t i = 1; i < strlen(a); i++)
        for (size_t j = 1; j < strlen(b); j++)
            if (a[i] == b[0] && a[0] == b[j]) {
                size_t swapped = 1 + (i - 1) + (j - 1) + slow_distance(a + i + 1, b + j + 1);
                best = swapped < best ? swapped : best;
            }
    return best;
}

START_TEST(test_text__distance_agrees_with_trying_everything)
{
    uint32_t state = 1;
    for (int round = 0; round < 3000; round++) {
        char words[2][7] = { "", "" };
        for (int w = 0; w < 2; w++) {
            state = state * 1664525u + 1013904223u;
            size_t length = (state >> 24) % 7;
            for (size_t i = 0; i < length; i++) {
                state = state * 1664525u + 1013904223u;
                words[w][i] = (char)('a' + (state >> 24) % 3);
            }
        }
        ck_assert_msg(kiln__text_distance(words[0], words[1]) == slow_distance(words[0], words[1]), "%s and %s",
                      words[0], words[1]);
    }
}
END_TEST

START_TEST(test_text__distance_of_the_longest_words_does_not_overflow)
{
    char a[66], b[66];
    memset(a, 'a', 65);
    memset(b, 'b', 65);
    a[64] = b[64] = '\0';
    ck_assert_uint_eq(kiln__text_distance(a, b), 64);
    ck_assert_uint_eq(kiln__text_distance(a, ""), 64);
    a[64] = 'a';
    a[65] = '\0';
    ck_assert_uint_eq(kiln__text_distance(a, b), 65);
    ck_assert_uint_eq(kiln__text_distance(a, a), 0);
}
END_TEST

static const char *const op_names[] = { "hardsigmoid", "hardsigmoid_linear", "hardtanh", "relu6", "add", "mul", NULL };

static const char *op_name(const void *data, size_t i)
{
    return ((const char *const *)data)[i];
}

static const struct {
    const char *word, *closest;
} closest[] = {
    { "hardtahn", "hardtanh" },
    { "HardTanh", "hardtanh" },
    { "RELU6", "relu6" },
    { "relu", "relu6" },
    { "hard", "hardtanh" },
    { "hardsig", "hardsigmoid" },
    { "hardsigmoid_", "hardsigmoid" },
    { "hardsigmoid_liner", "hardsigmoid_linear" },
    { "ad", "add" },
    { "mull", "mul" },
    { "addd", "add" },
    { "x", NULL }, /* nothing in common with "add" */
    { "", NULL },
    { "sigmoid", NULL },
    { "softmax", NULL },
    { "hardswish", NULL },
};

START_TEST(test_text__closest_candidate_is_a_likely_slip)
{
    const char *found = kiln__text_closest(closest[_i].word, op_name, op_names);
    if (closest[_i].closest)
        ck_assert_pstr_eq(found, closest[_i].closest);
    else
        ck_assert_msg(found == NULL, "%s: found %s", closest[_i].word, found);
}
END_TEST

START_TEST(test_text__word_with_nothing_in_common_is_no_slip)
{
    static const char *const names[] = { "op", "n", NULL };
    ck_assert_ptr_null(kiln__text_closest("x", op_name, names));
    ck_assert_ptr_null(kiln__text_closest("xy", op_name, names));
    ck_assert_pstr_eq(kiln__text_closest("po", op_name, names), "op");
    ck_assert_pstr_eq(kiln__text_closest("N", op_name, names), "n");
}
END_TEST

START_TEST(test_text__too_long_word_has_no_close_candidate)
{
    char word[70], candidate[70];
    memset(word, 'a', 65);
    word[65] = '\0';
    const char *const same[] = { word, NULL };
    ck_assert_ptr_null(kiln__text_closest(word, op_name, same));
    memcpy(candidate, word, 66);
    word[64] = '\0';
    const char *const longer[] = { candidate, NULL };
    ck_assert_ptr_null(kiln__text_closest(word, op_name, longer));
}
END_TEST

START_TEST(test_text__identifier_is_ascii_and_starts_with_no_digit)
{
    ck_assert(kiln__text_is_identifier("x", 1));
    ck_assert(kiln__text_is_identifier("_a9Z", 4));
    ck_assert(kiln__text_is_identifier("ab-", 2));
    ck_assert(!kiln__text_is_identifier("", 0));
    ck_assert(!kiln__text_is_identifier("9a", 2));
    ck_assert(!kiln__text_is_identifier("a-b", 3));
    ck_assert(!kiln__text_is_identifier("a\0b", 3));
    ck_assert(!kiln__text_is_identifier("\xc3\xa9", 2));
}
END_TEST

START_TEST(test_alloc__hook_fails_what_it_is_told_to)
{
    allow_allocations(1);
    char *first = kiln__strdup("one"), *second = kiln__memdup("two", 3);
    void *third = kiln__calloc(1, 1), *fourth = kiln__realloc(NULL, 1);
    kiln__alloc_set_hook(NULL);
    ck_assert_str_eq(first, "one");
    ck_assert_ptr_null(second);
    ck_assert_ptr_null(third);
    ck_assert_ptr_null(fourth);
    kiln__free(first);
    kiln__free(NULL);
}
END_TEST

START_TEST(test_alloc__copies_are_terminated_and_overflow_is_refused)
{
    char *copy = kiln__memdup("abcdef", 3);
    ck_assert_str_eq(copy, "abc");
    kiln__free(copy);
    ck_assert_ptr_null(kiln__strdup(NULL));
    volatile size_t huge = SIZE_MAX / 2;
    ck_assert_ptr_null(kiln__calloc(huge, 3));
    ck_assert_ptr_null(kiln__memdup("", huge * 2 + 1));
}
END_TEST

START_TEST(test_report__failure_fills_all_fields_but_the_log)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__report_set_log(&report, "warning");
    ck_assert_int_eq(kiln__fail(&report, KILN_EOP, KILN__STAGE_SPEC, 7, "unknown op '%s'", "ad"), KILN_EOP);
    ck_assert_int_eq(report.status, KILN_EOP);
    ck_assert_str_eq(report.stage, "spec");
    ck_assert_int_eq(report.native, 7);
    ck_assert_str_eq(report.message, "unknown op 'ad'");
    ck_assert_str_eq(report.log, "warning");
    kiln_report_clear(&report);
    ck_assert_int_eq(report.status, KILN_OK);
    ck_assert_ptr_null(report.stage);
    ck_assert_int_eq(report.native, 0);
    ck_assert_str_eq(report.message, "");
    ck_assert_ptr_null(report.log);
    kiln_report_clear(&report);
}
END_TEST

START_TEST(test_report__none_is_left_alone_and_one_of_an_older_program_beyond_its_end)
{
    ck_assert_int_eq(kiln__fail(NULL, KILN_EIO, KILN__STAGE_STORE, 0, "%d", 1), KILN_EIO);
    kiln__report_set_log(NULL, "x");
    kiln_report_clear(NULL);
    kiln_report small = KILN_INIT(kiln_report);
    small.size = sizeof small - 8;
    memset(small.message, 'm', sizeof(small.message));
    ck_assert_int_eq(kiln__fail(&small, KILN_EIO, KILN__STAGE_STORE, 7, "%0600d", 1), KILN_EIO);
    ck_assert_uint_eq(strlen(small.message), sizeof(small.message) - 9);
    ck_assert_int_eq(small.message[sizeof(small.message) - 8], 'm');
    small.size = offsetof(kiln_report, log);
    small.log = (char *)"mine";
    strcpy(small.message, "mine");
    kiln__report_set_log(&small, "x");
    ck_assert_int_eq(kiln__fail(&small, KILN_EINVAL, KILN__STAGE_STORE, 8, "theirs"), KILN_EINVAL);
    ck_assert(small.status == KILN_EINVAL && small.native == 8);
    ck_assert_str_eq(small.stage, "store");
    kiln_report_clear(&small);
    ck_assert(small.status == KILN_OK && small.native == 0 && small.stage == NULL);
    ck_assert_str_eq(small.message, "mine");
    ck_assert_str_eq(small.log, "mine");
}
END_TEST

START_TEST(test_report__message_is_one_line_and_may_wrap_itself)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fail(&report, KILN_EIO, KILN__STAGE_OPEN, 0, "one\ntwo\r\n\tthree\x1b[0m\x7f.\n");
    ck_assert_str_eq(report.message, "one two   three [0m .");
    kiln__fail(&report, KILN_EIO, KILN__STAGE_OPEN, 0, "outer: %s!", report.message);
    ck_assert_str_eq(report.message, "outer: one two   three [0m .!");
}
END_TEST

static const struct {
    const char *character;
    size_t length;
} characters[] = { { "a", 1 }, { "\xc3\xa9", 2 }, { "\xe2\x82\xac", 3 }, { "\xf0\x9f\x94\xa5", 4 } };

START_TEST(test_report__long_message_is_cut_between_characters)
{
    size_t room = sizeof((kiln_report *)NULL)->message - 1, length = characters[_i].length;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[700];
        memset(text, 'x', shift);
        for (size_t at = shift; at <= 600; at += length)
            memcpy(text + at, characters[_i].character, length + 1);
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fail(&report, KILN_EIO, KILN__STAGE_OPEN, 0, "%s", text);
        size_t kept = strlen(report.message);
        ck_assert_uint_eq(kept, shift + (room - shift) / length * length);
        ck_assert_mem_eq(report.message, text, kept);
    }
}
END_TEST

START_TEST(test_report__text_that_just_fits_or_is_not_utf8_is_not_cut)
{
    char text[700];
    kiln_report report = KILN_INIT(kiln_report);
    memset(text, 'x', sizeof text);
    memcpy(text + 509, "\xc3\xa9", 3);
    kiln__fail(&report, KILN_EIO, KILN__STAGE_OPEN, 0, "%s", text);
    ck_assert_str_eq(report.message, text);
    memset(text, 0x80, sizeof text);
    text[699] = '\0';
    kiln__fail(&report, KILN_EIO, KILN__STAGE_OPEN, 0, "%s", text);
    ck_assert_uint_eq(strlen(report.message), 511);
}
END_TEST

START_TEST(test_report__out_of_memory_needs_no_memory)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__report_set_log(&report, "old");
    allow_allocations(0);
    ck_assert_int_eq(kiln__fail_memory(&report, KILN__STAGE_COMPILE), KILN_ENOMEM);
    kiln__report_set_log(&report, "new");
    kiln__alloc_set_hook(NULL);
    ck_assert_str_eq(report.message, "out of memory");
    ck_assert_str_eq(report.stage, "compile");
    ck_assert_ptr_null(report.log);
    kiln__report_set_log(&report, "log");
    kiln__report_set_log(&report, "");
    ck_assert_ptr_null(report.log);
}
END_TEST

START_TEST(test_report__every_status_has_a_name_and_a_text)
{
    ck_assert_str_eq(kiln_status_name(KILN_OK), "KILN_OK");
    ck_assert_str_eq(kiln_status_name(KILN_EOVERLAP), "KILN_EOVERLAP");
    ck_assert_str_eq(kiln_status_text(KILN_EOVERLAP), "output and input partly overlap");
    for (int status = 1; status > -40; status--) {
        ck_assert_ptr_nonnull(kiln_status_name((kiln_status)status));
        ck_assert_ptr_nonnull(kiln_status_text((kiln_status)status));
    }
    ck_assert_str_eq(kiln_status_name((kiln_status)-39), "KILN_UNKNOWN");
}
END_TEST

typedef struct captured {
    int lines;
    kiln_log_level level;
    char message[4096];
} captured;

static void capture(void *data, kiln_log_level level, const char *message)
{
    captured *seen = data;
    seen->lines++;
    seen->level = level;
    kiln__text_copy(seen->message, sizeof seen->message, message);
    errno = EBADF;
}

START_TEST(test_log__passes_the_wanted_levels_only)
{
    captured seen = { 0 };
    kiln__log log;
    kiln__log_init(&log, capture, &seen, KILN_LOG_INFO);
    kiln__log_line(&log, KILN_LOG_DEBUG, "no");
    ck_assert_int_eq(seen.lines, 0);
    kiln__log_line(&log, KILN_LOG_INFO, "%s\n%d", "yes", 1);
    ck_assert_int_eq(seen.lines, 1);
    ck_assert_int_eq(seen.level, KILN_LOG_INFO);
    ck_assert_str_eq(seen.message, "yes 1");
    kiln__log_line(&log, KILN_LOG_ERROR, "bad");
    ck_assert_int_eq(seen.lines, 2);
    ck_assert_int_eq(seen.level, KILN_LOG_ERROR);
}
END_TEST

START_TEST(test_log__without_a_callback_drops_lines)
{
    kiln__log log;
    kiln__log_init(&log, NULL, NULL, KILN_LOG_DEBUG);
    kiln__log_line(&log, KILN_LOG_ERROR, "dropped");
    kiln__log_line(NULL, KILN_LOG_ERROR, "dropped");
}
END_TEST

START_TEST(test_log__keeps_errno_and_bounds_the_line)
{
    captured seen = { 0 };
    kiln__log log;
    kiln__log_init(&log, capture, &seen, KILN_LOG_WARN);
    errno = ENOSPC;
    kiln__log_line(&log, KILN_LOG_WARN, "%03000d", 1);
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_uint_eq(strlen(seen.message), 2047);
}
END_TEST

static const struct {
    const char *value;
    kiln_log_level level;
} levels[] = { { NULL, KILN_LOG_WARN },     { "error", KILN_LOG_ERROR }, { "warn", KILN_LOG_WARN },
               { "info", KILN_LOG_INFO },   { "debug", KILN_LOG_DEBUG }, { "", KILN_LOG_WARN },
               { "verbose", KILN_LOG_WARN } };

START_TEST(test_log__level_comes_from_the_environment_unless_given)
{
    kiln__log log;
    unsetenv("KILN_LOG");
    if (levels[_i].value)
        setenv("KILN_LOG", levels[_i].value, 1);
    kiln__log_init(&log, capture, NULL, (kiln_log_level)0);
    ck_assert_int_eq(log.level, levels[_i].level);
    kiln__log_init(&log, capture, NULL, KILN_LOG_ERROR);
    ck_assert_int_eq(log.level, KILN_LOG_ERROR);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static TCase *report_case(void)
{
    TCase *tcase = tcase_create("report");
    tcase_add_test(tcase, test_report__failure_fills_all_fields_but_the_log);
    tcase_add_test(tcase, test_report__none_is_left_alone_and_one_of_an_older_program_beyond_its_end);
    tcase_add_test(tcase, test_report__message_is_one_line_and_may_wrap_itself);
    tcase_add_loop_test(tcase, test_report__long_message_is_cut_between_characters, 0, COUNT(characters));
    tcase_add_test(tcase, test_report__text_that_just_fits_or_is_not_utf8_is_not_cut);
    tcase_add_test(tcase, test_report__out_of_memory_needs_no_memory);
    tcase_add_test(tcase, test_report__every_status_has_a_name_and_a_text);
    tcase_add_test(tcase, test_log__passes_the_wanted_levels_only);
    tcase_add_test(tcase, test_log__without_a_callback_drops_lines);
    tcase_add_test(tcase, test_log__keeps_errno_and_bounds_the_line);
    tcase_add_loop_test(tcase, test_log__level_comes_from_the_environment_unless_given, 0, COUNT(levels));
    return tcase;
}

Suite *kiln_test_base_text_suite(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");
    tcase_add_test(tcase, test_text__new_text_is_an_empty_string);
    tcase_add_test(tcase, test_text__appends_grow_and_stay_terminated);
    tcase_add_test(tcase, test_text__bytes_may_hold_a_nul);
    tcase_add_test(tcase, test_text__printf_of_a_long_result_is_whole);
    tcase_add_test(tcase, test_text__failed_growth_sticks_and_take_gives_null);
    tcase_add_test(tcase, test_text__take_of_an_empty_text_without_memory_is_null);
    tcase_add_test(tcase, test_text__absurd_length_fails_without_touching_memory);
    tcase_add_test(tcase, test_text__copy_behaves_as_snprintf);
    tcase_add_loop_test(tcase, test_text__distance_counts_the_edits, 0, COUNT(distances));
    tcase_add_test(tcase, test_text__distance_agrees_with_trying_everything);
    tcase_add_test(tcase, test_text__distance_of_the_longest_words_does_not_overflow);
    tcase_add_loop_test(tcase, test_text__closest_candidate_is_a_likely_slip, 0, COUNT(closest));
    tcase_add_test(tcase, test_text__word_with_nothing_in_common_is_no_slip);
    tcase_add_test(tcase, test_text__too_long_word_has_no_close_candidate);
    tcase_add_test(tcase, test_text__identifier_is_ascii_and_starts_with_no_digit);
    tcase_add_test(tcase, test_alloc__hook_fails_what_it_is_told_to);
    tcase_add_test(tcase, test_alloc__copies_are_terminated_and_overflow_is_refused);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, report_case());
    return suite;
}
