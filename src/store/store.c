/* The parts that stores share: blobs, the order of toolchains, and trouble with files. */
#include "store/store.h"
#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>
#include <string.h>

bool kiln__key_equal(const kiln__key *a, const kiln__key *b)
{
    return memcmp(a->digest, b->digest, sizeof a->digest) == 0 &&
           strncmp(a->toolchain, b->toolchain, sizeof a->toolchain) == 0;
}

kiln__blob *kiln__blob_take(void *bytes, size_t length, const kiln__key *key, kiln__entry_fault *fault)
{
    kiln__entry_fault found = KILN__ENTRY_GOOD;
    kiln__blob *blob = kiln__alloc(sizeof *blob);
    if (blob) {
        found = kiln__entry_decode(&blob->entry, bytes, length, key);
        blob->bytes = bytes;
        blob->length = length;
        atomic_init(&blob->refs, 1);
    }
    if (fault)
        *fault = found;
    if (!blob || found != KILN__ENTRY_GOOD) {
        kiln__free(blob);
        kiln__free(bytes);
        return NULL;
    }
    return blob;
}

kiln__blob *kiln__blob_retain(kiln__blob *blob)
{
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    return blob;
}

void kiln__blob_release(kiln__blob *blob)
{
    if (!blob || atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) != 1)
        return;
    kiln__free(blob->bytes);
    kiln__free(blob);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares the runs of digits at *a and *b as numbers of any size and steps over them. */
static int compare_digits(const char **a, const char **b)
{
    while (**a == '0')
        ++*a;
    while (**b == '0')
        ++*b;
    int order = 0;
    for (; is_digit(**a) && is_digit(**b); ++*a, ++*b)
        if (order == 0)
            order = **a - **b;
    if (is_digit(**a) != is_digit(**b))
        return is_digit(**a) ? 1 : -1;
    return order;
}

int kiln__toolchain_compare(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x != '\0' && *y != '\0') {
        if (is_digit(*x) && is_digit(*y)) {
            int order = compare_digits(&x, &y);
            if (order != 0)
                return order;
        } else if (*x++ != *y++) {
            return (unsigned char)x[-1] - (unsigned char)y[-1];
        }
    }
    /* Ids that differ only in leading zeros still need an order. */
    return *x != *y ? (unsigned char)*x - (unsigned char)*y : strcmp(a, b);
}

bool kiln__toolchain_is_next(const char *id, const char *than, const char *best)
{
    return (than[0] == '\0' || kiln__toolchain_compare(id, than) < 0) &&
           (best[0] == '\0' || kiln__toolchain_compare(id, best) > 0);
}

void kiln__miss_raise(kiln__miss *why, kiln__miss reason)
{
    if (why && *why < reason)
        *why = reason;
}

void *kiln__store_make(size_t size, const kiln__store_vtable *vtable, char *path, const kiln__log *log,
                       kiln__store_counters *counters, char *problem, size_t room)
{
    kiln__store *store = path ? kiln__calloc(1, size) : NULL;
    if (!store) {
        kiln__free(path);
        kiln__text_copy(problem, room, "out of memory");
        return NULL;
    }
    store->vtable = vtable;
    store->log = log;
    store->counters = counters;
    store->path = path;
    return store;
}

void kiln__store_free(kiln__store *store)
{
    kiln__free(store->path);
    kiln__free(store);
}

const char *kiln__store_error_text(int error)
{
    const char *text = strerrordesc_np(-error);
    return text ? text : "unknown error";
}

void kiln__store_note(kiln__store *store, kiln__trouble trouble, const char *where, const char *text, kiln__miss *why)
{
    kiln__store_counters *counters = store->counters;
    atomic_uint_least64_t *counter = &counters->errors;
    kiln__miss reason = KILN__MISS_ERROR;
    if (trouble == KILN__TROUBLE_NONE)
        return;
    if (trouble == KILN__TROUBLE_DAMAGED) {
        counter = &counters->damaged;
        reason = KILN__MISS_DAMAGED;
    } else if (trouble == KILN__TROUBLE_UNTRUSTED || trouble == KILN__TROUBLE_ELEVATED) {
        counter = &counters->untrusted;
        reason = KILN__MISS_UNTRUSTED;
    }
    kiln__miss_raise(why, reason);
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    unsigned bit = 1u << trouble;
    if ((atomic_fetch_or_explicit(&store->warned, bit, memory_order_relaxed) & bit) == 0)
        kiln__log_line(store->log, KILN_LOG_WARN, "%s %s%s%s: %s; %s", store->vtable->kind, store->path,
                       where[0] ? "/" : "", where, text, store->vtable->advice[trouble]);
}

int kiln__store_no_put(kiln__store *store, kiln__blob *blob, bool replace)
{
    return (void)store, (void)blob, (void)replace, -EROFS;
}

void kiln__store_no_drop(kiln__store *store, const kiln__key *key)
{
    (void)store, (void)key;
}
