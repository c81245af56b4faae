/* What the table of ops costs: reading an op at its first use, the first compile of each, and a cache with all of them.
 *
 *     bench_ops [--no-table] [ROUNDS]     3 rounds
 *
 * For sm_90, over a driver that does nothing (tests/support/noop_libcuda.c), so that no GPU is needed. Reading: the
 * processor time of the first kiln_spec_parse that names the op over that of the second. First compile: from kiln_get
 * with an empty store to the stored cubin, the least of the rounds, in f32, f64, f16 and bf16; beside it NVRTC's time
 * for a one-line kernel that adds two arrays, measured in turns. Table: all of these by submitted requests, on all
 * processors. */
#include "bench/noop_path.h"
#include "bench/same_nvrtc.h"
#include "support/requesting.h"
#include "support/temp.h"
#include "tune/statistics.h"
#include <kiln/kiln.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPS_MOST = 512 };

static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };

typedef struct op_cost {
    char name[48];
    double read_us, compile_ms[4];
} op_cost;

static op_cost ops[OPS_MOST];
static size_t op_count;
static double add_ms[OPS_MOST]; /* of the one-line kernel */
static char root[] = "/tmp/kiln-ops.XXXXXX";

static void need(kiln_status status, const char *what, const kiln_report *report)
{
    if (status == KILN_OK)
        return;
    fprintf(stderr, "bench_ops: %s: %s\n", what, report->message);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static kiln_service *open_empty(void)
{
    static int opened;
    char store[64];
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    snprintf(store, sizeof(store), "%s/%d", root, opened++);
    options.cache_dir = store;
    options.device = "cuda:0";
    options.libcuda = noop_path();
    need(kiln_open(&service, &options, &report), "kiln_open", &report);
    return service;
}

static kiln_spec *parse(kiln_service *service, const char *op, const char *dtype)
{
    char text[96];
    kiln_spec *spec;
    kiln_report report = KILN_INIT(kiln_report);
    snprintf(text, sizeof(text), "op=%s dtype=%s target=sm_90", op, dtype);
    need(kiln_spec_parse(&spec, service, text, &report), text, &report);
    return spec;
}

/* Ops on whole numbers alone are left out: they have none of the four dtypes. */
static int add_op(void *data, const kiln_op_info *op)
{
    (void)data;
    if (!op->whole_only && op_count < OPS_MOST)
        snprintf(ops[op_count++].name, sizeof(ops[0].name), "%s", op->name);
    return 0;
}

static double parse_us(kiln_service *service, const char *op)
{
    double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    kiln_spec_free(parse(service, op, "f32"));
    return (seconds(CLOCK_THREAD_CPUTIME_ID) - start) * 1e6;
}

static void measure_reading(void)
{
    kiln_service *service = open_empty();
    parse_us(service, "copy"); /* a process's first parse touches memory and code for the first time */
    for (size_t i = 0; i < op_count; i++) {
        double first = parse_us(service, ops[i].name);
        double rest = first - parse_us(service, ops[i].name);
        ops[i].read_us = rest > 0 ? rest : 0;
    }
    kiln_close(service);
}

static void measure_compiles(int rounds)
{
    bare_nvrtc nvrtc;
    char *options;
    same_open(&nvrtc, "sm_90", &options);
    bare_time_add(&nvrtc); /* the first in a process takes longer */
    for (int round = 0; round < rounds; round++) {
        kiln_service *service = open_empty();
        kiln_spec_free(parse(service, "copy", "f32"));
        for (size_t i = 0; i < op_count; i++) {
            double add = bare_time_add(&nvrtc);
            add_ms[i] = round == 0 || add < add_ms[i] ? add : add_ms[i];
            for (int d = 0; d < 4; d++) {
                kiln_report report = KILN_INIT(kiln_report);
                kiln_kernel *kernel;
                kiln_spec *spec = parse(service, ops[i].name, dtypes[d]);
                double start = seconds(CLOCK_MONOTONIC);
                need(kiln_test_get_on(&kernel, service, NULL, spec, &report), ops[i].name, &report);
                double ms = (seconds(CLOCK_MONOTONIC) - start) * 1e3;
                if (round == 0 || ms < ops[i].compile_ms[d])
                    ops[i].compile_ms[d] = ms;
                kiln_kernel_release(kernel);
                kiln_spec_free(spec);
            }
        }
        kiln_close(service);
    }
    free(options);
}

static int answered, failed;

static void on_program(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    (void)data;
    answered++;
    if (status != KILN_OK && failed++ == 0)
        fprintf(stderr, "bench_ops: %s\n", report->message);
    kiln_program_release(program);
}

static double measure_table(void)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_queue *queue;
    kiln_service *service = open_empty();
    answered = 0;
    need(kiln_queue_open(&queue, service, &report), "kiln_queue_open", &report);
    double start = seconds(CLOCK_MONOTONIC);
    for (size_t i = 0; i < op_count; i++)
        for (int d = 0; d < 4; d++) {
            kiln_spec *spec = parse(service, ops[i].name, dtypes[d]);
            kiln_request request = KILN_INIT(kiln_request);
            request.spec = spec;
            need(kiln_submit(NULL, queue, &request, NULL, on_program, NULL, &report), ops[i].name, &report);
            kiln_spec_free(spec);
        }
    while (kiln_queue_wait(queue, -1) > 0) {
    }
    double took = seconds(CLOCK_MONOTONIC) - start;
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
    if (failed > 0 || (size_t)answered != 4 * op_count)
        exit(1);
    return took;
}

static void print_compiles(void)
{
    printf("NVRTC, one line      median %6.1f ms\n", kiln__median(add_ms, op_count));
    for (int d = 0; d < 4; d++) {
        double ms[OPS_MOST];
        size_t slow = 0;
        for (size_t i = 0; i < op_count; i++) {
            ms[i] = ops[i].compile_ms[d];
            slow += ms[i] > 60;
        }
        double median = kiln__median(ms, op_count); /* sorts them */
        printf("first compile, %-4s  median %6.1f ms, from %.1f to %.1f; above 60 ms %zu of %zu:", dtypes[d], median,
               ms[0], ms[op_count - 1], slow, op_count);
        for (size_t i = 0; i < op_count; i++)
            if (ops[i].compile_ms[d] > 60)
                printf(" %s %.0f", ops[i].name, ops[i].compile_ms[d]);
        printf("\n");
    }
}

int main(int count, char **arguments)
{
    bool table = count < 2 || strcmp(arguments[1], "--no-table") != 0;
    const char *rounds = count > 1 + !table ? arguments[1 + !table] : "3";
    double us[OPS_MOST];
    if (mkdtemp(root) == NULL)
        return 1;
    kiln_service *service = open_empty();
    kiln_ops(service, add_op, NULL);
    kiln_close(service);
    measure_reading();
    for (size_t i = 0; i < op_count; i++)
        us[i] = ops[i].read_us;
    double median = kiln__median(us, op_count); /* sorts them */
    printf("reading one op       median %6.1f us, from %.1f to %.1f, %zu ops\n", median, us[0], us[op_count - 1],
           op_count);
    if (atoi(rounds) > 0) {
        measure_compiles(atoi(rounds));
        print_compiles();
    }
    if (table)
        printf("the whole table      %zu kernels in %.1f s\n", 4 * op_count, measure_table());
    kiln_test_temp_remove(root);
    return 0;
}
