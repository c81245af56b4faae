/* Fields of a spec without a spec: their ops lie in rooms that are used in turn, so that the last sixteen of a
 * thread stay good. */
#ifndef KILN_TESTS_SUPPORT_FIELDS_H
#define KILN_TESTS_SUPPORT_FIELDS_H

#include "spec/fields.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KILN_TEST_ROOMS = 16 };

/* On the heap: what is thread-local lies on the stack of a thread, which tests measure. */
typedef struct kiln_test_rooms {
    kiln__real room[KILN_TEST_ROOMS];
    unsigned next;
} kiln_test_rooms;

static pthread_key_t kiln_test_rooms_key;

static inline void kiln_test_make_rooms_key(void)
{
    pthread_key_create(&kiln_test_rooms_key, free);
}

static inline kiln__real *kiln_test_room(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, kiln_test_make_rooms_key);
    kiln_test_rooms *rooms = pthread_getspecific(kiln_test_rooms_key);
    if (rooms == NULL) {
        rooms = calloc(1, sizeof(*rooms));
        pthread_setspecific(kiln_test_rooms_key, rooms);
    }
    return &rooms->room[rooms->next++ % KILN_TEST_ROOMS];
}

static inline kiln_status kiln_test_fields(kiln__fields *out, const kiln__catalog *catalog, const char *text,
                                           kiln_report *to)
{
    return kiln__fields_parse(out, kiln_test_room(), catalog, text, to);
}

static inline kiln_status kiln_test_set(kiln__fields *fields, const char *field, const char *value, kiln_report *to)
{
    kiln__word name = { field, strlen(field) }, word = { value, strlen(value) };
    return kiln__spec_set(fields, kiln_test_room(), name, word, to);
}

#endif
