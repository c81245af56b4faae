#include "base/alloc.h"
#include "cpu/cpu.h"
#include "os/cpu.h"
#include "support/cpu_unit.h"
#include "support/refuse.h"
#include "support/sanitized.h"
#include "support/shortage.h"
#include "support/suites.h"
#include "support/temp.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(the_compiler_says_who_it_is)
{
    kiln__toolchain first = { 0 }, again = { 0 };
    ck_assert_int_eq(compiler->vtable->open(compiler, &first, &report), KILN_OK);
    ck_assert(strncmp(first.id, "gcc-", 4) == 0 || strncmp(first.id, "clang-", 6) == 0);
    for (const char *at = first.id; *at != '\0'; at++)
        ck_assert(isalnum((unsigned char)*at) || strchr(".-_", *at) != NULL);
    ck_assert_int_eq(first.path[0], '/');
    ck_assert(first.version[0] != '\0' && strchr(first.version, '\n') == NULL);
    ck_assert_uint_eq(first.target_count, 1);
    ck_assert(first.targets[0].backend == KILN__BACKEND_CPU);
    ck_assert_int_eq(compiler->vtable->identify(compiler, &again, &report), KILN_OK);
    ck_assert_mem_eq(&first, &again, sizeof(first));
}
END_TEST

/* A program in the temporary directory that answers as a compiler does, and hands the rest to the real one. */
static const char *script(const char *name, const char *banner, const char *machine, const char *rest)
{
    char text[2048];
    snprintf(text, sizeof(text),
             "#!/bin/sh\ncase $1 in\n--version) printf '%%s\\n' '%s' ;;\n-dumpmachine) echo '%s' ;;\n*) %s ;;\nesac\n",
             banner, machine, rest);
    kiln_test_temp_write(name, text, strlen(text));
    const char *path = kiln_test_temp_path(name);
    ck_assert_int_eq(chmod(path, 0700), 0);
    return path;
}

static void identify(const char *program, kiln__toolchain *out)
{
    kiln__compiler *other = kiln__cpu_compiler_open(program, NULL);
    kiln_status status = other->vtable->identify(other, out, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    other->vtable->close(other);
}

START_TEST(ids_come_from_what_compilers_print)
{
    static const struct {
        const char *banner, *prefix;
    } rows[] = {
        { "cc (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", "gcc-12.2.0-" },
        { "gcc (GCC) 12.2.1 20221121 (Red Hat 12.2.1-4)\nCopyright (C) 2022 Free Software Foundation, Inc.",
          "gcc-12.2.1-" },
        { "x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0) 13.2.0\nCopyright (C) 2023 Free Software Foundation, Inc.",
          "gcc-13.2.0-" },
        { "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu", "clang-14.0.6-" },
        { "Ubuntu clang version 14.0.0-1ubuntu1.1", "clang-14.0.0-" },
        { "tcc version 0.9.27 (x86_64 Linux)", "cc-0.9.27-" },
        { "a compiler", "cc-" },
    };
    kiln__toolchain a = { 0 }, b = { 0 }, c = { 0 };
    size_t prefix = strlen(rows[_i].prefix);
    identify(script("a", rows[_i].banner, "x86_64-linux-gnu", "exit 1"), &a);
    ck_assert_msg(strncmp(a.id, rows[_i].prefix, prefix) == 0 && strlen(a.id) == prefix + 8, "%s", a.id);
    ck_assert_int_eq(strncmp(rows[_i].banner, a.version, strlen(a.version)), 0);
    ck_assert_ptr_null(strchr(a.version, '\n'));
    identify(script("b", rows[_i].banner, "x86_64-linux-gnu", "exit 2"), &b);
    ck_assert_str_eq(a.id, b.id);
    identify(script("c", rows[_i].banner, "x86_64-pc-linux-gnu", "exit 1"), &c);
    ck_assert_str_ne(a.id, c.id);
}
END_TEST

START_TEST(a_missing_compiler_is_named)
{
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    kiln__compiler *none = kiln__cpu_compiler_open("kiln-no-such-cc", NULL);
    ck_assert_int_eq(none->vtable->open(none, &toolchain, &report), KILN_ENOCOMPILER);
    ck_assert_str_eq(report.message, "no C compiler 'kiln-no-such-cc' on PATH: install gcc or clang, or set KILN_CC");
    ck_assert_int_eq(none->vtable->compile(none, &unit, &image, &report), KILN_ENOCOMPILER);
    none->vtable->close(none);

    none = kiln__cpu_compiler_open("/nowhere/cc", NULL);
    ck_assert_int_eq(none->vtable->open(none, &toolchain, &report), KILN_ENOCOMPILER);
    ck_assert_str_eq(report.message, "no C compiler '/nowhere/cc': install gcc or clang, or set KILN_CC");
    ck_assert_int_eq(report.native, ENOENT);
    none->vtable->close(none);

    none = kiln__cpu_compiler_open("false", NULL);
    ck_assert_int_eq(none->vtable->open(none, &toolchain, &report), KILN_ENOCOMPILER);
    ck_assert_ptr_nonnull(strstr(report.message, "'false' does not answer --version"));
    ck_assert_ptr_nonnull(strstr(report.message, "(status 1)"));
    ck_assert_int_eq(report.native, 0);
    none->vtable->close(none);
}
END_TEST

START_TEST(a_compiler_that_appears_later_is_found)
{
    char path[4096];
    kiln__toolchain toolchain;
    kiln__compiler *late = kiln__cpu_compiler_open("late-cc", NULL);
    snprintf(path, sizeof(path), "%s:%s", kiln_test_temp_dir(), getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    ck_assert_int_eq(late->vtable->open(late, &toolchain, &report), KILN_ENOCOMPILER);
    script("late-cc", "late clang version 1.2.3", "any", "exit 1");
    ck_assert_int_eq(late->vtable->open(late, &toolchain, &report), KILN_OK);
    ck_assert_int_eq(strncmp(toolchain.id, "clang-1.2.3-", 12), 0);
    late->vtable->close(late);
}
END_TEST

START_TEST(a_replaced_compiler_gets_a_new_id)
{
    kiln__image before, after;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    kiln__compiler *other =
        kiln__cpu_compiler_open(script("my cc", "clang version 1.0", "any", "exec cc \"$@\""), NULL);
    ck_assert_int_eq(other->vtable->compile(other, &unit, &before, &report), KILN_OK);
    ck_assert_int_eq(strncmp(before.toolchain, "clang-1.0-", 10), 0);
    script("my cc", "clang version 22.0", "any", "exec cc \"$@\"");
    ck_assert_int_eq(other->vtable->compile(other, &unit, &after, &report), KILN_OK);
    ck_assert_int_eq(strncmp(after.toolchain, "clang-22.0-", 11), 0);
    kiln__image_fini(&before);
    kiln__image_fini(&after);
    other->vtable->close(other);
}
END_TEST

static char *text_of(void (*append)(const kiln__compiler *, kiln__text *), const kiln__compiler *of)
{
    kiln__text text = { 0 };
    append(of, &text);
    return kiln__text_take(&text);
}

START_TEST(the_search_depends_on_program_and_path)
{
    kiln__compiler *clang = kiln__cpu_compiler_open("clang", NULL);
    char *a = text_of(compiler->vtable->search, compiler);
    char *b = text_of(clang->vtable->search, clang);
    ck_assert_int_eq(setenv("PATH", "/elsewhere", 1), 0);
    char *c = text_of(compiler->vtable->search, compiler);
    ck_assert_str_ne(a, b);
    ck_assert_str_ne(a, c);
    kiln__free(a);
    kiln__free(b);
    kiln__free(c);
    clang->vtable->close(clang);
}
END_TEST

START_TEST(the_options_name_the_instruction_set)
{
    kiln__text text = { 0 };
    kiln__unit unit = { .name = NULL };
    ck_assert(kiln__target_parse("cpu", 3, &unit.target));
    compiler->vtable->options(compiler, &unit, &text);
    ck_assert_ptr_nonnull(strstr(text.data, kiln__cpu_isa()));
    ck_assert_ptr_nonnull(strstr(text.data, "-ffp-contract=off"));
    ck_assert_ptr_null(strstr(text.data, "native"));
    kiln__text_fini(&text);
}
END_TEST

static bool contains(const kiln__image *image, const char *word)
{
    return memmem(image->binary, image->binary_length, word, strlen(word)) != NULL;
}

START_TEST(equal_text_gives_equal_bytes_without_paths)
{
    char place[4096];
    kiln__image first = compile(kiln_test_twice);
    snprintf(place, sizeof(place), "%s/a place with spaces", kiln_test_temp_dir());
    ck_assert_int_eq(mkdir(place, 0700), 0);
    ck_assert_int_eq(setenv("TMPDIR", place, 1), 0);
    ck_assert_int_eq(setenv("LD_RUN_PATH", "/secret/run/path", 1), 0);
    ck_assert_int_eq(chdir(place), 0);
    kiln__image second = compile(kiln_test_twice);
    ck_assert_uint_eq(first.binary_length, second.binary_length);
    ck_assert_mem_eq(first.binary, second.binary, first.binary_length);
    ck_assert_str_eq(first.toolchain, second.toolchain);
    ck_assert(!contains(&second, "secret") && !contains(&second, "/tmp") && !contains(&second, "spaces"));
    ck_assert(!contains(&second, "GCC:") && !contains(&second, "clang"));
    ck_assert_ptr_null(first.ptx);
    kiln__image_fini(&first);
    kiln__image_fini(&second);
    ck_assert_int_eq(kiln_test_temp_count("a place with spaces"), 0);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

static void expect_shortage(kiln_status status, int error, const char *advice)
{
    ck_assert_msg(status == KILN_EIO, "%s: %s", kiln_status_name(status), report.message);
    ck_assert_msg(strstr(report.message, advice) != NULL, "%s", report.message);
    ck_assert_ptr_null(strstr(report.message, "install"));
    ck_assert_int_eq(report.native, error);
    kiln_report_clear(&report);
}

START_TEST(a_shortage_of_descriptors_is_no_missing_compiler)
{
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    take_descriptors();
    kiln_status status = compiler->vtable->open(compiler, &toolchain, &report);
    give_descriptors();
    expect_shortage(status, EMFILE, "ulimit -n");
    ck_assert_int_eq(compiler->vtable->open(compiler, &toolchain, &report), KILN_OK);
    take_descriptors();
    status = compiler->vtable->compile(compiler, &unit, &image, &report);
    give_descriptors();
    expect_shortage(status, EMFILE, "ulimit -n");
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
    image = compile(kiln_test_twice);
    kiln__image_fini(&image);
}
END_TEST

START_TEST(a_shortage_of_processes_is_no_missing_compiler)
{
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    kiln__compiler *other = kiln__cpu_compiler_open(NULL, NULL);
    ck_assert_int_eq(compiler->vtable->open(compiler, &toolchain, &report), KILN_OK);
    if (_i == 0)
        refuse_processes();
    else
        refuse_grandchildren(); /* the shell starts, and cannot start the compiler */
    expect_shortage(other->vtable->open(other, &toolchain, &report), EAGAIN, "ulimit -u");
    expect_shortage(compiler->vtable->compile(compiler, &unit, &image, &report), EAGAIN, "ulimit -u");
    other->vtable->close(other);
}
END_TEST

/* A compiler that heeded one of these would make other code, or none. */
START_TEST(the_environment_does_not_steer_it)
{
    kiln__image plain = compile(kiln_test_twice);
    kiln_test_temp_write("ld", "#!/bin/sh\nexit 1\n", 17);
    ck_assert_int_eq(chmod(kiln_test_temp_path("ld"), 0700), 0);
    const char *directory = kiln_test_temp_dir();
    ck_assert_int_eq(setenv("COMPILER_PATH", directory, 1), 0);
    ck_assert_int_eq(setenv("GCC_EXEC_PREFIX", directory, 1), 0);
    ck_assert_int_eq(setenv("CCC_OVERRIDE_OPTIONS", "x-O3 +-O0", 1), 0);
    ck_assert_int_eq(setenv("GCC_COMPARE_DEBUG", "-fno-tree-vectorize", 1), 0);
    ck_assert_int_eq(setenv("LD_RUN_PATH", directory, 1), 0);
    kiln__image steered = compile(kiln_test_twice);
    ck_assert_uint_eq(plain.binary_length, steered.binary_length);
    ck_assert(memcmp(plain.binary, steered.binary, plain.binary_length) == 0);
    kiln__image_fini(&plain);
    kiln__image_fini(&steered);
}
END_TEST

START_TEST(the_first_compile_sweeps_what_killed_ones_left)
{
    static const struct timespec long_ago[2] = { { 1000000, 0 }, { 1000000, 0 } };
    for (int i = 0; i < 2; i++) {
        const char *left = kiln_test_temp_path("kiln-temporary-aB3dEf");
        ck_assert_int_eq(mkdir(left, 0700), 0);
        kiln_test_temp_write("kiln-temporary-aB3dEf/unit.so", "half", 4);
        ck_assert_int_eq(utimensat(AT_FDCWD, left, long_ago, 0), 0);
        kiln__image image = compile(kiln_test_twice);
        kiln__image_fini(&image);
        ck_assert_int_eq(kiln_test_temp_count("."), i);
    }
}
END_TEST

START_TEST(errors_come_with_the_log)
{
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit("int kiln_cpu(void) { return kiln_unheard_of; }\n", 1);
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ECOMPILE);
    ck_assert_str_eq(report.stage, "compile");
    ck_assert_ptr_nonnull(strstr(report.message, "op=test target=cpu"));
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_unheard_of"));
    ck_assert_int_eq(report.native, 0);
    ck_assert_ptr_nonnull(report.log);
    ck_assert_ptr_nonnull(strstr(report.log, "error:"));
    ck_assert_ptr_null(image.binary);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
}
END_TEST

START_TEST(headers_are_not_found)
{
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit("#include <stdio.h>\n", 1);
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ECOMPILE);
}
END_TEST

START_TEST(warnings_are_kept)
{
    kiln__image image = compile("#warning \"mind the gap\"\nint x;\n");
    ck_assert_ptr_nonnull(image.log);
    ck_assert_ptr_nonnull(strstr(image.log, "mind the gap"));
    kiln__image_fini(&image);
    image = compile("int x;\n");
    ck_assert(image.log == NULL || image.log[0] == '\0');
    kiln__image_fini(&image);
}
END_TEST

START_TEST(gpus_are_not_its_business)
{
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    ck_assert(kiln__target_parse("sm_90", 5, &unit.target));
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ETARGET);
    ck_assert_ptr_nonnull(strstr(report.message, "sm_90"));
}
END_TEST

START_TEST(what_a_compiler_leaves_is_checked)
{
    /* the last argument but one is -o: "$@" ends with -o PATH */
    static const struct {
        const char *rest, *says;
        int native;
    } rows[] = {
        { "exit 0", "No such file", ENOENT },
        { "for o; do :; done; echo hello >\"$o\"", "too short", 0 },
        { "for o; do :; done; : >\"$o\"", "too short", 0 },
        { "for o; do :; done; head -c 4096 /dev/zero >\"$o\"", "not an ELF file", 0 },
        { "for o; do :; done; cc \"$@\"; truncate -s -64 \"$o\"", "truncated", 0 },
        { "for o; do :; done; ln -s /etc/passwd \"$o\"", "left no usable", ELOOP },
        { "for o; do :; done; mkfifo \"$o\"", "left no usable", EINVAL },
        { "exit 7", "status 7", 0 },
        { "kill -SEGV $$", "status 139", 0 },
    };
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    kiln__compiler *other = kiln__cpu_compiler_open(script("odd", "clang version 1.0", "any", rows[_i].rest), NULL);
    ck_assert_int_eq(other->vtable->compile(other, &unit, &image, &report), KILN_ECOMPILE);
    ck_assert_msg(strstr(report.message, rows[_i].says) != NULL, "%s", report.message);
    ck_assert_int_eq(report.native, rows[_i].native);
    ck_assert_ptr_null(image.binary);
    other->vtable->close(other);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

/* From here on this process can make no directory: they all are on read-only file systems. */
static void take_mkdir_away(void)
{
    struct sock_filter filter[] = {
        REFUSE_LOAD(nr),
#if defined(SYS_mkdir)
        REFUSE(mkdir, EROFS),
#endif
        REFUSE(mkdirat, EROFS),
        REFUSE_END,
    };
    refuse_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

START_TEST(a_place_for_temporary_files_is_asked_for)
{
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    take_mkdir_away();
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_EIO);
    ck_assert_ptr_nonnull(strstr(report.message, "TMPDIR"));
    ck_assert_int_eq(report.native, EROFS);
    ck_assert_ptr_null(image.binary);
}
END_TEST

/* Needs the right to take another user's identity. */
START_TEST(raised_rights_choose_no_compiler)
{
    enum { NOBODY = 65534 };
    kiln__toolchain toolchain;
    kiln__compiler *mine = kiln__cpu_compiler_open("kiln-my-cc", NULL);
    script("kiln-my-cc", "my clang version 1.2.3", "any", "exit 1");
    ck_assert_int_eq(chmod(kiln_test_temp_dir(), 0755), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("kiln-my-cc"), 0755), 0);
    ck_assert_int_eq(setenv("PATH", kiln_test_temp_dir(), 1), 0);
    if (seteuid(NOBODY) == 0) {
        kiln_status status = mine->vtable->open(mine, &toolchain, &report);
        char *search = text_of(mine->vtable->search, mine);
        ck_assert_int_eq(seteuid(getuid()), 0);
        ck_assert_int_eq(status, KILN_ENOCOMPILER);
        ck_assert_ptr_nonnull(strstr(report.message, "no C compiler 'kiln-my-cc' in /usr/bin or /bin"));
        ck_assert_ptr_null(strstr(report.message, "KILN_CC"));
        ck_assert_ptr_nonnull(strstr(search, "PATH /usr/bin:/bin\n"));
        kiln__free(search);
    }
    ck_assert_int_eq(mine->vtable->open(mine, &toolchain, &report), KILN_OK);
    mine->vtable->close(mine);
}
END_TEST

static void *compile_some(void *data)
{
    kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
    for (int i = 0; i < 4; i++) {
        kiln__image image;
        if (compiler->vtable->compile(compiler, &unit, &image, NULL) != KILN_OK)
            return data;
        kiln__image_fini(&image);
    }
    return NULL;
}

START_TEST(many_threads_compile_at_once)
{
    pthread_t threads[6];
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_some, threads), 0);
    for (size_t i = 0; i < 6; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
}
END_TEST

START_TEST(only_whole_objects_of_this_machine_are_taken)
{
    kiln__image image = compile(kiln_test_twice);
    unsigned char *bytes = image.binary;
    char reason[KILN__ELF_REASON_SIZE];
    for (size_t length = 0; length < image.binary_length; length++) {
        void *part = kiln__memdup(bytes, length);
        ck_assert_msg(!kiln__cc_check_object(part, length, reason), "length %zu", length);
        kiln__free(part);
    }
    ck_assert_msg(kiln__cc_check_object(bytes, image.binary_length, reason), "%s", reason);
    static const size_t fields[] = { 0,
                                     EI_CLASS,
                                     EI_DATA,
                                     offsetof(Elf64_Ehdr, e_type),
                                     offsetof(Elf64_Ehdr, e_machine),
                                     offsetof(Elf64_Ehdr, e_phoff) + 3,
                                     offsetof(Elf64_Ehdr, e_shoff) + 7,
                                     offsetof(Elf64_Ehdr, e_phentsize),
                                     offsetof(Elf64_Ehdr, e_phnum) + 1 };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        bytes[fields[i]] ^= 0x41;
        ck_assert_msg(!kiln__cc_check_object(bytes, image.binary_length, reason), "byte %zu", fields[i]);
        bytes[fields[i]] ^= 0x41;
    }
    kiln__image_fini(&image);
}
END_TEST

Suite *kiln_test_cpu_cc_suite(void)
{
    Suite *suite = suite_create("cc");
    TCase *tests = tcase_create("cc");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, open_compiler, close_compiler);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, the_compiler_says_who_it_is);
    tcase_add_loop_test(tests, ids_come_from_what_compilers_print, 0, 7);
    tcase_add_test(tests, a_missing_compiler_is_named);
    tcase_add_test(tests, a_compiler_that_appears_later_is_found);
    tcase_add_test(tests, a_replaced_compiler_gets_a_new_id);
    tcase_add_test(tests, the_search_depends_on_program_and_path);
    tcase_add_test(tests, the_options_name_the_instruction_set);
    tcase_add_test(tests, equal_text_gives_equal_bytes_without_paths);
    tcase_add_test(tests, the_environment_does_not_steer_it);
    tcase_add_test(tests, a_shortage_of_descriptors_is_no_missing_compiler);
    tcase_add_loop_test(tests, a_shortage_of_processes_is_no_missing_compiler, KILN_TEST_SANITIZED, 2);
    tcase_add_test(tests, the_first_compile_sweeps_what_killed_ones_left);
    tcase_add_test(tests, errors_come_with_the_log);
    tcase_add_test(tests, headers_are_not_found);
    tcase_add_test(tests, warnings_are_kept);
    tcase_add_test(tests, gpus_are_not_its_business);
    tcase_add_loop_test(tests, what_a_compiler_leaves_is_checked, 0, 9);
    tcase_add_test(tests, a_place_for_temporary_files_is_asked_for);
    tcase_add_test(tests, raised_rights_choose_no_compiler);
    tcase_add_test(tests, many_threads_compile_at_once);
    tcase_add_test(tests, only_whole_objects_of_this_machine_are_taken);
    suite_add_tcase(suite, tests);
    return suite;
}
