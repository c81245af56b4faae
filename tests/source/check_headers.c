/* The headers of sources: those that change, that appear, that cannot be read and that lie in directories made anew.
 * Most tests need NVRTC and compile in workers, as services do. */
#include "support/requesting.h"
#include "support/rights.h"
#include "support/sanitized.h"
#include "support/sourcing.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

/* Somebody writes a header all the time: what is stored is what was read, whatever comes of the single compile. */
static struct {
    char path[256];
    atomic_bool stop;
} writing;

static void *rewrite(void *data)
{
    char text[64];
    for (int i = 0; !atomic_load(&writing.stop); i++) {
        int length = snprintf(text, sizeof(text), "#define DEPTH %d\n", i % 7);
        int fd = open(writing.path, O_WRONLY | O_TRUNC);
        if (fd >= 0 && write(fd, text, (size_t)length) == length)
            close(fd);
        usleep(20000);
    }
    return data;
}

START_TEST(test_headers__header_that_does_not_hold_still)
{
    pthread_t writer;
    const void *ptx;
    size_t length;
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    snprintf(writing.path, sizeof(writing.path), "%s", kiln_test_temp_path("inc/sub/c.h"));
    ck_assert_int_eq(pthread_create(&writer, NULL, rewrite, NULL), 0);
    for (int i = 0; i < 6; i++) {
        kiln_status status = build();
        ck_assert_msg(status == KILN_OK || status == KILN_EIO || status == KILN_ECOMPILE, "%s", report.message);
    }
    atomic_store(&writing.stop, true);
    pthread_join(writer, NULL);
    /* Each depth, stored or not by then, is that of its header. */
    for (int i = 0; i < 7; i++) {
        char text[64], expected[64];
        kiln_program *program;
        snprintf(text, sizeof(text), "#define DEPTH %d\n", i);
        write_text("inc/sub/c.h", text);
        expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
        ck_assert_int_eq(kiln_program_section(&ptx, &length, program, "ptx"), KILN_OK);
        snprintf(expected, sizeof(expected), ", %d;", i);
        ck_assert_msg(strstr(ptx, expected) != NULL, "depth %d is not in its PTX: %s", i, (const char *)ptx);
        kiln_program_release(program);
    }
}
END_TEST

/* A mount namespace for this process and its children. */
static bool have_mounts_alone(void)
{
    bool alone = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    return alone && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Leaves this process and its children without CUDA's headers: an empty directory is mounted over each place where
 * they are looked for. *include gets the one beside NVRTC. False, with a line that says so, where that may not be
 * done. */
static bool hide_cuda_headers(char include[PATH_MAX])
{
    static const char *const beside[] = { "../include", "../../cuda_runtime/include" };
    kiln__toolchain toolchain;
    char path[2 * PATH_MAX];
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    ck_assert_int_eq(real->vtable->open(real, &toolchain, NULL), KILN_OK);
    real->vtable->close(real);
    *strrchr(toolchain.path, '/') = '\0';
    unsetenv("CUDA_PATH");
    unsetenv("CUDA_HOME");
    bool hidden = have_mounts_alone();
    include[0] = '\0';
    for (size_t i = 0; i < 3 && hidden; i++) {
        snprintf(path, sizeof(path), "%.3000s/%s", toolchain.path, i < 2 ? beside[i] : "");
        if (realpath(i < 2 ? path : "/usr/local/cuda/include", path) == NULL)
            continue;
        hidden = mount("none", path, "tmpfs", 0, NULL) == 0;
        if (include[0] == '\0')
            snprintf(include, PATH_MAX, "%.4000s", path);
    }
    if (!hidden || include[0] == '\0')
        printf("   left out: CUDA's headers cannot be hidden here\n");
    return hidden && include[0] != '\0';
}

static void write_header(const char *directory, const char *name, const char *text)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    for (char *slash = path + strlen(directory) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0755);
    }
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", path);
}

START_TEST(test_headers__cuda_headers_that_appear_are_noticed)
{
    char include[PATH_MAX], path[2 * PATH_MAX];
    if (!have_nvrtc())
        return;
    kiln_close(service);
    service = NULL;
    if (!hide_cuda_headers(include))
        return;
    make_directory("inc");
    use_directories("inc", NULL);
    source.text = "#if __has_include(<of_cuda.h>)\n#include <of_cuda.h>\n#elif __has_include(<of_cccl.h>)\n"
                  "#include <of_cccl.h>\n#else\n#define A 1\n#endif\n"
                  "extern \"C\" __global__ void k(int *p) { *p = A; }\n";
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    write_header(include, "of_cuda.h", "#define A 2\n");
    write_header(include, "cuda_fp16.h", "");
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    snprintf(path, sizeof(path), "%s/of_cuda.h", include);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_uint_eq(compiles(), 0); /* as it was at first */
    write_header(include, "cccl/of_cccl.h", "#define A 3\n");
    write_header(include, "cccl/cuda/std/version", "");
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    source.include_dir_count = 0; /* the same without a directory of the user's */
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
}
END_TEST

/* What cannot be read is named, and what was compiled without it is not taken for what is there now. */
START_TEST(test_headers__unreadable_header_is_named)
{
    char text[512], optional[] = "#if __has_include(\"opt.h\")\n#endif\n#include \"b.h\"\n"
                                 "extern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";
    if (!have_nvrtc() || !kiln_test_give_up_rights())
        return;
    reopen();
    make_tree("inc");
    make_tree("second");
    use_directories("inc", "second");
    source.text = two_deep;
    expect(build(), KILN_OK, "");
    write_text("inc/sub/c.h", "#define DEPTH 3\n");
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/sub/c.h"), 0), 0);
    snprintf(text, sizeof(text), "the header %s cannot be read: Permission denied: let this user read it",
             kiln_test_temp_path("inc/sub/c.h"));
    expect(build(), KILN_EIO, text);
    ck_assert_str_eq(report.message, text);
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/sub/c.h"), 0600), 0);
    expect(build(), KILN_OK, "");
    /* One that comes first hides those of the name behind it, readable or not. */
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/a.h"), 0), 0);
    snprintf(text, sizeof(text), "the header %s cannot be read", kiln_test_temp_path("inc/a.h"));
    expect(build(), KILN_EIO, text);
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/a.h"), 0600), 0);
    /* The same for one that is asked for, and for what lies in a directory that is closed. */
    source.text = optional;
    write_text("second/b.h", "#define DEPTH 6\n");
    expect(build(), KILN_OK, "");
    write_text("inc/opt.h", "");
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/opt.h"), 0), 0);
    snprintf(text, sizeof(text), "the header %s cannot be read", kiln_test_temp_path("inc/opt.h"));
    expect(build(), KILN_EIO, text);
    ck_assert_int_eq(unlink(kiln_test_temp_path("inc/opt.h")), 0);
    expect(build(), KILN_OK, "");
    source.text = "#include \"sub/c.h\"\nextern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/sub"), 0), 0);
    snprintf(text, sizeof(text), "the header %s/sub/c.h cannot be read", kiln_test_temp_path("inc"));
    expect(build(), KILN_EIO, text);
    ck_assert_int_eq(chmod(kiln_test_temp_path("inc/sub"), 0700), 0);
    expect(build(), KILN_OK, "");
}
END_TEST

/* By /proc a worker finds out where a header lies. Without it the header is unknown, which is not the same as
 * absent. */
START_TEST(test_headers__without_proc_no_header_is_taken_for_absent)
{
    static const char *const texts[] = { "#if !__has_include(\"sub/c.h\")\n#define DEPTH 9\n#endif\n"
                                         "#ifndef DEPTH\n#define DEPTH 8\n#endif\n"
                                         "extern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n",
                                         two_deep };
    char worker[PATH_MAX];
    if (!have_nvrtc() || KILN_TEST_SANITIZED) /* at its end a sanitized process looks into /proc */
        return;
    /* By /proc a program also finds its own file, and the worker beside that. */
    ck_assert_ptr_nonnull(getenv("KILN_BUILD_DIR"));
    snprintf(worker, sizeof(worker), "%s/libexec/kiln/kiln-worker", getenv("KILN_BUILD_DIR"));
    ck_assert_int_eq(setenv("KILN_WORKER", worker, 1), 0);
    make_tree("inc");
    use_directories("inc", NULL);
    kiln_close(service);
    service = NULL;
    if (!have_mounts_alone() || mount("none", "/proc", "tmpfs", 0, NULL) != 0) {
        printf("   left out: /proc cannot be hidden here\n");
        return;
    }
    open_service(KILN_ISOLATE_AUTO);
    for (size_t i = 0; i < 2; i++) {
        source.text = texts[i];
        expect(build(), KILN_EIO, "mount /proc");
    }
    source.text = "extern \"C\" __global__ void k(int *p) { *p = 1; }\n"; /* asks for no header */
    expect(build(), KILN_OK, "");
}
END_TEST

/* Counts in a header through a shared mapping, which changes no time of the file as long as its page is dirty. */
static struct {
    volatile char *digits;
    atomic_bool stop;
} counting;

static void *count_on(void *data)
{
    for (uint64_t i = 0; !atomic_load(&counting.stop); i++)
        for (uint64_t digit = 0, rest = i; digit < 8; digit++, rest /= 10)
            counting.digits[digit] = (char)('0' + rest % 10);
    return data;
}

START_TEST(test_headers__header_that_changes_in_a_mapping)
{
    enum { OLD_ENOUGH_S = 3, TRIES = 20 };
    static const char text[] = "#define DEPTH 1 //00000000\n";
    pthread_t thread;
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    write_text("inc/sub/c.h", text);
    int fd = open(kiln_test_temp_path("inc/sub/c.h"), O_RDWR);
    char *bytes = mmap(NULL, sizeof(text), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(bytes, MAP_FAILED);
    counting.digits = bytes + strcspn(text, "0");
    counting.digits[0] = '0';
    sleep(OLD_ENOUGH_S); /* the times of what has just changed are not relied on */
    ck_assert_int_eq(pthread_create(&thread, NULL, count_on, NULL), 0);
    /* The thread need not run during each single compile. */
    kiln_status status = KILN_OK;
    for (int i = 0; i < TRIES && status == KILN_OK; i++) {
        char edited[256];
        snprintf(edited, sizeof(edited), "// %d\n%s", i, two_deep);
        source.text = edited;
        status = build();
    }
    atomic_store(&counting.stop, true);
    pthread_join(thread, NULL);
    expect(status, KILN_EIO, "change while they are read");
    munmap(bytes, sizeof(text));
    close(fd);
}
END_TEST

/* A worker may read one set of directories for as long as it lives. */
START_TEST(test_headers__workers_belong_to_their_directories)
{
    if (!have_nvrtc())
        return;
    make_tree("inc");
    make_tree("other");
    source.text = two_deep;
    for (int i = 0; i < 6; i++) {
        char text[64];
        use_directories(i % 2 == 0 ? "inc" : "other", NULL);
        snprintf(text, sizeof(text), "#define DEPTH %d\n", i);
        write_text(i % 2 == 0 ? "inc/a.h" : "other/a.h", text);
        expect(build(), KILN_OK, "");
    }
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, 6);
    ck_assert_uint_eq(stats.worker_starts, 2);
}
END_TEST

/* A worker's sandbox holds directories, not their names. */
START_TEST(test_headers__directory_made_anew_is_read)
{
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    expect(build(), KILN_OK, "");
    for (uint64_t i = 0; i < 2; i++) {
        kiln_test_temp_remove(kiln_test_temp_path("inc"));
        make_tree("inc");
        write_text("inc/sub/c.h", i == 0 ? "#define DEPTH 3\n" : "#define DEPTH 4\n");
        expect(build(), KILN_OK, "");
        ck_assert_uint_eq(kiln_test_stats(service).worker_starts, i + 2);
    }
    write_text("inc/sub/c.h", "#define DEPTH 5\n");
    expect(build(), KILN_OK, "");
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 3);
}
END_TEST

/* ---- Which names lead to one file: that decides what #pragma once leaves out */

static const char once[] = "#pragma once\n#ifndef N\n#define N 1\n#else\n#undef N\n#define N 43\n#endif\n",
                  both[] = "#include \"a/h.h\"\n#include \"b/h.h\"\n"
                           "extern \"C\" __global__ void k(int *p) { *p = 1000 + N; }\n";

/* Builds with a directory, in a service that knows of earlier builds by the disk alone, and looks for the number in
 * the PTX. */
static void expect_number(const char *directory, const char *number, uint64_t expected_compiles)
{
    kiln_program *program;
    const void *ptx;
    size_t length;
    use_directories(directory, NULL);
    reopen();
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_program_section(&ptx, &length, program, "ptx"), KILN_OK);
    ck_assert_msg(strstr(ptx, number) != NULL, "%s gives no %s: %s", directory, number, (const char *)ptx);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, expected_compiles);
    kiln_program_release(program);
}

static void make_once(const char *name)
{
    char path[64];
    make_directory(name);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", name, i == 0 ? "a" : "b");
        make_directory(path);
    }
    snprintf(path, sizeof(path), "%s/a/h.h", name);
    write_text(path, once);
}

static void make_once_trees(void)
{
    make_once("copied");
    make_once("linked");
    make_once("pointed");
    write_text("copied/b/h.h", once);
    ck_assert_int_eq(link(kiln_test_temp_path("linked/a/h.h"), kiln_test_temp_path("linked/b/h.h")), 0);
    ck_assert_int_eq(symlink("../a/h.h", kiln_test_temp_path("pointed/b/h.h")), 0);
    source.text = both;
}

START_TEST(test_headers__links_to_one_file_are_not_copies_of_it)
{
    if (!have_nvrtc())
        return;
    make_once_trees();
    expect_number("linked", "1001", 1);
    expect_number("copied", "1043", 1);
    expect_number("pointed", "1001", 0); /* as the hard link */
    expect_number("linked", "1001", 0);
    expect_number("copied", "1043", 0);
}
END_TEST

START_TEST(test_headers__copies_of_a_file_are_not_links_to_it)
{
    if (!have_nvrtc())
        return;
    make_once_trees();
    expect_number("copied", "1043", 1);
    expect_number("pointed", "1001", 1);
    expect_number("linked", "1001", 0);
    /* A link in the place of the copy, in a tree that was looked at before. */
    ck_assert_int_eq(unlink(kiln_test_temp_path("copied/b/h.h")), 0);
    ck_assert_int_eq(link(kiln_test_temp_path("copied/a/h.h"), kiln_test_temp_path("copied/b/h.h")), 0);
    expect_number("copied", "1001", 0);
}
END_TEST

Suite *kiln_test_source_headers_suite(void)
{
    Suite *suite = suite_create("headers");
    TCase *tcase = tcase_create("headers");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_headers__header_that_does_not_hold_still);
    tcase_add_test(tcase, test_headers__cuda_headers_that_appear_are_noticed);
    tcase_add_test(tcase, test_headers__unreadable_header_is_named);
    tcase_add_test(tcase, test_headers__without_proc_no_header_is_taken_for_absent);
    tcase_add_test(tcase, test_headers__header_that_changes_in_a_mapping);
    tcase_add_test(tcase, test_headers__workers_belong_to_their_directories);
    tcase_add_test(tcase, test_headers__directory_made_anew_is_read);
    tcase_add_test(tcase, test_headers__links_to_one_file_are_not_copies_of_it);
    tcase_add_test(tcase, test_headers__copies_of_a_file_are_not_links_to_it);
    suite_add_tcase(suite, tcase);
    return suite;
}
