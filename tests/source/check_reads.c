/* Sources without a compiler: which options they may have, what decides their key, what they have read, and whether
 * the files are still the same. */
#include "base/alloc.h"
#include "jit/filesum.h"
#include "source/reads.h"
#include "source/source.h"
#include "support/rights.h"
#include "support/suites.h"
#include "support/temp.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static kiln_report report = KILN_INIT(kiln_report);

/* ---- Options */

static kiln__unit taking;

/* Takes a text of options, and is given the next one; what comes of it is in `taking`. */
static kiln_status take_option(const char *option, const char *next)
{
    kiln__unit_fini_source(&taking);
    memset(&taking, 0, sizeof(taking));
    return kiln__option_take(&taking, option, next, &report);
}

START_TEST(test_option__each_spelling_is_passed_on_as_one)
{
    static const struct {
        const char *option, *next, *passed; /* NULL: nothing */
        unsigned words;
        const char *note;
    } good[] = {
        { "-std=c++20", NULL, "--std=c++20", 1, "" },
        { "--std=c++20", NULL, "--std=c++20", 1, "" },
        { "--std c++20", NULL, "--std=c++20", 1, "" },
        { "-std", "c++20", "--std=c++20", 2, "" },
        { "--use_fast_math", "-w", "--use_fast_math", 1, "" },
        { "-fmad=false", NULL, "--fmad=false", 1, "" },
        { "--ftz", "true", "--ftz=true", 2, "" },
        { "--maxrregcount", "100", "--maxrregcount=100", 2, "" },
        { "-maxrregcount=  100", NULL, "--maxrregcount=100", 1, "" },
        { "--device-as-default-execution-space", NULL, "-default-device", 1, "" },
        { "-default-device=false", NULL, "-default-device=false", 1, "" },
        { "--generate-line-info", NULL, "-lineinfo", 1, "" },
        { "--relocatable-device-code", "true", "-rdc=true", 2, "" },
        { "-dc", NULL, "-rdc=true", 1, "" },
        { "--dlink-time-opt", NULL, "-dlto", 1, "" },
        { "--disable-warnings", NULL, "-w", 1, "" },
        { "--diag-suppress=177,20012", NULL, "--diag-suppress=177,20012", 1, "" },
        { "--restrict", NULL, "--restrict", 1, "" },
        { "--device-debug", NULL, "-G", 1, "option --device-debug: the kernels are not optimized" },
        { "-O3", NULL, NULL, 1, "option -O3 is left out: NVRTC always optimizes" },
        { "--expt-relaxed-constexpr", NULL, NULL, 1, "are device functions in any case" },
        { "--extended-lambda", NULL, NULL, 1, "a lambda in device code needs no __device__" },
        { "-Xcompiler", "-fPIC", NULL, 2, "option -Xcompiler is left out: there is no host compiler" },
        { "-arch=native", NULL, NULL, 1, "" },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(take_option(good[i].option, good[i].next) == KILN_OK, "%s: %s", good[i].option, report.message);
        const char *passed = kiln__list_next(&taking.options, NULL);
        ck_assert_uint_eq(taking.options.count, good[i].passed != NULL);
        ck_assert(good[i].passed == NULL || strcmp(passed, good[i].passed) == 0);
        ck_assert_uint_eq(kiln_source_option_words(good[i].option), good[i].words);
        ck_assert_ptr_nonnull(strstr(kiln__text_string(&taking.notes), good[i].note));
        ck_assert_int_eq(good[i].note[0] == '\0', taking.notes.length == 0);
    }
    ck_assert_int_eq(take_option("-arch=sm_90a", NULL), KILN_OK);
    ck_assert_str_eq(taking.target.name, "sm_90a");
    ck_assert_int_eq(kiln__option_take(&taking, "--gpu-architecture", "sm_80", &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "names sm_80 and the target is sm_90a"));
    ck_assert(kiln__option_tells_directory("-lineinfo") && kiln__option_tells_directory("-G"));
    ck_assert(!kiln__option_tells_directory("-w"));
}
END_TEST

START_TEST(test_option__others_are_refused_with_the_reason)
{
    static const struct {
        const char *option, *reason;
    } bad[] = {
        { "-I/etc", "include_dirs" },
        { "--include-path=/etc", "include_dirs" },
        { "-DA=1", "defines" },
        { "-UA", "defines" },
        { "--gpu-architecture=compute_80", "such as =sm_90" },
        { "-gencode=arch=compute_80,code=sm_80", "name the target" },
        { "--pch", "one process" },
        { "--pch-dir=/tmp", "one process" },
        { "--time=/tmp/x", "writes a file" },
        { "-gen-opt-lto", "-dlto alone optimizes" },
        { "--relocatable-device-code", "=true or =false" },
        { "--split-compile=2", "equal bytes" },
        { "-frandom-seed=x", "Kiln sets it itself" },
        { "--fdevice-time-trace=x", "writes a file" },
        { "-Xptxas=-v", "assembler's options" },
        { "-Xnvlink=-v", "not one of those" },
        { "-O4", "not one of those" },
        { "--fmad", "=true or =false" },
        { "--fmad=1", "=true or =false" },
        { "-std=c++98", "=c++11" },
        { "--maxrregcount=-1", "=NUMBER" },
        { "--diag-suppress=1,,2", "=NUMBER,NUMBER" },
        { "-w=1", "no value" },
        { "std=c++17", "begin with" },
        { "---w", "begin with" },
        { "-", "begin with" },
        { "", "begin with" },
        { "-w\n-G", "not one of those" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(take_option(bad[i].option, NULL) == KILN_EINVAL, "%s passes", bad[i].option);
        ck_assert_msg(strstr(report.message, bad[i].reason) != NULL, "%s: %s", bad[i].option, report.message);
    }
}
END_TEST

START_TEST(test_option__some_link)
{
    static const struct {
        const char *options[4];
        kiln__linking linking;
        const char *linker; /* its options, a blank in front of each */
    } cases[] = {
        { { "-w" }, KILN__LINK_NONE, " -arch=sm_90" },
        { { "-rdc=false" }, KILN__LINK_NONE, " -arch=sm_90" },
        { { "-rdc=true", "--relocatable-device-code=false" }, KILN__LINK_NONE, " -arch=sm_90" },
        { { "-rdc=true", "-maxrregcount=32", "-lineinfo" }, KILN__LINK_CODE, " -arch=sm_90" },
        { { "-dc" }, KILN__LINK_CODE, " -arch=sm_90" },
        { { "--device-c" }, KILN__LINK_CODE, " -arch=sm_90" },
        { { "-rdc=true", "-dlto" }, KILN__LINK_OPTIMIZED, " -arch=sm_90 -lto" },
        { { "--dlink-time-opt", "--maxrregcount=32", "-ftz=true", "--fmad=false" },
          KILN__LINK_OPTIMIZED,
          " -arch=sm_90 -lto -maxrregcount=32 -ftz=1 -fma=0" },
        { { "-dlto", "--use_fast_math", "-lineinfo" },
          KILN__LINK_OPTIMIZED,
          " -arch=sm_90 -lto -lineinfo -ftz=1 -prec-div=0 -prec-sqrt=0 -fma=1" },
        { { "-dlto", "-ftz=true", "--use_fast_math", "-prec-div=true" },
          KILN__LINK_OPTIMIZED,
          " -arch=sm_90 -lto -ftz=1 -prec-div=1 -prec-sqrt=0 -fma=1" },
        { { "-dlto", "-ftz=true", "-ftz=false", "-lineinfo" },
          KILN__LINK_OPTIMIZED,
          " -arch=sm_90 -lto -lineinfo -ftz=0" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln__unit unit = { .source = NULL };
        kiln__list made = { 0 };
        kiln__text text = { 0 };
        ck_assert(kiln__target_parse("sm_90", 5, &unit.target));
        for (int k = 0; k < 4 && cases[i].options[k] != NULL; k++)
            ck_assert_int_eq(kiln__option_take(&unit, cases[i].options[k], NULL, &report), KILN_OK);
        ck_assert_int_eq(kiln__source_linking(&unit), cases[i].linking);
        kiln__source_linker_options(&unit, &made);
        for (const char *at = NULL; (at = kiln__list_next(&made, at)) != NULL;)
            kiln__text_printf(&text, " %s", at);
        ck_assert_str_eq(kiln__text_string(&text), cases[i].linker);
        kiln__text_fini(&text);
        kiln__list_fini(&made);
        kiln__unit_fini_source(&unit);
    }
}
END_TEST

/* ---- Keys */

static void key_of(const kiln_source *given, kiln__text *out)
{
    kiln__unit *unit;
    kiln__target target;
    ck_assert_msg(kiln__source_make(&unit, given, &report) == KILN_OK, "%s", report.message);
    ck_assert(kiln__target_parse("sm_90", 5, &target));
    if (given->target == NULL)
        ck_assert_int_eq(kiln__source_set_target(unit, &target), KILN_OK);
    for (size_t i = 0; i <= given->include_dir_count; i++) {
        kiln__list_add(&unit->places, i == 0 ? "0" : "1");
        kiln__list_add(&unit->places, "/some/where");
    }
    kiln__list_add(&unit->places, given->cuda_headers != KILN_OFF ? "cuda" : "src0");
    kiln__list_add(&unit->places, "/some/other");
    kiln__source_key_text(out, unit, " --pinned");
    ck_assert(!out->failed);
    kiln__unit_free(unit);
}

static void expect_other_key(const char *base, const kiln_source *given)
{
    kiln__text text = { 0 };
    key_of(given, &text);
    ck_assert_str_ne(base, kiln__text_string(&text));
    ck_assert_ptr_null(strstr(text.data, "/some"));
    kiln__text_fini(&text);
}

START_TEST(test_source_key__has_everything_but_paths)
{
    static const char *const functions[] = { "a", "b" }, *const joined[] = { "a b" }, *const options[] = { "-w" },
                             *const defines[] = { "A=1" }, *const more[] = { "A", "B=1" };
    static const kiln_header header = { "h.h", "text" }, other = { "h.h", "texT" };
    kiln_source given = KILN_INIT(kiln_source);
    kiln__text base = { 0 }, same = { 0 };
    given.text = "text";
    given.name = "/a/path/x.cu";
    key_of(&given, &base);
    given.name = "/another/x.cu";
    key_of(&given, &same);
    ck_assert_str_eq(base.data, same.data);
    ck_assert_ptr_null(strstr(base.data, "/a"));
#define CHANGED(...)                           \
    do {                                       \
        kiln_source changed = given;           \
        __VA_ARGS__                            \
        expect_other_key(base.data, &changed); \
    } while (0)
    CHANGED(changed.text = "texT";);
    CHANGED(changed.length = 3;);
    CHANGED(changed.name = "y.cu";);
    CHANGED(changed.target = "sm_80";);
    CHANGED(changed.functions = functions; changed.function_count = 1;);
    CHANGED(changed.options = options; changed.option_count = 1;);
    CHANGED(changed.defines = defines; changed.define_count = 1;);
    CHANGED(changed.headers = &header; changed.header_count = 1;);
    CHANGED(changed.include_dir_count = 1;);
    CHANGED(changed.cuda_headers = KILN_OFF;);
    kiln__text_fini(&base);
    given.functions = functions;
    given.function_count = 2;
    given.headers = &header;
    given.header_count = 1;
    given.defines = defines;
    given.define_count = 1;
    key_of(&given, &base);
    CHANGED(changed.functions = joined; changed.function_count = 1;);
    CHANGED(changed.headers = &other;);
    CHANGED(changed.defines = more; changed.define_count = 2;);
    kiln__text_fini(&base);
    kiln__text_fini(&same);
}
END_TEST

/* ---- Lists of what was read */

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

START_TEST(test_reads__split_paths_of_places)
{
    char place[KILN__PLACE_SIZE], path[KILN__READ_PATH_MAX];
    ck_assert(kiln__reads_split("/kiln/0/a/b c.h", place, path));
    ck_assert_str_eq(place, "0");
    ck_assert_str_eq(path, "a/b c.h");
    ck_assert(kiln__reads_split("/kiln/cuda", place, path));
    ck_assert_str_eq(path, "");
    static const char *const bad[] = { "",
                                       "/kiln",
                                       "/kiln/",
                                       "/kiln//a",
                                       "kiln/0/a",
                                       "/kiln2/0/a",
                                       "/etc/passwd",
                                       "/kiln/../etc/passwd",
                                       "/kiln/toolongname/a",
                                       "/kiln/src0/<user.cu>",
                                       "/kiln/0/a\nb" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!kiln__reads_split(bad[i], place, path), "%s is split", bad[i]);
}
END_TEST

START_TEST(test_reads__places_beside_files)
{
    static const char *const others[] = { "", "0", "src", "src-1", "src01", "src1000", "src1x", "cuda", "std" };
    char place[KILN__PLACE_SIZE], again[KILN__PLACE_SIZE], path[KILN__READ_PATH_MAX], asked[64];
    for (int i = 0; i <= KILN__READS_FILES_MAX; i++) {
        kiln__reads_beside(place, (size_t)i);
        ck_assert_int_eq(kiln__reads_file_of(place), i);
        snprintf(asked, sizeof(asked), KILN__READS_ROOT "/%s/a.h", place);
        ck_assert(kiln__reads_split(asked, again, path));
        ck_assert_str_eq(again, place);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert_msg(kiln__reads_file_of(others[i]) == -1, "%s is beside a file", others[i]);
}
END_TEST

START_TEST(test_reads__lines_read_back)
{
    kiln__text text = { 0 }, contents = { 0 };
    kiln__read line = { .kind = KILN__READ_FILE, .place = "0", .path = "sub/../a b.h" }, back;
    strcpy(line.digest, digest);
    kiln__reads_add(&text, &line);
    line = (kiln__read){ .kind = KILN__READ_NOTHING, .place = "cuda", .path = "x.h" };
    kiln__reads_add(&text, &line);
    line = (kiln__read){ .kind = KILN__READ_DIRECTORY, .place = "1", .path = "" };
    kiln__reads_add(&text, &line);
    ck_assert(kiln__reads_are_sound(text.data, text.length));
    const char *at = text.data, *end = text.data + text.length;
    ck_assert(kiln__reads_next(&at, end, &back));
    ck_assert_str_eq(back.path, "sub/../a b.h");
    ck_assert_str_eq(back.digest, digest);
    ck_assert(kiln__reads_next(&at, end, &back));
    ck_assert_int_eq(back.kind, KILN__READ_NOTHING);
    ck_assert(kiln__reads_next(&at, end, &back));
    ck_assert_str_eq(back.path, "");
    ck_assert(at == end);
    kiln__reads_contents(&contents, text.data, text.length);
    ck_assert_ptr_nonnull(strstr(contents.data, "a b.h"));
    ck_assert_ptr_null(strstr(contents.data, "x.h"));
    for (size_t cut = 1; cut < text.length; cut++)
        ck_assert(text.data[cut - 1] == '\n' || !kiln__reads_are_sound(text.data, cut));
    ck_assert(!kiln__reads_are_sound("+ 0 - a.h\n", 10));
    ck_assert(!kiln__reads_are_sound("? 0 - a.h\n", 10));
    ck_assert(!kiln__reads_are_sound("- .. - a.h\n", 11));
    static const char *const links[] = { "= 0 1 l.h\n", "= 0 2 l.h\n", "= 0 01 l.h\n", "= 0 0 l.h\n", "= 0 - l.h\n" };
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        kiln__text linked = { 0 };
        kiln__text_printf(&linked, "- 0 - x.h\n+ 0 %s a.h\n%s", digest, links[i]);
        ck_assert_msg(kiln__reads_are_sound(linked.data, linked.length) == (i == 0), "%s", links[i]);
        ck_assert(!kiln__reads_are_sound(links[i], strlen(links[i])));
        kiln__text_fini(&linked);
    }
    kiln__text_fini(&text);
    kiln__text_fini(&contents);
}
END_TEST

static bool agrees(kiln__filesums *sums, const kiln__list *places, const char *format)
{
    kiln__text reads = { 0 };
    uint8_t sum[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__digest(sum, "one", 3);
    kiln__digest_hex(hex, sum);
    kiln__text_printf(&reads, format[0] == '+' ? "+ 0 %s %s\n" : "%.4s%s\n", format[0] == '+' ? hex : format,
                      format + 4);
    bool answer = kiln__filesums_agree(sums, places, reads.data, reads.length);
    kiln__text_fini(&reads);
    return answer;
}

START_TEST(test_filesums__tell_what_is_there)
{
    kiln__filesums sums;
    kiln__list places = { 0 };
    kiln__filesums_init(&sums);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc/sub"), 0700), 0);
    kiln_test_temp_write("inc/a.h", "one", 3);
    kiln_test_temp_write("outside.h", "one", 3);
    ck_assert_int_eq(symlink("../outside.h", kiln_test_temp_path("inc/link.h")), 0);
    ck_assert_int_eq(symlink("a.h", kiln_test_temp_path("inc/inner.h")), 0);
    kiln__list_add(&places, "0");
    kiln__list_add(&places, kiln_test_temp_path("inc"));
    for (int i = 0; i < 2; i++) {
        ck_assert(agrees(&sums, &places, "+ 0 a.h"));
        ck_assert(agrees(&sums, &places, "+ 0 sub/../a.h"));
        ck_assert(agrees(&sums, &places, "+ 0 inner.h"));
        ck_assert(!agrees(&sums, &places, "+ 0 b.h"));
        ck_assert(!agrees(&sums, &places, "+ 0 link.h"));
        ck_assert(!agrees(&sums, &places, "+ 0 ../outside.h"));
        ck_assert(agrees(&sums, &places, "- 0 - link.h"));
        ck_assert(agrees(&sums, &places, "- 0 - b.h"));
        ck_assert(agrees(&sums, &places, "- 9 - a.h"));
        ck_assert(!agrees(&sums, &places, "- 0 - a.h"));
        ck_assert(!agrees(&sums, &places, "/ 0 - a.h"));
        ck_assert(agrees(&sums, &places, "/ 0 - sub"));
        ck_assert(!agrees(&sums, &places, "- 0 - sub"));
    }
    kiln_test_temp_write("inc/a.h", "two", 3);
    ck_assert(!agrees(&sums, &places, "+ 0 a.h"));
    kiln__list_fini(&places);
    kiln__filesums_fini(&sums);
}
END_TEST

/* One and the same path is inside with one set of places and outside with another, whatever is remembered of its
 * file. */
START_TEST(test_filesums__what_is_remembered_is_inside_too)
{
    enum { OLD_ENOUGH_S = 3 };
    kiln__filesums sums;
    kiln__list narrow = { 0 }, wide = { 0 };
    kiln__filesums_init(&sums);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("other"), 0700), 0);
    kiln_test_temp_write("other/a.h", "one", 3);
    ck_assert_int_eq(symlink("../other/a.h", kiln_test_temp_path("inc/link.h")), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc/sub"), 0700), 0);
    kiln_test_temp_write("inc/sub/s.h", "one", 3);
    ck_assert_int_eq(symlink("sub", kiln_test_temp_path("inc/alias")), 0);
    kiln__list_add(&narrow, "0");
    kiln__list_add(&narrow, kiln_test_temp_path("inc"));
    kiln__list_add(&wide, "0");
    kiln__list_add(&wide, kiln_test_temp_path("inc"));
    kiln__list_add(&wide, "1");
    kiln__list_add(&wide, kiln_test_temp_path("other"));
    sleep(OLD_ENOUGH_S); /* what has just changed is not remembered */
    ck_assert(agrees(&sums, &wide, "+ 0 link.h"));
    ck_assert(agrees(&sums, &wide, "+ 0 ../other/a.h"));
    ck_assert(agrees(&sums, &narrow, "+ 0 alias/s.h"));
    ck_assert_uint_eq(HASH_COUNT(sums.files), 3);
    ck_assert(!agrees(&sums, &narrow, "+ 0 link.h"));
    ck_assert(!agrees(&sums, &narrow, "+ 0 ../other/a.h"));
    ck_assert(agrees(&sums, &narrow, "- 0 - link.h"));
    ck_assert(agrees(&sums, &narrow, "- 0 - ../other/a.h"));
    ck_assert(agrees(&sums, &wide, "+ 0 link.h"));
    /* The same file, untouched, by the same path: its directory has moved out. */
    ck_assert_int_eq(rename(kiln_test_temp_path("inc/sub"), kiln_test_temp_path("moved")), 0);
    ck_assert_int_eq(unlink(kiln_test_temp_path("inc/alias")), 0);
    ck_assert_int_eq(symlink("../moved", kiln_test_temp_path("inc/alias")), 0);
    ck_assert(!agrees(&sums, &narrow, "+ 0 alias/s.h"));
    ck_assert(agrees(&sums, &narrow, "- 0 - alias/s.h"));
    kiln__list_fini(&narrow);
    kiln__list_fini(&wide);
    kiln__filesums_fini(&sums);
}
END_TEST

/* NVRTC takes two links to a file for one file and two copies of it for two. */
START_TEST(test_filesums__know_links_from_copies)
{
    static const struct {
        const char *second;
        uint32_t same;
    } rows[] = { { "copy.h", 0 }, { "hard.h", 1 }, { "soft.h", 1 }, { "sub/../a.h", 1 } };
    kiln__filesums sums;
    kiln__list places = { 0 };
    kiln__read first = { .kind = KILN__READ_FILE, .place = "0", .path = "a.h" };
    uint8_t sum[KILN__DIGEST_SIZE];
    kiln__filesums_init(&sums);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc/sub"), 0700), 0);
    kiln_test_temp_write("inc/a.h", "one", 3);
    kiln_test_temp_write("inc/copy.h", "one", 3);
    ck_assert_int_eq(link(kiln_test_temp_path("inc/a.h"), kiln_test_temp_path("inc/hard.h")), 0);
    ck_assert_int_eq(symlink("a.h", kiln_test_temp_path("inc/soft.h")), 0);
    kiln__list_add(&places, "0");
    kiln__list_add(&places, kiln_test_temp_path("inc"));
    kiln__digest(sum, "one", 3);
    kiln__digest_hex(first.digest, sum);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (uint32_t same = 0; same <= 1; same++) {
            kiln__read second = first;
            kiln__text reads = { 0 };
            second.kind = same > 0 ? KILN__READ_SAME : KILN__READ_FILE;
            second.same = same;
            strcpy(second.path, rows[i].second);
            kiln__reads_add(&reads, &first);
            kiln__reads_add(&reads, &second);
            ck_assert_msg(kiln__filesums_agree(&sums, &places, reads.data, reads.length) == (rows[i].same == same),
                          "%s", reads.data);
            kiln__text_fini(&reads);
        }
    kiln__list_fini(&places);
    kiln__filesums_fini(&sums);
}
END_TEST

static void make_directory(const char *name)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path(name), 0700), 0);
}

/* A link at any level of a path leads out, and perhaps back. */
START_TEST(test_filesums__directories_on_the_way_are_followed)
{
    kiln__filesums sums;
    kiln__list places = { 0 };
    kiln__filesums_init(&sums);
    make_directory("at");
    make_directory("at/inc");
    make_directory("at/inc/deep");
    make_directory("at/inc/deep/er");
    make_directory("at/outside");
    make_directory("at/outside/far");
    kiln_test_temp_write("at/inc/deep/er/a.h", "one", 3);
    kiln_test_temp_write("at/outside/far/a.h", "one", 3);
    ck_assert_int_eq(symlink("../../outside", kiln_test_temp_path("at/inc/deep/out")), 0);
    ck_assert_int_eq(symlink("../inc/deep", kiln_test_temp_path("at/outside/back")), 0);
    kiln__list_add(&places, "0");
    kiln__list_add(&places, kiln_test_temp_path("at/inc"));
    ck_assert(agrees(&sums, &places, "+ 0 deep/er/a.h"));
    ck_assert(agrees(&sums, &places, "/ 0 - deep/er"));
    ck_assert(agrees(&sums, &places, "/ 0 - "));
    ck_assert(!agrees(&sums, &places, "+ 0 deep/out/far/a.h"));
    ck_assert(agrees(&sums, &places, "- 0 - deep/out/far/a.h"));
    ck_assert(agrees(&sums, &places, "- 0 - deep/out/far"));
    ck_assert(agrees(&sums, &places, "- 0 - deep/out/../outside/far/a.h"));
    ck_assert(agrees(&sums, &places, "+ 0 deep/out/back/er/a.h"));
    ck_assert(agrees(&sums, &places, "/ 0 - deep/out/back"));
    /* The place is another directory now, though its name leads to the same file. */
    ck_assert_int_eq(rename(kiln_test_temp_path("at"), kiln_test_temp_path("moved")), 0);
    ck_assert_int_eq(symlink("moved", kiln_test_temp_path("at")), 0);
    ck_assert(!agrees(&sums, &places, "+ 0 deep/er/a.h"));
    ck_assert(agrees(&sums, &places, "- 0 - deep/er/a.h"));
    kiln__list_fini(&places);
    kiln__filesums_fini(&sums);
}
END_TEST

/* Who lacks descriptors or rights does not know what is there: no list is true then, be it one that says "nothing". */
START_TEST(test_filesums__what_cannot_be_looked_at_agrees_with_nothing)
{
    kiln__filesums sums;
    kiln__list places = { 0 };
    struct rlimit before, none;
    kiln__filesums_init(&sums);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    kiln_test_temp_write("inc/a.h", "one", 3);
    kiln__list_add(&places, "0");
    kiln__list_add(&places, kiln_test_temp_path("inc"));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool as_file = agrees(&sums, &places, "+ 0 a.h"), as_nothing = agrees(&sums, &places, "- 0 - a.h"),
         missing = agrees(&sums, &places, "- 0 - b.h");
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert(!as_file && !as_nothing && missing);
    ck_assert(agrees(&sums, &places, "+ 0 a.h"));
    if (kiln_test_give_up_rights()) {
        ck_assert_int_eq(chmod(kiln_test_temp_path("inc/a.h"), 0), 0);
        ck_assert(!agrees(&sums, &places, "- 0 - a.h"));
        ck_assert_int_eq(chmod(kiln_test_temp_path("inc/a.h"), 0600), 0);
        ck_assert_int_eq(chmod(kiln_test_temp_path("inc"), 0), 0);
        ck_assert(!agrees(&sums, &places, "- 0 - a.h"));
        ck_assert_int_eq(chmod(kiln_test_temp_path("inc"), 0700), 0);
    }
    kiln__list_fini(&places);
    kiln__filesums_fini(&sums);
}
END_TEST

/* ---- Logs */

START_TEST(test_source__log_is_in_the_users_words)
{
    kiln__unit own = { .name = (char *)"x.cu", .shown = (char *)"dir/x.cu" };
    kiln__list_add(&own.places, "0");
    kiln__list_add(&own.places, "/inc");
    char *log =
        kiln__source_show_log(&own, "x.cu(1): warning: x.cu\n/kiln/0/a.h(2): error: x.cu(3)\n /kiln/7/a /kiln/0\n");
    ck_assert_str_eq(log, "dir/x.cu(1): warning: x.cu\n/inc/a.h(2): error: dir/x.cu(3)\n /kiln/7/a /kiln/0\n");
    kiln__free(log);
    kiln__list_add(&own.places, "src0");
    kiln__list_add(&own.places, "/dir");
    kiln__list_add(&own.places, "src1");
    kiln__list_add(&own.places, "/other");
    kiln__list_add(&own.parts, "other/<in>");
    kiln__list_add(&own.parts, "text");
    log = kiln__source_show_log(&own, "/kiln/src0/a.h(2): error: x\ncompilation of \"/kiln/src0/<x.cu>\".\n"
                                      "compilation of \"/kiln/src1/<<in>>\".\n/kiln/src1/b.h(1)\n");
    ck_assert_str_eq(log, "/dir/a.h(2): error: x\ncompilation of \"dir/x.cu\".\n"
                          "compilation of \"other/<in>\".\n/other/b.h(1)\n");
    kiln__free(log);
    /* A text may have such words itself. */
    char end[] = "#error /kiln/src0/<";
    log = kiln__source_show_log(&own, end);
    ck_assert_str_eq(log, "#error /dir/<");
    kiln__free(log);
    log = kiln__source_show_log(&own, "/kiln/src0/<x.cu /kiln/src1/<y> /kiln/0/<x.cu>");
    ck_assert_str_eq(log, "/dir/<x.cu /other/<y> /inc/<x.cu>");
    kiln__free(log);
    kiln__list_fini(&own.places);
    kiln__list_fini(&own.parts);
}
END_TEST

Suite *kiln_test_source_reads_suite(void)
{
    Suite *suite = suite_create("reads");
    TCase *tcase = tcase_create("reads");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_option__each_spelling_is_passed_on_as_one);
    tcase_add_test(tcase, test_option__others_are_refused_with_the_reason);
    tcase_add_test(tcase, test_option__some_link);
    tcase_add_test(tcase, test_source_key__has_everything_but_paths);
    tcase_add_test(tcase, test_reads__split_paths_of_places);
    tcase_add_test(tcase, test_reads__places_beside_files);
    tcase_add_test(tcase, test_reads__lines_read_back);
    tcase_add_test(tcase, test_filesums__tell_what_is_there);
    tcase_add_test(tcase, test_filesums__what_is_remembered_is_inside_too);
    tcase_add_test(tcase, test_filesums__know_links_from_copies);
    tcase_add_test(tcase, test_filesums__directories_on_the_way_are_followed);
    tcase_add_test(tcase, test_filesums__what_cannot_be_looked_at_agrees_with_nothing);
    tcase_add_test(tcase, test_source__log_is_in_the_users_words);
    suite_add_tcase(suite, tcase);
    return suite;
}
