/* The remote tier over an engine that the tests make up: what it asks, what it refuses, when it does not ask. */
#include "store/remote.h"
#include "store/seal.h"
#include "support/blobs.h"
#include "support/suites.h"
#include "support/temp.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/* ---- A server in memory */

enum { VALUES = 64 };

static struct value {
    char name[160];
    uint8_t *bytes;
    size_t length;
} values[VALUES];
static size_t value_count;
static int trouble;                  /* the answer to every question; 0: the right one */
static unsigned asked, sent, closed; /* calls so far */
static uint32_t last_wait_ms, last_life_ms;

static struct value *find_value(const char *name)
{
    for (size_t i = 0; i < value_count; i++)
        if (strcmp(values[i].name, name) == 0)
            return &values[i];
    return NULL;
}

static void set_value(const char *name, const void *bytes, size_t length)
{
    struct value *value = find_value(name);
    if (value == NULL) {
        ck_assert_uint_lt(value_count, VALUES);
        value = &values[value_count++];
        snprintf(value->name, sizeof(value->name), "%s", name);
    }
    free(value->bytes);
    value->bytes = malloc(length + 1);
    memcpy(value->bytes, bytes, length);
    value->length = length;
}

static kiln__engine *fake_open(const kiln__engine_options *options, char *problem, size_t room)
{
    if (strncmp(options->url, "fake:", 5) == 0)
        return (kiln__engine *)&values;
    snprintf(problem, room, "expected fake:");
    return NULL;
}

static int answer(const kiln__engine_call *call, void **out, size_t *length)
{
    struct value *value = find_value(call->name);
    if (trouble != 0)
        return trouble;
    switch (call->verb) {
    case KILN__ENGINE_GET:
        if (value == NULL)
            return -ENOENT;
        *out = malloc(value->length + 1);
        memcpy(*out, value->bytes, value->length);
        *length = value->length;
        return 0;
    case KILN__ENGINE_EXISTS:
        return value != NULL ? 0 : -ENOENT;
    case KILN__ENGINE_TAKE:
        last_life_ms = call->ms;
        if (value != NULL && value->length > 0)
            return -EBUSY;
        set_value(call->name, call->value, call->length);
        return 0;
    case KILN__ENGINE_GIVE:
        if (value != NULL && value->length == call->length && memcmp(value->bytes, call->value, call->length) == 0)
            set_value(call->name, "", 0);
        return 0;
    case KILN__ENGINE_PUT:
        set_value(call->name, call->value, call->length);
        return 0;
    }
    return -EINVAL;
}

static int fake_ask(kiln__engine *engine, const kiln__engine_call *call, uint32_t wait_ms, void **out, size_t *length)
{
    (void)engine;
    asked++;
    last_wait_ms = wait_ms;
    if (out != NULL)
        *out = NULL;
    return answer(call, out, length);
}

static int fake_send(kiln__engine *engine, const kiln__engine_call *call, kiln__engine_done done, void *data)
{
    (void)engine;
    sent++;
    if (trouble == -ENOBUFS)
        return trouble;
    const int result = answer(call, NULL, NULL);
    if (done != NULL)
        done(data, result);
    return 0;
}

static int fake_drain(kiln__engine *engine, uint32_t wait_ms)
{
    (void)engine, (void)wait_ms;
    return 0;
}

static void fake_close(kiln__engine *engine)
{
    (void)engine;
    closed++;
}

static const kiln__engine_module module = { .version = KILN__ENGINE_VERSION,
                                            .open = fake_open,
                                            .ask = fake_ask,
                                            .send = fake_send,
                                            .drain = fake_drain,
                                            .release = free,
                                            .close = fake_close };

/* ---- A store on it */

static kiln__store_counters counters;
static const kiln__log quiet;
static char problem[256];

static void set_up(void)
{
    for (size_t i = 0; i < value_count; i++)
        free(values[i].bytes);
    memset(values, 0, sizeof(values));
    value_count = asked = sent = closed = 0;
    trouble = 0;
    memset(&counters, 0, sizeof(counters));
    kiln_test_temp_write("first", "a secret of some length\n", 24);
    kiln_test_temp_write("second", "another secret of some length\na secret of some length\n", 54);
    ck_assert_int_eq(chmod(kiln_test_temp_path("first"), 0600), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("second"), 0600), 0);
}

static kiln__store *open_with(const char *secret, bool trust, bool writes)
{
    const kiln__remote_options options = { .url = "fake://user:password@host/1",
                                           .secret = secret != NULL ? kiln_test_temp_path(secret) : NULL,
                                           .module = &module,
                                           .trust = trust,
                                           .writes = writes };
    return kiln__remote_store_open(&options, &quiet, &counters, problem, sizeof(problem));
}

static void close_store(kiln__store *store)
{
    store->vtable->close(store);
}

static kiln__miss get_and_miss(kiln__store *store, const kiln__key *key)
{
    kiln__miss why = KILN__MISS_NONE;
    ck_assert_ptr_null(store->vtable->get(store, key, key->toolchain[0] == '\0', &why));
    return why;
}

static void get_and_hit(kiln__store *store, const kiln__key *key, const kiln__blob *like)
{
    kiln__blob *blob = store->vtable->get(store, key, key->toolchain[0] == '\0', NULL);
    ck_assert_ptr_nonnull(blob);
    ck_assert_uint_eq(blob->length, like->length);
    ck_assert_mem_eq(blob->bytes, like->bytes, like->length);
    kiln__blob_release(blob);
}

static struct value *entry_value(void)
{
    for (size_t i = 0; i < value_count; i++)
        if (values[i].length > KILN__SEAL_SIZE)
            return &values[i];
    return NULL;
}

static kiln__remote_counts counts_of(kiln__store *store)
{
    kiln__remote_counts counts;
    kiln__remote_count(store, &counts);
    return counts;
}

START_TEST(test_remote__what_one_puts_another_gets)
{
    set_up();
    kiln__store *one = open_with("first", false, true), *other = open_with("second", false, false);
    kiln__blob *blob = kiln_test_blob("some", "nvrtc-1", "code", 4);
    const kiln__key key = kiln_test_key("some", "nvrtc-1"), any = kiln_test_key("some", ""),
                    newer = kiln_test_key("some", "nvrtc-2");
    ck_assert_int_eq(one->vtable->put(one, blob, false), 0);
    ck_assert_uint_eq(counts_of(one).pushes, 1);
    get_and_hit(other, &key, blob);
    ck_assert_uint_eq(last_wait_ms, 250);
    get_and_hit(other, &any, blob);
    ck_assert_int_eq(get_and_miss(other, &newer), KILN__MISS_NONE);
    ck_assert_ptr_null(other->vtable->get(other, &newer, true, NULL)); /* older ones are not looked for */
    ck_assert_int_eq(other->vtable->put(other, blob, false), -EROFS);
    ck_assert_uint_eq(counts_of(other).hits, 2);
    one->vtable->drop(one, &key);
    get_and_hit(other, &key, blob);
    ck_assert_str_eq(one->path, "fake://host/1"); /* for messages */
    close_store(one);
    close_store(other);
    ck_assert_uint_eq(closed, 2);
    kiln__blob_release(blob);
}
END_TEST

START_TEST(test_remote__what_is_not_sealed_for_its_name_is_refused)
{
    set_up();
    kiln__store *store = open_with("first", false, true), *trusting = open_with(NULL, true, true);
    kiln__blob *blob = kiln_test_blob("some", "nvrtc-1", "code", 4), *two = kiln_test_blob("two", "nvrtc-1", "more", 4);
    const kiln__key key = kiln_test_key("some", "nvrtc-1");
    store->vtable->put(store, blob, false);
    struct value *value = entry_value();
    const size_t length = value->length;
    uint8_t *good = malloc(length);
    memcpy(good, value->bytes, length);
    unsigned refused = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        value->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_int_eq(get_and_miss(store, &key), KILN__MISS_UNTRUSTED);
        value->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        refused++;
    }
    for (value->length = 0; value->length < length; value->length++, refused++)
        ck_assert_int_eq(get_and_miss(store, &key), KILN__MISS_UNTRUSTED);
    get_and_hit(store, &key, blob);
    ck_assert_uint_eq(counts_of(store).refused, refused);
    ck_assert_uint_eq(atomic_load(&counters.untrusted), refused);

    /* Without its seal it is taken by one who trusts the server alone, and damage is found there, too. */
    set_value(value->name, good + KILN__SEAL_SIZE, length - KILN__SEAL_SIZE);
    ck_assert_int_eq(get_and_miss(store, &key), KILN__MISS_UNTRUSTED);
    get_and_hit(trusting, &key, blob);
    value->bytes[100] ^= 1;
    ck_assert_int_eq(get_and_miss(trusting, &key), KILN__MISS_DAMAGED);
    set_value(value->name, good, length);
    get_and_hit(trusting, &key, blob);
    ck_assert_int_eq(trusting->vtable->put(trusting, two, false), -EROFS); /* it has nothing to sign with */

    /* A good entry under the name of another key. */
    char name[160];
    snprintf(name, sizeof(name), "%s", value->name);
    store->vtable->put(store, two, false);
    struct value *last = &values[value_count - 1];
    while (last->length <= KILN__SEAL_SIZE)
        last--;
    ck_assert_str_ne(last->name, name);
    set_value(name, last->bytes, last->length);
    ck_assert_int_eq(get_and_miss(store, &key), KILN__MISS_UNTRUSTED);
    ck_assert_int_eq(get_and_miss(trusting, &key), KILN__MISS_DAMAGED);
    free(good);
    close_store(store);
    close_store(trusting);
    kiln__blob_release(blob);
    kiln__blob_release(two);
}
END_TEST

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

START_TEST(test_remote__a_failure_opens_the_breaker)
{
    static const int failures[] = { -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EACCES, -EHOSTUNREACH };
    const kiln__key key = kiln_test_key("some", "nvrtc-1");
    const int kind = failures[_i];
    set_up();
    kiln__store *store = open_with("first", false, true);
    kiln__blob *blob = kiln_test_blob("some", "nvrtc-1", "code", 4);
    trouble = kind;
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(get_and_miss(store, &key), KILN__MISS_ERROR);
    ck_assert_uint_eq(asked, 1);
    ck_assert_int_ne(store->vtable->put(store, blob, false), 0);
    ck_assert_int_ne(kiln__remote_lease(store, key.digest), 0);
    ck_assert_uint_eq(asked + sent, 1);
    ck_assert_uint_eq(counts_of(store).failures, 1);
    ck_assert_uint_eq(counts_of(store).skipped, 11);
    ck_assert_str_eq(kiln__remote_error_text(kiln__remote_ping(store)), "the server failed a moment before");
    if (_i > 0) { /* the clock is the same for all */
        close_store(store);
        kiln__blob_release(blob);
        return;
    }
    sleep_ms(1050); /* one question after a second, then none for two */
    for (int i = 0; i < 10; i++)
        get_and_miss(store, &key);
    ck_assert_uint_eq(asked, 2);
    trouble = 0;
    sleep_ms(1050);
    get_and_miss(store, &key);
    ck_assert_uint_eq(asked, 2);
    sleep_ms(1000);
    for (int i = 0; i < 10; i++)
        get_and_miss(store, &key);
    ck_assert_uint_eq(asked, 12);
    close_store(store);
    kiln__blob_release(blob);
}
END_TEST

START_TEST(test_remote__what_fails_for_one_value_opens_no_breaker)
{
    static const int failures[] = { -ENOENT, -EMSGSIZE, -ENOSPC, -EROFS, -ENOMEM, -ENOTSUP };
    const kiln__key key = kiln_test_key("some", "nvrtc-1");
    set_up();
    kiln__store *store = open_with("first", false, true);
    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
        trouble = failures[i];
        get_and_miss(store, &key);
    }
    ck_assert_uint_eq(asked, 6);
    ck_assert_uint_eq(counts_of(store).skipped, 0);
    close_store(store);
}
END_TEST

static kiln__blob *blob_with_spec(const char *spec)
{
    kiln__entry entry = {
        .kind = KILN__ENTRY_KERNEL, .key = kiln_test_key("some", "nvrtc-1"), .key_text = "some", .key_text_length = 4
    };
    void *bytes;
    size_t length;
    ck_assert(kiln__entry_add(&entry, "spec", spec, strlen(spec)));
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_OK);
    return kiln__blob_take(bytes, length, &entry.key, NULL);
}

static void note_failed(void *data, const char *spec, const char *reason)
{
    unsigned *seen = data;
    ck_assert_str_eq(spec, "op=some");
    ck_assert_str_ne(reason, "");
    ++*seen;
}

START_TEST(test_remote__pushes_that_fail_are_named_once)
{
    set_up();
    kiln__store *store = open_with("first", false, true);
    kiln__blob *blob = blob_with_spec("op=some");
    unsigned seen = 0;
    trouble = -ENOSPC;
    store->vtable->put(store, blob, false);
    trouble = -ENOBUFS;
    store->vtable->put(store, blob, false);
    trouble = 0;
    store->vtable->put(store, blob, false);
    ck_assert_int_eq(kiln__remote_wait(store, 10, note_failed, &seen), 0);
    ck_assert_uint_eq(seen, 2);
    ck_assert_int_eq(kiln__remote_wait(store, 10, note_failed, &seen), 0);
    ck_assert_uint_eq(seen, 2);
    ck_assert_uint_eq(counts_of(store).pushes, 1);
    ck_assert_uint_eq(counts_of(store).push_failures, 2);
    sent = 0;
    kiln__remote_push(store, blob); /* it is there */
    ck_assert_uint_eq(sent, 0);
    set_value(values[1].name, "", 0); /* the name of its toolchain is not */
    kiln__remote_push(store, blob);
    ck_assert_uint_eq(sent, 1);
    ck_assert_uint_eq(values[1].length, strlen("nvrtc-1"));
    ck_assert_uint_eq(counts_of(store).pushes, 1);
    trouble = -ENOSPC;
    store->vtable->put(store, blob, false); /* close frees what nobody asked for */
    close_store(store);
    kiln__blob_release(blob);
}
END_TEST

START_TEST(test_remote__a_lease_is_of_one)
{
    const kiln__key key = kiln_test_key("some", "nvrtc-1"), other = kiln_test_key("other", "nvrtc-1");
    set_up();
    kiln__store *one = open_with("first", false, true), *two = open_with("first", false, true),
                *reader = open_with("first", false, false);
    ck_assert_int_eq(kiln__remote_lease(one, key.digest), 0);
    ck_assert_uint_eq(last_life_ms, 60000);
    ck_assert_int_eq(kiln__remote_lease(two, key.digest), -EBUSY);
    ck_assert_int_eq(kiln__remote_lease(two, other.digest), 0);
    ck_assert_int_eq(kiln__remote_lease(reader, key.digest), -EROFS); /* it could not push the result */
    kiln__remote_give(two, key.digest);                               /* not its own */
    ck_assert_int_eq(kiln__remote_lease(two, key.digest), -EBUSY);
    kiln__remote_give(one, key.digest);
    ck_assert_int_eq(kiln__remote_lease(two, key.digest), 0);
    close_store(one);
    close_store(two);
    close_store(reader);
}
END_TEST

START_TEST(test_remote__what_is_of_one_machine_stays_there)
{
    set_up();
    kiln__store *store = open_with("first", false, true);
    kiln__entry entry = { .kind = KILN__ENTRY_TOOLCHAIN };
    kiln__blob blob = { .entry = entry };
    ck_assert_int_eq(store->vtable->put(store, &blob, false), -EROFS);
    blob.entry.kind = KILN__ENTRY_KERNEL;
    ck_assert(kiln__entry_add(&blob.entry, "object", "ELF", 3));
    ck_assert_int_eq(store->vtable->put(store, &blob, false), -EROFS);
    kiln__remote_push(store, &blob);
    ck_assert_uint_eq(asked + sent, 0);
    close_store(store);
}
END_TEST

static void expect_problem(const char *secret, bool trust, const char *words)
{
    kiln__store *store = open_with(secret, trust, true);
    ck_assert_ptr_null(store);
    ck_assert_msg(strstr(problem, words) != NULL, "%s", problem);
}

START_TEST(test_remote__secrets_that_are_of_no_use)
{
    static const struct {
        const char *text, *words;
        mode_t mode;
    } bad[] = { { "a secret of some length\n", "others may read or write it", 0640 },
                { "a secret of some length\n", "others may read or write it", 0602 },
                { "short\n", "has 5 characters: expected 16", 0600 },
                { "\n\n", "it has no secret", 0600 },
                { "", "it has no secret", 0600 },
                { "a secret with\ta tab in it\n", "not printable", 0600 },
                { "one secret of some length\ntwo secrets of some length\nthree secrets of some length", "more than 2",
                  0600 } };
    set_up();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        kiln_test_temp_write("bad", bad[i].text, strlen(bad[i].text));
        ck_assert_int_eq(chmod(kiln_test_temp_path("bad"), bad[i].mode), 0);
        expect_problem("bad", false, bad[i].words);
        expect_problem("bad", true, bad[i].words);
    }
    expect_problem("none", false, "No such file");
    expect_problem(".", false, "not used");
    expect_problem(NULL, false, "there is no secret");
    kiln__secrets secrets;
    ck_assert(kiln__secrets_read(&secrets, kiln_test_temp_path("second"), problem, sizeof(problem)));
    ck_assert_uint_eq(secrets.count, 2);
    ck_assert_uint_eq(secrets.length[0], strlen("another secret of some length"));
}
END_TEST

/* The code is HMAC-SHA256 of a purpose, the name, a NUL and the bytes, so that other programs can make it: as
 * printf 'kiln remote entry KILNSEAL 1\nkiln1:ab:cc-1\0bytes' | openssl dgst -sha256 -hmac 'a secret of some length' */
START_TEST(test_remote__the_seal_is_an_hmac)
{
    static const uint8_t want[] = { 0xfb, 0x69, 0x87, 0xac, 0x4e, 0xfc, 0x77, 0x01, 0x5c, 0x4c, 0xb1,
                                    0xdc, 0xa4, 0x26, 0x0b, 0x2e, 0xbb, 0x5c, 0x91, 0x72, 0x0a, 0x57,
                                    0xda, 0x89, 0xbd, 0x3e, 0x8f, 0x68, 0x9b, 0x22, 0x15, 0xf4 };
    kiln__secrets secrets = { .count = 1, .length = { 23 }, .text = { "a secret of some length" } };
    uint8_t seal[KILN__SEAL_SIZE + 5];
    kiln__seal_make(seal, &secrets, "kiln1:ab:cc-1", "bytes", 5);
    memcpy(seal + KILN__SEAL_SIZE, "bytes", 5);
    ck_assert_mem_eq(seal, "KILNSEAL\1\0\0\0\0\0\0\0", 16);
    ck_assert_mem_eq(seal + 16, want, sizeof(want));
    ck_assert(kiln__seal_holds(&secrets, "kiln1:ab:cc-1", seal, sizeof(seal)));
    ck_assert(!kiln__seal_holds(&secrets, "kiln1:ab:cc-2", seal, sizeof(seal)));
    secrets.count = 0;
    ck_assert(!kiln__seal_holds(&secrets, "kiln1:ab:cc-1", seal, sizeof(seal)));
}
END_TEST

Suite *kiln_test_store_remote_suite(void)
{
    Suite *suite = suite_create("remote");
    TCase *tests = tcase_create("remote");
    kiln_test_temp_use(tests);
    tcase_add_test(tests, test_remote__what_one_puts_another_gets);
    tcase_add_test(tests, test_remote__what_is_not_sealed_for_its_name_is_refused);
    tcase_add_loop_test(tests, test_remote__a_failure_opens_the_breaker, 0, 6);
    tcase_add_test(tests, test_remote__what_fails_for_one_value_opens_no_breaker);
    tcase_add_test(tests, test_remote__pushes_that_fail_are_named_once);
    tcase_add_test(tests, test_remote__a_lease_is_of_one);
    tcase_add_test(tests, test_remote__what_is_of_one_machine_stays_there);
    tcase_add_test(tests, test_remote__secrets_that_are_of_no_use);
    tcase_add_test(tests, test_remote__the_seal_is_an_hmac);
    suite_add_tcase(suite, tests);
    return suite;
}
