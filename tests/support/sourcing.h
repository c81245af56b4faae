/* A service and a source to compile with it, directories of headers, and how many compiles that takes. For suites
 * that use kiln_test_temp_use; they need NVRTC. */
#ifndef KILN_TESTS_SUPPORT_SOURCING_H
#define KILN_TESTS_SUPPORT_SOURCING_H

#include "gpu/cuda.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/temp.h"
#include <check.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kiln_report report = KILN_INIT(kiln_report);
static kiln_service *service;
static kiln_source source;
static const char *directories[4];

static inline bool have_nvrtc(void)
{
    kiln__toolchain toolchain;
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bool found = real->vtable->open(real, &toolchain, NULL) == KILN_OK;
    real->vtable->close(real);
    if (!found)
        printf("   left out: there is no NVRTC\n");
    return found;
}

static inline void open_service(kiln_isolate isolate)
{
    kiln_options options = kiln_test_gpu_options();
    options.isolate = isolate;
    service = kiln_test_open(&options);
}

static inline void set_up(void)
{
    source = (kiln_source)KILN_INIT(kiln_source);
    source.name = "user.cu";
    source.target = "sm_90";
    open_service(KILN_ISOLATE_AUTO);
}

static inline void tear_down(void)
{
    kiln_close(service);
    service = NULL;
    kiln_report_clear(&report);
}

static inline void reopen(void)
{
    kiln_close(service);
    open_service(KILN_ISOLATE_AUTO);
}

static inline void write_text(const char *name, const char *text)
{
    kiln_test_temp_write(name, text, strlen(text));
}

static inline void make_directory(const char *name)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path(name), 0700), 0);
}

static inline void use_directories(const char *first, const char *second)
{
    directories[0] = kiln_test_temp_path(first);
    directories[1] = second != NULL ? kiln_test_temp_path(second) : NULL;
    source.include_dirs = directories;
    source.include_dir_count = second != NULL ? 2 : 1;
}

static inline kiln_status build(void)
{
    kiln_program *program;
    kiln_report_clear(&report);
    kiln_status status = kiln_test_build_source(&program, service, &source, &report);
    ck_assert((status == KILN_OK) == (program != NULL));
    kiln_program_release(program);
    return status;
}

static inline void expect(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

/* Builds in a new service, so that nothing is known but by the disk, and tells how many compiles that took. */
static inline uint64_t compiles(void)
{
    reopen();
    expect(build(), KILN_OK, "");
    return kiln_test_stats(service).compiles;
}

/* The same in a service that has looked at all files before. */
static inline uint64_t compiles_again(void)
{
    uint64_t before = kiln_test_stats(service).compiles;
    expect(build(), KILN_OK, "");
    return kiln_test_stats(service).compiles - before;
}

static const char two_deep[] = "#include \"a.h\"\nextern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";

static inline void make_tree(const char *name)
{
    char path[64];
    make_directory(name);
    snprintf(path, sizeof(path), "%s/sub", name);
    make_directory(path);
    snprintf(path, sizeof(path), "%s/a.h", name);
    write_text(path, "#include \"sub/b.h\"\n");
    snprintf(path, sizeof(path), "%s/sub/b.h", name);
    write_text(path, "#pragma once\n#include \"c.h\"\n");
    snprintf(path, sizeof(path), "%s/sub/c.h", name);
    write_text(path, "#define DEPTH 2\n");
}

#endif
