/* bench_store_hit [ENTRIES [HITS [SECONDS]]]: what a hit costs, and whether eviction gets in its way.
 *
 * Fills a new directory store under TMPDIR with ENTRIES entries of 4 KB (10,000 by default; 1,000,000 take 4 GB and
 * some minutes), reads each once, so that all of them are in the page cache, and then times HITS gets (200,000) of
 * entries chosen at random: from the directory, in turn with bare reads of its files, which is the least that it can
 * take, from a pack of at most 100,000 of them, and from memory. At last one thread gets entries for SECONDS (5)
 * while another puts new ones, first without caps and then with caps that the directory has just reached, so that
 * every look at a shard removes something. Of the longest of these gets it prints how long it took, how much of that
 * the thread was running, and how often the kernel ran something else in its place (preempted) or it gave way itself
 * (waited: for a lock or a disk). So a loaded machine, where a short running time stands beside preemptions, can be
 * told from a slow store. */
#include "base/alloc.h"
#include "os/cpu.h"
#include "os/file.h"
#include "store/disk.h"
#include "store/pack.h"
#include "support/blobs.h"
#include "support/temp.h"
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENTRY_SIZE = 4096, PACK_MOST = 100000, IN_MEMORY = 10000, BATCH = 100, HOT = 5000 };

static uint8_t payload[ENTRY_SIZE];
static size_t payload_length = ENTRY_SIZE / 2;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_store_hit: %s\n", what);
    exit(1);
}

static kiln__blob *make_blob(size_t i)
{
    char text[32];
    snprintf(text, sizeof text, "key %09zu", i);
    memcpy(payload, &i, sizeof i);
    return kiln_test_blob(text, "nvrtc-13.0.88-1", payload, payload_length);
}

static kiln__key make_key(size_t i)
{
    char text[32];
    snprintf(text, sizeof text, "key %09zu", i);
    return kiln_test_key(text, "nvrtc-13.0.88-1");
}

static size_t random_below(uint64_t *state, size_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((*state >> 33) % limit);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_latencies(const char *what, uint64_t *ns, size_t count)
{
    check(count > 0, "nothing was measured");
    qsort(ns, count, sizeof *ns, by_value);
    printf("%-34s p50 %7.2f us   p99 %7.2f us   p99.9 %8.2f us   max %8.2f us\n", what, (double)ns[count / 2] / 1e3,
           (double)ns[count * 99 / 100] / 1e3, (double)ns[count * 999 / 1000] / 1e3, (double)ns[count - 1] / 1e3);
    fflush(stdout);
}

static void fill(kiln__store *store, size_t entries)
{
    uint64_t start = kiln__cpu_now_ns();
    for (size_t i = 0; i < entries; i++) {
        kiln__blob *blob = make_blob(i);
        check(blob->length == ENTRY_SIZE, "an entry has not 4 KB");
        check(store->vtable->put(store, blob, false) == 0, "an entry could not be written");
        kiln__blob_release(blob);
    }
    double seconds = (double)(kiln__cpu_now_ns() - start) / 1e9;
    printf("%zu entries of %d bytes written in %.1f s, %.1f us each\n", entries, ENTRY_SIZE, seconds,
           seconds / (double)entries * 1e6);
}

static uint64_t time_get(kiln__store *store, const kiln__key *key)
{
    uint64_t start = kiln__cpu_now_ns();
    kiln__blob *blob = store->vtable->get(store, key, false, NULL);
    uint64_t ns = kiln__cpu_now_ns() - start;
    check(blob != NULL, "a hit was a miss");
    kiln__blob_release(blob);
    return ns;
}

static void time_hits(const char *what, kiln__store *store, size_t entries, size_t hits)
{
    uint64_t *ns = malloc(hits * sizeof *ns), state = 1;
    check(ns != NULL, "out of memory");
    for (size_t i = 0; i < entries; i++) {
        kiln__key key = make_key(i);
        kiln__blob_release(store->vtable->get(store, &key, false, NULL));
    }
    for (size_t i = 0; i < hits; i++) {
        kiln__key key = make_key(random_below(&state, entries));
        ns[i] = time_get(store, &key);
    }
    print_latencies(what, ns, hits);
    free(ns);
}

/* The least that reading a file of the store by its path can take. */
static uint64_t time_bare_read(const char *root, const kiln__key *key)
{
    static uint8_t bytes[ENTRY_SIZE];
    char hex[KILN__DIGEST_HEX], path[512];
    struct stat status;
    kiln__digest_hex(hex, key->digest);
    snprintf(path, sizeof path, "%s/v1/%.2s/%s.%s.kiln", root, hex, hex + 2, key->toolchain);
    uint64_t start = kiln__cpu_now_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && fstat(fd, &status) == 0 && read(fd, bytes, sizeof bytes) == ENTRY_SIZE && close(fd) == 0,
          "a file of the store could not be read");
    return kiln__cpu_now_ns() - start;
}

/* A bare read of one entry's file after each get of another, so that both meet the same weather. */
static void time_disk(kiln__store *store, const char *root, size_t entries, size_t hits)
{
    uint64_t *ns = malloc(2 * hits * sizeof *ns), state = 1;
    check(ns != NULL, "out of memory");
    for (size_t i = 0; i < entries; i++) {
        kiln__key key = make_key(i);
        kiln__blob_release(store->vtable->get(store, &key, false, NULL));
    }
    for (size_t i = 0; i < hits; i++) {
        kiln__key key = make_key(random_below(&state, entries)), other = make_key(random_below(&state, entries));
        ns[i] = time_get(store, &key);
        ns[hits + i] = time_bare_read(root, &other);
    }
    print_latencies("hit in the directory", ns, hits);
    print_latencies("bare open, fstat, read, close", ns + hits, hits);
    free(ns);
}

static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    kiln__store *store = data;
    *out = store->vtable->get(store, key, false, NULL);
    return 0;
}

static void time_pack(kiln__store *store, const char *directory, size_t entries, size_t hits)
{
    char path[300], problem[200];
    kiln__pack_totals totals;
    kiln__store_counters counters = { 0 };
    kiln__key *keys = malloc(entries * sizeof *keys);
    check(keys != NULL, "out of memory");
    for (size_t i = 0; i < entries; i++)
        keys[i] = make_key(i);
    snprintf(path, sizeof path, "%s/pack", directory);
    check(kiln__pack_write(&totals, path, keys, entries, fetch, store) == 0, "the pack could not be written");
    free(keys);
    uint64_t start = kiln__cpu_now_ns();
    kiln__store *pack;
    int error = kiln__pack_store_open(&pack, path, NULL, &counters, problem, sizeof problem);
    double opened = (double)(kiln__cpu_now_ns() - start) / 1e6;
    check(error == 0, problem);
    printf("a pack of %" PRIu64 " entries opens in %.2f ms\n", totals.entries, opened);
    time_hits("hit in a pack", pack, entries, hits);
    pack->vtable->close(pack);
    unlink(path);
}

/* In batches, for reading the clock takes as long as a hit. */
static void time_memory(size_t hits)
{
    kiln__store *store = kiln__memory_store_open((size_t)256 << 20);
    size_t batches = hits / BATCH;
    uint64_t *ns = malloc(batches * sizeof *ns), state = 1;
    static kiln__key keys[BATCH];
    check(store != NULL && ns != NULL, "out of memory");
    for (size_t i = 0; i < IN_MEMORY; i++) {
        kiln__blob *blob = make_blob(i);
        store->vtable->put(store, blob, false);
        kiln__blob_release(blob);
    }
    for (size_t b = 0; b < batches; b++) {
        for (size_t i = 0; i < BATCH; i++)
            keys[i] = make_key(random_below(&state, IN_MEMORY));
        uint64_t start = kiln__cpu_now_ns();
        for (size_t i = 0; i < BATCH; i++)
            kiln__blob_release(store->vtable->get(store, &keys[i], false, NULL));
        ns[b] = (kiln__cpu_now_ns() - start) / BATCH;
    }
    print_latencies("hit in memory, mean of 100", ns, batches);
    store->vtable->close(store);
    free(ns);
}

typedef struct putter {
    kiln__store *store;
    size_t next, put;
    atomic_bool stop;
} putter;

static void *put_new(void *data)
{
    putter *self = data;
    while (!atomic_load(&self->stop)) {
        kiln__blob *blob = make_blob(self->next++);
        self->put += self->store->vtable->put(self->store, blob, false) == 0;
        kiln__blob_release(blob);
    }
    return NULL;
}

/* What this thread has used, and the same of one get. */
typedef struct cost {
    uint64_t ns, running_ns;
    long preempted, waited;
} cost;

static cost cost_so_far(void)
{
    struct rusage usage;
    struct timespec running;
    check(getrusage(RUSAGE_THREAD, &usage) == 0, "no resource usage");
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &running) == 0, "no clock of the thread");
    return (cost){ .running_ns = (uint64_t)running.tv_sec * 1000000000 + (uint64_t)running.tv_nsec,
                   .preempted = usage.ru_nivcsw,
                   .waited = usage.ru_nvcsw };
}

static void print_get(const char *what, const cost *get)
{
    printf("%-34s %s %.2f us, running for %.2f us of it, preempted %ld times, waited %ld times\n", "", what,
           (double)get->ns / 1e3, (double)get->running_ns / 1e3, get->preempted, get->waited);
}

/* The getter's keys are made before, so that the pauses are those of the store. */
static size_t time_gets_beside_puts(const char *what, kiln__store *store, size_t entries, size_t first_new, int seconds)
{
    size_t room = (size_t)seconds * 400000, count = 0, hits = 0;
    uint64_t *ns = malloc(room * sizeof *ns), state = 7;
    kiln__key *keys = malloc(HOT * sizeof *keys);
    putter other = { .store = store, .next = first_new };
    pthread_t thread;
    check(ns != NULL && keys != NULL, "out of memory");
    for (size_t i = 0; i < HOT; i++)
        keys[i] = make_key(random_below(&state, entries));
    check(pthread_create(&thread, NULL, put_new, &other) == 0, "no thread");
    cost longest = { 0 }, undisturbed = { 0 }, busiest = { 0 }, before = cost_so_far();
    uint64_t end = kiln__cpu_now_ns() + (uint64_t)seconds * 1000000000;
    for (uint64_t now = 0; now < end && count < room; count++) {
        uint64_t start = kiln__cpu_now_ns();
        kiln__blob *blob = store->vtable->get(store, &keys[count % HOT], false, NULL);
        now = kiln__cpu_now_ns();
        ns[count] = now - start;
        hits += blob != NULL;
        kiln__blob_release(blob);
        cost after = cost_so_far();
        /* Without the little that measuring takes. */
        uint64_t running = after.running_ns - before.running_ns;
        cost get = { ns[count], running < ns[count] ? running : ns[count], after.preempted - before.preempted,
                     after.waited - before.waited };
        longest = get.ns > longest.ns ? get : longest;
        undisturbed = get.preempted == 0 && get.ns > undisturbed.ns ? get : undisturbed;
        busiest = get.running_ns > busiest.running_ns ? get : busiest;
        before = after;
    }
    atomic_store(&other.stop, true);
    pthread_join(thread, NULL);
    print_latencies(what, ns, count);
    print_get("the longest took", &longest);
    print_get("the longest that was not preempted took", &undisturbed);
    print_get("the one that ran longest took", &busiest);
    printf("%-34s %zu gets, %zu hits, %zu puts\n", "", count, hits, other.put);
    free(keys);
    free(ns);
    return other.next;
}

static void time_eviction(kiln__store *store, kiln__store_counters *counters, size_t entries, int seconds)
{
    size_t next = time_gets_beside_puts("get beside puts", store, entries, entries, seconds);
    kiln__disk_store_limit(store, UINT64_MAX, next);
    time_gets_beside_puts("get beside puts that evict", store, entries, next, seconds);
    printf("%-34s %" PRIu64 " evictions\n", "", (uint64_t)atomic_load(&counters->evictions));
}

static size_t argument(int argc, char **argv, int index, size_t otherwise)
{
    size_t value = argc > index ? strtoul(argv[index], NULL, 10) : otherwise;
    check(value > 0 && argc <= 4, "usage: bench_store_hit [ENTRIES [HITS [SECONDS]]], positive whole numbers");
    return value;
}

int main(int argc, char **argv)
{
    size_t entries = argument(argc, argv, 1, 10000), hits = argument(argc, argv, 2, 200000);
    size_t seconds = argument(argc, argv, 3, 5);
    char directory[200], root[220], problem[200];
    kiln__store_counters counters = { 0 };
    check(kiln__file_make_temporary(directory, sizeof directory) == 0, "no temporary directory");
    snprintf(root, sizeof root, "%s/store", directory);
    kiln__store *store = kiln__disk_store_open(root, NULL, &counters, problem, sizeof problem);
    check(store != NULL, problem);
    kiln__blob *blob = make_blob(0);
    payload_length += ENTRY_SIZE - blob->length;
    kiln__blob_release(blob);
    fill(store, entries);
    time_disk(store, root, entries, hits);
    time_pack(store, directory, entries < PACK_MOST ? entries : PACK_MOST, hits);
    time_memory(hits > BATCH ? hits * 10 : BATCH);
    time_eviction(store, &counters, entries, (int)seconds);
    check(atomic_load(&counters.damaged) + atomic_load(&counters.untrusted) + atomic_load(&counters.errors) == 0,
          "the store counted faults");
    store->vtable->close(store);
    kiln_test_temp_remove(directory);
    return 0;
}
