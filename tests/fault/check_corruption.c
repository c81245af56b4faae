/* Whatever happens to the bytes of an entry, it is a miss, one compile heals it, and nothing crashes. Through the
 * directory store and the builder, with a compiler that answers at once; and through packs. */
#include "base/alloc.h"
#include "fault/figures.h"
#include "jit/builder.h"
#include "store/disk.h"
#include "store/pack.h"
#include "support/blobs.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRY_BYTES = 4096, BYTES_MAX = 256 * 1024, PATH_SIZE = 4096 };

/* ---- A compiler whose result has as many bytes as wanted */

static size_t binary_length;
static unsigned compiles;

static void fake_search(const kiln__compiler *compiler, kiln__text *out)
{
    (void)compiler;
    kiln__text_append(out, "the stand-in\n");
}

static void fake_options(const kiln__compiler *compiler, const kiln__unit *unit, kiln__text *out)
{
    (void)compiler;
    (void)unit;
    kiln__text_append(out, "none");
}

static kiln_status fake_open(kiln__compiler *compiler, kiln__toolchain *out, kiln_report *report)
{
    (void)compiler;
    (void)report;
    memset(out, 0, sizeof(*out));
    strcpy(out->id, "fake-1");
    strcpy(out->version, "1");
    kiln__target_parse("cpu", 3, &out->targets[0]);
    out->target_count = 1;
    return KILN_OK;
}

static void fill_binary(uint8_t *bytes, size_t length)
{
    uint64_t state = 0x9E3779B97F4A7C15 ^ length;
    for (size_t i = 0; i < length; i++)
        bytes[i] = i % 5 == 0 ? 0 : (uint8_t)(next_random(&state) >> 56);
}

static kiln_status fake_compile(kiln__compiler *compiler, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    (void)compiler;
    (void)unit;
    (void)report;
    memset(out, 0, sizeof(*out));
    out->binary = kiln__alloc(binary_length);
    out->binary_length = binary_length;
    if (out->binary == NULL)
        return KILN_ENOMEM;
    fill_binary(out->binary, binary_length);
    strcpy(out->toolchain, "fake-1");
    compiles++;
    return KILN_OK;
}

static void fake_close(kiln__compiler *compiler)
{
    (void)compiler;
}

static const kiln__compiler_vtable fake_vtable = { .name = "fake",
                                                   .search = fake_search,
                                                   .options = fake_options,
                                                   .open = fake_open,
                                                   .identify = fake_open,
                                                   .compile = fake_compile,
                                                   .close = fake_close };
static kiln__compiler fake = { &fake_vtable };

/* ---- A store with the entry of one unit in it */

static kiln__unit unit = { .spec = (char *)"op=test target=cpu",
                           .source = (char *)"text",
                           .source_length = 4,
                           .rule = { .block = { 1, 1, 1 }, .tile = 64 } };
static kiln__store_counters counters;
static kiln__tiers tiers;
static kiln__builder builder;
static char path[PATH_SIZE];
static uint8_t good[BYTES_MAX], bad[BYTES_MAX];
static size_t good_length;

static int take_path(void *data, const kiln__store_item *item)
{
    (void)data;
    if (item->entry == NULL || item->entry->kind != KILN__ENTRY_KERNEL)
        return 0;
    snprintf(path, sizeof(path), "%s", item->path);
    return 1;
}

static bool build(kiln__built *built)
{
    ck_assert_int_eq(kiln__builder_build(&builder, &unit, false, built, NULL), KILN_OK);
    return built->compiled;
}

static void open_with(size_t binary)
{
    static const kiln__log silent;
    char problem[256];
    kiln__built built;
    binary_length = binary;
    memset(&counters, 0, sizeof(counters));
    memset(&tiers, 0, sizeof(tiers));
    kiln__target_parse("cpu", 3, &unit.target);
    kiln__store *store =
        kiln__disk_store_open(kiln_test_temp_path("store"), &silent, &counters, problem, sizeof(problem));
    ck_assert_msg(store != NULL, "%s", problem);
    uint64_t removed;
    kiln__disk_store_purge(store, NULL, NULL, &removed, problem, sizeof(problem));
    kiln__tiers_add(&tiers, store);
    kiln__builder_init(&builder, &fake, &tiers, &tiers, &silent);
    ck_assert(build(&built));
    good_length = built.blob->length;
    ck_assert_uint_le(good_length, sizeof(good));
    memcpy(good, built.blob->bytes, good_length);
    kiln__built_fini(&built);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_path, NULL), 0);
}

static void close_all(void)
{
    kiln__builder_fini(&builder);
    kiln__tiers_fini(&tiers);
}

/* The binary's length that makes the whole entry one of `wanted` bytes. */
static void open_sized(size_t wanted)
{
    open_with(wanted / 2);
    size_t binary = binary_length + wanted - good_length;
    close_all();
    open_with(binary);
}

static void spill(const uint8_t *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
}

typedef struct outcome {
    uint64_t tried, wrong_hits, hits, recompiles, not_healed;
} outcome;

/* Puts these bytes in the entry's place: the caller must get the right ones all the same, after one compile, and the
 * next caller from the store. */
static void try_bytes(const uint8_t *bytes, size_t length, outcome *seen)
{
    kiln__built first, second;
    unsigned before = compiles;
    spill(bytes, length);
    bool compiled = build(&first);
    bool right = first.blob->length == good_length && memcmp(first.blob->bytes, good, good_length) == 0;
    seen->tried++;
    seen->hits += !compiled;
    seen->wrong_hits += !right;
    seen->recompiles += compiles - before;
    seen->not_healed +=
        build(&second) || second.blob->length != good_length || memcmp(second.blob->bytes, good, good_length) != 0;
    kiln__built_fini(&first);
    kiln__built_fini(&second);
}

static void check_outcome(const char *what, const outcome *seen, double seconds)
{
    FIGURES("corruption: %s: %llu tried, %llu wrong hits, %llu recompiles, %llu not healed, %llu counted as damaged; "
            "%.1f s",
            what, (unsigned long long)seen->tried, (unsigned long long)seen->wrong_hits,
            (unsigned long long)seen->recompiles, (unsigned long long)seen->not_healed,
            (unsigned long long)atomic_load(&counters.damaged), seconds);
    ck_assert_uint_eq(seen->wrong_hits, 0);
    ck_assert_uint_eq(seen->hits, 0);
    ck_assert_uint_eq(seen->not_healed, 0);
    ck_assert_uint_eq(seen->recompiles, seen->tried);
    ck_assert_uint_eq(atomic_load(&counters.damaged), seen->tried);
    ck_assert_uint_eq(atomic_load(&counters.errors) + atomic_load(&counters.untrusted), 0);
}

START_TEST(test_corruption__every_bit_flip_is_a_miss_and_heals)
{
    outcome seen = { 0 };
    open_sized(ENTRY_BYTES);
    ck_assert_uint_eq(good_length, ENTRY_BYTES);
    double start = seconds_now();
    memcpy(bad, good, good_length);
    for (size_t bit = 0; bit < good_length * 8; bit++) {
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_bytes(bad, good_length, &seen);
        bad[bit / 8] = good[bit / 8];
    }
    ck_assert_uint_eq(seen.tried, 32768);
    check_outcome("single-bit flips of a 4 KB entry", &seen, seconds_now() - start);
    close_all();
}
END_TEST

START_TEST(test_corruption__every_truncation_is_a_miss_and_heals)
{
    outcome seen = { 0 };
    open_sized(ENTRY_BYTES);
    double start = seconds_now();
    for (size_t length = 0; length < good_length; length++)
        try_bytes(good, length, &seen);
    check_outcome("truncations of a 4 KB entry", &seen, seconds_now() - start);
    close_all();
}
END_TEST

/* Changes `bad`, which holds the good bytes, in one of many ways, and returns its new length. */
static size_t mutate(uint64_t *state, size_t length)
{
    size_t from = next_random(state) % length, to = next_random(state) % length;
    size_t run = 1 + next_random(state) % (next_random(state) % 4 == 0 ? length : 16);
    size_t from_run = run < length - from ? run : length - from, to_run = run < length - to ? run : length - to;
    size_t both = from_run < to_run ? from_run : to_run;
    switch (next_random(state) % 7) {
    case 0: /* a few bytes anywhere */
        for (size_t i = 0; i < run; i++)
            bad[next_random(state) % length] = (uint8_t)next_random(state);
        return length;
    case 1: /* noise over a stretch */
        for (size_t i = 0; i < from_run; i++)
            bad[from + i] = (uint8_t)next_random(state);
        return length;
    case 2: /* zeros over a stretch, as a lost page leaves them */
        memset(bad + from, 0, from_run);
        return length;
    case 3: /* a stretch copied elsewhere */
        memmove(bad + to, bad + from, both);
        return length;
    case 4: /* a stretch taken out */
        memmove(bad + from, bad + from + from_run, length - from - from_run);
        return length - from_run;
    case 5: /* noise put in */
        if (length + run > sizeof(bad))
            return length - 1;
        memmove(bad + from + run, bad + from, length - from);
        for (size_t i = 0; i < run; i++)
            bad[from + i] = (uint8_t)next_random(state);
        return length + run;
    default: /* one of the header's fields set to a bound */
        memset(bad + (next_random(state) % 32) * 4, next_random(state) % 2 ? 0xFF : 0x7F, 4);
        return length;
    }
}

START_TEST(test_corruption__random_mutations_are_misses_and_heal)
{
    static const struct {
        size_t length;
        unsigned parts; /* of 100 */
    } sizes[] = { { 3000, 40 }, { ENTRY_BYTES, 50 }, { 20000, 9 }, { 200000, 1 } };
    /* Instrumented code takes several times as long and gets the short form's full number in the plain build. */
    uint64_t total = fault_long ? 1000000 : KILN_TEST_SANITIZED ? 20000 : 100000, state = 88172645463325252;
    outcome sum = { 0 };
    double start = seconds_now();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        outcome seen = { 0 };
        char what[64];
        open_sized(sizes[i].length);
        double from = seconds_now();
        while (seen.tried < total * sizes[i].parts / 100) {
            memcpy(bad, good, good_length);
            size_t length = mutate(&state, good_length);
            if (length != good_length || memcmp(bad, good, good_length) != 0)
                try_bytes(bad, length, &seen);
        }
        snprintf(what, sizeof(what), "random mutations of %zu bytes", good_length);
        check_outcome(what, &seen, seconds_now() - from);
        close_all();
        sum.tried += seen.tried;
    }
    ck_assert_uint_eq(sum.tried, total);
    FIGURES("corruption: random mutations in all: %llu, %.1f s", (unsigned long long)total, seconds_now() - start);
}
END_TEST

/* With the checksum made good again only the reading of fields is left to keep the reader within the bytes. */
START_TEST(test_corruption__resealed_mutations_stay_within_the_bytes)
{
    uint64_t total = fault_long ? 10000000 : 300000, state = 42, taken = 0;
    double start = seconds_now();
    open_sized(1024);
    for (uint64_t i = 0; i < total; i++) {
        kiln__entry entry;
        memcpy(bad, good, good_length);
        size_t length = mutate(&state, good_length);
        if (length < 2 * KILN__CHECKSUM_SIZE)
            continue;
        /* Its own length at the front, most of the time, so that the checks behind it are reached too. */
        uint8_t *exact = malloc(length);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, bad, length);
        if (next_random(&state) % 8 != 0)
            memcpy(exact + 16, &(uint64_t){ length }, sizeof(uint64_t));
        kiln__checksum(exact + length - KILN__CHECKSUM_SIZE, exact, length - KILN__CHECKSUM_SIZE);
        if (kiln__entry_decode(&entry, exact, length, NULL) == KILN__ENTRY_GOOD) {
            taken++;
            ck_assert_uint_le(entry.section_count, KILN__ENTRY_MAX_SECTIONS);
            for (size_t k = 0; k < entry.section_count; k++)
                ck_assert((const uint8_t *)entry.sections[k].data >= exact &&
                          (const uint8_t *)entry.sections[k].data + entry.sections[k].length <= exact + length);
        }
        free(exact);
    }
    close_all();
    FIGURES("corruption: resealed mutations, decoded only: %llu, of which %llu are whole entries; %.1f s",
            (unsigned long long)total, (unsigned long long)taken, seconds_now() - start);
}
END_TEST

/* ---- Packs */

enum { PACKED = 3, PACKED_BYTES = 40 };
static const char *const packed[PACKED][2] = { { "one", "cc-1" }, { "two", "cc-1" }, { "one", "cc-2" } };

static kiln__blob *packed_blob(int i)
{
    uint8_t bytes[PACKED_BYTES];
    memset(bytes, 'a' + i, sizeof(bytes));
    return kiln_test_blob(packed[i][0], packed[i][1], bytes, sizeof(bytes));
}

static int fetch_packed(void *data, const kiln__key *key, kiln__blob **out)
{
    (void)data;
    for (int i = 0; i < PACKED; i++) {
        kiln__key other = kiln_test_key(packed[i][0], packed[i][1]);
        if (kiln__key_equal(&other, key))
            *out = packed_blob(i);
    }
    return 0;
}

/* How many of the entries are found; each that is must be the one that was asked for, byte for byte. */
static int count_packed(kiln__store *pack)
{
    int found = 0;
    for (int i = 0; i < PACKED + 1; i++) {
        bool newest = i == PACKED;
        kiln__key key = kiln_test_key(packed[i % PACKED][0], newest ? "" : packed[i][1]);
        kiln__blob *blob = pack->vtable->get(pack, &key, false, NULL);
        if (blob == NULL)
            continue;
        kiln__blob *one = packed_blob(i % PACKED), *other = packed_blob(2);
        bool same = blob->length == one->length && memcmp(blob->bytes, one->bytes, one->length) == 0;
        same = same || (newest && blob->length == other->length && memcmp(blob->bytes, other->bytes, one->length) == 0);
        ck_assert_msg(same, "a wrong hit for %s of %s", packed[i % PACKED][0], newest ? "any" : packed[i][1]);
        found += !newest;
        kiln__blob_release(one);
        kiln__blob_release(other);
        kiln__blob_release(blob);
    }
    return found;
}

static kiln__store *open_packed(void)
{
    static const kiln__log silent;
    char problem[256];
    kiln__store *pack;
    kiln__pack_store_open(&pack, path, &silent, &counters, problem, sizeof(problem));
    return pack;
}

/* With the file as it is now: opened afresh, and by `used`, which was opened when it was whole. Returns what was
 * found. */
static void look_into_pack(kiln__store *used, int *refused, int *found)
{
    kiln__store *pack = open_packed();
    *refused += pack == NULL;
    *found += pack != NULL ? count_packed(pack) : 0;
    if (pack != NULL)
        pack->vtable->close(pack);
    count_packed(used);
}

START_TEST(test_corruption__every_bit_flip_and_truncation_of_a_pack_gives_no_wrong_hit)
{
    kiln__key keys[PACKED];
    kiln__pack_totals totals;
    int refused = 0, found = 0;
    double start = seconds_now();
    snprintf(path, sizeof(path), "%s", kiln_test_temp_path("pack"));
    for (int i = 0; i < PACKED; i++)
        keys[i] = kiln_test_key(packed[i][0], packed[i][1]);
    ck_assert_int_eq(kiln__pack_write(&totals, path, keys, PACKED, fetch_packed, NULL), 0);
    good_length = (size_t)totals.bytes;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(read(fd, good, sizeof(good)), (ssize_t)good_length);
    kiln__store *used = open_packed();
    ck_assert_int_eq(count_packed(used), PACKED);
    for (size_t bit = 0; bit < 8 * good_length; bit++) {
        uint8_t flipped = (uint8_t)(good[bit / 8] ^ 1u << bit % 8);
        ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        look_into_pack(used, &refused, &found);
        ck_assert_int_eq(pwrite(fd, &good[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    int flips = (int)(8 * good_length);
    ck_assert_int_eq(found, (flips - refused) * (PACKED - 1));
    ck_assert_int_eq(count_packed(used), PACKED);
    for (size_t length = good_length; length-- > 0;) {
        ck_assert_int_eq(ftruncate(fd, (off_t)length), 0);
        look_into_pack(used, &refused, &found);
    }
    ck_assert_int_eq(found, (flips + (int)good_length - refused) * (PACKED - 1));
    FIGURES(
        "corruption: a pack of %zu bytes: %d bits flipped, %zu truncations, each before it is opened and while it is "
        "in use: 0 wrong hits; %d refused whole, else one entry missed; %.1f s",
        good_length, flips, good_length, refused, seconds_now() - start);
    used->vtable->close(used);
    close(fd);
}
END_TEST

Suite *kiln_test_fault_corruption_suite(void)
{
    Suite *suite = suite_create("corruption");
    TCase *tcase = tcase_create("corruption");
    tcase_set_timeout(tcase, fault_long ? 7200 : 500);
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_corruption__every_bit_flip_is_a_miss_and_heals);
    tcase_add_test(tcase, test_corruption__every_truncation_is_a_miss_and_heals);
    tcase_add_test(tcase, test_corruption__random_mutations_are_misses_and_heal);
    tcase_add_test(tcase, test_corruption__resealed_mutations_stay_within_the_bytes);
    tcase_add_test(tcase, test_corruption__every_bit_flip_and_truncation_of_a_pack_gives_no_wrong_hit);
    suite_add_tcase(suite, tcase);
    return suite;
}
