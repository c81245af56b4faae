/* What wisdom costs in processor time: adding a record to a file of many, loading it, matching, asking again.
 *
 *     bench_wisdom [RECORDS [ROUNDS]]       2000 and 20 */
#include "support/wisdom.h"
#include "base/alloc.h"
#include "os/file.h"
#include "store/disk.h"
#include "support/fields.h"
#include "tune/statistics.h"
#include "wisdom/wisdom.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GEOMETRY "block=128 elems=4 vector=4 cache=stream"

enum { ASKED = 100000 };

static kiln__catalog catalog;
static kiln__store_counters counters;
static const kiln__wisdom_device h200 = { H200, "sm_90", 132, 60 << 20, 150000000000 };

static void need(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "bench_wisdom: %s\n", what);
    exit(1);
}

static void print(const char *what, double *us, int rounds)
{
    double median = kiln__median(us, (size_t)rounds); /* sorts them */
    printf("%-44s median %10.3f us, from %.3f to %.3f\n", what, median, us[0], us[rounds - 1]);
}

/* Of this thread: other people's load does not count. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double since(uint64_t begin)
{
    return (double)(now_ns() - begin) / 1e3;
}

static void add_many(kiln__wisdom *wisdom, int count)
{
    kiln__wisdom_outcome outcome;
    kiln__wisdom_entry *records = kiln__calloc((size_t)count, sizeof(*records));
    char(*ops)[40] = kiln__calloc((size_t)count, sizeof(*ops));
    need(records != NULL && ops != NULL, "out of memory");
    for (int i = 0; i < count; i++) {
        snprintf(ops[i], sizeof(ops[i]), "hardtanh(-1,%d)", i + 2);
        records[i] = kiln_test_record(H200, ops[i], "f32", 26, GEOMETRY);
    }
    need(kiln__wisdom_add(wisdom, records, (size_t)count, &outcome, NULL) == KILN_OK && outcome.stored,
         outcome.problem);
    kiln__free(records);
    kiln__free(ops);
}

static void time_all(kiln__store *store, int rounds)
{
    double *add = calloc(5 * (size_t)rounds, sizeof(double)), *load = add + rounds, *look = load + rounds,
           *match = look + rounds, *again = match + rounds;
    kiln__wisdom_choice choice;
    kiln__fields spec;
    need(add != NULL, "out of memory");
    need(kiln_test_fields(&spec, &catalog, "op=hardtanh(-1,3) dtype=f32 n=67108864", NULL) == KILN_OK, "no spec");
    const kiln__wisdom_query query = { &spec, &h200, "nvrtc-13.0.88" };
    for (int i = 0; i < rounds; i++) {
        kiln__wisdom *wisdom = kiln__wisdom_open(store, NULL, KILN__WISDOM_WAIT_MS, NULL, &counters);
        need(wisdom != NULL, "out of memory");
        uint64_t begin = now_ns();
        kiln__wisdom_generation(wisdom);
        load[i] = since(begin);
        begin = now_ns();
        kiln__wisdom_match(wisdom, &query, &choice, NULL);
        match[i] = since(begin);
        need(choice.found && choice.distance == 0, "not found");
        begin = now_ns();
        for (int j = 0; j < ASKED; j++)
            kiln__wisdom_match(wisdom, &query, &choice, NULL);
        again[i] = since(begin) / ASKED;
        begin = now_ns();
        kiln__wisdom_refresh(wisdom);
        kiln__wisdom_generation(wisdom);
        look[i] = since(begin);
        kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", (unsigned)i % 64, GEOMETRY);
        kiln__wisdom_outcome outcome;
        begin = now_ns();
        need(kiln__wisdom_add(wisdom, &record, 1, &outcome, NULL) == KILN_OK && outcome.stored, outcome.problem);
        add[i] = since(begin);
        kiln__wisdom_close(wisdom);
    }
    print("first look: read the file", load, rounds);
    print("later look: nothing has changed", look, rounds);
    print("match, asked for the first time", match, rounds);
    print("match, asked again", again, rounds);
    print("add one record", add, rounds);
    free(add);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 2000, rounds = argc > 2 ? atoi(argv[2]) : 20;
    char directory[256], problem[256];
    need(count > 1 && rounds > 0, "usage: bench_wisdom [RECORDS [ROUNDS]]");
    need(kiln__file_make_temporary(directory, sizeof(directory)) == 0, "no temporary directory");
    need(kiln__catalog_init(&catalog, NULL) == KILN_OK, "no catalogue");
    kiln__store *store = kiln__disk_store_open(directory, NULL, &counters, problem, sizeof(problem));
    need(store != NULL, problem);
    kiln__wisdom *wisdom = kiln__wisdom_open(store, NULL, KILN__WISDOM_WAIT_MS, NULL, &counters);
    need(wisdom != NULL, "out of memory");
    add_many(wisdom, count);
    kiln__wisdom_close(wisdom);
    printf("%d records in one file, %d rounds, processor time\n", count, rounds);
    time_all(store, rounds);
    store->vtable->close(store);
    kiln__catalog_fini(&catalog);
    char command[512];
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : 1;
}
