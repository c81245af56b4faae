/* Which sources may be compiled where nothing keeps them from reading files: those that cannot name any but headers in memory. What is
 * refused here was seen to reach a file with NVRTC 13.0, or is known to with another compiler. */
#include "source/source.h"
#include "support/suites.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_report report = KILN_INIT(kiln_report);

static kiln_status check(const char *text, const char *define, const char *header_text)
{
    const kiln_header header = { "h.h", header_text };
    kiln__source_unit *unit;
    kiln_source source = KILN_INIT(kiln_source);
    source.name = "user.cu";
    source.text = text;
    source.defines = &define;
    source.define_count = define != NULL;
    source.headers = &header;
    source.header_count = header_text != NULL;
    ck_assert_int_eq(kiln__source_make(&unit, &source, &report), KILN_OK);
    kiln_report_clear(&report);
    kiln_status status = kiln__source_check_includes(&unit->unit, &report);
    kiln__source_free(unit);
    return status;
}

/* The names of functions are texts, too: NVRTC compiles them behind the source. */
START_TEST(test_include__functions_count)
{
    const char *const functions[] = { "__has_include(</f>)" };
    kiln__source_unit *unit;
    kiln_source source = KILN_INIT(kiln_source);
    source.text = "int x;";
    source.functions = functions;
    source.function_count = 1;
    ck_assert_int_eq(kiln__source_make(&unit, &source, &report), KILN_OK);
    ck_assert_int_eq(kiln__source_check_includes(&unit->unit, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "functions: '__has_include(</f>)'"));
    kiln__source_free(unit);
}
END_TEST

static void expect_good(const char *text)
{
    ck_assert_msg(check(text, NULL, NULL) == KILN_OK, "%s: %s", text, report.message);
}

static void expect_refused(const char *text, const char *reason)
{
    ck_assert_msg(check(text, NULL, NULL) == KILN_EINVAL, "taken: %.200s", text);
    ck_assert_msg(strstr(report.message, reason) != NULL, "'%s' is not in: %s", reason, report.message);
    ck_assert_ptr_nonnull(strstr(report.message, "isolate=never"));
}

#define CAT "#define CAT(a, b) a##b\n"

START_TEST(test_include__words_are_pasted_as_people_do)
{
    static const char *const good[] = {
        CAT "__device__ int CAT(x_, 1);",
        "#include \"a.h\"\n#define NAME(a, b) a##_##b\n// what this has: an include\n__device__ int NAME(x, y);",
        "#include \"a.h\"\n#define NAME(a, b) __##a##_##b\n/* it has_ \n include \" */\n__device__ int NAME(x, y);",
        "#define NAME(a, b) a##_##b\nconst char *s = \"_has_include /*\"; /* has include */",
        "#define NAME(a, b) a %:%: _ %:%: b\nint _, __, h, a, include;",
        CAT "#if __has_include(\"a.h\") && defined(__has_include)\n__device__ int CAT(_, _next);\n#endif",
        "int _, has, _include; // nothing is pasted: no '#' beside '#'",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        expect_good(good[i]);
}
END_TEST

START_TEST(test_include__words_that_could_ask_for_files_are_not_pasted)
{
    static const struct {
        const char *text, *reason;
    } bad[] = {
        { CAT "#if CAT(__has_, include)(\"/f\")", "__has_include, which '##' could make of '__has_': rename" },
        { CAT "#if CAT(_, _has_include)(\"/f\")", "__has_include, which '##' could make of '_' and '_has_include'" },
        { "#define C(a, b, c, d) a##b##c##d\n#if C(_, _, has_, include)(\"/f\")",
          "'_' and '_' and 'has_' and 'include'" },
        { CAT "#if CAT(__has_include_, next)(\"/f\")",
          "__has_include_next, which '##' could make of '__has_include_'" },
        { CAT "#if CAT(__, has_include_next)(\"/f\")", "'__' and 'has_include_next'" },
        { CAT "#if CAT(__has_e, mbed)(\"/f\")", "__has_embed" },
        { CAT "int y = '\"'; // \"\n#if CAT(_, /* \" */ _has_include)(\"/f\")", "'_has_include'" },
        { CAT "auto r = R\"(\"/*)\";\n#if CAT(_, _has_include)(\"/f\")\n//*/", "'_has_include'" },
        { CAT "auto r = u8R\"(\"/*)\";\n#if CAT(_, _has_include)(\"/f\")\n//*/", "'_has_include'" },
        { CAT "auto s = \"\\\"/*\";\n#if CAT(_, _has_include)(\"/f\")\n//*/", "'_has_include'" },
        { CAT "// \\ \n#if CAT(_, _has_include)(\"/f\")", "'_has_include'" },
        { CAT "#if CAT(_, _has\\\n_include)(\"/f\")", "'_has_include'" },
        { "#if _NV_CONCAT_EVAL1(_, _has_include)(\"/f\")", "'_has_include'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i].text, bad[i].reason);
}
END_TEST

/* One text pastes what others name. */
START_TEST(test_include__all_texts_count)
{
    ck_assert_int_eq(check("#include \"h.h\"\nint _has_include;", "P(a, b)=a##b", "int _;"), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "user.cu: "));
    ck_assert_int_eq(check("#include \"h.h\"\nint _has_include;", "P(a, b)=a", "int _;"), KILN_OK);
    ck_assert_int_eq(check("#include \"h.h\"", NULL, "#include \"/f\""), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "h.h: 'include \"/f\"'"));
    ck_assert_int_eq(check("int x;", "H=__has_include(<f>)", NULL), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "defines: '__has_include(<f>)'"));
}
END_TEST

START_TEST(test_include__headers_are_asked_for_by_plain_names)
{
    static const char *const good[] = {
        "#ifdef __has_include\n#endif",
        "# ifndef __has_include_next\n#endif",
        "#if defined(__has_include) && __has_include(<a/b.h>)\n#endif",
        "#if !defined __has_embed || !(__has_include ( <a.h> ) && 201703L >= 2)\n#endif",
        "#if 0\n#elif __has_include(\"a.h\") && __has_include(<a.h>)\n#endif",
        "#define HAS __has_include(\"a.h\")\n#if HAS\n#endif",
        "#if MACRO && __has_include(\"a.h\")\n#endif",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        expect_good(good[i]);
}
END_TEST

/* What stands in angle brackets within a macro is words, which may be macros, and macros may be empty. */
START_TEST(test_include__other_ways_to_ask_are_refused)
{
    static const char *const bad[] = {
        "#define X /f\n#define HAS __has_include(<X.h>)\n#if HAS\n#endif",
        "#define HAS(x) __has_include(<x>)\n#if HAS(/f)\n#endif",
        "#define X /f\n#define I(x) x\n#if I(__has_include(<X.h>))\n#endif",
        "#define X /f\n#define I(x) x\n#define OPEN I(\n#if OPEN __has_include(<X.h>))\n#endif",
        "#define if I(\n#define I(x) x\n#define X /f\n#if if __has_include(<X.h>))\n#endif",
        "#define __cplusplus I(\n#define I(x) x\n#define X /f\n#if __cplusplus __has_include(<X.h>))\n#endif",
        "#define HAS __has_include(<CUDARTAPI/f>)\n#if HAS\n#endif",
        "#if /* */ __has_include(<X.h>)\n#endif",
        "#if __has_include(__has_include(\"/f\"))\n#endif",
        "#if __has_include(\"a\" \"/f\")\n#endif",
        "#define HAS(x) __has_include(#x)\n#if HAS(/f)\n#endif",
        "#define xdefined(x, ...) x##__VA_ARGS__\n#define J(x) x##x\n#if J(defined(__has_include))(\"/f\")\n#endif",
        "#define A(ifdef) #ifdef __has_include\nint x = A(b)(\"/f\");",
        "#define A /**/ifdef __has_include\nint x = A(\"/f\");",
        "int x = __has_include(\"/f\");",
        "#if __has_include(\"a//f\")\n#endif",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i], "a header is asked for in quotes");
}
END_TEST

/* A line of words long enough that its beginning is not looked for. */
START_TEST(test_include__beginning_of_a_long_line_is_none)
{
    static char text[8192];
    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, "#define HAS", 11);
    memcpy(text + 4000, "#if", 3);
    for (size_t at = 4003; at < 8100; at++)
        text[at] = ' ';
    strcpy(text + 8090, "__has_include(<X.h>)\n");
    expect_refused(text, "a header is asked for in quotes");
}
END_TEST

/* EDG's compilers take no blank between the backslash and the end of the line, others do. */
START_TEST(test_include__splices_hide_nothing)
{
    expect_refused("// \\ \nimport \"/f\";", "'import \"/f\"");
    expect_refused("// \\\t\nimport \"/f\";", "'import \"/f\"");
    expect_refused("#inclu\\ \nde \"/f\"", "'include \"/f\"'");
    expect_refused("#inclu\\\r\nde \"/f\"", "'include \"/f\"'");
    expect_good("// \\\nimport \"/f\";");
}
END_TEST

static void clear(void)
{
    kiln_report_clear(&report);
}

Suite *kiln_test_include_suite(void)
{
    Suite *suite = suite_create("include");
    TCase *tcase = tcase_create("include");
    tcase_add_checked_fixture(tcase, NULL, clear);
    tcase_add_test(tcase, test_include__words_are_pasted_as_people_do);
    tcase_add_test(tcase, test_include__words_that_could_ask_for_files_are_not_pasted);
    tcase_add_test(tcase, test_include__all_texts_count);
    tcase_add_test(tcase, test_include__functions_count);
    tcase_add_test(tcase, test_include__headers_are_asked_for_by_plain_names);
    tcase_add_test(tcase, test_include__other_ways_to_ask_are_refused);
    tcase_add_test(tcase, test_include__beginning_of_a_long_line_is_none);
    tcase_add_test(tcase, test_include__splices_hide_nothing);
    suite_add_tcase(suite, tcase);
    return suite;
}
