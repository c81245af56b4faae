/* Seals: an entry that leaves the machine carries HMAC-SHA256 over its name and its bytes, so that no one without the
 * secret can slip code into the caches of others. The name is in it, so that a sealed entry is good for its own key. */
#ifndef KILN_STORE_SEAL_H
#define KILN_STORE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KILN__SECRETS_MAX = 2, /* the first seals; both are taken, so that a fleet can change its secret */
    KILN__SECRET_LEAST = 16,
    KILN__SECRET_MOST = 1024,
    KILN__SEAL_SIZE = 48 /* in front of the entry: a mark, the version of the seal, the code */
};

typedef struct kiln__secrets {
    size_t count, length[KILN__SECRETS_MAX];
    char text[KILN__SECRETS_MAX][KILN__SECRET_MOST];
} kiln__secrets;

/* Reads a file of one or two secrets, one a line, of printable characters. The file is the user's or root's, and closed
 * to group and others. False: `problem` says why, and out->count is 0. */
bool kiln__secrets_read(kiln__secrets *out, const char *path, char *problem, size_t room);
void kiln__secrets_forget(kiln__secrets *secrets);

/* Writes a seal of the first secret. */
void kiln__seal_make(uint8_t out[KILN__SEAL_SIZE], const kiln__secrets *secrets, const char *name, const void *bytes,
                     size_t length);

/* Whether bytes begin with a seal, of any secret. */
bool kiln__seal_is(const void *bytes, size_t length);

/* Whether bytes are a seal and the entry that one of the secrets sealed for this name. */
bool kiln__seal_holds(const kiln__secrets *secrets, const char *name, const void *bytes, size_t length);

#endif
