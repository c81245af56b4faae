#include "base/bytes.h"
#include "store/pack.h"
#include "support/cache.h"
#include "support/suites.h"
#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <pthread.h>
#include <sys/resource.h>

enum { PACK_MAX = 20000, NOBODY = 65534, STRANGER = 12345, HEADER = 32, ROW = 128, CHECKSUM = 16 };

/* What the packs of these tests are made of: entry i holds i + 1 bytes. */
typedef struct item {
    const char *text, *toolchain;
} item;
static const item items[] = { { "one", "cc-1" },  { "two", "cc-1" },   { "three", "cc-9" },
                              { "one", "cc-10" }, { "three", "cc-8" }, { "one", "cc-2" } };
enum { ITEMS = sizeof items / sizeof items[0] };

static kiln__key key_of(int i)
{
    return kiln_test_key(items[i].text, items[i].toolchain);
}

static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    unsigned skipped = data ? *(const unsigned *)data : 0;
    for (int i = 0; i < ITEMS; i++) {
        kiln__key other = key_of(i);
        if (kiln__key_equal(&other, key) && (skipped >> i & 1) == 0)
            *out = kiln_test_blob(items[i].text, items[i].toolchain, payload, (size_t)i + 1);
    }
    return 0;
}

static const char *pack_path(void)
{
    return kiln_test_temp_path("some.kilnpack");
}

static kiln__pack_totals write_items(const char *path, int count)
{
    kiln__key keys[ITEMS];
    kiln__pack_totals totals;
    for (int i = 0; i < count; i++)
        keys[i] = key_of(i);
    ck_assert_int_eq(kiln__pack_write(&totals, path, keys, (size_t)count, fetch, NULL), 0);
    return totals;
}

static kiln__store *open_pack(const char *path)
{
    kiln__store *opened;
    int error = kiln__pack_store_open(&opened, path, &log_, &counters, problem, sizeof problem);
    ck_assert_int_eq(error == 0, opened != NULL);
    return opened;
}

static void open_good(const char *path)
{
    store = open_pack(path);
    ck_assert_msg(store != NULL, "%s", problem);
    ck_assert_str_eq(problem, "");
}

static void forget(void)
{
    if (store)
        store->vtable->close(store);
    store = NULL;
    memset(&counters, 0, sizeof counters);
    atomic_store(&warnings, 0);
}

/* Whether a get finds item i, which must then be right. Any thread. */
static bool has_item(int i)
{
    kiln__blob *blob = get_as(items[i].text, items[i].toolchain);
    if (!blob)
        return false;
    const kiln__section *cubin = kiln__entry_find(&blob->entry, "cubin");
    kiln_test_require(strcmp(blob->entry.key_text, items[i].text) == 0, "the right key text");
    kiln_test_require(cubin && cubin->length == (size_t)i + 1 && memcmp(cubin->data, payload, cubin->length) == 0,
                      "the right bytes");
    kiln__blob_release(blob);
    return true;
}

static void refuse(const char *path, unsigned damaged, unsigned untrusted, unsigned errors, const char *word)
{
    ck_assert_ptr_null(open_pack(path));
    ck_assert_msg(strstr(problem, word) != NULL, "'%s' lacks '%s'", problem, word);
    expect(damaged, untrusted, errors, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, path));
    forget();
}

START_TEST(test_pack__round_trip)
{
    struct stat status;
    kiln__pack_totals totals = write_items(pack_path(), ITEMS);
    ck_assert_uint_eq(totals.entries, ITEMS);
    ck_assert_uint_eq(totals.missing, 0);
    ck_assert_int_eq(stat(pack_path(), &status), 0);
    ck_assert_uint_eq(totals.bytes, (uint64_t)status.st_size);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
    open_good(pack_path());
    ck_assert_str_eq(store->vtable->name, "pack");
    ck_assert_uint_eq(kiln__pack_store_count(store), ITEMS);
    for (int i = 0; i < ITEMS; i++)
        ck_assert_msg(has_item(i), "item %d", i);
    ck_assert_ptr_null(get_as("four", "cc-1"));
    ck_assert_ptr_null(get_as("one", "cc-3"));
    ck_assert_ptr_null(get_as("four", ""));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_pack__entries_come_in_the_order_of_keys)
{
    kiln__key last = { 0 };
    write_items(pack_path(), ITEMS);
    open_good(pack_path());
    for (size_t i = 0; i < ITEMS; i++) {
        kiln__blob *blob;
        ck_assert_int_eq(kiln__pack_store_at(store, i, &blob), 0);
        int order = memcmp(last.digest, blob->entry.key.digest, sizeof last.digest);
        ck_assert(order < 0 || (order == 0 && kiln__toolchain_compare(last.toolchain, blob->entry.key.toolchain) < 0));
        last = blob->entry.key;
        kiln__blob_release(blob);
    }
    kiln__blob *none;
    ck_assert_int_eq(kiln__pack_store_at(store, ITEMS, &none), -ENOENT);
    ck_assert_ptr_null(none);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_pack__any_toolchain_takes_the_newest_good_one)
{
    write_items(pack_path(), ITEMS);
    open_good(pack_path());
    kiln__blob *blob = get_as("one", "");
    ck_assert_str_eq(blob->entry.key.toolchain, "cc-10");
    kiln__blob_release(blob);
    blob = get_as("three", "");
    ck_assert_str_eq(blob->entry.key.toolchain, "cc-9");
    kiln__blob_release(blob);
    expect(0, 0, 0, 0);
}
END_TEST

/* Where the entry of item i begins in the file. */
static long offset_of(int i)
{
    kiln__key key = key_of(i);
    long offset = HEADER;
    for (size_t at = 0;; at++) {
        kiln__blob *blob;
        ck_assert_int_eq(kiln__pack_store_at(store, at, &blob), 0);
        bool found = kiln__key_equal(&blob->entry.key, &key);
        size_t length = blob->length;
        kiln__blob_release(blob);
        if (found)
            return offset;
        offset += (long)length;
    }
}

START_TEST(test_pack__older_toolchains_follow_in_order_past_bad_ones)
{
    static const char *const expected[] = { "cc-10", "cc-1" };
    kiln__key key = kiln_test_key("one", "");
    kiln__miss why = KILN__MISS_NONE;
    write_items(pack_path(), ITEMS);
    open_good(pack_path());
    FILE *file = fopen(pack_path(), "r+b");
    ck_assert_int_eq(fseek(file, offset_of(5), SEEK_SET), 0); /* cc-2 */
    ck_assert_int_ne(fputc('?', file), EOF);
    ck_assert_int_eq(fclose(file), 0);
    for (int i = 0; i < 2; i++) {
        kiln__blob *blob = store->vtable->get(store, &key, true, &why);
        ck_assert_str_eq(blob->entry.key.toolchain, expected[i]);
        key = blob->entry.key;
        kiln__blob_release(blob);
    }
    ck_assert_int_eq(why, KILN__MISS_DAMAGED);
    ck_assert_ptr_null(store->vtable->get(store, &key, true, NULL));
    expect(1, 0, 0, 1);
}
END_TEST

START_TEST(test_pack__same_entries_same_bytes)
{
    static uint8_t a[PACK_MAX], b[PACK_MAX];
    kiln__key keys[2 * ITEMS];
    kiln__pack_totals totals;
    write_items(pack_path(), ITEMS);
    for (int i = 0; i < 2 * ITEMS; i++) {
        keys[i] = key_of((i * 5 + 3) % ITEMS);
        memset(keys[i].toolchain + strlen(keys[i].toolchain) + 1, 'x', 3);
    }
    const char *other = kiln_test_temp_path("other");
    ck_assert_int_eq(kiln__pack_write(&totals, other, keys, 2 * ITEMS, fetch, NULL), 0);
    ck_assert_uint_eq(totals.entries, ITEMS);
    size_t length = slurp(pack_path(), a, sizeof a);
    ck_assert_uint_gt(length, HEADER + ROW * ITEMS);
    ck_assert_uint_eq(slurp(other, b, sizeof b), length);
    ck_assert_mem_eq(a, b, length);
}
END_TEST

START_TEST(test_pack__empty_and_missing)
{
    unsigned skipped = 1u << 1 | 1u << 3;
    kiln__key keys[ITEMS];
    kiln__pack_totals totals;
    ck_assert_int_eq(kiln__pack_write(&totals, pack_path(), NULL, 0, fetch, NULL), 0);
    ck_assert_uint_eq(totals.bytes, HEADER + CHECKSUM);
    open_good(pack_path());
    ck_assert(!has_item(0));
    forget();
    for (int i = 0; i < ITEMS; i++)
        keys[i] = key_of(i);
    ck_assert_int_eq(kiln__pack_write(&totals, pack_path(), keys, ITEMS, fetch, &skipped), 0);
    ck_assert_uint_eq(totals.entries, ITEMS - 2);
    ck_assert_uint_eq(totals.missing, 2);
    open_good(pack_path());
    for (int i = 0; i < ITEMS; i++)
        ck_assert_int_eq(has_item(i), (skipped >> i & 1) == 0);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_pack__put_and_drop_do_nothing)
{
    write_items(pack_path(), 1);
    open_good(pack_path());
    kiln__key key = key_of(0);
    put("four");
    ck_assert(!has("four"));
    store->vtable->drop(store, &key);
    ck_assert(has_item(0));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_pack__every_truncation_is_refused)
{
    static uint8_t bytes[PACK_MAX];
    write_items(pack_path(), 2);
    size_t length = slurp(pack_path(), bytes, sizeof bytes);
    for (size_t cut = length; cut-- > 0;) {
        ck_assert_int_eq(truncate(pack_path(), (off_t)cut), 0);
        ck_assert_ptr_null(open_pack(pack_path()));
        expect(1, 0, 0, 1);
        forget();
    }
    bytes[length] = 0;
    spill(pack_path(), bytes, length + 1);
    refuse(pack_path(), 1, 0, 0, "length");
}
END_TEST

/* Index and header are refused whole; a flip in an entry costs that entry alone. */
START_TEST(test_pack__every_bit_flip_is_found)
{
    static uint8_t bytes[PACK_MAX];
    write_items(pack_path(), 2);
    size_t length = slurp(pack_path(), bytes, sizeof bytes), index = length - 2 * ROW - CHECKSUM;
    int fd = open(pack_path(), O_WRONLY | O_CLOEXEC);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        uint8_t flipped = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        bool in_entry = bit / 8 >= HEADER && bit / 8 < index;
        store = open_pack(pack_path());
        ck_assert_msg((store != NULL) == in_entry, "bit %zu: %s", bit, problem);
        if (store)
            ck_assert_msg(has_item(0) + has_item(1) == 1, "bit %zu", bit);
        expect(1, 0, 0, 1);
        forget();
        ck_assert_int_eq(pwrite(fd, &bytes[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(fd);
    open_good(pack_path());
    ck_assert(has_item(0) && has_item(1));
}
END_TEST

enum {
    SWAPPED,
    TWICE,
    GAP,
    OVERLAP,
    TOO_LONG,
    ODD_LENGTH,
    NO_TOOLCHAIN,
    ENDLESS_TOOLCHAIN,
    DIRT,
    VERSION,
    RESERVED,
    FEWER,
    OTHER_MAGIC,
    FORGERIES
};

static void forge(uint8_t *bytes, size_t length, int how)
{
    uint8_t row[ROW], *rows = bytes + length - CHECKSUM - 2 * ROW, *second = rows + ROW;
    memcpy(row, rows, ROW);
    if (how == SWAPPED || how == TWICE) {
        /* Only the keys, so that offsets still follow one another. */
        memcpy(rows, second, 96);
        if (how == SWAPPED)
            memcpy(second, row, 96);
    } else if (how == GAP || how == OVERLAP) {
        kiln__write_u64(second + 96, kiln__read_u64(second + 96) + (how == GAP ? 8 : -(uint64_t)8));
    } else if (how == TOO_LONG) {
        kiln__write_u64(second + 104, UINT64_MAX - 7);
    } else if (how == ODD_LENGTH) {
        kiln__write_u64(rows + 104, kiln__read_u64(rows + 104) - 4);
        kiln__write_u64(second + 96, kiln__read_u64(second + 96) - 4);
        kiln__write_u64(second + 104, kiln__read_u64(second + 104) + 4);
    } else if (how == NO_TOOLCHAIN) {
        memset(rows + 32, 0, 64);
    } else if (how == ENDLESS_TOOLCHAIN) {
        memset(rows + 32, 'x', 64);
    } else if (how == DIRT) {
        rows[32 + 60] = 1;
    } else if (how == VERSION || how == RESERVED) {
        bytes[how == VERSION ? 8 : 12] = 2;
    } else if (how == FEWER) {
        kiln__write_u64(bytes + 24, 1);
    } else {
        bytes[3] = 'X';
    }
}

/* Under a good checksum, as a faulty program might write it. */
START_TEST(test_pack__other_forms_are_refused)
{
    static uint8_t bytes[PACK_MAX], index[HEADER + 2 * ROW];
    write_items(pack_path(), 2);
    size_t length = slurp(pack_path(), bytes, sizeof bytes);
    forge(bytes, length, _i);
    size_t rows = (size_t)kiln__read_u64(bytes + 24) * ROW;
    memcpy(index, bytes, HEADER);
    memcpy(index + HEADER, bytes + length - CHECKSUM - rows, rows);
    kiln__checksum(bytes + length - CHECKSUM, index, HEADER + rows);
    spill(pack_path(), bytes, length);
    refuse(pack_path(), 1, 0, 0,
           _i == SWAPPED || _i == TWICE      ? "not sorted"
           : _i == VERSION || _i == RESERVED ? "form"
           : _i == OTHER_MAGIC               ? "not a pack"
                                             : "contradicts");
}
END_TEST

START_TEST(test_pack__row_of_another_key_gives_no_wrong_entry)
{
    static uint8_t bytes[PACK_MAX], index[HEADER + 2 * ROW];
    write_items(pack_path(), 2);
    size_t length = slurp(pack_path(), bytes, sizeof bytes);
    uint8_t *rows = bytes + length - CHECKSUM - 2 * ROW;
    rows[32 + 3] = '7'; /* cc-1 becomes cc-7 */
    memcpy(index, bytes, HEADER);
    memcpy(index + HEADER, rows, 2 * ROW);
    kiln__checksum(bytes + length - CHECKSUM, index, sizeof index);
    spill(pack_path(), bytes, length);
    open_good(pack_path());
    ck_assert_int_eq(has_item(0) + has_item(1), 1);
    expect(0, 0, 0, 0);
    ck_assert(!get_as("one", "cc-7") && !get_as("two", "cc-7"));
    expect(1, 0, 0, 1);
}
END_TEST

START_TEST(test_pack__file_that_changes_while_in_use)
{
    static uint8_t bytes[PACK_MAX];
    write_items(pack_path(), 2);
    size_t length = slurp(pack_path(), bytes, sizeof bytes);
    open_good(pack_path());
    ck_assert(has_item(0) && has_item(1));
    /* Cut at every place where something begins or ends, as by a program that writes it anew in place. */
    for (size_t cut = 0; cut < length; cut += 8) {
        ck_assert_int_eq(truncate(pack_path(), (off_t)cut), 0);
        ck_assert(!has_item(0) && !has_item(1));
    }
    ck_assert_uint_gt(atomic_load(&counters.damaged), 2);
    ck_assert_uint_eq(atomic_load(&warnings), 1);
    memset(bytes + length / 2, 0xff, length - length / 2);
    spill(pack_path(), bytes, length);
    ck_assert(!has_item(0) && !has_item(1));
    /* Replaced by rename it stays what it was. */
    write_items(pack_path(), 2);
    forget();
    open_good(pack_path());
    write_items(pack_path(), 1);
    ck_assert(has_item(0) && has_item(1));
    ck_assert_int_eq(unlink(pack_path()), 0);
    ck_assert(has_item(0) && has_item(1));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_pack__impostor_is_refused)
{
    write_items(pack_path(), 1);
    impose(pack_path(), _i);
    if (_i == HARD_LINK) {
        open_good(pack_path());
        ck_assert(has_item(0));
        return;
    }
    bool special = _i == SOCKET || _i == FIFO || _i == DIRECTORY;
    refuse(pack_path(), 0, 1, 0,
           _i == LINK || _i == DANGLING_LINK || _i == LINK_TO_DEVICE ? "link"
           : special                                                 ? "regular file"
                                                                     : "writable");
}
END_TEST

START_TEST(test_pack__owner_is_the_user_or_root)
{
    const char *fork_mode = getenv("CK_FORK");
    char parent[PATH_SIZE];
    if (geteuid() != 0 || (fork_mode && strcmp(fork_mode, "no") == 0))
        return;
    write_items(pack_path(), 1);
    ck_assert_int_eq(chown(pack_path(), STRANGER, 0), 0);
    refuse(pack_path(), 0, 1, 0, "owned by user 12345, expected 0 or root");
    ck_assert_int_eq(chown(pack_path(), 0, 0), 0);
    snprintf(parent, sizeof parent, "%s", kiln_test_temp_dir());
    ck_assert_int_eq(chmod(kiln_test_temp_dir(), 0755), 0);
    ck_assert_int_eq(chmod(dirname(parent), 0755), 0);
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);
    ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
    open_good(pack_path());
    ck_assert(has_item(0));
}
END_TEST

START_TEST(test_pack__missing_file_is_an_error)
{
    refuse(kiln_test_temp_path("nothing"), 0, 0, 1, "No such file");
    spill(kiln_test_temp_path("text"), "no pack, but long enough to have a header and a checksum of one", 63);
    refuse(kiln_test_temp_path("text"), 1, 0, 0, "not a pack");
}
END_TEST

static int fetch_wrong(void *data, const kiln__key *key, kiln__blob **out)
{
    (void)data;
    (void)key;
    *out = kiln_test_blob("wrong", "cc-1", payload, 5);
    return 0;
}

static int fetch_nothing(void *data, const kiln__key *key, kiln__blob **out)
{
    (void)data;
    (void)key;
    (void)out;
    return -ENOMEM;
}

START_TEST(test_pack__failed_write_leaves_the_old_one)
{
    kiln__pack_totals totals;
    kiln__key key = key_of(0);
    const char *path = pack_path();
    struct rlimit old, tiny = { 300, RLIM_INFINITY };
    write_items(pack_path(), 2);
    ck_assert_int_eq(kiln__pack_write(&totals, pack_path(), &key, 1, fetch_wrong, NULL), -EINVAL);
    ck_assert_int_eq(kiln__pack_write(&totals, pack_path(), &key, 1, fetch_nothing, NULL), -ENOMEM);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    tiny.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tiny);
    /* Check itself writes to files: nothing may be asserted under the limit. */
    int error = kiln__pack_write(&totals, path, &key, 1, fetch, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(error, -EFBIG);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
    open_good(pack_path());
    ck_assert(has_item(0) && has_item(1));
    ck_assert_int_eq(kiln__pack_write(&totals, kiln_test_temp_dir(), &key, 1, fetch, NULL), -EINVAL);
    ck_assert_int_eq(kiln__pack_write(&totals, "/dev/null", &key, 1, fetch, NULL), -EINVAL);
    ck_assert_int_eq(kiln__pack_write(&totals, kiln_test_temp_path("no/such"), &key, 1, fetch, NULL), -ENOENT);
    ck_assert_int_eq(kiln__pack_write(&totals, kiln_test_temp_path("x/"), &key, 1, fetch, NULL), -ENOENT);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

START_TEST(test_pack__write_takes_away_what_killed_writers_left)
{
    static const char *const names[] = { "tmp.kilnpack.0123456789abcdef", "tmp.0123456789abcdef",
                                         "tmp.kilnpack.0123456789abcdeg", "tmp.kilnpack.0123456789abcdef0" };
    static const struct timespec old[2] = { { 1000000, 0 }, { 1000000, 0 } };
    const char *fresh = kiln_test_temp_path("tmp.kilnpack.fedcba9876543210");
    for (int i = 0; i < 4; i++) {
        spill(kiln_test_temp_path(names[i]), "x", 1);
        ck_assert_int_eq(utimensat(AT_FDCWD, kiln_test_temp_path(names[i]), old, 0), 0);
    }
    spill(fresh, "x", 1);
    write_items(pack_path(), 1);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(exists(kiln_test_temp_path(names[i])) == (i > 0), "%s", names[i]);
    ck_assert(exists(fresh));
}
END_TEST

static void *get_all(void *data)
{
    (void)data;
    for (int round = 0; round < 200; round++)
        for (int i = 0; i < ITEMS; i++)
            kiln_test_require(has_item(i), "every item");
    return NULL;
}

START_TEST(test_pack__many_threads)
{
    pthread_t threads[4];
    write_items(pack_path(), ITEMS);
    open_good(pack_path());
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_all, NULL), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    expect(0, 0, 0, 0);
}
END_TEST

Suite *kiln_test_store_pack_suite(void)
{
    Suite *suite = suite_create("pack");
    TCase *tests = tcase_create("pack");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_pack__round_trip);
    tcase_add_test(tests, test_pack__entries_come_in_the_order_of_keys);
    tcase_add_test(tests, test_pack__any_toolchain_takes_the_newest_good_one);
    tcase_add_test(tests, test_pack__older_toolchains_follow_in_order_past_bad_ones);
    tcase_add_test(tests, test_pack__same_entries_same_bytes);
    tcase_add_test(tests, test_pack__empty_and_missing);
    tcase_add_test(tests, test_pack__put_and_drop_do_nothing);
    tcase_add_test(tests, test_pack__every_truncation_is_refused);
    tcase_add_test(tests, test_pack__every_bit_flip_is_found);
    tcase_add_loop_test(tests, test_pack__other_forms_are_refused, 0, FORGERIES);
    tcase_add_test(tests, test_pack__row_of_another_key_gives_no_wrong_entry);
    tcase_add_test(tests, test_pack__file_that_changes_while_in_use);
    tcase_add_loop_test(tests, test_pack__impostor_is_refused, 0, IMPOSTORS);
    tcase_add_test(tests, test_pack__owner_is_the_user_or_root);
    tcase_add_test(tests, test_pack__missing_file_is_an_error);
    tcase_add_test(tests, test_pack__failed_write_leaves_the_old_one);
    tcase_add_test(tests, test_pack__write_takes_away_what_killed_writers_left);
    tcase_add_test(tests, test_pack__many_threads);
    suite_add_tcase(suite, tests);
    return suite;
}
