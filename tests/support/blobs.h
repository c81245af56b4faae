/* Small entries for tests of the stores. */
#ifndef KILN_TESTS_SUPPORT_BLOBS_H
#define KILN_TESTS_SUPPORT_BLOBS_H

#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As ck_assert, but also for threads and for children of a test, where Check's own must not be used. */
static inline void kiln_test_require(bool held, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "required: %s\n", what);
    abort();
}

/* Takes the items of a store that would be refused. */
static inline int kiln_test_is_damaged(void *data, const kiln__store_item *item)
{
    (void)data;
    return item->entry == NULL;
}

/* The key under which kiln_test_blob keeps the entry of that text. */
static inline kiln__key kiln_test_key(const char *text, const char *toolchain)
{
    kiln__key key = { 0 };
    kiln__digest(key.digest, text, strlen(text));
    memcpy(key.toolchain, toolchain, strlen(toolchain));
    return key;
}

/* A kernel entry with `length` bytes in the section "cubin". One reference. Any thread. */
static inline kiln__blob *kiln_test_blob(const char *text, const char *toolchain, const void *cubin, size_t length)
{
    void *bytes;
    size_t size;
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL,
                          .key = kiln_test_key(text, toolchain),
                          .key_text = text,
                          .key_text_length = strlen(text) };
    kiln_test_require(kiln__entry_add(&entry, "cubin", cubin, length), "room for a section");
    kiln_test_require(kiln__entry_encode(&bytes, &size, &entry) == KILN_OK, "an encoded entry");
    kiln__blob *blob = kiln__blob_take(bytes, size, &entry.key, NULL);
    kiln_test_require(blob != NULL, "a blob");
    return blob;
}

#endif
