#include "store/tiers.h"
#include "support/blobs.h"
#include "support/suites.h"

static int closed;

static void count_close(kiln__store *store)
{
    (void)store;
    closed++;
}

static const kiln__store_vtable closing_vtable = { .name = "closing", .close = count_close };

static bool has(kiln__store *store, const kiln__key *key)
{
    kiln__blob *blob = store->vtable->get(store, key, false, NULL);
    kiln__blob_release(blob);
    return blob != NULL;
}

START_TEST(test_tiers__slow_hit_is_put_into_the_faster_ones)
{
    kiln__tiers tiers = { 0 };
    size_t tier = 99;
    kiln__key key = kiln_test_key("one", "cc-1");
    kiln__blob *blob = kiln_test_blob("one", "cc-1", "abc", 3);
    for (int i = 0; i < 3; i++)
        kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    ck_assert_ptr_null(kiln__tiers_get(&tiers, &key, &tier, NULL));
    ck_assert_uint_eq(tier, 99);
    tiers.stores[1]->vtable->put(tiers.stores[1], blob, false);
    kiln__blob *found = kiln__tiers_get(&tiers, &key, &tier, NULL);
    ck_assert_ptr_eq(found, blob);
    ck_assert_uint_eq(tier, 1);
    ck_assert(has(tiers.stores[0], &key));
    ck_assert(!has(tiers.stores[2], &key));
    kiln__blob_release(found);
    found = kiln__tiers_get(&tiers, &key, &tier, NULL);
    ck_assert_uint_eq(tier, 0);
    kiln__blob_release(found);
    kiln__blob_release(kiln__tiers_get(&tiers, &key, NULL, NULL));
    ck_assert_uint_eq(atomic_load(&blob->refs), 3);
    kiln__tiers_fini(&tiers);
    ck_assert_uint_eq(atomic_load(&blob->refs), 1);
    kiln__blob_release(blob);
}
END_TEST

static int puts_seen, replaces_seen;

static kiln__blob *get_nothing(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    (void)older;
    (void)why;
    (void)store;
    (void)key;
    return NULL;
}

static int count_put(kiln__store *store, kiln__blob *blob, bool replace)
{
    (void)store;
    (void)blob;
    puts_seen++;
    replaces_seen += replace;
    return 0;
}

static kiln__blob *get_one(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    (void)older;
    (void)why;
    (void)store;
    (void)key;
    return kiln_test_blob("one", "cc-1", "abc", 3);
}

/* What lies on one disk is not copied to another, but what comes from elsewhere is kept. */
START_TEST(test_tiers__hit_on_disk_is_put_into_memory_alone)
{
    static const kiln__store_vtable faster = {
        .get = get_nothing, .put = count_put, .close = count_close, .on_disk = true
    };
    static const kiln__store_vtable near = { .get = get_one, .close = count_close, .on_disk = true };
    static const kiln__store_vtable far = { .get = get_one, .close = count_close };
    for (int i = 0; i < 2; i++) {
        kiln__tiers tiers = { 0 };
        kiln__store first = { .vtable = &faster }, second = { .vtable = i ? &far : &near };
        kiln__key key = kiln_test_key("one", "cc-1");
        kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
        kiln__tiers_add(&tiers, &first);
        kiln__tiers_add(&tiers, &second);
        puts_seen = 0;
        kiln__blob_release(kiln__tiers_get(&tiers, &key, NULL, NULL));
        ck_assert(has(tiers.stores[0], &key));
        ck_assert_int_eq(puts_seen, i);
        kiln__tiers_fini(&tiers);
    }
}
END_TEST

static void put(kiln__store *store, const char *toolchain)
{
    kiln__blob *blob = kiln_test_blob("one", toolchain, "abc", 3);
    store->vtable->put(store, blob, false);
    kiln__blob_release(blob);
}

/* The newest wherever it is, and of equal ones the fastest store's; then the next older ones. */
START_TEST(test_tiers__any_toolchain_takes_the_newest_of_all_stores)
{
    static const struct {
        const char *toolchain;
        size_t tier;
    } expected[] = { { "cc-10", 1 }, { "cc-9", 0 }, { "cc-8", 2 } };
    kiln__tiers tiers = { 0 };
    size_t tier = 99;
    kiln__key key = kiln_test_key("one", "");
    for (int i = 0; i < 3; i++)
        kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    put(tiers.stores[0], "cc-9");
    put(tiers.stores[1], "cc-10");
    put(tiers.stores[2], "cc-8");
    put(tiers.stores[2], "cc-9");
    for (int i = 0; i < 3; i++) {
        kiln__blob *blob = i == 0 ? kiln__tiers_get(&tiers, &key, &tier, NULL) : kiln__tiers_older(&tiers, &key, &tier);
        ck_assert_str_eq(blob->entry.key.toolchain, expected[i].toolchain);
        ck_assert_uint_eq(tier, expected[i].tier);
        key = blob->entry.key;
        ck_assert(has(tiers.stores[0], &key));
        kiln__blob_release(blob);
    }
    ck_assert_ptr_null(kiln__tiers_older(&tiers, &key, &tier));
    kiln__tiers_fini(&tiers);
}
END_TEST

static kiln__blob *get_untrusted(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    (void)older;
    (void)store;
    (void)key;
    kiln__miss_raise(why, KILN__MISS_UNTRUSTED);
    return NULL;
}

START_TEST(test_tiers__a_miss_has_the_reason_that_tells_most)
{
    static const kiln__store_vtable bad = { .get = get_untrusted, .close = count_close };
    static const kiln__store_vtable none = { .get = get_nothing, .put = count_put, .close = count_close };
    static const kiln__store_vtable good = { .get = get_one, .close = count_close };
    kiln__tiers tiers = { 0 };
    kiln__store first = { .vtable = &none }, second = { .vtable = &bad }, third = { .vtable = &none };
    kiln__store last = { .vtable = &good };
    kiln__key key = kiln_test_key("one", "cc-1");
    kiln__miss why = KILN__MISS_NONE;
    ck_assert_ptr_null(kiln__tiers_get(&tiers, &key, NULL, &why));
    ck_assert_int_eq(why, KILN__MISS_ABSENT);
    kiln__tiers_add(&tiers, &first);
    kiln__tiers_add(&tiers, &second);
    kiln__tiers_add(&tiers, &third);
    ck_assert_ptr_null(kiln__tiers_get(&tiers, &key, NULL, &why));
    ck_assert_int_eq(why, KILN__MISS_UNTRUSTED);
    tiers.count = 1;
    kiln__tiers_add(&tiers, &last);
    why = KILN__MISS_NONE;
    kiln__blob_release(kiln__tiers_get(&tiers, &key, NULL, &why));
    ck_assert_int_eq(why, KILN__MISS_NONE);
    kiln__tiers_fini(&tiers);
}
END_TEST

START_TEST(test_tiers__put_and_drop_reach_all)
{
    kiln__tiers tiers = { 0 };
    kiln__key key = kiln_test_key("one", "cc-1");
    kiln__blob *blob = kiln_test_blob("one", "cc-1", "abc", 3);
    kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    kiln__tiers_put(&tiers, blob);
    ck_assert(has(tiers.stores[0], &key) && has(tiers.stores[1], &key));
    kiln__tiers_drop(&tiers, &key);
    ck_assert(!has(tiers.stores[0], &key) && !has(tiers.stores[1], &key));
    kiln__tiers_fini(&tiers);
    kiln__blob_release(blob);
}
END_TEST

static size_t length_in(kiln__tiers *tiers, size_t tier)
{
    kiln__key key = kiln_test_key("one", "cc-1");
    kiln__blob *blob = kiln__tiers_get_from(tiers, tier, &key, NULL);
    size_t length = blob != NULL ? kiln__entry_find(&blob->entry, "cubin")->length : 0;
    kiln__blob_release(blob);
    return length;
}

/* Stores that differ under one key: each tells its own, and is told by replacing. */
START_TEST(test_tiers__each_store_may_have_another_entry)
{
    static const kiln__store_vtable disk = {
        .get = get_nothing, .put = count_put, .close = count_close, .on_disk = true
    };
    kiln__tiers tiers = { 0 };
    kiln__store on_disk = { .vtable = &disk };
    kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    kiln__tiers_add(&tiers, &on_disk);
    kiln__tiers_add(&tiers, kiln__memory_store_open(1 << 20));
    for (size_t i = 1; i < 4; i++) {
        kiln__blob *blob = kiln_test_blob("one", "cc-1", "abc", i);
        puts_seen = replaces_seen = 0;
        if (i == 1)
            tiers.stores[2]->vtable->put(tiers.stores[2], blob, false);
        else if (i == 2)
            kiln__tiers_promote(&tiers, 2, blob);
        else
            kiln__tiers_replace(&tiers, blob);
        kiln__blob_release(blob);
        ck_assert_uint_eq(length_in(&tiers, 0), i == 1 ? 0 : i);
        ck_assert_uint_eq(length_in(&tiers, 2), i == 2 ? 1 : i);
        ck_assert_int_eq(puts_seen, i > 1); /* what comes from no disk goes to the disk, too */
        ck_assert_int_eq(replaces_seen, i > 1);
    }
    kiln__tiers_fini(&tiers);
}
END_TEST

START_TEST(test_tiers__absent_and_surplus_stores_do_no_harm)
{
    static kiln__store stores[KILN__TIERS_MAX + 1];
    kiln__tiers tiers = { 0 };
    kiln__key key = kiln_test_key("one", "cc-1");
    closed = 0;
    ck_assert_ptr_null(kiln__tiers_get(&tiers, &key, NULL, NULL));
    kiln__tiers_add(&tiers, NULL);
    ck_assert_uint_eq(tiers.count, 0);
    for (int i = 0; i <= KILN__TIERS_MAX; i++) {
        stores[i].vtable = &closing_vtable;
        kiln__tiers_add(&tiers, &stores[i]);
    }
    ck_assert_uint_eq(tiers.count, KILN__TIERS_MAX);
    ck_assert_int_eq(closed, 1);
    kiln__tiers_fini(&tiers);
    ck_assert_int_eq(closed, KILN__TIERS_MAX + 1);
    ck_assert_uint_eq(tiers.count, 0);
}
END_TEST

Suite *kiln_test_store_tiers_suite(void)
{
    Suite *suite = suite_create("tiers");
    TCase *tests = tcase_create("tiers");
    tcase_add_test(tests, test_tiers__slow_hit_is_put_into_the_faster_ones);
    tcase_add_test(tests, test_tiers__hit_on_disk_is_put_into_memory_alone);
    tcase_add_test(tests, test_tiers__any_toolchain_takes_the_newest_of_all_stores);
    tcase_add_test(tests, test_tiers__a_miss_has_the_reason_that_tells_most);
    tcase_add_test(tests, test_tiers__put_and_drop_reach_all);
    tcase_add_test(tests, test_tiers__each_store_may_have_another_entry);
    tcase_add_test(tests, test_tiers__absent_and_surplus_stores_do_no_harm);
    suite_add_tcase(suite, tests);
    return suite;
}
