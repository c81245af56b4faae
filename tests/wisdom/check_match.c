/* Which record is chosen for a spec, in which order, and why. */
#include "base/number.h"
#include "support/fields.h"
#include "support/suites.h"
#include "support/wisdom.h"
#include "wisdom/describe.h"
#include "wisdom/match.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN  "block=256 elems=4 vector=4 cache=plain"
#define STREAM "block=128 elems=4 vector=4 cache=stream"
#define DIGEST "00112233aabbccdd"

enum { ITEMS_MAX = 32, TEXT_MAX = 4096 };

static kiln__catalog catalog;
static kiln__wisdom_entry records[ITEMS_MAX];
static kiln__wisdom_item items[ITEMS_MAX];
static size_t count;
static const kiln__wisdom_device h200 = { H200, "sm_90", 132, 60 << 20, 150000000000 };

static void setup(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    count = 0;
}

static void teardown(void)
{
    kiln__catalog_fini(&catalog);
}

static kiln__wisdom_entry *put(const char *model, const char *op, const char *dtype, unsigned log2_n,
                               const char *geometry)
{
    ck_assert_uint_lt(count, ITEMS_MAX);
    records[count] = kiln_test_record(model, op, dtype, log2_n, geometry);
    items[count] = (kiln__wisdom_item){ &records[count], KILN__WISDOM_OWN };
    return &records[count++];
}

static void parse(kiln__fields *out, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_test_fields(out, &catalog, text, &report) == KILN_OK, "%s: %s", text, report.message);
}

static kiln__wisdom_choice choose_on(const kiln__wisdom_device *device, const char *text)
{
    kiln__fields spec;
    kiln__wisdom_choice choice;
    parse(&spec, text);
    kiln__wisdom_query query = { &spec, device, "nvrtc-13.0.88" };
    ck_assert_int_eq(kiln__wisdom_choose(&choice, items, count, &query, DIGEST, NULL, NULL, NULL), KILN_OK);
    return choice;
}

/* The spec with what was chosen, in text. */
static const char *chosen_on(const kiln__wisdom_device *device, const char *text)
{
    static char out[TEXT_MAX];
    kiln__fields spec;
    kiln__text formatted = { 0 };
    kiln__wisdom_choice choice = choose_on(device, text);
    if (!choice.found)
        return "nothing";
    parse(&spec, text);
    kiln__wisdom_apply(&choice, &spec);
    kiln__wisdom_geometry(&spec, &formatted);
    snprintf(out, sizeof(out), "%s", kiln__text_string(&formatted));
    kiln__text_fini(&formatted);
    return out;
}

typedef struct told {
    char text[TEXT_MAX];
    size_t length;
    int calls, chosen;
} told;

static int tell(void *data, const kiln_wisdom_candidate *candidate)
{
    told *self = data;
    ck_assert(candidate->reason[0] != '\0');
    ck_assert_int_eq(candidate->distance == UINT32_MAX, strcmp(candidate->refusal, "never used for this") == 0);
    self->calls++;
    self->chosen += candidate->chosen;
    self->length +=
        (size_t)snprintf(self->text + self->length, sizeof(self->text) - self->length, "%s%s%s%s%s\n",
                         candidate->chosen ? "* " : "", candidate->reason, candidate->refusal[0] != '\0' ? " (" : "",
                         candidate->refusal, candidate->refusal[0] != '\0' ? ")" : "");
    ck_assert_uint_lt(self->length, sizeof(self->text));
    return 0;
}

static void explain(told *out, const char *text)
{
    kiln__fields spec;
    kiln__wisdom_choice choice;
    parse(&spec, text);
    kiln__wisdom_query query = { &spec, &h200, "nvrtc-13.0.88" };
    memset(out, 0, sizeof(*out));
    ck_assert_int_eq(kiln__wisdom_choose(&choice, items, count, &query, DIGEST, tell, out, NULL), KILN_OK);
    ck_assert_int_eq(out->chosen, choice.found);
}

static void shuffle(unsigned seed)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = (seed = seed * 1103515245u + 12345u) / 65536u % i;
        kiln__wisdom_item item = items[i - 1];
        items[i - 1] = items[j];
        items[j] = item;
    }
}

/* One record for each step away, nearest first. */
static void put_ladder(void)
{
    put(H200, "relu6", "f32", 26, STREAM);
    put(H200, "relu6", "f32", 28, STREAM);
    put(H200, "relu6", "f32", 20, STREAM);
    put(H200, "hardtanh(-1,1)", "f32", 26, STREAM);
    put(H200, "relu6", "f32", 26, STREAM);
    items[count - 1].source = KILN__WISDOM_SHARED;
    put(H200, "relu6", "f32", 25, STREAM);
    items[count - 1].source = KILN__WISDOM_SHARED;
    put(H100, "relu6", "f32", 26, STREAM);
    put("NVIDIA L4", "relu6", "f32", 26, STREAM)->device.target = "sm_89";
    put(H200, "relu6", "f32", 26, STREAM)->toolchain = "nvrtc-12.9";
    put(H200, "relu6", "f32", 26, STREAM)->digest = "another";
}

START_TEST(test_wisdom__the_nearest_comes_first_and_says_why)
{
    static const char ladder[] = "* exact\n"
                                 "2^28 elements instead of 2^26\n"
                                 "2^20 elements instead of 2^26\n"
                                 "another op of the class: hardtanh(-1,1)\n"
                                 "from the shared directory\n"
                                 "2^25 elements instead of 2^26; from the shared directory\n"
                                 "another model of the same target: " H100 "\n"
                                 "another family of chips: sm_89, NVIDIA L4\n"
                                 "made with another toolchain: nvrtc-12.9\n"
                                 "made with another text of the template\n";
    told all;
    put_ladder();
    put(H200, "add(x,y)", "f32", 26, STREAM)->op_class = "2 in, 1 out, light";
    put(H200, "relu6", "f64", 26, STREAM);
    put("AMD EPYC", "relu6", "f32", 26, STREAM)->device.target = "cpu";
    put(H200, "relu6", "f32", 26, STREAM)->template_name = "rows"; /* not told of */
    for (unsigned seed = 0; seed < 20; seed++) {
        shuffle(seed);
        explain(&all, "op=relu6 n=67108864");
        ck_assert_int_eq(all.calls, 13);
        ck_assert_ptr_nonnull(strstr(all.text, "elements of another size (never used for this)\n"));
        ck_assert_ptr_nonnull(strstr(all.text, "for the cpu (never used for this)\n"));
        ck_assert_ptr_nonnull(strstr(all.text, "an op of another class (never used for this)\n"));
        ck_assert_msg(strncmp(all.text, ladder, strlen(ladder)) == 0, "%s", all.text);
    }
}
END_TEST

START_TEST(test_wisdom__distance_counts_the_differences)
{
    static const struct {
        const char *spec;
        uint32_t distance;
    } rows[] = {
        { "op=relu6 n=67108864", 0 }, { "op=relu6 dtype=f32 n=60000000", 0 }, { "op=relu6", 0 },
        { "op=relu6 n=1", 26 },       { "op=hardtanh n=67108864", 100 },      { "op=hardtanh n=33554432", 101 },
    };
    put(H200, "relu6", "f32", 26, STREAM);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kiln__wisdom_choice choice = choose_on(&h200, rows[i].spec);
        ck_assert(choice.found);
        ck_assert_msg(choice.distance == rows[i].distance, "%s: %u", rows[i].spec, choice.distance);
    }
    records[0].dtype = "f16";
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 dtype=bf16 n=67108864").distance, 1000);
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 dtype=f16 n=67108864").distance, 0);
    items[0].source = KILN__WISDOM_SHARED;
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 dtype=f16 n=67108864").distance, 10000);
    records[0].device.model = H100;
    records[0].device.target = "sm_90a";
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 dtype=f16 n=67108864").distance, 110000);
    records[0].device.target = "sm_80";
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 dtype=f16 n=67108864").distance, 310000);
    kiln__wisdom_device l4 = { "NVIDIA L4", "sm_89", 58, 0, 0 };
    ck_assert_uint_eq(choose_on(&l4, "op=relu6 dtype=f16 n=67108864").distance, 210000);
}
END_TEST

START_TEST(test_wisdom__an_open_size_takes_the_largest)
{
    put(H200, "relu6", "f32", 20, PLAIN);
    put(H200, "relu6", "f32", 30, STREAM);
    put(H200, "relu6", "f32", 25, PLAIN);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6"), STREAM);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=0"), STREAM);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=1000000"), PLAIN);
}
END_TEST

START_TEST(test_wisdom__what_the_spec_sets_stays)
{
    told all;
    put(H200, "relu6", "f32", 26, STREAM);
    put(H200, "relu6", "f32", 20, PLAIN);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864 block=128"), STREAM);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864 cache=plain"), PLAIN);
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864 block=64"), "nothing");
    explain(&all, "op=relu6 n=67108864 cache=plain");
    ck_assert_str_eq(all.text, "exact (cache=plain is asked for)\n* 2^20 elements instead of 2^26\n");
}
END_TEST

START_TEST(test_wisdom__a_geometry_that_the_template_forbids_is_skipped)
{
    told all;
    put(H200, "relu6", "f32", 26, "block=128 elems=8 vector=8 cache=stream"); /* 32 bytes: from sm_100 on */
    put(H200, "relu6", "f32", 25, "block=100");
    put(H200, "relu6", "f32", 24, "block=128 stages=3");
    put(H200, "relu6", "f32", 23, "block");
    put(H200, "relu6", "f32", 22, "block=256"); /* an old file, from before there were more parameters */
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), "block=256");
    explain(&all, "op=relu6 n=67108864");
    ck_assert_ptr_nonnull(strstr(all.text, "exact (vector=8 dtype=f32 target=sm_90: vector must not exceed 16 bytes"));
    ck_assert_ptr_nonnull(strstr(all.text, "(block=100 is not a multiple of 32"));
    ck_assert_ptr_nonnull(strstr(all.text, "(template elementwise has no parameter stages)"));
    ck_assert_ptr_nonnull(strstr(all.text, "('block' is not a field"));
    kiln__wisdom_device b200 = { "NVIDIA B200", "sm_100", 148, 0, 0 };
    ck_assert_str_eq(chosen_on(&b200, "op=relu6 n=67108864"), "block=128 elems=8 vector=8 cache=stream");
}
END_TEST

START_TEST(test_wisdom__another_target_means_another_device)
{
    kiln__wisdom_device nowhere = { "", "", 0, 0, 0 };
    kiln_report report = KILN_INIT(kiln_report);
    kiln__wisdom_choice choice;
    kiln__fields spec;
    put(H200, "relu6", "f32", 26, STREAM);
    put("NVIDIA A100", "relu6", "f32", 26, PLAIN)->device.target = "sm_80";
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 target=sm_80"), PLAIN);
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 target=sm_80").distance, 100000);
    ck_assert_uint_eq(choose_on(&h200, "op=relu6 target=sm_90a").distance, 0);
    ck_assert_str_eq(chosen_on(&nowhere, "op=relu6 target=sm_90"), STREAM);
    ck_assert_str_eq(chosen_on(&nowhere, "op=relu6 target=cpu"), "nothing");
    parse(&spec, "op=relu6");
    kiln__wisdom_query query = { &spec, &nowhere, "" };
    ck_assert_int_eq(kiln__wisdom_choose(&choice, items, count, &query, "", NULL, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "no target"));
    parse(&spec, "block=64");
    ck_assert_int_eq(kiln__wisdom_choose(&choice, items, count, &query, "", NULL, NULL, &report), KILN_EINVAL);
    ck_assert(!choice.found);
}
END_TEST

START_TEST(test_wisdom__ties_have_one_winner)
{
    /* All equally near to 2^26, but for the last: that device is less alike. */
    put(H100, "relu6", "f32", 25, PLAIN);
    put(H100, "relu6", "f32", 27, "block=64");
    put(H100, "relu6", "f32", 27, "block=96")->variants = 120;
    put(H100, "copy", "f32", 27, "block=160")->variants = 120;
    put("NVIDIA H100 PCIe", "relu6", "f32", 27, "block=192")->device.multiprocessors = 114;
    records[1].samples = 90;
    records[2].samples = 30;
    for (unsigned seed = 0; seed < 50; seed++) {
        shuffle(seed);
        ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), "block=96");
    }
    records[2].variants = 112; /* as many as the others: then samples decide */
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), "block=64");
}
END_TEST

START_TEST(test_wisdom__current_measurements_come_before_old_ones)
{
    put(H200, "relu6", "f32", 26, PLAIN)->toolchain = "nvrtc-12.9.1";
    put(H200, "relu6", "f32", 26, "block=96")->digest = "0000000000000000";
    put("NVIDIA L4", "hardtanh(-1,1)", "f32", 2, STREAM)->device.target = "sm_89";
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), STREAM);
    count = 2;
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), PLAIN);
    count = 1;
    records[0].digest = "0000000000000000";
    ck_assert_str_eq(chosen_on(&h200, "op=relu6 n=67108864"), PLAIN);
}
END_TEST

START_TEST(test_wisdom__classes_count_inputs_and_operations)
{
    static const struct {
        const char *spec, *op_class;
        unsigned operations;
    } rows[] = {
        { "op=copy", "1 in, 1 out, light", 0 },
        { "op=relu6", "1 in, 1 out, light", 2 },
        { "op=hardsigmoid", "1 in, 1 out, light", 4 },
        { "op=add", "2 in, 1 out, light", 1 },
        { "op=hardsigmoid(add(x,mul(y,z)))", "3 in, 1 out, light", 6 },
        { "op=hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(x)))))))",
          "1 in, 1 out, light", 28 },
        { "op=hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(hardsigmoid(x)))))))"
          ")",
          "1 in, 1 out, heavy", 32 },
        { "op=copy dtype=f32 out=f64", "1 in, 1 out of 8 bytes, light", 0 },
        { "op=copy dtype=f32 out=i32", "1 in, 1 out of 4 bytes, light", 0 },
        { "op=eq dtype=f16", "2 in, 1 out of 1 bytes, light", 1 },
        { "op=copy dtype=i8", "1 in, 1 out, light", 0 },
        { "op=exp dtype=f16 math=fast", "1 in, 1 out, light, fast", 18 },
    };
    char op_class[KILN__WISDOM_CLASS];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kiln__fields spec;
        parse(&spec, rows[i].spec);
        ck_assert_uint_eq(spec.op->operations, rows[i].operations);
        kiln__wisdom_class(&spec, op_class);
        ck_assert_str_eq(op_class, rows[i].op_class);
    }
}
END_TEST

START_TEST(test_wisdom__sizes_are_nearest_powers_of_two)
{
    ck_assert_uint_eq(kiln__number_octave(1), 0);
    ck_assert_uint_eq(kiln__number_octave(2), 1);
    ck_assert_uint_eq(kiln__number_octave(3), 2);
    ck_assert_uint_eq(kiln__number_octave(5), 2);
    ck_assert_uint_eq(kiln__number_octave(6), 3);
    ck_assert_uint_eq(kiln__number_octave((1ull << 26) - 1), 26);
    ck_assert_uint_eq(kiln__number_octave(4096ull * 393216), 31);
    ck_assert_uint_eq(kiln__number_octave(1ull << 63), 63);
    ck_assert_uint_eq(kiln__number_octave(UINT64_MAX), 63);
}
END_TEST

START_TEST(test_wisdom__digest_is_of_what_is_compiled)
{
    char a[KILN__WISDOM_DIGEST], b[KILN__WISDOM_DIGEST];
    kiln__template one = { .text = "//! tune block 64\nint x;\n", .cpu_text = NULL };
    kiln__template two = { .text = "int x;\n//! anything else", .cpu_text = "int y;\n" };
    ck_assert(kiln__wisdom_digest(&one, false, a) && kiln__wisdom_digest(&two, false, b));
    ck_assert_uint_eq(strlen(a), 16);
    ck_assert_str_eq(a, b);
    ck_assert(kiln__wisdom_digest(&two, true, b));
    ck_assert_str_ne(a, b);
    ck_assert(kiln__wisdom_digest(&one, true, b));
    ck_assert_str_eq(b, "");
}
END_TEST

START_TEST(test_wisdom__models_are_made_plain)
{
    char model[KILN__WISDOM_MODEL], longest[400];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    kiln__wisdom_model("Intel(R) Xeon\xc2\xae\t8480", model);
    ck_assert_str_eq(model, "Intel(R) Xeon???8480");
    kiln__wisdom_model(longest, model);
    ck_assert_uint_eq(strlen(model), KILN__WISDOM_NAME_MAX);
    kiln__wisdom_device device = { "Intel(R) Xeon\xc2\xae\t8480", "sm_90", 0, 0, 0 };
    put("Intel(R) Xeon???8480", "relu6", "f32", 26, STREAM);
    ck_assert_uint_eq(choose_on(&device, "op=relu6").distance, 0);
}
END_TEST

/* A record of rows says nothing about rows of another length, which its geometry may not hold. */
START_TEST(test_match__rows_are_of_one_length)
{
    static const struct {
        uint64_t cols;
        const char *geometry;
    } rows[] = { { 1000, "lanes=64 block=128 vector=4 elems=16 form=kept" },
                 { 4096, "lanes=256 block=256 vector=4 elems=16 form=kept" },
                 { 0, "lanes=32 block=64" } };
    for (int i = 0; i < 3; i++) {
        kiln__wisdom_entry *record = put(H200, "softmax", "f32", 22, rows[i].geometry);
        record->template_name = "rows";
        record->op_class = "1 in, 1 out, heavy";
        record->cols = rows[i].cols > 0 ? kiln__number_step(rows[i].cols) : 0;
    }
    const char *op_class = records[0].op_class;
    char actual[KILN__WISDOM_CLASS];
    kiln__fields spec;
    parse(&spec, "op=softmax dtype=f32");
    kiln__wisdom_class(&spec, actual);
    for (int i = 0; i < 3; i++)
        records[i].op_class = strcmp(op_class, actual) == 0 ? op_class : actual;
    ck_assert_str_eq(chosen_on(&h200, "op=softmax dtype=f32 n=64x1000"), rows[0].geometry);
    ck_assert_str_eq(chosen_on(&h200, "op=softmax dtype=f32 n=1048576x4096"), rows[1].geometry);
    ck_assert_str_eq(chosen_on(&h200, "op=softmax dtype=f32 n=64x2000"), "nothing");
    ck_assert_str_eq(chosen_on(&h200, "op=softmax dtype=f32"), rows[2].geometry);
    ck_assert_str_eq(chosen_on(&h200, "op=softmax dtype=f32 n=4194304"), rows[2].geometry);
    told said;
    explain(&said, "op=softmax dtype=f32 n=64x1000");
    ck_assert_ptr_nonnull(strstr(said.text, "rows of another length (never used for this)"));
}
END_TEST

Suite *kiln_test_wisdom_match_suite(void)
{
    Suite *suite = suite_create("wisdom_match");
    TCase *tcase = tcase_create("match");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_match__rows_are_of_one_length);
    tcase_add_test(tcase, test_wisdom__the_nearest_comes_first_and_says_why);
    tcase_add_test(tcase, test_wisdom__distance_counts_the_differences);
    tcase_add_test(tcase, test_wisdom__an_open_size_takes_the_largest);
    tcase_add_test(tcase, test_wisdom__what_the_spec_sets_stays);
    tcase_add_test(tcase, test_wisdom__a_geometry_that_the_template_forbids_is_skipped);
    tcase_add_test(tcase, test_wisdom__another_target_means_another_device);
    tcase_add_test(tcase, test_wisdom__ties_have_one_winner);
    tcase_add_test(tcase, test_wisdom__current_measurements_come_before_old_ones);
    tcase_add_test(tcase, test_wisdom__classes_count_inputs_and_operations);
    tcase_add_test(tcase, test_wisdom__sizes_are_nearest_powers_of_two);
    tcase_add_test(tcase, test_wisdom__digest_is_of_what_is_compiled);
    tcase_add_test(tcase, test_wisdom__models_are_made_plain);
    suite_add_tcase(suite, tcase);
    return suite;
}
