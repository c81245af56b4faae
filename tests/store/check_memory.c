#include "base/alloc.h"
#include "store/store.h"
#include "support/blobs.h"
#include "support/suites.h"
#include <pthread.h>
#include <stdio.h>

static uint8_t payload[4096];

static void put(kiln__store *store, const char *text, const char *toolchain, size_t length)
{
    kiln__blob *blob = kiln_test_blob(text, toolchain, payload, length);
    store->vtable->put(store, blob, false);
    kiln__blob_release(blob);
}

/* The toolchain of what a get returns, "" for a miss. */
static const char *got(kiln__store *store, const char *text, const char *toolchain, char out[64])
{
    kiln__key key = kiln_test_key(text, toolchain);
    kiln__blob *blob = store->vtable->get(store, &key, false, NULL);
    out[0] = '\0';
    if (blob) {
        ck_assert_str_eq(blob->entry.key_text, text);
        memcpy(out, blob->entry.key.toolchain, 64);
    }
    kiln__blob_release(blob);
    return out;
}

static bool has(kiln__store *store, const char *text)
{
    char toolchain[64];
    return got(store, text, "cc-1", toolchain)[0] != '\0';
}

START_TEST(test_memory__keeps_what_was_put)
{
    char toolchain[64];
    kiln__store *store = kiln__memory_store_open(1 << 20);
    ck_assert_str_eq(store->vtable->name, "memory");
    ck_assert(!has(store, "one"));
    put(store, "one", "cc-1", 10);
    put(store, "two", "cc-1", 10);
    ck_assert(has(store, "one"));
    ck_assert(has(store, "two"));
    ck_assert(!has(store, "three"));
    ck_assert_str_eq(got(store, "one", "cc-2", toolchain), "");
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__older_toolchains_follow_in_order)
{
    static const char *const expected[] = { "cc-10", "cc-9", "cc-8" };
    kiln__key key = kiln_test_key("one", "");
    kiln__store *store = kiln__memory_store_open(1 << 20);
    put(store, "one", "cc-9", 10);
    put(store, "one", "cc-10", 10);
    put(store, "two", "cc-9.5", 10);
    put(store, "one", "cc-8", 10);
    for (int i = 0; i < 3; i++) {
        kiln__blob *blob = store->vtable->get(store, &key, true, NULL);
        ck_assert_str_eq(blob->entry.key.toolchain, expected[i]);
        key = blob->entry.key;
        kiln__blob_release(blob);
    }
    ck_assert_ptr_null(store->vtable->get(store, &key, true, NULL));
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__any_toolchain_takes_the_newest)
{
    char toolchain[64];
    kiln__store *store = kiln__memory_store_open(1 << 20);
    put(store, "one", "cc-9", 10);
    put(store, "one", "cc-10", 10);
    put(store, "one", "cc-8", 10);
    ck_assert_str_eq(got(store, "one", "", toolchain), "cc-10");
    ck_assert_str_eq(got(store, "one", "cc-9", toolchain), "cc-9");
    ck_assert_str_eq(got(store, "two", "", toolchain), "");
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__drop_removes_exactly_one)
{
    char toolchain[64];
    kiln__store *store = kiln__memory_store_open(1 << 20);
    kiln__key key = kiln_test_key("one", "cc-2");
    put(store, "one", "cc-1", 10);
    put(store, "one", "cc-2", 10);
    store->vtable->drop(store, &key);
    store->vtable->drop(store, &key);
    ck_assert_str_eq(got(store, "one", "cc-2", toolchain), "");
    ck_assert_str_eq(got(store, "one", "", toolchain), "cc-1");
    key.toolchain[0] = '\0';
    store->vtable->drop(store, &key);
    ck_assert_str_eq(got(store, "one", "", toolchain), "cc-1");
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__put_again_replaces)
{
    kiln__store *store = kiln__memory_store_open(1 << 20);
    kiln__key key = kiln_test_key("one", "cc-1");
    put(store, "one", "cc-1", 10);
    put(store, "one", "cc-1", 20);
    kiln__blob *blob = store->vtable->get(store, &key, false, NULL);
    ck_assert_uint_eq(kiln__entry_find(&blob->entry, "cubin")->length, 20);
    kiln__blob_release(blob);
    store->vtable->drop(store, &key);
    ck_assert_ptr_null(store->vtable->get(store, &key, false, NULL));
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__least_recently_used_go_first)
{
    /* Room for four blobs of 1 KiB with their bookkeeping, not for five. */
    kiln__store *store = kiln__memory_store_open(4 * 2100);
    put(store, "a", "cc-1", 1024);
    put(store, "b", "cc-1", 1024);
    put(store, "c", "cc-1", 1024);
    put(store, "d", "cc-1", 1024);
    ck_assert(has(store, "b") && has(store, "c") && has(store, "d"));
    ck_assert(has(store, "a"));
    put(store, "e", "cc-1", 1024);
    ck_assert(!has(store, "b"));
    ck_assert(has(store, "a") && has(store, "c") && has(store, "d") && has(store, "e"));
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__holds_no_more_than_its_limit)
{
    enum { LIMIT = 50000, BLOBS = 300 };
    char text[20];
    kiln__store *store = kiln__memory_store_open(LIMIT);
    for (int i = 0; i < BLOBS; i++) {
        size_t bytes = 0, held = 0;
        snprintf(text, sizeof text, "key %d", i);
        put(store, text, "cc-1", (size_t)(i * 37 % 3000));
        for (int j = i; j >= 0; j--) {
            snprintf(text, sizeof text, "key %d", j);
            kiln__key key = kiln_test_key(text, "cc-1");
            kiln__blob *blob = store->vtable->get(store, &key, false, NULL);
            bytes += blob ? blob->length : 0;
            held += blob != NULL;
            kiln__blob_release(blob);
        }
        ck_assert_uint_le(bytes, LIMIT);
        ck_assert_uint_ge(held, i < 5 ? (size_t)i + 1 : 5);
        /* The newest must be the last one used again, for the next round. */
        for (int j = 0; j <= i; j++) {
            snprintf(text, sizeof text, "key %d", j);
            has(store, text);
        }
    }
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__large_blobs_are_not_kept)
{
    kiln__store *store = kiln__memory_store_open(6000);
    put(store, "small", "cc-1", 100);
    put(store, "large", "cc-1", 3000);
    ck_assert(has(store, "small"));
    ck_assert(!has(store, "large"));
    store->vtable->close(store);
    store = kiln__memory_store_open(0);
    put(store, "small", "cc-1", 0);
    ck_assert(!has(store, "small"));
    store->vtable->close(store);
}
END_TEST

START_TEST(test_memory__blob_outlives_its_store)
{
    kiln__store *store = kiln__memory_store_open(1 << 20);
    kiln__key key = kiln_test_key("one", "cc-1");
    put(store, "one", "cc-1", 100);
    kiln__blob *blob = store->vtable->get(store, &key, false, NULL);
    store->vtable->close(store);
    ck_assert_str_eq(blob->entry.key_text, "one");
    ck_assert_uint_eq(atomic_load(&blob->refs), 1);
    kiln__blob_release(blob);
}
END_TEST

static int refuse_allocation(void)
{
    return 1;
}

START_TEST(test_memory__no_memory_is_a_miss)
{
    kiln__store *store = kiln__memory_store_open(1 << 20);
    kiln__blob *blob = kiln_test_blob("one", "cc-1", payload, 10);
    kiln__alloc_set_hook(refuse_allocation);
    store->vtable->put(store, blob, false);
    kiln__store *none = kiln__memory_store_open(1 << 20);
    kiln__alloc_set_hook(NULL);
    ck_assert_ptr_null(none);
    ck_assert(!has(store, "one"));
    ck_assert_uint_eq(atomic_load(&blob->refs), 1);
    kiln__blob_release(blob);
    store->vtable->close(store);
}
END_TEST

/* With the table growing, and then with no memory for a larger one. */
START_TEST(test_memory__many_are_all_found)
{
    enum { MANY = 3000 };
    char text[20];
    kiln__store *store = kiln__memory_store_open(64 << 20);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "key %d", i);
        put(store, text, "cc-1", 1);
        if (i % 3 == 0) {
            kiln__key key = kiln_test_key(text, "cc-1");
            store->vtable->drop(store, &key);
        }
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "key %d", i);
        ck_assert_int_eq(has(store, text), i % 3 != 0);
    }
    store->vtable->close(store);
}
END_TEST

static int asked;

/* A put asks for a node first. The first one makes the table. */
static int refuse_tables(void)
{
    return ++asked > 1;
}

START_TEST(test_memory__does_without_a_larger_table)
{
    char text[20];
    kiln__store *store = kiln__memory_store_open(64 << 20);
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "key %d", i);
        kiln__blob *blob = kiln_test_blob(text, "cc-1", payload, 1);
        asked = 0;
        kiln__alloc_set_hook(i > 0 ? refuse_tables : NULL);
        store->vtable->put(store, blob, false);
        kiln__alloc_set_hook(NULL);
        kiln__blob_release(blob);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "key %d", i);
        ck_assert(has(store, text));
    }
    store->vtable->close(store);
}
END_TEST

typedef struct worker {
    kiln__store *store;
    unsigned seed;
    uint64_t hits;
} worker;

static void *work(void *data)
{
    worker *self = data;
    char text[20];
    for (int i = 0; i < 2000; i++) {
        self->seed = self->seed * 1664525u + 1013904223u;
        snprintf(text, sizeof text, "key %u", (self->seed >> 20) % 40);
        kiln__key key = kiln_test_key(text, "cc-1");
        kiln__blob *blob = self->store->vtable->get(self->store, &key, false, NULL);
        if (blob) {
            self->hits += strcmp(blob->entry.key_text, text) == 0;
            kiln__blob_release(blob);
        } else {
            put(self->store, text, "cc-1", 500);
        }
        if (i % 16 == 0)
            self->store->vtable->drop(self->store, &key);
    }
    return NULL;
}

START_TEST(test_memory__eight_threads_at_once)
{
    pthread_t threads[8];
    worker workers[8];
    uint64_t hits = 0;
    kiln__store *store = kiln__memory_store_open(30000);
    for (unsigned i = 0; i < 8; i++) {
        workers[i] = (worker){ .store = store, .seed = i + 1 };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        hits += workers[i].hits;
    }
    ck_assert_uint_gt(hits, 100);
    store->vtable->close(store);
}
END_TEST

Suite *kiln_test_store_memory_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_memory__keeps_what_was_put);
    tcase_add_test(tests, test_memory__any_toolchain_takes_the_newest);
    tcase_add_test(tests, test_memory__older_toolchains_follow_in_order);
    tcase_add_test(tests, test_memory__drop_removes_exactly_one);
    tcase_add_test(tests, test_memory__put_again_replaces);
    tcase_add_test(tests, test_memory__least_recently_used_go_first);
    tcase_add_test(tests, test_memory__holds_no_more_than_its_limit);
    tcase_add_test(tests, test_memory__large_blobs_are_not_kept);
    tcase_add_test(tests, test_memory__blob_outlives_its_store);
    tcase_add_test(tests, test_memory__no_memory_is_a_miss);
    tcase_add_test(tests, test_memory__many_are_all_found);
    tcase_add_test(tests, test_memory__does_without_a_larger_table);
    tcase_add_test(tests, test_memory__eight_threads_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}
